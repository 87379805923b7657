//! Arguments and logging; hands over to the window or the command line.

use std::process::ExitCode;
use voxfit::cli::{self, Action};

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("VOXFIT_LOG")
                .unwrap_or_else(|_| "warn".into()),
        )
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match cli::start(std::env::args_os()) {
        Action::Done(code) => code,
        Action::Window(startup) => match voxfit::ui::run(startup) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => cli::no_window(&e.to_string()),
        },
    }
}
