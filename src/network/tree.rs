//! Values of a JSON or YAML file, each with its place, so that every mistake is answered with where it stands.

use super::error::NetworkError;
use serde_json::Value;
use std::path::Path;

/// Largest whole number that a size may be.
const MOST: u64 = 1 << 20;
/// Most entries of a list of sizes.
const MOST_ENTRIES: usize = 4096;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Tree<'a> {
    value: &'a Value,
    at: String,
}

impl<'a> Tree<'a> {
    /// The whole file.
    pub(super) const fn root(value: &'a Value) -> Self {
        Self {
            value,
            at: String::new(),
        }
    }

    /// A value at a place that is already known.
    pub(super) fn new(value: &'a Value, at: &str) -> Self {
        Self {
            value,
            at: at.to_owned(),
        }
    }

    pub(super) const fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// The value under a key, unless it is absent or null.
    pub(super) fn key(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|v| !v.is_null())?;
        Some(Self {
            value,
            at: if self.at.is_empty() {
                key.to_owned()
            } else {
                format!("{}.{key}", self.at)
            },
        })
    }

    /// The value under a key that must be there.
    pub(super) fn need(&self, key: &str) -> Result<Self, String> {
        self.key(key).ok_or_else(|| {
            let place = if self.at.is_empty() {
                "the file".to_owned()
            } else {
                format!("\"{}\"", self.at)
            };
            format!("{place} has no \"{key}\"")
        })
    }

    /// The refusal of this value.
    pub(super) fn wrong(&self, expected: &str) -> String {
        format!(
            "\"{}\" must be {expected}, found {}",
            self.at,
            shown(self.value)
        )
    }

    pub(super) fn text(&self) -> Result<&'a str, String> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    pub(super) fn flag(&self) -> Result<bool, String> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong("true or false"))
    }

    /// The truth value under a key as Python takes it: null, which is None there, is false.
    pub(super) fn truth(&self, key: &str, or: bool) -> Result<bool, String> {
        match (self.value.get(key), self.key(key)) {
            (_, Some(given)) => given.flag(),
            (Some(_null), None) => Ok(false),
            (None, None) => Ok(or),
        }
    }

    /// An argument of a call by its name or by its place.
    pub(super) fn argument(&self, key: &str, place: usize) -> Option<Self> {
        self.key(key).or_else(|| {
            let list = self.key("_args_")?.list().ok()?;
            list.get(place).filter(|v| !v.value.is_null()).cloned()
        })
    }

    /// Whether a call has arguments without names.
    pub(super) fn has_places(&self) -> bool {
        self.key("_args_")
            .is_some_and(|a| a.value.as_array().is_none_or(|list| !list.is_empty()))
    }

    /// A whole number from 0 to a million or so.
    pub(super) fn size(&self) -> Result<usize, String> {
        // Python writes 3.0 where it computed 3.
        let whole = self.value.as_u64().or_else(|| {
            let v = self.value.as_f64()?;
            (v >= 0.0 && v.fract() == 0.0 && v <= MOST as f64).then(|| whole(v))
        });
        whole
            .filter(|n| *n <= MOST)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| self.wrong("a whole number from 0 to 1048576"))
    }

    /// A finite number.
    pub(super) fn number(&self) -> Result<f64, String> {
        self.value
            .as_f64()
            .filter(|v| v.is_finite())
            .ok_or_else(|| self.wrong("a number"))
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, String> {
        let list = self
            .value
            .as_array()
            .filter(|l| l.len() <= MOST_ENTRIES)
            .ok_or_else(|| self.wrong("a list"))?;
        Ok(list
            .iter()
            .enumerate()
            .map(|(i, value)| Self {
                value,
                at: format!("{}[{i}]", self.at),
            })
            .collect())
    }

    pub(super) fn sizes(&self) -> Result<Vec<usize>, String> {
        self.list()?.iter().map(Self::size).collect()
    }

    pub(super) fn numbers(&self) -> Result<Vec<f64>, String> {
        self.list()?.iter().map(Self::number).collect()
    }

    /// One size for all of `n`, or a list of `n`.
    pub(super) fn sizes_of(&self, n: usize) -> Result<Vec<usize>, String> {
        if self.value.is_array() {
            let list = self.sizes()?;
            if list.len() == n {
                return Ok(list);
            }
            return Err(self.wrong(&format!("a whole number or a list of {n}")));
        }
        Ok(vec![self.size()?; n])
    }

    /// The keys and values of an object.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, String> {
        let map = self
            .value
            .as_object()
            .filter(|m| m.len() <= MOST_ENTRIES)
            .ok_or_else(|| self.wrong("an object"))?;
        Ok(map
            .iter()
            .map(|(k, value)| {
                let at = if self.at.is_empty() {
                    k.clone()
                } else {
                    format!("{}.{k}", self.at)
                };
                (k.as_str(), Self { value, at })
            })
            .collect())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole and held between 0 and a million"
)]
const fn whole(v: f64) -> u64 {
    v as u64
}

