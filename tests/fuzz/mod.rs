//! Real DICOM files flipped, cut, spliced and lied to, through the whole way from a folder to volumes. The seeds are fixed:
//! case N is the same on every machine with the same data.
//!
//! A long run: `VOXFIT_FUZZ_SECONDS=1800 cargo test --profile ci --test series fuzz::long -- --ignored --nocapture`.
//! It works in child processes, so that a decoder that aborts is one finding and not the end.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use voxfit::jobs::Control;
use voxfit::series::{load, scan};

/// Memory beyond what the files take that a case may use, and how often their size besides.
const ROOM: u64 = 200 << 20;
const TIMES: u64 = 40;
/// Seconds of work that a case may take.
const PATIENCE: f64 = 10.0;
/// The series of the one file that lies outside of every study.
const OUTSIDE: &str = "9.9.9.9.9";

/// Numbers from a seed (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

type Named = (String, Vec<u8>);

/// Folders of real files: a few of each.
fn corpus(root: &Path) -> Vec<Vec<Named>> {
    let mut folders = vec![root.to_path_buf()];
    let mut out = Vec::new();
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        entries.sort();
        let mut files = Vec::new();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.metadata().unwrap().len() < 300_000
                && path.extension().is_none_or(|e| e != "json" && e != "md")
            {
                files.push(path);
            }
        }
        for few in files.chunks(4).take(20) {
            let read = |p: &PathBuf| {
                let name = p.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read(p).unwrap())
            };
            out.push(few.iter().map(read).collect());
        }
    }
    out
}

const LENGTHS: [u32; 12] = [
    0,
    1,
    2,
    7,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFF_FFFF,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
    0x0100_0000,
];
const TEXTS: [&str; 14] = [
    "1e300",
    "-1e300",
    "NaN",
    "inf",
    "0",
    "-1",
    "65535",
    "4294967296",
    "1\\",
    "\\\\\\",
    "..",
    "C:\\",
    "-0",
    "1e-300",
];
const NUMBERS: [u16; 12] = [0, 1, 2, 3, 7, 8, 12, 16, 32, 255, 32768, 65535];

/// A place where an explicit element of a wanted kind seems to start.
fn element(bytes: &[u8], dice: &mut Dice, wanted: impl Fn(&[u8]) -> bool) -> Option<usize> {
    let end = bytes.len().min(20_000).checked_sub(12)?;
    let start = dice.below(end);
    (start..end)
        .chain(0..start)
        .find(|&at| wanted(&bytes[at..at + 12]))
}

fn put(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (b, w) in bytes.iter_mut().skip(at).zip(with) {
        *b = *w;
    }
}

