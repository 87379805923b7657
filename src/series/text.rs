//! Text in DICOM's character sets, ISO 2022 escapes included (dicom-rs 0.10 decodes a whole value with the first set alone).

use dicom_encoding::text::{SpecificCharacterSet, TextCodec as _};

const ESC: u8 = 0x1B;

/// Decodes a value by the terms of Specific Character Set.
pub(super) fn decode(bytes: &[u8], charset: &[String]) -> String {
    let first = charset.first().map_or("", String::as_str);
    if bytes.contains(&ESC) {
        return decode_escaped(bytes, first);
    }
    decode_with(bytes, first)
}

fn decode_with(bytes: &[u8], term: &str) -> String {
    if bytes.is_ascii() || matches!(term, "ISO_IR 192") {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    // Seen: UTF-8 names in files that name no character set, or one that is not known.
    let known = SpecificCharacterSet::from_code(term).filter(|_| !matches!(term, "" | "ISO_IR 6"));
    match (known, std::str::from_utf8(bytes)) {
        (None, Ok(utf8)) => utf8.to_owned(),
        (known, _) => known
            .unwrap_or(SpecificCharacterSet::ISO_IR_100)
            .decode(bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// What an escape sequence switches to.
#[derive(Clone, Copy, PartialEq)]
enum Switch {
    /// ASCII or JIS X 0201 romaji in the lower half.
    Ascii,
    /// A double-byte Japanese set in the lower half; the bytes that choose it.
    Japanese(&'static [u8]),
    /// A set in the upper half, by its term.
    Upper(&'static str),
}

const ESCAPES: &[(&[u8], Switch)] = &[
    (b"(B", Switch::Ascii),
    (b"(J", Switch::Ascii),
    (b")I", Switch::Upper("ISO_IR 13")),
    (b"-A", Switch::Upper("ISO_IR 100")),
    (b"-B", Switch::Upper("ISO_IR 101")),
    (b"-C", Switch::Upper("ISO_IR 109")),
    (b"-D", Switch::Upper("ISO_IR 110")),
    (b"-F", Switch::Upper("ISO_IR 126")),
    (b"-G", Switch::Upper("ISO_IR 127")),
    (b"-H", Switch::Upper("ISO_IR 138")),
    (b"-L", Switch::Upper("ISO_IR 144")),
    (b"-T", Switch::Upper("ISO_IR 166")),
    (b"$)A", Switch::Upper("GB2312")),
    (b"$)C", Switch::Upper("ISO_IR 149")),
    (b"$B", Switch::Japanese(b"\x1b$B")),
    (b"$@", Switch::Japanese(b"\x1b$B")),
    (b"$(D", Switch::Japanese(b"\x1b$(D")),
];

fn decode_escaped(bytes: &[u8], first: &str) -> String {
    let mut upper = first.replace("ISO 2022 IR", "ISO_IR");
    let mut japanese: Option<&'static [u8]> = None;
    let mut out = String::new();
    for (n, run) in bytes.split(|&b| b == ESC).enumerate() {
        let mut text = run;
        if n > 0 {
            let found = ESCAPES.iter().find(|(code, _)| run.starts_with(code));
            if let Some((code, switch)) = found {
                text = run.get(code.len()..).unwrap_or_default();
                match switch {
                    Switch::Ascii => japanese = None,
                    Switch::Japanese(code) => japanese = Some(code),
                    Switch::Upper(term) => {
                        upper.clear();
                        upper.push_str(term);
                    }
                }
            }
        }
        if text.is_empty() {
            continue;
        }
        if let Some(code) = japanese {
            out.push_str(&decode_with_japanese(code, text));
        } else {
            out.push_str(&decode_with(text, &upper));
        }
    }
    out
}

fn decode_with_japanese(code: &[u8], text: &[u8]) -> String {
    let escaped = [code, text].concat();
    SpecificCharacterSet::from_code("ISO 2022 IR 87")
        .and_then(|c| c.decode(&escaped).ok())
        .unwrap_or_else(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(terms: &[&str]) -> Vec<String> {
        terms.iter().map(|&t| t.to_owned()).collect()
    }

    #[test]
    fn japanese_and_korean_names_with_escapes_show_right() {
        let name =
            b"Yamada^Tarou=\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B=\x1b$B$d$^$@\x1b(B^\x1b$B$?$m$&\x1b(B";
        assert_eq!(
            decode(name, &sets(&["", "ISO 2022 IR 87"])),
            "Yamada^Tarou=山田^太郎=やまだ^たろう"
        );
        let name =
            b"Hong^Gildong=\x1b$)C\xfb\xf3^\x1b$)C\xd1\xce\xd4\xd7=\x1b$)C\xc8\xab^\x1b$)C\xb1\xe6\xb5\xbf";
        assert_eq!(
            decode(name, &sets(&["", "ISO 2022 IR 149"])),
            "Hong^Gildong=洪^吉洞=홍^길동"
        );
        let name = b"\xd4\xcf\xc0\xde^\xc0\xdb\xb3=\x1b$B;3ED\x1b(J^\x1b$BB@O:\x1b(J";
        assert_eq!(
            decode(name, &sets(&["ISO 2022 IR 13", "ISO 2022 IR 87"])),
            "ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎"
        );
    }

    #[test]
    fn single_byte_and_utf8_names_show_right() {
        assert_eq!(
            decode(b"\xc4neas^R\xfcdiger", &sets(&["ISO_IR 100"])),
            "Äneas^Rüdiger"
        );
        assert_eq!(
            decode("王^小東".as_bytes(), &sets(&["ISO_IR 192"])),
            "王^小東"
        );
        assert_eq!(decode("Jérôme".as_bytes(), &[]), "Jérôme");
        assert_eq!(
            decode(
                b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab",
                &sets(&["GB18030"])
            ),
            "Wang^XiaoDong=王^小东"
        );
    }
}
