//! A bundle's configuration files: loaded, and their references `@id`, `@id::key`, `%file#id` followed.

use super::expression;
use super::values::unknown;
use super::yaml;
use crate::network::error::NetworkError;
use crate::network::tree;
use serde_json::{Map, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Values that all references of one file may unfold to.
const MOST_VALUES: usize = 200_000;
/// References that may lie inside each other.
const MOST_DEPTH: usize = 24;
/// Lists and objects inside each other, with those behind references.
const MOST_NEST: usize = 256;

/// A configuration file with its folder.
#[derive(Debug)]
pub(super) struct Config {
    root: Value,
    pub(super) file: PathBuf,
    /// The bundle's folder: nothing is read from outside it.
    folder: PathBuf,
    /// Other files that macros name, read once.
    others: RefCell<BTreeMap<PathBuf, Value>>,
    values: RefCell<usize>,
    nest: Cell<usize>,
}

/// The place that is being resolved, from the outermost.
type Stack = Vec<String>;

impl Config {
    /// Reads a configuration of a bundle.
    pub(super) fn open(folder: &Path, file: &Path) -> Result<Self, NetworkError> {
        Ok(Self {
            root: load(file)?,
            file: file.to_path_buf(),
            folder: folder.to_path_buf(),
            others: RefCell::new(BTreeMap::new()),
            values: RefCell::new(0),
            nest: Cell::new(0),
        })
    }

    /// A refusal of this file.
    pub(super) fn refuse(&self, reason: String) -> NetworkError {
        NetworkError::Config {
            what: "bundle's configuration",
            reason,
            path: self.file.clone(),
        }
    }

    /// What an id stands for, every reference followed; nothing when the file does not say.
    pub(super) fn get(&self, id: &str) -> Result<Option<Value>, NetworkError> {
        let Some(raw) = find(&self.root, id) else {
            return Ok(None);
        };
        let mut stack = vec![id.replace("::", "#")];
        let value = self
            .resolve(raw, &mut stack)
            .map_err(|reason| self.refuse(reason))?;
        Ok(Some(value).filter(|v| !v.is_null()))
    }

    fn resolve(&self, raw: &Value, stack: &mut Stack) -> Result<Value, String> {
        self.spend(1)?;
        if self.nest.get() >= MOST_NEST {
            return Err(format!("its values lie more than {MOST_NEST} deep"));
        }
        self.nest.set(self.nest.get() + 1);
        let value = self.resolve_one(raw, stack);
        self.nest.set(self.nest.get() - 1);
        value
    }

    fn resolve_one(&self, raw: &Value, stack: &mut Stack) -> Result<Value, String> {
        match raw {
            Value::String(text) => self.text(text, stack),
            Value::Array(list) => {
                let list: Result<Vec<Value>, String> =
                    list.iter().map(|v| self.resolve(v, stack)).collect();
                list.map(Value::Array)
            }
            Value::Object(map) => {
                let mut out = Map::new();
                for (k, v) in map {
                    out.insert(k.clone(), self.resolve(v, stack)?);
                }
                Ok(Value::Object(out))
            }
            other => Ok(other.clone()),
        }
    }

    fn text(&self, text: &str, stack: &mut Stack) -> Result<Value, String> {
        if let Some(expression) = text.strip_prefix('$') {
            let mut lookup = |id: &str| self.reference(id, stack);
            let value = expression::value(expression.trim(), &mut lookup)?;
            self.spend(yaml::count(&value))?;
            return Ok(value);
        }
        if let Some(id) = text.strip_prefix('@') {
            return self.reference(id, stack);
        }
        match text.strip_prefix('%') {
            Some(id) => self.other(id, stack),
            None => Ok(text.into()),
        }
    }

    fn reference(&self, id: &str, stack: &mut Stack) -> Result<Value, String> {
        let id = id.replace("::", "#");
        // `@#a` starts from where it stands; bundles rarely use it.
        if id.starts_with('#') {
            return Ok(unknown(&format!("@{id}")));
        }
        match find(&self.root, &id) {
            None => Ok(unknown(&format!("@{id}, which the file does not define"))),
            Some(raw) => self.enter(id, raw, stack),
        }
    }

    fn enter(&self, id: String, raw: &Value, stack: &mut Stack) -> Result<Value, String> {
        if stack.contains(&id) {
            let way: Vec<&str> = stack.iter().map(String::as_str).collect();
            return Err(format!(
                "its references go in a circle: {} -> {id}",
                way.join(" -> ")
            ));
        }
        if stack.len() >= MOST_DEPTH {
            return Err(format!(
                "its references lie more than {MOST_DEPTH} deep, the last is @{id}"
            ));
        }
        stack.push(id);
        let value = self.resolve(raw, stack);
        stack.pop();
        value
    }

    /// `%file#id` or `%id`: the content of another place, or of another file of the bundle.
    fn other(&self, text: &str, stack: &mut Stack) -> Result<Value, String> {
        let text = text.replace("::", "#");
        let (file, id) = text.split_once('#').unwrap_or((text.as_str(), ""));
        if !Path::new(file).extension().is_some_and(|e| {
            ["json", "yaml", "yml"]
                .iter()
                .any(|k| e.eq_ignore_ascii_case(k))
        }) {
            return self.reference(text.trim_start_matches('#'), stack);
        }
        let path = self.inside(file)?;
        let known = self.others.borrow().get(&path).cloned();
        let root = if let Some(root) = known {
            root
        } else {
            let root = load(&path).map_err(|e| e.to_string())?;
            self.others.borrow_mut().insert(path, root.clone());
            root
        };
        self.spend(yaml::count(&root))?;
        match find(&root, id) {
            None => Ok(unknown(&format!("%{text}, which the file does not define"))),
            Some(raw) => self.enter(format!("%{text}"), raw, stack),
        }
    }

    /// A file that a macro names: beside the configuration or in the bundle, never outside it.
    fn inside(&self, file: &str) -> Result<PathBuf, String> {
        let path = Path::new(file);
        let plain = path
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !plain {
            return Err(format!(
                "it asks for the file \"{file}\", which does not lie in the bundle"
            ));
        }
        let beside = self.file.with_file_name(path);
        Ok(if beside.is_file() {
            beside
        } else {
            self.folder.join(path)
        })
    }

    fn spend(&self, n: usize) -> Result<(), String> {
        let mut values = self.values.borrow_mut();
        *values = values.saturating_add(n);
        if *values > MOST_VALUES {
            return Err(format!(
                "its references unfold to more than {MOST_VALUES} values"
            ));
        }
        Ok(())
    }
}

/// The raw value at `a#b#0`.
fn find<'a>(root: &'a Value, id: &str) -> Option<&'a Value> {
    if id.is_empty() {
        return Some(root);
    }
    id.split('#').try_fold(root, |at, key| match at {
        Value::Object(map) => map.get(key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A JSON or YAML file.
pub(super) fn load(file: &Path) -> Result<Value, NetworkError> {
    let what = "bundle's configuration";
    let is_json = file
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"));
    if is_json {
        return tree::read_json(what, file);
    }
    let text = crate::network::read_text(what, file)?;
    yaml::read(&text).map_err(|reason| NetworkError::Config {
        what,
        reason,
        path: file.to_path_buf(),
    })
}