/// One change to one file.
fn change(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let n = bytes.len();
    if n < 16 {
        return;
    }
    let near = if dice.below(2) == 0 { n } else { n.min(4000) };
    match dice.below(12) {
        0 => {
            for _ in 0..=dice.below(8) {
                let at = dice.below(near);
                bytes[at] ^= 1 << dice.below(8);
            }
        }
        1 => {
            let at = dice.below(near);
            let value = *dice.pick(&[0u8, 1, 0x7F, 0x80, 0xFE, 0xFF]);
            let end = (at + 1 + dice.below(8)).min(n);
            bytes[at..end].fill(value);
        }
        2 => bytes.truncate(dice.below(n)),
        3 => {
            let at = dice.below(near);
            let end = (at + dice.below(2000)).min(n);
            bytes.drain(at..end);
        }
        4 => {
            let at = dice.below(near);
            let end = (at + dice.below(2000)).min(n);
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        5 => {
            let from = dice.below(other.len());
            let piece = &other[from..(from + dice.below(3000)).min(other.len())];
            let at = dice.below(near);
            let end = if dice.below(2) == 0 {
                at
            } else {
                (at + piece.len()).min(n)
            };
            bytes.splice(at..end, piece.iter().copied());
        }
        6 => {
            let vr = |b: &[u8]| b[4].is_ascii_uppercase() && b[5].is_ascii_uppercase();
            if let Some(at) = element(bytes, dice, vr) {
                let length = dice.pick(&LENGTHS).to_le_bytes();
                let long = matches!(
                    &bytes[at + 4..at + 6],
                    b"OB" | b"OW" | b"SQ" | b"UN" | b"UT"
                );
                put(
                    bytes,
                    if long { at + 8 } else { at + 6 },
                    &length[..if long { 4 } else { 2 }],
                );
            }
        }
        7 => {
            let text = |b: &[u8]| matches!(&b[4..6], b"DS" | b"IS" | b"CS" | b"UI");
            if let Some(at) = element(bytes, dice, text) {
                put(bytes, at + 8, dice.pick(&TEXTS).as_bytes());
            }
        }
        8 => {
            // Rows, columns, bits, samples, representation.
            let image = |b: &[u8]| b[..2] == [0x28, 0] && &b[4..6] == b"US";
            if let Some(at) = element(bytes, dice, image) {
                put(bytes, at + 8, &dice.pick(&NUMBERS).to_le_bytes());
            }
        }
        9 => {
            let syntax = |b: &[u8]| b[..4] == [2, 0, 0x10, 0];
            if let Some(at) = element(bytes, dice, syntax) {
                let uids = [
                    "1.2.840.10008.1.2.4.70",
                    "1.2.840.10008.1.2.4.90",
                    "1.2.840.10008.1.2.4.80",
                    "1.2.840.10008.1.2.5\0",
                    "1.2.840.10008.1.2.4.51",
                    "1.2.840.10008.1.2.1.99",
                    "1.2.840.10008.1.2.2\0",
                    "1.2.840.10008.1.2\0",
                    "1.2.840.10008.1.2.4.50",
                    "1.2.840.10008.1.2.4.201",
                ];
                let uid = dice.pick(&uids);
                let old = usize::from(bytes[at + 6]);
                let end = (at + 8 + old).min(bytes.len());
                bytes[at + 6] = u8::try_from(uid.len()).unwrap();
                bytes.splice(at + 8..end, uid.bytes());
            }
        }
        10 => {
            // File IDs of a directory.
            let id = |b: &[u8]| b[..4] == [4, 0, 0, 0x15];
            if let Some(at) = element(bytes, dice, id) {
                let to = dice.pick(&[
                    "..\\out",
                    "\\..\\out",
                    "/etc/passwd",
                    "..\\..\\x",
                    "link",
                    "A\\..\\..\\out",
                ]);
                put(bytes, at + 8, to.as_bytes());
            }
        }
        _ => {
            // Inside of the codestream.
            let at = n - 1 - dice.below(n.min(2000));
            bytes[at] ^= 1 << dice.below(8);
        }
    }
}

/// The files of case `seed`.
fn case(corpus: &[Vec<Named>], seed: u64) -> Vec<Named> {
    let mut dice = Dice(seed);
    let mut files = dice.pick(corpus).clone();
    for _ in 0..=dice.below(3) {
        let n = dice.below(files.len());
        let folder = dice.pick(corpus);
        let other = dice.pick(folder).1.clone();
        for _ in 0..=dice.below(4) {
            change(&mut files[n].1, &other, &mut dice);
        }
    }
    if dice.below(4) == 0 {
        let copy = dice.pick(&files).1.clone();
        files.push(("copy".to_owned(), copy));
    }
    files
}

/// The file that lies outside of every study: a slice that any scan would take.
fn outside() -> Vec<u8> {
    let made = |tag: u32, vr: &[u8; 2], value: &[u8]| {
        let mut value = value.to_vec();
        if value.len() % 2 == 1 {
            value.push(b' ');
        }
        let [a, b, c, d] = tag.to_be_bytes();
        let [low, high] = u16::try_from(value.len()).unwrap().to_le_bytes();
        let length = if vr == b"OW" {
            vec![0, 0, low, high, 0, 0]
        } else {
            vec![low, high]
        };
        [&[b, a, d, c], &vr[..], &length, &value].concat()
    };
    let number = |tag: u32, value: u16| made(tag, b"US", &value.to_le_bytes());
    [
        vec![0; 128],
        b"DICM".to_vec(),
        made(0x0002_0010, b"UI", b"1.2.840.10008.1.2.1\0"),
        made(0x0008_0016, b"UI", b"1.2.840.10008.5.1.4.1.1.2\0"),
        made(0x0008_0018, b"UI", b"9.9.9.9.9.1\0"),
        made(0x0008_0060, b"CS", b"CT"),
        made(0x0020_000E, b"UI", OUTSIDE.as_bytes()),
        made(0x0020_0032, b"DS", b"0\\0\\0"),
        made(0x0020_0037, b"DS", b"1\\0\\0\\0\\1\\0"),
        number(0x0028_0002, 1),
        made(0x0028_0004, b"CS", b"MONOCHROME2"),
        number(0x0028_0010, 2),
        number(0x0028_0011, 4),
        made(0x0028_0030, b"DS", b"0.5\\0.5"),
        number(0x0028_0100, 16),
        number(0x0028_0101, 12),
        number(0x0028_0102, 11),
        number(0x0028_0103, 0),
        made(0x0028_1052, b"DS", b"-1024"),
        made(0x0028_1053, b"DS", b"1"),
        made(0x7FE0_0010, b"OW", &[7; 16]),
    ]
    .concat()
}

#[test]
fn the_file_outside_is_one_that_a_scan_would_take() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("out");
    std::fs::write(&path, outside()).unwrap();
    let scan = scan(&path, &Control::new()).unwrap();
    assert_eq!(scan.series[0].uid, OUTSIDE);
    assert!(through(&path).is_err(), "it is told when it is found");
}

