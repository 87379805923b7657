//! Text in DICOM's character sets, ISO 2022 escapes included (dicom-rs 0.10 decodes a whole value with the first set alone).

use dicom_encoding::text::{SpecificCharacterSet, TextCodec as _};

const ESC: u8 = 0x1B;

/// Decodes a value by the terms of Specific Character Set.
pub(super) fn decode(bytes: &[u8], charset: &[String]) -> String {
    let terms: Vec<String> = charset.iter().map(|t| canonical(t)).collect();
    let first = terms.first().map_or("", String::as_str);
    if bytes.contains(&ESC) {
        return decode_escaped(bytes, first);
    }
    // Seen: no escapes although the set that is meant comes second.
    let meant = if matches!(first, "" | "ISO_IR 6") && !bytes.is_ascii() {
        terms
            .iter()
            .find(|t| matches!(t.as_str(), "ISO_IR 149" | "ISO_IR 58"))
    } else {
        None
    };
    decode_with(bytes, meant.map_or(first, String::as_str))
}

/// A term as the standard has it, without code extensions: seen are `ISO-IR 100`, `iso_ir 192`, `ISO 2022 IR100`, `UTF-8`.
fn canonical(term: &str) -> String {
    let upper = term.trim().to_ascii_uppercase();
    if matches!(upper.as_str(), "UTF-8" | "UTF8") {
        return "ISO_IR 192".to_owned();
    }
    let after = upper
        .strip_prefix("ISO")
        .and_then(|rest| rest.split_once("IR"))
        .map(|(_, n)| n.trim_matches([' ', '_', '-']));
    match after {
        Some(n) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => format!("ISO_IR {n}"),
        _ => upper,
    }
}

