//! A constructor's arguments, read with their limits: a wrong or unknown one is answered by its name.

use crate::network::norms::{Nonlin, Norm, Settings};
use crate::network::tree::Tree;
use serde_json::Value;

/// Channels of one layer.
const MOST_CHANNELS: usize = 8192;

/// The arguments of one constructor.
pub(super) struct Args<'a> {
    tree: &'a Tree<'a>,
}

impl<'a> Args<'a> {
    pub(super) const fn new(tree: &'a Tree<'a>) -> Self {
        Self { tree }
    }

    /// Refuses arguments that the constructor does not have, and those that are given by place.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), String> {
        if self.tree.has_places() {
            return Err(format!(
                "\"{}\" is given arguments by their place, which this version does not read for it; write each with its name",
                self.tree.at()
            ));
        }
        for (key, value) in self.tree.entries()? {
            if !key.starts_with('_') && !known.contains(&key) {
                return Err(format!(
                    "\"{}\" is not an argument that this version knows of that network",
                    value.at()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn key(&self, key: &str) -> Option<Tree<'a>> {
        self.tree.key(key)
    }

    /// One, two or three spatial axes.
    pub(super) fn dims(&self, or: Option<usize>) -> Result<usize, String> {
        let given = self.key("spatial_dims").or_else(|| self.key("dimensions"));
        let Some(given) = given else {
            return or.map_or_else(|| self.tree.need("spatial_dims").map(|_there| 0), Ok);
        };
        match given.size()? {
            n @ 1..=3 => Ok(n),
            _ => Err(given.wrong("1, 2 or 3")),
        }
    }

    /// A number of channels, features or the like.
    pub(super) fn channels(&self, key: &str, or: Option<usize>) -> Result<usize, String> {
        match (self.key(key), or) {
            (None, Some(or)) => Ok(or),
            _ => width(&self.tree.need(key)?),
        }
    }

    /// Channels of each level; `or` when absent.
    pub(super) fn widths(&self, key: &str, or: &[usize]) -> Result<Vec<usize>, String> {
        match self.key(key) {
            None if !or.is_empty() => Ok(or.to_vec()),
            _ => self.tree.need(key)?.list()?.iter().map(width).collect(),
        }
    }

    /// Sizes from 1 to 64, one a level.
    pub(super) fn blocks(&self, key: &str, or: &[usize]) -> Result<Vec<usize>, String> {
        let Some(list) = self.key(key) else {
            return Ok(or.to_vec());
        };
        list.list()?.iter().map(|b| within(b, 64)).collect()
    }

    pub(super) fn size(&self, key: &str, or: usize, most: usize) -> Result<usize, String> {
        self.key(key).map_or(Ok(or), |v| {
            let n = v.size()?;
            if n <= most {
                Ok(n)
            } else {
                Err(v.wrong(&format!("a whole number from 0 to {most}")))
            }
        })
    }

    pub(super) fn flag(&self, key: &str, or: bool) -> Result<bool, String> {
        self.tree.truth(key, or)
    }

    pub(super) fn text(&self, key: &str, or: &str) -> Result<String, String> {
        self.key(key)
            .map_or_else(|| Ok(or.to_owned()), |v| v.text().map(str::to_owned))
    }

    /// A kernel or the like: one size for all axes, or one an axis.
    pub(super) fn per_axis(&self, key: &str, dims: usize, or: usize) -> Result<Vec<usize>, String> {
        self.key(key)
            .map_or_else(|| Ok(vec![or; dims]), |v| axes(&v, dims))
    }

    /// Strides or kernels of each level, each one size or one an axis.
    pub(super) fn levels(&self, key: &str, dims: usize) -> Result<Vec<Vec<usize>>, String> {
        let list = self.tree.need(key)?.list()?;
        list.iter().map(|v| axes(v, dims)).collect()
    }

    pub(super) fn norm(&self, key: &str, or: Norm) -> Result<Norm, String> {
        match (self.is_none(key), self.key(key)) {
            (true, _) => Ok(Norm::Off),
            (false, v) => v.map_or(Ok(or), |v| norm(&v)),
        }
    }

    pub(super) fn act(&self, key: &str, or: Nonlin) -> Result<Nonlin, String> {
        match (self.is_none(key), self.key(key)) {
            (true, _) => Ok(Nonlin::Off),
            (false, v) => v.map_or(Ok(or), |v| nonlin(&v)),
        }
    }

    /// Whether an argument is None: for a layer that is none at all, and not the one that stands there when nothing is said.
    fn is_none(&self, key: &str) -> bool {
        self.tree.value().get(key).is_some_and(Value::is_null)
    }
}

fn within(v: &Tree<'_>, most: usize) -> Result<usize, String> {
    match v.size()? {
        n if (1..=most).contains(&n) => Ok(n),
        _ => Err(v.wrong(&format!("a whole number from 1 to {most}"))),
    }
}

fn width(v: &Tree<'_>) -> Result<usize, String> {
    within(v, MOST_CHANNELS)
}

fn axes(v: &Tree<'_>, dims: usize) -> Result<Vec<usize>, String> {
    let sizes = v.sizes_of(dims)?;
    if sizes.iter().all(|n| (1..=64).contains(n)) {
        return Ok(sizes);
    }
    Err(v.wrong("sizes from 1 to 64"))
}

/// A layer's name and its settings: `"instance"` or `["instance", {"affine": true}]`.
fn named<'a>(v: &Tree<'a>) -> Result<(String, Option<Tree<'a>>), String> {
    if v.value().is_string() {
        return Ok((v.text()?.to_ascii_lowercase(), None));
    }
    let list = v.list()?;
    match list.as_slice() {
        [name] => Ok((name.text()?.to_ascii_lowercase(), None)),
        [name, settings] => Ok((name.text()?.to_ascii_lowercase(), Some(settings.clone()))),
        _ => Err(v.wrong("a name, or a name and its settings")),
    }
}

fn norm(v: &Tree<'_>) -> Result<Norm, String> {
    let (name, settings) = named(v)?;
    let kind = match name.as_str() {
        "" => return Ok(Norm::Off),
        // The same values as the plain ones, by other kernels or over several cards.
        "instance_nvfuser" => "instance",
        "syncbatch" => "batch",
        other => other,
    };
    let read = Norm::read(kind, Settings(settings.as_ref()))?
        .ok_or_else(|| v.wrong("the norm instance, batch or group"))?;
    match read {
        Norm::Group { groups, .. } if !(1..=MOST_CHANNELS).contains(&groups) => {
            Err(v.wrong(&format!("a group norm of 1 to {MOST_CHANNELS} groups")))
        }
        read => Ok(read),
    }
}

fn nonlin(v: &Tree<'_>) -> Result<Nonlin, String> {
    let (name, settings) = named(v)?;
    let read = match name.as_str() {
        "" => return Ok(Nonlin::Off),
        // torch's name; MONAI calls it swish.
        "silu" => None,
        other => Nonlin::read(other, Settings(settings.as_ref()))?,
    };
    match read {
        Some(Nonlin::PRelu { slopes }) if !(1..=MOST_CHANNELS).contains(&slopes) => {
            Err(v.wrong(&format!("1 to {MOST_CHANNELS} slopes")))
        }
        Some(read) => Ok(read),
        None => {
            Err(v.wrong("the activation relu, leakyrelu, prelu, elu, gelu, swish, sigmoid or tanh"))
        }
    }
}
