//! Subcommands, each a twin of something that the window does. Results to stdout, progress and warnings to stderr.

mod args;
mod bench;
mod budget;
mod buy;
mod calibrate;
mod cards;
mod demo;
mod engines;
mod failure;
mod fit;
mod forward;
mod network;
mod output;
mod parity;
mod paths;
mod progress;
mod report;
mod run;
mod seams;
mod series;
mod sweep;
mod volume;
mod windows;

use args::{Cli, Verb};
use clap::Parser as _;
use failure::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

/// What the arguments ask for.
#[derive(Debug)]
pub enum Action {
    /// Open the window.
    Window(crate::app::Startup),
    /// Run a command and leave with this code.
    Done(ExitCode),
}

/// Reads the arguments (the first one is the program) and runs the command that they name, unless it is the window that they ask for.
pub fn start(arguments: impl IntoIterator<Item = OsString>) -> Action {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(e) => {
            if let Err(io) = e.print() {
                output::lost(&io);
            }
            return Action::Done(output::finish(ExitCode::from(if e.use_stderr() {
                2
            } else {
                0
            })));
        }
    };
    let json = cli.json;
    let done = match cli.verb {
        None if json => Err(Failure::new(
            failure::USAGE,
            "--json needs a command; `voxfit --help` lists them",
        )),
        None => return Action::Window(crate::app::Startup::default()),
        Some(Verb::Open(open)) => return Action::Window(open.startup()),
        Some(Verb::Demo(demo)) if !demo.headless => {
            return Action::Window(crate::app::Startup {
                demo: true,
                ..Default::default()
            });
        }
        Some(verb) => dispatch(verb, json),
    };
    let code = match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(json),
    };
    Action::Done(output::finish(code))
}

/// Runs one command; the answer is its exit code (0 yes, 1 no).
fn dispatch(verb: Verb, json: bool) -> Result<u8, Failure> {
    let answers_at_once = matches!(
        verb,
        Verb::Open(_)
            | Verb::Network(_)
            | Verb::Budget(_)
            | Verb::Fit(_)
            | Verb::Windows(_)
            | Verb::Calibrate(_)
            | Verb::Cards(_)
            | Verb::Engines
    );
    if !answers_at_once {
        progress::listen();
    }
    match verb {
        Verb::Open(_) => Ok(0),
        Verb::Series(a) => series::run(&a, json),
        Verb::Network(a) => network::run(&a, json),
        Verb::Volume(a) => volume::run(&a, json),
        Verb::Budget(a) => budget::run(&a, json),
        Verb::Fit(a) => fit::run(&a, json),
        Verb::Windows(a) => windows::run(&a, json),
        Verb::Run(a) => run::run(&a, json),
        Verb::Parity(a) => parity::run(&a, json),
        Verb::Seams(a) => seams::run(&a, json),
        Verb::Demo(a) => demo::run(&a, json),
        Verb::Report(a) => report::run(&a, json),
        Verb::Calibrate(a) => calibrate::run(&a, json),
        Verb::Cards(a) => cards::run(&a, json),
        Verb::Buy(a) => buy::run(&a, json),
        Verb::Sweep(a) => sweep::run(&a, json),
        Verb::Engines => engines::run(json),
        Verb::Forward(a) => forward::run(&a, json),
        Verb::Bench(a) => bench::run(&a, json),
    }
}

/// Says how to work without a window, for a machine that cannot open one.
pub fn no_window(why: &str) -> ExitCode {
    let why = if why.contains("neither WAYLAND_DISPLAY") {
        "no window can be opened here (no display); use `voxfit demo --headless --out DIR`"
            .to_owned()
    } else {
        why.replace('\n', " ")
    };
    output::warn(&format!(
        "voxfit: {why}, voxfit series PATH, voxfit budget MODEL --roi-size 128x128x64; `voxfit --help` lists the rest"
    ));
    ExitCode::from(failure::USAGE)
}