fn decode_with(bytes: &[u8], term: &str) -> String {
    if bytes.is_ascii() && term != "ISO_IR 13" {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let utf8 = std::str::from_utf8(bytes).ok();
    // Seen: UTF-8 names in files that name no character set, one that is not known, or a Latin one
    // (whose letters hardly ever stand in an order that is UTF-8 too).
    let latin = matches!(
        term,
        "ISO_IR 100" | "ISO_IR 101" | "ISO_IR 109" | "ISO_IR 110" | "ISO_IR 148" | "ISO_IR 203"
    );
    let known = match term {
        "" | "ISO_IR 6" | "ISO_IR 192" => None,
        "ISO_IR 58" => SpecificCharacterSet::from_code("GBK"),
        _ => SpecificCharacterSet::from_code(term),
    };
    match (utf8, &known) {
        (Some(utf8), None) => utf8.to_owned(),
        (Some(utf8), Some(_)) if latin => utf8.to_owned(),
        _ if matches!(term, "ISO_IR 148" | "ISO_IR 203") => latin_but_for(bytes, term),
        _ => known
            .unwrap_or(SpecificCharacterSet::ISO_IR_100)
            .decode(bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Latin 5 and Latin 9 (which dicom-rs 0.10 does not have): Latin 1 but for a few letters.
fn latin_but_for(bytes: &[u8], term: &str) -> String {
    let letter = |b: u8| match (term, b) {
        ("ISO_IR 148", 0xD0) => 'Ğ',
        ("ISO_IR 148", 0xDD) => 'İ',
        ("ISO_IR 148", 0xDE) => 'Ş',
        ("ISO_IR 148", 0xF0) => 'ğ',
        ("ISO_IR 148", 0xFD) => 'ı',
        ("ISO_IR 148", 0xFE) => 'ş',
        ("ISO_IR 203", 0xA4) => '€',
        ("ISO_IR 203", 0xA6) => 'Š',
        ("ISO_IR 203", 0xA8) => 'š',
        ("ISO_IR 203", 0xB4) => 'Ž',
        ("ISO_IR 203", 0xB8) => 'ž',
        ("ISO_IR 203", 0xBC) => 'Œ',
        ("ISO_IR 203", 0xBD) => 'œ',
        ("ISO_IR 203", 0xBE) => 'Ÿ',
        _ => char::from(b),
    };
    bytes.iter().map(|&b| letter(b)).collect()
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
    (b"-M", Switch::Upper("ISO_IR 148")),
    (b"-b", Switch::Upper("ISO_IR 203")),
    (b"-T", Switch::Upper("ISO_IR 166")),
    (b"$)A", Switch::Upper("ISO_IR 58")),
    (b"$)C", Switch::Upper("ISO_IR 149")),
    (b"$B", Switch::Japanese(b"\x1b$B")),
    (b"$@", Switch::Japanese(b"\x1b$B")),
    (b"$(D", Switch::Japanese(b"\x1b$(D")),
];

fn decode_escaped(bytes: &[u8], first: &str) -> String {
    let mut upper = first;
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
                        japanese = None;
                        upper = term;
                    }
                }
            }
        }
        if text.is_empty() {
            continue;
        }
        if let Some(code) = japanese {
            out.push_str(&decode_with_japanese(code, text));
            continue;
        }
        // Each component of a name and each line starts with the first set again.
        let ends = |b: &u8| matches!(b, b'^' | b'=' | b'\\' | b'\r' | b'\n' | 0x0C | b'\t');
        for part in text.split_inclusive(ends) {
            out.push_str(&decode_with(part, upper));
            if part.last().is_some_and(ends) {
                upper = first;
            }
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

    /// Bytes as pydicom 3.0.2 writes these names.
    #[rustfmt::skip]
    const NAMES: &[(&[&str], &[u8], &str)] = &[
        (&["ISO_IR 100"], b"M\xfcller^J\xe9r\xf4me", "Müller^Jérôme"),
        (&["ISO_IR 101"], b"Dvo\xf8\xe1k^\xa3ukasz", "Dvořák^Łukasz"),
        (&["ISO_IR 109"], b"\xc5ikku^\xd5or\xf5", "Ċikku^Ġorġ"),
        (&["ISO_IR 110"], b"B\xbarzi\xf1\xb9^\xabirts", "Bērziņš^Ģirts"),
        (&["ISO_IR 144"], b"\xb8\xd2\xd0\xdd\xde\xd2^\xbf\xf1\xe2\xe0", "Иванов^Пётр"),
        (&["ISO_IR 127"], b"\xe2\xc8\xc7\xe6\xea^\xe4\xe6\xd2\xc7\xd1", "قباني^لنزار"),
        (&["ISO_IR 126"], b"\xc4\xe9\xef\xed\xf5\xf3\xe9\xef\xf2^\xd3\xdc\xe2\xe2\xe1\xf2", "Διονυσιος^Σάββας"),
        (&["ISO_IR 138"], b"\xf9\xf8\xe5\xef^\xe3\xe1\xe5\xf8\xe4", "שרון^דבורה"),
        (&["ISO_IR 148"], b"\xc7elik^\xddsmail \xdea\xf0d\xfd\xe7", "Çelik^İsmail Şağdıç"),
        (&["ISO_IR 166"], b"\xb9\xd2\xc1\xca\xa1\xd8\xc5^\xaa\xd7\xe8\xcd", "นามสกุล^ชื่อ"),
        (&["ISO_IR 13"], b"\xd4\xcf\xc0\xde^\xc0\xdb\xb3", "ﾔﾏﾀﾞ^ﾀﾛｳ"),
        (&["ISO_IR 192"], b"Wang^XiaoDong=\xe7\x8e\x8b^\xe5\xb0\x8f\xe6\x9d\xb1", "Wang^XiaoDong=王^小東"),
        (&["GB18030"], b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab\x952\x826", "Wang^XiaoDong=王^小东𠀀"),
        (&["GBK"], b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab", "Wang^XiaoDong=王^小东"),
        (&["", "ISO 2022 IR 87"], b"Yamada^Tarou=\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B=\x1b$B$d$^$@\x1b(B^\x1b$B$?$m$&\x1b(B", "Yamada^Tarou=山田^太郎=やまだ^たろう"),
        (&["ISO 2022 IR 13", "ISO 2022 IR 87"], b"\xd4\xcf\xc0\xde^\xc0\xdb\xb3=\x1b$B;3ED\x1b(J^\x1b$BB@O:\x1b(J=\x1b$B$d$^$@\x1b(J^\x1b$B$?$m$&\x1b(J", "ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう"),
        (&["", "ISO 2022 IR 159"], b"Honda^=\x1b$(D0!0\"\x1b(B^\x1b$(D1)\x1b(B", "Honda^=丂丄^侔"),
        (&["", "ISO 2022 IR 87", "ISO 2022 IR 159"], b"Yamada=\x1b$B;3ED\x1b$(D0!\x1b(B^\x1b$BB@O:\x1b$(D1)\x1b(B", "Yamada=山田丂^太郎侔"),
        (&["", "ISO 2022 IR 149"], b"Hong^Gildong=\x1b$)C\xfb\xf3^\x1b$)C\xd1\xce\xd4\xd7=\x1b$)C\xc8\xab^\x1b$)C\xb1\xe6\xb5\xbf", "Hong^Gildong=洪^吉洞=홍^길동"),
        (&["ISO 2022 IR 100", "ISO 2022 IR 144"], b"M\xfcller^\x1b-L\xb8\xd2\xd0\xdd\xde\xd2=J\xe9r\xf4me", "Müller^Иванов=Jérôme"),
        (&["ISO 2022 IR 100", "ISO 2022 IR 126", "ISO 2022 IR 144"], b"Dionysios=\x1b-F\xc4\xe9\xef\xed\xf5\xf3\xe9\xef\xf2^\x1b-L\xbb\xee\xdace\xdc\xd1yp\xd3", "Dionysios=Διονυσιος^Люкceмбypг"),
        (&["ISO 2022 IR 6", "ISO 2022 IR 127"], b"Qabbani=\x1b-G\xe2\xc8\xc7\xe6\xea^\x1b-G\xe4\xe6\xd2\xc7\xd1", "Qabbani=قباني^لنزار"),
        (&["ISO 2022 IR 6", "ISO 2022 IR 138"], b"Sharon=\x1b-H\xf9\xf8\xe5\xef^\x1b-H\xe3\xe1\xe5\xf8\xe4", "Sharon=שרון^דבורה"),
        (&["ISO 2022 IR 6", "ISO 2022 IR 166"], b"Somchai=\x1b-T\xca\xc1\xaa\xd2\xc2^\x1b-T\xe3\xa8\xb4\xd5", "Somchai=สมชาย^ใจดี"),
        (&["ISO 2022 IR 100", "ISO 2022 IR 101", "ISO 2022 IR 109", "ISO 2022 IR 110", "ISO 2022 IR 148"], b"M\xfcller^\x1b-BDvo\xf8\xe1k", "Müller^Dvořák"),
        (&["", "ISO 2022 IR 58"], b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab", "Zhang^XiaoDong=张^小东=张^小东"),
    ];

    #[test]
    fn names_in_every_character_set_and_with_every_escape_show_right() {
        for (terms, bytes, name) in NAMES {
            assert_eq!(decode(bytes, &sets(terms)), *name, "{terms:?}");
        }
    }

    #[test]
    fn a_component_without_escape_starts_with_the_first_set_again() {
        let name = b"M\xfcller=\x1b-L\xb8\xd2=M\xfcller";
        let terms = sets(&["ISO 2022 IR 100", "ISO 2022 IR 144"]);
        assert_eq!(decode(name, &terms), "Müller=Ив=Müller");
    }

    #[test]
    fn misspelt_missing_and_wrong_character_sets_do_not_garble_names() {
        for term in [
            "ISO-IR 100",
            "ISO IR 100",
            "iso_ir 100",
            "ISO_IR100",
            "ISO 2022 IR 100 ",
        ] {
            assert_eq!(decode(b"M\xfcller", &sets(&[term])), "Müller", "{term}");
        }
        assert_eq!(decode("王".as_bytes(), &sets(&["UTF-8"])), "王");
        assert_eq!(decode(b"M\xfcller", &[]), "Müller");
        // UTF-8 under a Latin term, Latin bytes under UTF-8's, a term that nobody knows.
        assert_eq!(
            decode("Jérôme".as_bytes(), &sets(&["ISO_IR 100"])),
            "Jérôme"
        );
        assert_eq!(decode(b"J\xe9r\xf4me", &sets(&["ISO_IR 192"])), "Jérôme");
        assert_eq!(
            decode("Jérôme".as_bytes(), &sets(&["ISO_IR 999"])),
            "Jérôme"
        );
        // Korean without its escapes.
        let terms = sets(&["", "ISO 2022 IR 149"]);
        assert_eq!(decode(b"\xc8\xab^\xb1\xe6\xb5\xbf", &terms), "홍^길동");
    }
}
