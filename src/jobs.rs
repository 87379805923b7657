//! Work off the calling thread: named threads, progress, cancel, and one bounded channel back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Carries progress out of long work and the wish to stop into it. Cheap to clone; asked at least every 0.2 s.
#[derive(Clone, Debug, Default)]
pub struct Control {
    inner: Arc<ControlInner>,
}

#[derive(Debug, Default)]
struct ControlInner {
    cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    /// Millionths of the step under way.
    part: AtomicU64,
}

/// The work was asked to stop and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled before it was done; nothing was written")]
pub struct Cancelled;

impl Control {
    /// A control that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the work to stop at its next check.
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Relaxed)
    }

    /// `Err(Cancelled)` once a stop was asked for: `control.check()?` inside loops.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Says how many steps there are in all.
    pub fn set_total(&self, total: u64) {
        self.inner.total.store(total, Ordering::Relaxed);
    }

    /// Starts a stage of its own: steps done before are no part of it.
    pub fn begin(&self, total: u64) {
        self.inner.part.store(0, Ordering::Relaxed);
        self.inner.done.store(0, Ordering::Relaxed);
        self.set_total(total);
    }

    /// Says how much of the step under way is done (of several at once, more than 1 in all).
    pub fn within(&self, done: u64, total: u64) {
        let part = u128::from(done) * 1_000_000 / u128::from(total.max(1));
        let part = u64::try_from(part).unwrap_or(0);
        self.inner.part.store(part, Ordering::Relaxed);
    }

    /// The share of all steps that is done, between 0 and 1, parts of a step among it; `None` when the total is not yet known.
    pub fn fraction(&self) -> Option<f64> {
        let (done, total) = self.progress();
        let part = self.inner.part.load(Ordering::Relaxed) as f64 / 1e6;
        (total > 0).then(|| ((done as f64 + part) / total as f64).min(1.0))
    }

    /// Says that `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.inner.part.store(0, Ordering::Relaxed);
        self.inner.done.fetch_add(steps, Ordering::Relaxed);
    }

    /// Steps done and steps in all (0 when not yet known).
    pub fn progress(&self) -> (u64, u64) {
        (
            self.inner.done.load(Ordering::Relaxed),
            self.inner.total.load(Ordering::Relaxed),
        )
    }
}

/// A job's thread and its messages. Dropping the handle cancels the job.
#[derive(Debug)]
pub struct Job<M> {
    /// What the jobs list shows.
    pub name: String,
    /// Progress and cancel.
    pub control: Control,
    messages: Receiver<M>,
}

/// Where a job's work sends its messages. Sending fails once nobody listens; then the work should stop.
#[derive(Clone, Debug)]
pub struct Outbox<M> {
    sender: SyncSender<M>,
    wake: Waker,
}

/// Called after each message so that a sleeping window draws again.
#[derive(Clone, Default)]
pub struct Waker(Option<Arc<dyn Fn() + Send + Sync>>);

impl Waker {
    /// Calls `wake` after each message.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wake)))
    }

    fn wake(&self) {
        if let Some(wake) = &self.0 {
            wake();
        }
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Waker(set)"
        } else {
            "Waker(none)"
        })
    }
}

impl<M> Outbox<M> {
    /// Hands one message over, waiting while the channel is full; `Err(Cancelled)` when the listener is gone.
    pub fn send(&self, message: M) -> Result<(), Cancelled> {
        let sent = self.sender.send(message).or(Err(Cancelled));
        self.wake.wake();
        sent
    }
}

impl<M> Job<M> {
    /// The next message, `None` when there is none yet or no more will come.
    pub fn try_recv(&self) -> Option<M> {
        self.messages.try_recv().ok()
    }

    /// The next message, or why there is none: not yet (`Empty`) or never (`Disconnected`).
    pub fn poll(&self) -> Result<M, TryRecvError> {
        self.messages.try_recv()
    }

    /// Waits for the next message; `None` when no more will come.
    pub fn recv(&self) -> Option<M> {
        self.messages.recv().ok()
    }
}

impl<M> Drop for Job<M> {
    fn drop(&mut self) {
        self.control.cancel();
    }
}

/// Starts `work` on a thread named `name`. At most 64 messages wait; a slow reader slows the writer.
/// A panic inside `work` ends the job: its channel closes and the program lives on.
pub fn spawn<M: Send + 'static>(
    name: &str,
    wake: Waker,
    work: impl FnOnce(&Control, &Outbox<M>) + Send + 'static,
) -> std::io::Result<Job<M>> {
    let control = Control::new();
    let (sender, messages) = sync_channel(64);
    let inner = control.clone();
    let outbox = Outbox { sender, wake };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let last_wake = outbox.wake.clone();
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&inner, &outbox)));
            if outcome.is_err() {
                tracing::error!("a job stopped on an internal error; see the message above it");
            }
            drop(outbox);
            last_wake.wake();
        })?;
    Ok(Job {
        name: name.to_owned(),
        control,
        messages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_handle_cancels_the_work() {
        let (tx, rx) = sync_channel(1);
        let job = spawn(
            "test-drop",
            Waker::default(),
            move |control, _: &Outbox<()>| {
                while !control.is_cancelled() {
                    std::thread::yield_now();
                }
                let _ignored = tx.send(());
            },
        )
        .unwrap();
        drop(job);
        rx.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_panic_ends_the_job_and_not_the_program() {
        let job = spawn("test-panic", Waker::default(), |_, out: &Outbox<u8>| {
            out.send(7).unwrap();
            panic!("planted");
        })
        .unwrap();
        assert_eq!(job.recv(), Some(7));
        assert_eq!(job.recv(), None);
    }
}
