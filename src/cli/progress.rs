//! Progress on stderr while work runs, and Ctrl-C as a cancel.

use super::failure::{Failure, TEMPORARY};
use crate::jobs::{Cancelled, Control};
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Set by Ctrl-C (SIGINT) or a polite kill (SIGTERM).
fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            if let Err(e) = signal_hook::flag::register(signal, Arc::clone(&flag)) {
                tracing::warn!("signal {signal} ends the program at once ({e})");
            }
        }
        flag
    })
}

/// Takes signals from here on, so that one that comes before or between stages counts too.
pub(super) fn listen() {
    interrupted();
}

/// Ends the command once a signal came; a signal is never forgotten.
pub(super) fn check() -> Result<(), Failure> {
    if interrupted().load(Ordering::Relaxed) {
        return Err(Cancelled.into());
    }
    Ok(())
}

/// Runs work with a control that Ctrl-C cancels, printing `what: done/total` to stderr when it takes long.
/// A signal that comes as the work ends still ends the command.
pub(super) fn with<T: Send, E: Into<Failure> + Send>(
    what: &str,
    work: impl FnOnce(&Control) -> Result<T, E> + Send,
) -> Result<T, Failure> {
    let done = writing(what, work)?;
    check()?;
    Ok(done)
}

/// As [`with`], for work that writes: what was written before the signal came stays and counts.
pub(super) fn writing<T: Send, E: Into<Failure> + Send>(
    what: &str,
    work: impl FnOnce(&Control) -> Result<T, E> + Send,
) -> Result<T, Failure> {
    check()?;
    let control = Control::new();
    std::thread::scope(|scope| {
        let inner = control.clone();
        let worker = std::thread::Builder::new()
            .name("command".to_owned())
            .stack_size(8 << 20)
            .spawn_scoped(scope, move || work(&inner))
            .map_err(|e| Failure::new(TEMPORARY, format!("no thread could be started: {e}")))?;
        show(what, &control, || worker.is_finished());
        match worker.join() {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(Failure::new(
                TEMPORARY,
                "stopped on an internal error; the message above says where",
            )),
        }
    })
}

fn show(what: &str, control: &Control, finished: impl Fn() -> bool) {
    let terminal = std::io::stderr().is_terminal();
    let start = Instant::now();
    let (mut drawn, mut last, mut printed) = (false, ((0, 0), 0.0), Instant::now());
    while !finished() {
        std::thread::sleep(Duration::from_millis(
            if start.elapsed().as_millis() < 100 {
                2
            } else {
                50
            },
        ));
        if interrupted().load(Ordering::Relaxed) {
            control.cancel();
        }
        let percent = control.fraction().map_or(0.0, |f| (f * 100.0).floor());
        let now = (control.progress(), percent);
        let every = Duration::from_secs(if terminal { 0 } else { 5 });
        if now == last || start.elapsed() < Duration::from_millis(400) || printed.elapsed() < every
        {
            continue;
        }
        last = now;
        printed = Instant::now();
        let line = match now {
            ((done, 0), _) => format!("{what}: {done}"),
            ((done, total), percent) => format!("{what}: {done}/{total}, {percent:.0} %"),
        };
        let mut err = std::io::stderr().lock();
        let _closed = if terminal {
            write!(err, "\r{line}\u{1b}[K").and_then(|()| err.flush())
        } else {
            writeln!(err, "{line}")
        };
        drawn = terminal;
    }
    if drawn {
        let _closed = write!(std::io::stderr().lock(), "\r\u{1b}[K");
    }
}