/// The mark of what an expression would give, where it is not worked out; its value is the expression's text.
pub(super) const UNKNOWN: &str = "_unknown_";

/// A value in at most 60 characters; an expression in full.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Array(a) if a.len() > 20 => return format!("a list of {}", a.len()),
        Value::Object(o) => {
            return match o.get(UNKNOWN).and_then(Value::as_str) {
                Some(text) => format!("the expression {text}, which is not executed"),
                None => format!("an object of {} keys", o.len()),
            };
        }
        other => other.to_string(),
    };
    if text.chars().count() <= 60 {
        return text;
    }
    text.chars().take(57).chain("...".chars()).collect()
}

/// A JSON file as Python writes it: NaN and Infinity, which are not JSON, become null.
pub(super) fn json(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(v) => Ok(v),
        Err(first) => {
            serde_json::from_str(&without_nan(text)).map_err(|_still_wrong| first.to_string())
        }
    }
}

fn without_nan(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut inside = false;
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|w| !inside && rest.starts_with(w));
        if let Some(word) = word {
            out.push_str("null");
            rest = rest.get(word.len()..).unwrap_or_default();
            continue;
        }
        let n = if inside && c == '\\' { 2 } else { 1 };
        inside ^= c == '"';
        let end = rest.char_indices().nth(n).map_or(rest.len(), |(i, _)| i);
        out.push_str(rest.get(..end).unwrap_or_default());
        rest = rest.get(end..).unwrap_or_default();
    }
    out
}

/// The file's content as a tree, or why not.
pub(super) fn read_json(what: &'static str, path: &Path) -> Result<Value, NetworkError> {
    let text = super::read_text(what, path)?;
    json(&text).map_err(|reason| NetworkError::Config {
        what,
        reason: format!("it is not JSON ({reason})"),
        path: path.to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_nan_is_read_as_unknown_and_stays_a_text_in_a_text() {
        let v =
            json(r#"{"a": NaN, "b": [-Infinity, 1], "c": "NaN \" NaN", "d": Infinity}"#).unwrap();
        assert_eq!(
            v.to_string(),
            r#"{"a":null,"b":[null,1],"c":"NaN \" NaN","d":null}"#
        );
        assert!(json("{\"a\": NaN").unwrap_err().contains("line 1"));
    }

    #[test]
    fn a_wrong_value_is_answered_with_its_place() {
        let v = json(r#"{"a": {"b": [1, 2.5, -3]}, "n": 1e300}"#).unwrap();
        let list = Tree::root(&v).need("a").unwrap().need("b").unwrap();
        let said = list.sizes().unwrap_err();
        assert_eq!(
            said,
            "\"a.b[1]\" must be a whole number from 0 to 1048576, found 2.5"
        );
        assert!(Tree::root(&v).need("n").unwrap().size().is_err());
        assert_eq!(list.need("c").unwrap_err(), "\"a.b\" has no \"c\"");
    }
}
