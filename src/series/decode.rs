//! One compressed frame to stored words through dicom-rs's codecs; a codec that panics takes down its slice alone.

use super::header::Pixels;
use dicom_encoding::Codec;
use dicom_encoding::adapters::{PixelDataObject, RawPixelData};
use dicom_encoding::transfer_syntax::TransferSyntaxIndex as _;
use dicom_transfer_syntax_registry::TransferSyntaxRegistry;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside a codec, whose panics are caught and told as a damaged slice.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a codec; `None` when it panics. The panic leaves no trace on stderr; panics elsewhere do as before.
fn quietly<T>(codec: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.try_with(Cell::get).unwrap_or(false) {
                before(panic);
            }
        }));
    });
    // A codec may lend its thread to another slice while it waits: put back what was there.
    let before = DECODING.replace(true);
    let done = catch_unwind(AssertUnwindSafe(codec)).ok();
    DECODING.set(before);
    done
}

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

/// JPEG lossless: any predictor, and the first alone.
const LOSSLESS: [&str; 2] = ["1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70"];

/// JPEG-LS, lossless and near-lossless.
const JPEG_LS: [&str; 2] = ["1.2.840.10008.1.2.4.80", "1.2.840.10008.1.2.4.81"];

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
    if LOSSLESS.contains(&syntax)
        && super::jpegll::decode(bytes, pixels, out)
            .map_err(|e| format!("pixels stored as lossless JPEG are damaged ({e})"))?
    {
        return Ok(());
    }
    if JPEG_LS.contains(&syntax) {
        return super::jpegls::decode(bytes, pixels, out)
            .map_err(|e| format!("pixels stored as JPEG-LS are damaged ({e})"));
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
    super::claims::check(bytes, pixels)
        .map_err(|e| format!("pixels stored as {name} are damaged ({e})"))?;
    let object = OneFrame {
        syntax,
        bytes,
        pixels,
    };
    match quietly(|| reader.decode_frame(&object, 0, out)) {
        Some(Ok(())) => Ok(()),
        Some(Err(e)) => Err(format!("pixels stored as {name} are damaged ({})", all(&e))),
        None => Err(format!(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a process of its own, so that its stderr can be looked at.
    #[test]
    #[ignore = "the test below starts it"]
    fn child() {
        assert_eq!(quietly(|| 7), Some(7));
        assert_eq!(quietly(|| -> u8 { panic!("inside a codec") }), None);
        assert!(catch_unwind(|| panic!("outside of codecs")).is_err());
    }

    #[test]
    fn a_codec_that_panics_writes_no_backtrace_to_stderr() {
        let o = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["series::decode::tests::child", "--exact", "--ignored"])
            .arg("--nocapture")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "{text}");
        assert!(!text.contains("inside a codec"), "{text}");
        assert!(text.contains("outside of codecs"), "{text}");
    }
}
