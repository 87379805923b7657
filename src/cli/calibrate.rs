//! `voxfit calibrate`: a line through measured peaks, and the largest batch per card.

use super::args::CalibrateArgs;
use super::failure::{Failure, USAGE};
use super::output::{self, Align};
use crate::app::parse::points;
use crate::hardware::{Card, Catalogue};
use crate::memory::MemoryError;
use crate::memory::calibrate::fit;
use serde_json::{Map, Value, json};

pub(super) fn run(args: &CalibrateArgs, json: bool) -> Result<u8, Failure> {
    let points = points(&args.points).map_err(|why| Failure::new(USAGE, why))?;
    let catalogue = Catalogue::builtin();
    let cards: Vec<&Card> = if args.card.is_empty() {
        catalogue.shown_by_default()
    } else {
        args.card
            .iter()
            .map(|id| catalogue.get(id))
            .collect::<Result<_, _>>()?
    };
    let line = match fit(&points) {
        Ok(line) => line,
        Err(MemoryError::Calibration { reason }) => return Ok(no_line(&reason, &cards, json)),
        Err(e) => return Err(e.into()),
    };
    let largest: Map<String, Value> = cards
        .iter()
        .map(|c| {
            (
                c.id.clone(),
                line.largest(c.usable()).map_or(Value::Null, Value::from),
            )
        })
        .collect();
    if json {
        output::print_json(&json!({
            "intercept": line.intercept,
            "slope": line.slope,
            "residuals": line.residuals,
            "refused": line.refused,
            "largest_batch": largest,
        }));
    } else {
        output::say(&format!(
            "bytes = {:.0} + {:.0} X",
            line.intercept, line.slope
        ));
        if let Some(reason) = &line.refused {
            output::say(reason);
        }
        let rows: Vec<Vec<String>> = largest
            .iter()
            .map(|(id, n)| {
                vec![
                    id.clone(),
                    n.as_u64()
                        .map_or_else(|| "\u{2014}".to_owned(), |n| n.to_string()),
                ]
            })
            .collect();
        output::table(&[("card", Align::Left), ("largest X", Align::Right)], &rows);
    }
    Ok(u8::from(line.refused.is_some()))
}

/// Points without any line: the same keys, and why.
fn no_line(reason: &str, cards: &[&Card], json: bool) -> u8 {
    if json {
        let largest: Map<String, Value> =
            cards.iter().map(|c| (c.id.clone(), Value::Null)).collect();
        output::print_json(&json!({
            "intercept": Value::Null,
            "slope": Value::Null,
            "residuals": [],
            "refused": reason,
            "largest_batch": largest,
        }));
    } else {
        output::say(reason);
    }
    1
}
