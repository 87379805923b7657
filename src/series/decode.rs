//! One compressed frame to stored words through dicom-rs's codecs; a codec that panics takes down its slice alone.

use super::header::Pixels;
use dicom_encoding::Codec;
use dicom_encoding::adapters::{PixelDataObject, RawPixelData};
use dicom_encoding::transfer_syntax::TransferSyntaxIndex as _;
use dicom_transfer_syntax_registry::TransferSyntaxRegistry;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One frame as an object with one fragment. Codecs never see offset tables or several fragments:
/// dicom-rs 0.10 panics on RLE in several fragments and loses JPEG frames in them.
struct OneFrame<'a> {
    syntax: &'a str,
    bytes: &'a [u8],
    pixels: &'a Pixels,
}

impl PixelDataObject for OneFrame<'_> {
    fn transfer_syntax_uid(&self) -> &str {
        self.syntax
    }

    fn rows(&self) -> Option<u16> {
        self.pixels.rows.try_into().ok()
    }

    fn cols(&self) -> Option<u16> {
        self.pixels.columns.try_into().ok()
    }

    fn samples_per_pixel(&self) -> Option<u16> {
        self.pixels.samples.try_into().ok()
    }

    fn bits_allocated(&self) -> Option<u16> {
        self.pixels.bits_allocated.try_into().ok()
    }

    fn bits_stored(&self) -> Option<u16> {
        self.pixels.bits_stored.try_into().ok()
    }

    fn photometric_interpretation(&self) -> Option<&str> {
        Some(&self.pixels.photometric)
    }

    fn number_of_frames(&self) -> Option<u32> {
        Some(1)
    }

    fn number_of_fragments(&self) -> Option<u32> {
        Some(1)
    }

    fn fragment(&self, fragment: usize) -> Option<Cow<'_, [u8]>> {
        (fragment == 0).then_some(Cow::Borrowed(self.bytes))
    }

    fn offset_table(&self) -> Option<Cow<'_, [u32]>> {
        Some(Cow::Borrowed(&[0]))
    }

    fn raw_pixel_data(&self) -> Option<RawPixelData> {
        Some(RawPixelData {
            fragments: vec![self.bytes.to_vec()].into(),
            offset_table: vec![0].into(),
        })
    }
}

/// JPEG extended, processes 2 (8 bits) and 4 (12 bits).
const EXTENDED: &str = "1.2.840.10008.1.2.4.51";

/// JPEG processes that the standard has retired and no decoder here reads.
const RETIRED: [(&str, &str); 11] = [
    (
        "1.2.840.10008.1.2.4.52",
        "JPEG extended (processes 3 and 5)",
    ),
    (
        "1.2.840.10008.1.2.4.53",
        "JPEG spectral selection (processes 6 and 8)",
    ),
    (
        "1.2.840.10008.1.2.4.54",
        "JPEG spectral selection (processes 7 and 9)",
    ),
    (
        "1.2.840.10008.1.2.4.55",
        "JPEG full progression (processes 10 and 12)",
    ),
    (
        "1.2.840.10008.1.2.4.56",
        "JPEG full progression (processes 11 and 13)",
    ),
    ("1.2.840.10008.1.2.4.58", "JPEG lossless (process 15)"),
    (
        "1.2.840.10008.1.2.4.59",
        "JPEG extended, hierarchical (processes 16 and 18)",
    ),
    (
        "1.2.840.10008.1.2.4.60",
        "JPEG extended, hierarchical (processes 17 and 19)",
    ),
    (
        "1.2.840.10008.1.2.4.61",
        "JPEG spectral selection, hierarchical (processes 20 and 22)",
    ),
    (
        "1.2.840.10008.1.2.4.63",
        "JPEG full progression, hierarchical (processes 24 and 26)",
    ),
    (
        "1.2.840.10008.1.2.4.65",
        "JPEG lossless, hierarchical (process 28)",
    ),
];

/// Decodes one frame to little-endian words into `out` (cleared first).
pub(super) fn decode(
    syntax: &str,
    bytes: &[u8],
    pixels: &Pixels,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    if let Some((_, name)) = RETIRED.iter().find(|(uid, _)| *uid == syntax) {
        return Err(format!(
            "pixels are stored as {name} ({syntax}), a retired process that is not supported; convert the files to an uncompressed transfer syntax"
        ));
    }
    if syntax == EXTENDED && super::jpeg12::precision(bytes) == Some(12) {
        return super::jpeg12::decode(bytes, pixels, out)
            .map_err(|e| format!("pixels stored as 12-bit JPEG are damaged ({e})"));
    }
    let known = TransferSyntaxRegistry
        .get(syntax)
        .ok_or_else(|| format!("an unknown transfer syntax ({syntax})"))?;
    let name = known.name();
    let Codec::EncapsulatedPixelData(Some(reader), _) = known.codec() else {
        return Err(format!(
            "pixels are stored as {name} ({syntax}), which is not supported; convert the files to an uncompressed transfer syntax"
        ));
    };
    let object = OneFrame {
        syntax,
        bytes,
        pixels,
    };
    match catch_unwind(AssertUnwindSafe(|| reader.decode_frame(&object, 0, out))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(format!("pixels stored as {name} are damaged ({})", all(&e))),
        Err(_) => Err(format!(
            "pixels stored as {name} are damaged (the decoder gave up)"
        )),
    }
}

/// An error with the errors below it.
fn all(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut below = error.source();
    while let Some(e) = below {
        out = format!("{out}: {e}");
        below = e.source();
    }
    out
}
