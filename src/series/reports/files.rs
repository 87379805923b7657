//! Odd files and names.

use super::*;

#[test]
fn junk_empty_files_archives_and_a_folder_with_an_ending_are_counted_with_reasons() {
    let f = folder(&slices(2));
    write(f.path(), "notes.txt", b"hello");
    write(f.path(), "empty.dcm", b"");
    write(f.path(), "a.zip", b"PK\x03\x04rest");
    write(f.path(), "b.bin", &[1; 400]);
    std::fs::create_dir(f.path().join("x.dcm")).unwrap();
    write(&f.path().join("x.dcm"), "inner", &Made::slice(2).file());
    let scan = scanned(f.path());
    assert_eq!(scan.series[0].size.z, 3);
    let skipped: Vec<(&str, &str)> = scan
        .skipped
        .iter()
        .map(|s| (s.file.as_str(), s.reason.as_str()))
        .collect();
    assert_eq!(
        skipped,
        [
            ("a.zip", "a zip archive; unpack it first"),
            ("b.bin", "a file that does not start as DICOM does"),
            ("empty.dcm", "an empty file"),
            ("notes.txt", "a text file"),
        ]
    );
}

/// A file whose pixels are these fragments in this syntax.
fn encapsulated(n: u16, syntax: &str, fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut made = Made::slice(n).without(0x7FE0_0010);
    made.syntax = syntax.to_owned();
    let mut bytes = made.file();
    bytes.extend([
        0xE0, 0x7F, 0x10, 0x00, b'O', b'B', 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    ]);
    bytes.extend(items(&[&[Vec::new()], fragments].concat()));
    bytes.extend([0xFE, 0xFF, 0xDD, 0xE0, 0, 0, 0, 0]);
    bytes
}

#[test]
fn a_codec_that_chokes_takes_down_its_slice_by_name_and_not_the_program() {
    let garbage: Vec<u8> = (0..200u32)
        .map(|v| u8::try_from(v * 37 % 251).unwrap())
        .collect();
    let jpeg = [
        &[0xFF, 0xD8, 0xFF, 0xC3, 0, 11, 16, 0, 2, 0, 4, 1, 1, 0x11, 0],
        garbage.as_slice(),
        &[0],
    ]
    .concat();
    let j2k = [&[0xFF, 0x4F, 0xFF, 0x51, 0, 47], garbage.as_slice()].concat();
    for (syntax, bytes) in [
        ("1.2.840.10008.1.2.4.50", &jpeg),
        ("1.2.840.10008.1.2.4.51", &jpeg),
        ("1.2.840.10008.1.2.4.57", &jpeg),
        ("1.2.840.10008.1.2.4.70", &jpeg),
        ("1.2.840.10008.1.2.4.80", &garbage),
        ("1.2.840.10008.1.2.4.90", &j2k),
        ("1.2.840.10008.1.2.4.201", &j2k),
        ("1.2.840.10008.1.2.5", &garbage),
    ] {
        let f = folder(&slices(2));
        write(
            f.path(),
            "bad",
            &encapsulated(2, syntax, std::slice::from_ref(bytes)),
        );
        let info = scanned(f.path()).series[0].clone();
        let l = loaded(&info);
        let why = l
            .refusal()
            .unwrap_or_else(|| panic!("{syntax} decoded garbage"));
        assert!(
            why.contains("1 of 3 slices cannot be decoded") && why.ends_with(": bad"),
            "{syntax}: {why}"
        );
        assert_eq!((firsts(&l)[0], l.hu_sha256()), (-24.0, None), "{syntax}");
    }
}

#[test]
fn retired_and_unknown_syntaxes_are_refused_with_the_reason() {
    for (syntax, word) in [
        ("1.2.840.10008.1.2.4.53", "a retired process"),
        ("1.2.840.10008.1.2.4.55", "a retired process"),
        ("1.2.840.10008.1.2.4.100", "which is not supported"),
        ("9.9.9", "an unknown transfer syntax"),
    ] {
        let f = folder(&[]);
        write(
            f.path(),
            "old",
            &encapsulated(0, syntax, &[vec![0xFF, 0xD8, 0, 0]]),
        );
        let info = only(f.path());
        let said = load(&info, &Control::new(), &|_| {}).unwrap_err();
        let said = said.to_string();
        assert!(
            said.contains(&format!("({syntax})")) && said.contains(word),
            "{syntax}: {said}"
        );
    }
}

#[test]
fn names_in_any_character_set_show_right_with_the_pixels_beside_them() {
    let korean = b"Hong^Gildong=\x1b$)C\xfb\xf3^\x1b$)C\xd1\xce\xd4\xd7=\x1b$)C\xc8\xab^\x1b$)C\xb1\xe6\xb5\xbf";
    let cases: [(&str, &[u8], &str); 6] = [
        (
            "ISO_IR 144",
            b"\xb8\xd2\xd0\xdd\xde\xd2^\xbf\xf1\xe2\xe0",
            "Иванов^Пётр",
        ),
        ("ISO_IR 166", b"\xb9\xd2\xc1", "นาม"),
        ("\\ISO 2022 IR 149", korean, "Hong^Gildong=洪^吉洞=홍^길동"),
        (
            "ISO 2022 IR 6\\ISO 2022 IR 58",
            b"Zhang=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab",
            "Zhang=张^小东",
        ),
        ("GB18030", b"Wang=\xcd\xf5^\xd0\xa1\xb6\xab", "Wang=王^小东"),
        ("ISO_IR 192", "山田^太郎".as_bytes(), "山田^太郎"),
    ];
    for (terms, bytes, name) in cases {
        let s: Vec<Made> = slices(2)
            .into_iter()
            .map(|s| {
                s.text(0x0008_0005, *b"CS", terms)
                    .put(0x0010_0010, *b"PN", bytes)
                    .put(0x0008_103E, *b"LO", bytes)
            })
            .collect();
        let f = folder(&s);
        let info = only(f.path());
        assert_eq!(info.patient_name.as_deref(), Some(name), "{terms}");
        assert_eq!(info.description, name);
        assert_eq!(firsts(&loaded(&info)), [-24.0, -23.0], "{terms}");
        let json = serde_json::to_string(&info.json(true, None)).unwrap();
        assert!(json.contains(name), "{json}");
        let masked = serde_json::to_string(&info.json(false, None).patient_name).unwrap();
        assert_eq!(masked, "null");
    }
}