/// Scans and loads a folder of files in every way; what went wrong, or how many series were loaded.
fn go(files: &[Named]) -> Result<usize, String> {
    let temp = tempfile::tempdir().unwrap();
    let inside = temp.path().join("in");
    std::fs::create_dir(&inside).unwrap();
    let out = temp.path().join("out");
    std::fs::write(&out, outside()).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&out, inside.join("link")).unwrap();
    let mut ways = vec![inside.clone()];
    for (name, bytes) in files {
        let path = inside.join(name);
        std::fs::write(&path, bytes).unwrap();
        ways.push(path);
    }
    let start = worked();
    let mut loaded = 0;
    for way in ways {
        let answer = catch_unwind(AssertUnwindSafe(|| through(&way)));
        loaded += answer.map_err(|_panic| format!("a panic at {}", way.display()))??;
    }
    if std::fs::read(&out).ok() != Some(outside()) {
        return Err("the file outside of the folder is not what it was".to_owned());
    }
    let seconds = worked() - start;
    if seconds > PATIENCE {
        return Err(format!("{seconds:.1} s of work"));
    }
    Ok(loaded)
}

fn through(way: &Path) -> Result<usize, String> {
    let control = Control::new();
    let Ok(scan) = scan(way, &control) else {
        return Ok(0);
    };
    let mut loaded = 0;
    for info in &scan.series {
        let named = info.slice_infos().iter().any(|s| s.file.contains(".."));
        if named || info.uid == OUTSIDE {
            return Err("a file outside of the folder".to_owned());
        }
        let Ok(l) = load(info, &control, &|_| {}) else {
            continue;
        };
        let _json = info.json(true, Some(Ok(&l)));
        if l.volume.voxels.len() != info.size.voxels() {
            return Err("a volume of another size than its series".to_owned());
        }
        loaded += 1;
    }
    Ok(loaded)
}

fn shared_corpus() -> Option<Vec<Vec<Named>>> {
    super::shared("variants").map(|v| corpus(v.parent().unwrap()))
}

#[test]
fn damaged_real_files_never_take_the_program_down() {
    let Some(corpus) = shared_corpus() else {
        return;
    };
    let mut loaded = 0;
    for seed in 0..150 {
        match go(&case(&corpus, seed)) {
            Ok(n) => loaded += n,
            Err(e) => panic!("case {seed}: {e}"),
        }
    }
    assert!(
        loaded > 50,
        "only {loaded} loads: the cases are too damaged to test anything"
    );
}

