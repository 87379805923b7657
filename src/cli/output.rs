//! Printing: one JSON object or aligned tables to stdout, sentences to stderr. A closed pipe is no error.

use serde::Serialize;
use std::io::Write as _;

/// One line to stdout.
pub(super) fn say(line: &str) {
    let _closed = writeln!(std::io::stdout().lock(), "{line}");
}

/// One line to stderr.
pub(super) fn warn(line: &str) {
    let _closed = writeln!(std::io::stderr().lock(), "{line}");
}

/// One object to stdout.
pub(super) fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => say(&text),
        Err(e) => warn(&format!(
            "voxfit: the answer could not be written as JSON: {e}"
        )),
    }
}

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Columns with their heads, padded to their widest cell.
pub(super) fn table(heads: &[(&str, Align)], rows: &[Vec<String>]) {
    for line in table_lines(heads, rows) {
        say(&line);
    }
}

fn table_lines(heads: &[(&str, Align)], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|r| r.get(column))
            .map(|c| c.chars().count())
            .chain([heads[column].0.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut out = String::new();
        for ((cell, &(_, align)), &w) in cells.zip(heads).zip(&widths) {
            if !out.is_empty() {
                out.push_str("  ");
            }
            let padded = match align {
                Align::Left => format!("{cell:<w$}"),
                Align::Right => format!("{cell:>w$}"),
            };
            out.push_str(&padded);
        }
        out.trim_end().to_owned()
    };
    let mut lines = vec![line(&mut heads.iter().map(|h| h.0))];
    lines.extend(rows.iter().map(|r| line(&mut r.iter().map(String::as_str))));
    lines
}

/// A number with so many decimals and a true minus, or an em dash for what is unknown.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(
        || "\u{2014}".to_owned(),
        |v| format!("{v:.decimals$}").replace('-', "\u{2212}"),
    )
}

/// Sizes joined as people write them: `512x512x64`.
pub(super) fn sizes(shape: &[usize]) -> String {
    shape
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_words_left() {
        let lines = table_lines(
            &[("name", Align::Left), ("GiB", Align::Right)],
            &[
                vec!["a".to_owned(), "10.00".to_owned()],
                vec!["longer".to_owned(), "9.50".to_owned()],
            ],
        );
        assert_eq!(lines, ["name      GiB", "a       10.00", "longer   9.50"]);
        assert_eq!(number(None, 2), "\u{2014}");
        assert_eq!(number(Some(-1.5), 1), "\u{2212}1.5");
    }
}
