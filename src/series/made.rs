//! Small made-up DICOM files for tests, byte by byte, so that each can be odd in its own way.

use std::path::{Path, PathBuf};

pub(super) const EXPLICIT: &str = "1.2.840.10008.1.2.1";

/// A data set in the making: explicit little endian.
#[derive(Clone, Debug)]
pub(super) struct Made {
    elements: Vec<(u32, [u8; 2], Vec<u8>)>,
    pub(super) syntax: String,
    pub(super) title: String,
}

fn padded(mut value: Vec<u8>) -> Vec<u8> {
    if value.len() % 2 == 1 {
        value.push(b' ');
    }
    value
}

/// One element in bytes.
pub(super) fn element(tag: u32, vr: [u8; 2], value: &[u8]) -> Vec<u8> {
    let group = u16::try_from(tag >> 16).unwrap().to_le_bytes();
    let number = u16::try_from(tag & 0xFFFF).unwrap().to_le_bytes();
    let mut out = [group, number, vr].concat();
    if matches!(&vr, b"OB" | b"OW" | b"SQ" | b"UN" | b"UT") {
        out.extend([0, 0]);
        out.extend(u32::try_from(value.len()).unwrap().to_le_bytes());
    } else {
        out.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
    }
    out.extend(value);
    out
}

/// A sequence's value from the bytes of its items.
pub(super) fn items(items: &[Vec<u8>]) -> Vec<u8> {
    items
        .iter()
        .flat_map(|i| {
            let length = u32::try_from(i.len()).unwrap().to_le_bytes();
            [&[0xFE, 0xFF, 0x00, 0xE0], length.as_slice(), i].concat()
        })
        .collect()
}

impl Made {
    /// Slice `n` (from 0) of a plain CT series: 4 x 2 pixels that hold 1000 + n, 2 mm apart.
    pub(super) fn slice(n: u16) -> Self {
        let mut made = Self {
            elements: Vec::new(),
            syntax: EXPLICIT.to_owned(),
            title: "TEST".to_owned(),
        };
        for (tag, vr, text) in [
            (0x0008_0008, b"CS", "ORIGINAL\\PRIMARY\\AXIAL"),
            (0x0008_0016, b"UI", "1.2.840.10008.5.1.4.1.1.2"),
            (0x0008_0060, b"CS", "CT"),
            (0x0020_000E, b"UI", "1.2.3"),
            (0x0020_0037, b"DS", "1\\0\\0\\0\\1\\0"),
            (0x0028_0004, b"CS", "MONOCHROME2"),
            (0x0028_0030, b"DS", "0.5\\0.75"),
            (0x0028_1052, b"DS", "-1024"),
            (0x0028_1053, b"DS", "1"),
        ] {
            made = made.text(tag, *vr, text);
        }
        for (tag, value) in [
            (0x0028_0002, 1),
            (0x0028_0010, 2),
            (0x0028_0011, 4),
            (0x0028_0100, 16),
            (0x0028_0101, 12),
            (0x0028_0102, 11),
            (0x0028_0103, 0),
        ] {
            made = made.number(tag, value);
        }
        made.text(0x0008_0018, *b"UI", &format!("1.2.3.{}", n + 1))
            .text(0x0020_0013, *b"IS", &(n + 1).to_string())
            .position([-10.0, 5.0, 2.0 * f64::from(n)])
            .words(&[1000 + n; 8])
    }

    pub(super) fn put(mut self, tag: u32, vr: [u8; 2], value: &[u8]) -> Self {
        self.elements.retain(|e| e.0 != tag);
        self.elements.push((tag, vr, padded(value.to_vec())));
        self.elements.sort_by_key(|e| e.0);
        self
    }

    pub(super) fn text(self, tag: u32, vr: [u8; 2], text: &str) -> Self {
        self.put(tag, vr, text.as_bytes())
    }

    pub(super) fn number(self, tag: u32, value: u16) -> Self {
        self.put(tag, *b"US", &value.to_le_bytes())
    }

    pub(super) fn without(mut self, tag: u32) -> Self {
        self.elements.retain(|e| e.0 != tag);
        self
    }

    pub(super) fn position(self, p: [f64; 3]) -> Self {
        self.text(
            0x0020_0032,
            *b"DS",
            &format!("{}\\{}\\{}", p[0], p[1], p[2]),
        )
    }

    pub(super) fn words(self, words: &[u16]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(0x7FE0_0010, *b"OW", &bytes)
    }

    /// The data set alone.
    pub(super) fn set(&self) -> Vec<u8> {
        self.elements
            .iter()
            .flat_map(|(tag, vr, value)| element(*tag, *vr, value))
            .collect()
    }

    /// The whole file: preamble, meta group without its length, data set.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut out = vec![0u8; 128];
        out.extend(b"DICM");
        out.extend(element(
            0x0002_0010,
            *b"UI",
            &padded(self.syntax.clone().into_bytes()),
        ));
        out.extend(element(
            0x0002_0016,
            *b"AE",
            &padded(self.title.clone().into_bytes()),
        ));
        out.extend(self.set());
        out
    }
}

/// A folder with these slices as files `s0`, `s1`...
pub(super) fn folder(slices: &[Made]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (n, s) in slices.iter().enumerate() {
        write(folder.path(), &format!("s{n}"), &s.file());
    }
    folder
}

pub(super) fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}