/// Seconds that this process has worked, on Linux (0 elsewhere): a busy machine makes no case slow.
fn worked() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or("");
    let ticks = |n: usize| -> f64 {
        let field = after_name.split_whitespace().nth(n);
        field.and_then(|v| v.parse().ok()).unwrap_or(0.0)
    };
    // User and system time in hundredths.
    (ticks(11) + ticks(12)) / 100.0
}

/// A figure of this process in bytes, on Linux.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap_or("");
    let kb = line
        .split_whitespace()
        .nth(1)
        .and_then(|v| v.parse::<u64>().ok());
    kb.unwrap_or(0) << 10
}

fn number(key: &str, otherwise: u64) -> u64 {
    std::env::var(key)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(otherwise)
}

/// Cases from `VOXFIT_FUZZ_SEED` on, each told on stderr before it runs.
#[test]
#[ignore = "the long run starts it"]
fn child() {
    let Some(corpus) = shared_corpus() else {
        return;
    };
    let first = number("VOXFIT_FUZZ_SEED", 0);
    for seed in first..first + number("VOXFIT_FUZZ_CASES", 200) {
        eprintln!("@ {seed}");
        let files = case(&corpus, seed);
        let size: u64 = files.iter().map(|f| f.1.len() as u64).sum();
        // Starts the peak anew.
        let _not_linux = std::fs::write("/proc/self/clear_refs", "5");
        let (before, start) = (status("VmRSS"), worked());
        let answer = go(&files);
        let peak = status("VmHWM").saturating_sub(before);
        let seconds = worked() - start;
        let mut line = format!(
            "= {seed} {peak} {seconds:.3} {}",
            *answer.as_ref().unwrap_or(&0)
        );
        if let Err(e) = answer {
            write!(line, " FOUND {e}").unwrap();
        } else if peak > ROOM + TIMES * size {
            write!(line, " FOUND {} MB for files of {size} bytes", peak >> 20).unwrap();
        }
        eprintln!("{line}");
    }
}

/// Runs for `VOXFIT_FUZZ_SECONDS` (60) from `VOXFIT_FUZZ_SEED` (1000000) on and says what was found.
#[test]
#[ignore = "runs for as long as VOXFIT_FUZZ_SECONDS says"]
fn long() {
    let seconds = number("VOXFIT_FUZZ_SECONDS", 60);
    let first = number("VOXFIT_FUZZ_SEED", 1_000_000);
    let (mut seed, start) = (first, Instant::now());
    let (mut cases, mut loads, mut peak, mut slowest) = (0u64, 0u64, 0u64, 0f64);
    let mut found = Vec::new();
    while start.elapsed().as_secs() < seconds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["fuzz::child", "--exact", "--ignored", "--nocapture"])
            .env("VOXFIT_FUZZ_SEED", seed.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut at = seed;
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["@", n] => at = n.parse().unwrap(),
                ["=", _, bytes, time, n, ..] => {
                    cases += 1;
                    loads += n.parse::<u64>().unwrap();
                    peak = peak.max(bytes.parse().unwrap());
                    slowest = slowest.max(time.parse().unwrap());
                    if line.contains("FOUND") {
                        found.push(line);
                    }
                }
                _ if line.contains("panicked") => found.push(format!("case {at}: {line}")),
                _ => {}
            }
        }
        let status = child.wait().unwrap();
        if !status.success() {
            found.push(format!("case {at}: the process ended ({status})"));
        }
        seed = at + 1;
    }
    eprintln!(
        "{cases} cases from seed {first} in {seconds} s, {loads} loads, peak {} MB above the start, slowest {slowest:.2} s",
        peak >> 20
    );
    assert!(
        found.is_empty(),
        "{} found:\n{}",
        found.len(),
        found.join("\n")
    );
}
