//! `voxfit engines`: what can run here, and why not.

use super::failure::Failure;
use super::output::{self, Align};
use crate::engine;
use crate::units::Bytes;
use serde_json::json;

pub(super) fn run(json: bool) -> Result<u8, Failure> {
    let engines = super::progress::with("engines", |_| Ok::<_, Failure>(engine::probe()))?;
    if json {
        output::print_json(&json!({ "engines": engines }));
        return Ok(0);
    }
    let size = |b: Option<Bytes>| b.map_or_else(|| "\u{2014}".to_owned(), |b| b.to_string());
    let rows: Vec<Vec<String>> = engines
        .iter()
        .map(|e| {
            vec![
                e.id.clone(),
                if e.available { "yes" } else { "no" }.to_owned(),
                size(e.total),
                size(e.free),
                e.device
                    .clone()
                    .or_else(|| e.reason.clone())
                    .unwrap_or_default(),
            ]
        })
        .collect();
    output::table(
        &[
            ("engine", Align::Left),
            ("runs", Align::Left),
            ("memory", Align::Right),
            ("free", Align::Right),
            ("device, or why not", Align::Left),
        ],
        &rows,
    );
    Ok(0)
}
