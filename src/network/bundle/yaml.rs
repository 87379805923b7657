//! YAML as far as bundles use it, with aliases counted as they unfold.

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// Longest file read, 1 MiB.
const MOST_TEXT: usize = 1 << 20;
/// Values in all, those of aliases counted each time.
const MOST_VALUES: usize = 200_000;
/// Lists and mappings inside each other.
const MOST_DEPTH: usize = 64;

/// A list or a mapping that is not finished.
enum Open {
    List(Vec<Value>, usize),
    /// With the key whose value is next.
    Mapping(Map<String, Value>, Option<String>, usize),
}

/// The first document of a YAML text.
pub(super) fn read(text: &str) -> Result<Value, String> {
    if text.len() > MOST_TEXT {
        return Err(format!(
            "it has {} bytes, at most {MOST_TEXT} of YAML are read",
            text.len()
        ));
    }
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| format!("it is not YAML ({e})"))?;
        let done = reader
            .take(event)
            .map_err(|reason| format!("line {}: {reason}", span.start.line()))?;
        if done {
            break;
        }
    }
    reader.whole.ok_or_else(|| "it is empty".to_owned())
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Value>,
    values: usize,
    whole: Option<Value>,
}

impl Reader {
    /// Takes in one event; true at the end of the document.
    fn take(&mut self, event: Event<'_>) -> Result<bool, String> {
        match event {
            Event::Scalar(text, style, anchor, _tag) => {
                let value = if style == ScalarStyle::Plain {
                    plain(&text)
                } else {
                    Value::String(text.into_owned())
                };
                self.finish(value, anchor)?;
            }
            Event::SequenceStart(anchor, _tag) => self.open(Open::List(Vec::new(), anchor))?,
            Event::MappingStart(anchor, _tag) => {
                self.open(Open::Mapping(Map::new(), None, anchor))?;
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(list, anchor)) => self.finish(Value::Array(list), anchor)?,
                Some(Open::Mapping(map, _, anchor)) => self.finish(Value::Object(map), anchor)?,
                None => return Err("something ends that did not begin".to_owned()),
            },
            Event::Alias(anchor) => {
                let value =
                    self.anchors.get(&anchor).cloned().ok_or(
                        "an alias stands for something that is not finished, such as itself",
                    )?;
                self.values = self.values.saturating_add(count(&value));
                self.finish(value, 0)?;
            }
            Event::DocumentEnd => return Ok(true),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
        Ok(false)
    }

    fn open(&mut self, what: Open) -> Result<(), String> {
        if self.open.len() >= MOST_DEPTH {
            return Err(format!(
                "lists and mappings lie more than {MOST_DEPTH} deep"
            ));
        }
        self.open.push(what);
        Ok(())
    }

    fn finish(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(1);
        if self.values > MOST_VALUES {
            return Err(format!(
                "it unfolds to more than {MOST_VALUES} values (aliases of aliases, perhaps)"
            ));
        }
        if anchor > 0 {
            self.values = self.values.saturating_add(count(&value));
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.whole = Some(value),
            Some(Open::List(list, _)) => list.push(value),
            Some(Open::Mapping(map, key, _)) => match key.take() {
                None => *key = Some(text(value)),
                Some(merge) if merge == "<<" => merge_in(map, value),
                Some(k) => {
                    map.insert(k, value);
                }
            },
        }
        Ok(())
    }
}

fn text(value: Value) -> String {
    match value {
        Value::String(s) => s,
        other => other.to_string(),
    }
}

/// `<<: *base`: what the mapping does not say itself.
fn merge_in(map: &mut Map<String, Value>, value: Value) {
    match value {
        Value::Object(base) => {
            for (k, v) in base {
                map.entry(k).or_insert(v);
            }
        }
        Value::Array(list) => {
            for base in list {
                merge_in(map, base);
            }
        }
        _ => {}
    }
}

/// Values in a value, itself with them.
pub(super) fn count(value: &Value) -> usize {
    match value {
        Value::Array(a) => a.iter().map(count).fold(1, usize::saturating_add),
        Value::Object(o) => o.values().map(count).fold(1, usize::saturating_add),
        _ => 1,
    }
}

/// A word without quotes, as `PyYAML` reads it.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return true.into();
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    if let Ok(n) = text.parse::<i64>() {
        return n.into();
    }
    let number = text
        .starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        .then(|| text.parse::<f64>().ok())
        .flatten();
    match number.and_then(Number::from_f64) {
        Some(n) => Value::Number(n),
        None => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundles_yaml_reads_as_its_json_does() {
        let v = read("a: &x [1, 2.5, 1e-3]\nb: *x\nc:\n  d: 'yes'\n  e: yes\n  <<: {d: 1, f: null}\ng: $@a + 1\n").unwrap();
        assert_eq!(
            v.to_string(),
            r#"{"a":[1,2.5,0.001],"b":[1,2.5,0.001],"c":{"d":"yes","e":true,"f":null},"g":"$@a + 1"}"#
        );
    }

    #[test]
    fn aliases_of_aliases_and_endless_nests_are_stopped() {
        let rows = (1..12).map(|i| {
            let row = format!("*a{}, ", i - 1).repeat(10);
            format!("a{i}: &a{i} [{row}]\n")
        });
        let first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        let bomb = std::iter::once(first)
            .chain(rows)
            .collect::<Vec<_>>()
            .concat();
        let start = std::time::Instant::now();
        assert!(read(&bomb).unwrap_err().contains("unfolds to more than"));
        assert!(read("a: &a [*a]").unwrap_err().contains("not finished"));
        let deep = read(&"[".repeat(100_000)).unwrap_err();
        assert!(deep.contains("deep") || deep.contains("YAML"), "{deep}");
        let deep = (0..2000)
            .map(|i| format!("{}a:\n", " ".repeat(i)))
            .collect::<Vec<_>>()
            .concat();
        assert!(read(&deep).is_err());
        assert!(read(&"x".repeat(2 << 20)).unwrap_err().contains("at most"));
        assert!(read("").is_err() && read("a: b: c").is_err());
        assert!(start.elapsed().as_secs() < 10);
    }
}
