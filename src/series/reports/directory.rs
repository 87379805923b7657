//! DICOMDIR: followed, and never out of its folder.

use super::*;

/// A DICOMDIR whose records name these files, beside what is in the folder.
fn directory(folder: &Path, name: &str, references: &[&str]) -> std::path::PathBuf {
    let record = |id: &&str| {
        let mut id = id.as_bytes().to_vec();
        if id.len() % 2 == 1 {
            id.push(b' ');
        }
        element(0x0004_1500, *b"CS", &id)
    };
    let mut records: Vec<Vec<u8>> = references.iter().map(record).collect();
    // A patient's record has no file.
    records.insert(0, element(0x0004_1430, *b"CS", b"PATIENT "));
    let mut bytes = vec![0u8; 128];
    bytes.extend(b"DICM");
    bytes.extend(element(0x0002_0010, *b"UI", b"1.2.840.10008.1.2.1\0"));
    bytes.extend(element(0x0004_1220, *b"SQ", &items(&records)));
    write(folder, name, &bytes)
}

fn reasons(scan: &Scan) -> Vec<String> {
    let line = |s: &Skipped| format!("{}: {}", s.file, s.reason);
    scan.skipped.iter().map(line).collect()
}

#[test]
fn a_dicomdir_never_leads_out_of_its_folder() {
    let outside = folder(&slices(1));
    let inside = outside.path().join("disc");
    std::fs::create_dir(&inside).unwrap();
    write(&inside, "I1", &Made::slice(1).file());
    let secret = outside.path().join("s0");
    let ways = [
        "I1",
        "..\\s0",
        "../s0",
        "A\\..\\..\\s0",
        "C:\\s0",
        "\\\\host\\s0",
        secret.to_str().unwrap(),
        "GONE",
    ];
    let path = directory(&inside, "DICOMDIR", &ways);
    let scan = scanned(&path);
    assert_eq!((scan.series.len(), scan.series[0].size.z), (1, 1));
    let said = reasons(&scan);
    let out = said
        .iter()
        .filter(|r| r.contains("out of the DICOMDIR's folder"));
    // Both ways to write ../s0 are told once.
    assert_eq!(out.count(), 5, "{said:?}");
    assert!(
        said.contains(
            &"GONE: named in the DICOMDIR, but the file is missing; copy the whole disc".to_owned()
        ),
        "{said:?}"
    );
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_discs_folder_is_not_followed() {
    let outside = folder(&slices(1));
    let inside = outside.path().join("disc");
    std::fs::create_dir(&inside).unwrap();
    write(&inside, "I1", &Made::slice(1).file());
    std::os::unix::fs::symlink(outside.path().join("s0"), inside.join("LINK")).unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.join("UP")).unwrap();
    let path = directory(&inside, "DICOMDIR", &["I1", "LINK", "UP\\s0"]);
    let scan = scanned(&path);
    assert_eq!(scan.series[0].size.z, 1);
    let said = reasons(&scan);
    assert_eq!(
        said.iter().filter(|r| r.contains("a link out of")).count(),
        2,
        "{said:?}"
    );
}

#[test]
fn names_that_differ_in_case_version_or_slashes_are_found() {
    let disc = folder(&[]);
    std::fs::create_dir(disc.path().join("series1")).unwrap();
    let inner = disc.path().join("series1");
    write(&inner, "im1", &Made::slice(0).file());
    write(&inner, "IM2.;1", &Made::slice(1).file());
    write(&inner, "Im3", &Made::slice(2).file());
    let names = ["SERIES1\\IM1", "SERIES1\\IM2", "SERIES1/IM3"];
    // A directory is known by what it holds, whatever its name.
    for name in ["DICOMDIR", "index.dcm", "dicomdir"] {
        let path = directory(disc.path(), name, &names);
        let scan = scanned(&path);
        assert_eq!(scan.series[0].size.z, 3, "{name}: {:?}", scan.skipped);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_last_record_that_claims_too_many_bytes_is_not_lost() {
    let disc = folder(&slices(2));
    let path = directory(disc.path(), "DICOMDIR", &["s0", "s1"]);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.windows(4).rposition(|w| w == [0xFE, 0xFF, 0, 0xE0]);
    bytes[last.unwrap() + 4] += 24;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(scanned(&path).series[0].size.z, 2);
}

#[test]
fn a_disc_of_two_series_and_a_report_lists_both_and_names_the_report() {
    let disc = folder(&slices(3));
    for n in 0..2 {
        let other = Made::slice(n).text(0x0020_000E, *b"UI", "9.9.9");
        write(disc.path(), &format!("b{n}"), &other.file());
    }
    let report = Made::slice(7)
        .without(0x7FE0_0010)
        .text(0x0008_0060, *b"CS", "SR");
    write(disc.path(), "SR1", &report.file());
    let names = ["s0", "s1", "s2", "b0", "b1", "SR1"];
    let scan = scanned(&directory(disc.path(), "DICOMDIR", &names));
    let sizes: Vec<(&str, usize)> = scan
        .series
        .iter()
        .map(|s| (s.uid.as_str(), s.size.z))
        .collect();
    assert_eq!(sizes, [("9.9.9", 2), ("1.2.3", 3)]);
    assert_eq!(
        reasons(&scan),
        ["SR1: a DICOM file without pixel data (SR)"]
    );
}

#[test]
fn a_disc_whose_files_are_all_gone_says_so_and_a_folder_scan_never_stacks_the_directory() {
    let disc = folder(&[]);
    let path = directory(disc.path(), "DICOMDIR", &["A", "B"]);
    let e = scan(&path, &Control::new()).unwrap_err().to_string();
    assert!(
        e.contains("found none in 2 file(s)") && e.contains("missing"),
        "{e}"
    );
    write(disc.path(), "s0", &Made::slice(0).file());
    let scan = scanned(disc.path());
    assert_eq!(scan.series[0].n_files, 1);
    assert_eq!(reasons(&scan), ["DICOMDIR: a DICOMDIR, not a slice"]);
}
