//! Why a command ended without an answer, with its exit code: 2 usage, 65 bad data, 70 guard, 74 cannot write, 75 try again, 130 cancelled.

use super::output;
use crate::engine::EngineError;
use crate::exchange::result::ResultError;
use crate::hardware::HardwareError;
use crate::jobs::Cancelled;
use crate::memory::MemoryError;
use crate::network::NetworkError;
use crate::series::SeriesError;
use crate::tiling::TilingError;
use serde_json::{Value, json};
use std::process::ExitCode;

/// The answer is no: it does not fit.
pub(super) const NO: u8 = 1;
/// Wrong usage.
pub(super) const USAGE: u8 = 2;
/// Bad input data.
pub(super) const DATA: u8 = 65;
/// Cannot write.
pub(super) const WRITE: u8 = 74;
/// Temporary, try again.
pub(super) const TEMPORARY: u8 = 75;
/// Cancelled.
pub(super) const CANCELLED: u8 = 130;

/// A command that could not answer: its exit code, one sentence, and what `--json` prints beside it.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    message: String,
    json: Option<Value>,
}

impl Failure {
    pub(super) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            json: None,
        }
    }

    /// Adds what `--json` prints beside the sentence.
    pub(super) fn with_json(mut self, json: Value) -> Self {
        self.json = Some(json);
        self
    }

    /// Whether the work was stopped on request.
    pub(super) const fn is_cancelled(&self) -> bool {
        self.code == CANCELLED
    }

    /// Prints the sentence, and the object where the contract wants one.
    pub(super) fn report(self, json: bool) -> ExitCode {
        output::warn(&format!("voxfit: {}", self.message));
        if json && matches!(self.code, DATA | NO) {
            let mut object = self.json.unwrap_or_else(|| json!({}));
            object["error"] = Value::from(self.message);
            output::print_json(&object);
        }
        ExitCode::from(self.code)
    }
}

impl From<Cancelled> for Failure {
    fn from(e: Cancelled) -> Self {
        Self::new(CANCELLED, e.to_string())
    }
}

impl From<SeriesError> for Failure {
    fn from(e: SeriesError) -> Self {
        let code = match &e {
            SeriesError::Cancelled(_) => CANCELLED,
            SeriesError::Memory { .. } => TEMPORARY,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

impl From<NetworkError> for Failure {
    fn from(e: NetworkError) -> Self {
        let code = match &e {
            NetworkError::UnknownPreset { .. } | NetworkError::Seed { .. } => USAGE,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

impl From<TilingError> for Failure {
    fn from(e: TilingError) -> Self {
        Self::new(USAGE, e.to_string())
    }
}

impl From<HardwareError> for Failure {
    fn from(e: HardwareError) -> Self {
        let code = match &e {
            HardwareError::UnknownCard { .. } => USAGE,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

impl From<MemoryError> for Failure {
    fn from(e: MemoryError) -> Self {
        let code = match &e {
            MemoryError::EmptyBatch
            | MemoryError::EmptyRoi { .. }
            | MemoryError::TooLarge { .. } => USAGE,
            MemoryError::LimitTooSmall { .. } => NO,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

impl From<EngineError> for Failure {
    fn from(e: EngineError) -> Self {
        let code = match &e {
            EngineError::Cancelled(_) => CANCELLED,
            EngineError::Memory(MemoryError::LimitTooSmall { .. }) => NO,
            EngineError::OutOfMemory { .. } | EngineError::Threads { .. } => TEMPORARY,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}

impl From<ResultError> for Failure {
    fn from(e: ResultError) -> Self {
        let code = match &e {
            ResultError::Write { .. } => WRITE,
            _ => DATA,
        };
        Self::new(code, e.to_string())
    }
}
