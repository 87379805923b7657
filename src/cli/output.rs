//! Printing: one JSON object or aligned tables to stdout, sentences to stderr. A closed pipe is no error.

use super::failure::WRITE;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why stdout took less than it was given, unless its reader simply left.
static LOST: OnceLock<String> = OnceLock::new();

/// Remembers that stdout did not take what was printed.
pub(super) fn lost(error: &std::io::Error) {
    if error.kind() != ErrorKind::BrokenPipe {
        LOST.get_or_init(|| error.to_string());
    }
}

/// The exit code in the end: that of the command, unless its answer was not printed in full.
pub(super) fn finish(code: ExitCode) -> ExitCode {
    if let Err(e) = std::io::stdout().flush() {
        lost(&e);
    }
    match LOST.get() {
        None => code,
        Some(why) => {
            warn(&format!(
                "voxfit: the answer could not be written in full to standard output: {why}"
            ));
            ExitCode::from(WRITE)
        }
    }
}

/// One line to stdout.
pub(super) fn say(line: &str) {
    print(&shown(line));
}

/// Several lines to stdout.
pub(super) fn say_lines(text: &str) {
    text.lines().for_each(say);
}

fn print(text: &str) {
    if let Err(e) = writeln!(std::io::stdout().lock(), "{text}") {
        lost(&e);
    }
}

/// One line to stderr.
pub(super) fn warn(line: &str) {
    let _closed = writeln!(std::io::stderr().lock(), "{}", shown(line));
}

/// Several lines to stderr.
pub(super) fn warn_lines(text: &str) {
    text.lines().for_each(warn);
}

/// A line as it is safe on a terminal: names and texts from files may hold what moves the cursor or turns the writing round.
fn shown(line: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !line.contains(acts) {
        return Cow::Borrowed(line);
    }
    let mut out = String::new();
    for c in line.chars() {
        if acts(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// One object to stdout.
pub(super) fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&text),
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
            let pad = " ".repeat(w.saturating_sub(cell.chars().count()));
            let (before, after) = match align {
                Align::Left => ("", pad.as_str()),
                Align::Right => (pad.as_str(), ""),
            };
            out.extend([before, cell, after]);
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

/// A figure, readable also where it is tiny.
pub(super) fn small(v: Option<f64>) -> String {
    match v {
        Some(v) if v != 0.0 && v.abs() < 1e-3 => format!("{v:.1e}").replace('-', "\u{2212}"),
        v => number(v, 4),
    }
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
    fn a_name_from_a_file_moves_no_cursor_and_ends_no_line() {
        let bad = "a\u{1b}[2J\nb\u{202e}c\u{9b}";
        assert_eq!(shown(bad), "a\\u{1b}[2J\\u{a}b\\u{202e}c\\u{9b}");
        for good in ["", "voxfit: M\u{fc}ller \u{2212}1.5 \u{2014}"] {
            assert!(matches!(shown(good), Cow::Borrowed(s) if s == good));
        }
    }

    #[test]
    fn a_cell_wider_than_any_screen_is_padded_and_not_a_crash() {
        let wide = "9".repeat(70_000);
        let rows = [vec![wide.clone()], vec!["1".to_owned()]];
        let lines = table_lines(&[("n", Align::Right)], &rows);
        assert_eq!(lines[1], wide);
        assert_eq!(lines[2].len(), 70_000);
    }

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
