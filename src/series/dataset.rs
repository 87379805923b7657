//! The elements of one data set (or item) by tag, and their values as text and numbers.

use super::element::{Element, Tag, WalkError, Walker};
use super::text;

/// The elements of one level of a data set.
#[derive(Clone, Debug, Default)]
pub(super) struct DataSet<'a> {
    elements: Vec<Element<'a>>,
}

impl<'a> DataSet<'a> {
    /// All elements of an item; what comes before damage is kept.
    pub(super) fn of_item(mut walker: Walker<'a>) -> Self {
        let mut set = Self::default();
        while let Ok(Some(e)) = walker.next() {
            set.elements.push(e);
        }
        set
    }

    /// Walks on until `stop` says so of the next tag; what came before an error stays.
    pub(super) fn read_until(
        &mut self,
        walker: &mut Walker<'a>,
        stop: impl Fn(Tag) -> bool,
    ) -> Result<(), WalkError> {
        while let Some(tag) = walker.peek()? {
            if stop(tag) {
                break;
            }
            if let Some(e) = walker.next()? {
                self.elements.push(e);
            }
        }
        Ok(())
    }

    /// The element with this tag.
    pub(super) fn get(&self, tag: Tag) -> Option<&Element<'a>> {
        self.elements.iter().find(|e| e.tag == tag)
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.elements.len()
    }

    /// The tag of the first element.
    pub(super) fn first_tag(&self) -> Option<Tag> {
        self.elements.first().map(|e| e.tag)
    }

    /// The first item of a sequence.
    pub(super) fn first_item(&self, tag: Tag) -> Option<Self> {
        self.get(tag)?.items().next().map(Self::of_item)
    }

    /// Text of codes and identifiers (default repertoire), trimmed; `None` when absent or empty.
    pub(super) fn code(&self, tag: Tag) -> Option<String> {
        let text = String::from_utf8_lossy(self.get(tag)?.value);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Text in the data set's character set, trimmed.
    pub(super) fn text(&self, tag: Tag, charset: &[String]) -> Option<String> {
        let text = text::decode(self.get(tag)?.value, charset);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Values joined by backslashes.
    pub(super) fn codes(&self, tag: Tag) -> Vec<String> {
        self.code(tag).map_or_else(Vec::new, |t| {
            t.split('\\').map(|p| p.trim().to_owned()).collect()
        })
    }

    /// Decimal numbers: binary where the VR says so, else the text in the value (also where the VR says UN).
    pub(super) fn numbers(&self, tag: Tag) -> Option<Vec<f64>> {
        let e = self.get(tag)?;
        let big = e.encoding.big;
        let each = |size: usize, f: &dyn Fn(&[u8]) -> Option<f64>| -> Option<Vec<f64>> {
            e.value.chunks_exact(size).map(f).collect()
        };
        let values = match &e.vr {
            b"FD" => each(8, &|c| {
                let b = c.first_chunk::<8>().copied()?;
                Some(if big {
                    f64::from_be_bytes(b)
                } else {
                    f64::from_le_bytes(b)
                })
            }),
            b"FL" => each(4, &|c| {
                let b = c.first_chunk::<4>().copied()?;
                Some(f64::from(if big {
                    f32::from_be_bytes(b)
                } else {
                    f32::from_le_bytes(b)
                }))
            }),
            b"US" | b"SS" | b"UL" | b"SL" => self
                .integers(tag)
                .map(|v| v.into_iter().map(|i| i as f64).collect()),
            _ => std::str::from_utf8(e.value).ok().and_then(|t| {
                t.split('\\')
                    .map(|p| {
                        p.trim_matches(|c: char| c.is_whitespace() || c == '\0')
                            .parse()
                            .ok()
                    })
                    .collect()
            }),
        }?;
        let finite = !values.is_empty() && values.iter().all(|v: &f64| v.is_finite());
        finite.then_some(values)
    }

    /// The first decimal number.
    pub(super) fn number(&self, tag: Tag) -> Option<f64> {
        self.numbers(tag)?.first().copied()
    }

    /// Exactly `N` decimal numbers.
    pub(super) fn vector<const N: usize>(&self, tag: Tag) -> Option<[f64; N]> {
        self.numbers(tag)?.get(..N)?.try_into().ok()
    }

    /// Whole numbers: text for IS and DS, else binary by VR, or by length where there is no VR.
    pub(super) fn integers(&self, tag: Tag) -> Option<Vec<i64>> {
        let e = self.get(tag)?;
        let n = e.encoding;
        match &e.vr {
            b"IS" | b"DS" | b"LO" | b"SH" | b"CS" => self.integers_in_text(tag),
            b"SS" => Some(
                e.value
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&c| i64::from(n.u16(c).cast_signed()))
                    .collect(),
            ),
            b"UL" => Some(
                e.value
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&c| i64::from(n.u32(c)))
                    .collect(),
            ),
            b"SL" => Some(
                e.value
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&c| i64::from(n.u32(c).cast_signed()))
                    .collect(),
            ),
            _ => Some(
                e.value
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&c| i64::from(n.u16(c)))
                    .collect(),
            ),
        }
    }

    /// The first whole number of a binary element (US and its kin).
    pub(super) fn integer(&self, tag: Tag) -> Option<i64> {
        self.integers(tag)?.first().copied()
    }

    /// The first whole number of a text element (IS), also where the VR is missing or UN.
    pub(super) fn integer_text(&self, tag: Tag) -> Option<i64> {
        self.integers_in_text(tag)?.first().copied()
    }

    fn integers_in_text(&self, tag: Tag) -> Option<Vec<i64>> {
        self.code(tag)?
            .split('\\')
            .map(|p| {
                let p = p.trim();
                p.parse()
                    .ok()
                    .or_else(|| p.parse::<f64>().ok().and_then(whole))
            })
            .collect()
    }
}

/// A decimal that is a whole number, such as `12.0` in an IS.
fn whole(v: f64) -> Option<i64> {
    if v.fract() != 0.0 || v.abs() > 9.0e15 {
        return None;
    }
    format!("{v:.0}").parse().ok()
}
