//! `voxfit cards`: the catalogue.

use super::args::CardsArgs;
use super::failure::Failure;
use super::output::{self, Align, number};
use crate::hardware::{Card, Catalogue};
use serde_json::json;

pub(super) fn run(args: &CardsArgs, json: bool) -> Result<u8, Failure> {
    let catalogue = match &args.file {
        Some(path) => Catalogue::with_user_file(path)?,
        None => Catalogue::builtin(),
    };
    let cards = catalogue.filter(args.filter.as_deref().unwrap_or(""));
    if json {
        let rows: Vec<_> = cards.iter().map(|c| c.row()).collect();
        output::print_json(&json!({ "cards": rows }));
    } else {
        print(&cards);
    }
    Ok(u8::from(cards.is_empty()))
}

fn print(cards: &[&Card]) {
    let rows: Vec<Vec<String>> = cards
        .iter()
        .map(|c| {
            vec![
                c.id.clone(),
                c.name.clone(),
                c.nameplate(),
                format!("{:.2}", c.usable().as_gib()),
                number(c.rates.bandwidth_gb_s, 0),
                number(c.rates.fp32_tflops, 1),
                if c.usable_is_uncertain() {
                    "usable is an estimate"
                } else {
                    ""
                }
                .to_owned(),
            ]
        })
        .collect();
    output::table(
        &[
            ("id", Align::Left),
            ("name", Align::Left),
            ("card", Align::Right),
            ("usable GiB", Align::Right),
            ("GB/s", Align::Right),
            ("fp32 TFLOPS", Align::Right),
            ("", Align::Left),
        ],
        &rows,
    );
}
