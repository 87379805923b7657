//! The house rules as tests: ranks of modules, names that only one module may use, a header on each file, file length.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read the sources has failed"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Modules by rank: a module uses only lower ranks, never its own or a higher one.
const RANKS: &[(&str, u8)] = &[
    ("units", 0),
    ("geometry", 0),
    ("jobs", 0),
    ("numeric", 0),
    ("volume", 1),
    ("network", 1),
    ("series", 2),
    ("tiling", 2),
    ("memory", 3),
    ("detect", 3),
    ("engine", 4),
    ("hardware", 4),
    ("review", 5),
    ("exchange", 5),
    ("study", 6),
    ("report", 6),
    ("app", 7),
    ("cli", 8),
    ("ui", 8),
];

/// Crate names and the only modules that may name them.
const OWNED_NAMES: &[(&str, &[&str])] = &[
    ("egui", &["ui"]),
    ("eframe", &["ui"]),
    ("egui_extras", &["ui"]),
    ("egui_plot", &["ui"]),
    ("egui_tiles", &["ui"]),
    ("rfd", &["ui"]),
    ("wgpu", &["ui"]),
    ("winit", &["ui"]),
    ("dicom_core", &["series", "exchange"]),
    ("dicom_dictionary_std", &["series", "exchange"]),
    ("dicom_encoding", &["series", "exchange"]),
    ("dicom_object", &["series", "exchange"]),
    ("dicom_parser", &["series", "exchange"]),
    ("dicom_pixeldata", &["series", "exchange"]),
    ("dicom_transfer_syntax_registry", &["series", "exchange"]),
    ("cudarc", &["engine/cuda"]),
];

/// Modules that may open files.
const OPENS_FILES: &[&str] = &[
    "series", "network", "hardware", "exchange", "study", "report", "app",
];

const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// Files that exist only in tests: declared by `#[cfg(test)]` directly above `mod name;`.
fn test_only(files: &[PathBuf]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(path).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy();
        let folder = match stem.as_ref() {
            "mod" | "lib" | "main" => path.parent().unwrap().to_path_buf(),
            _ => path.with_extension(""),
        };
        for after in text.split("#[cfg(test)]").skip(1) {
            let line = after.trim_start().lines().next().unwrap_or("");
            if let Some(name) = line.strip_prefix("mod ").and_then(|l| l.strip_suffix(';')) {
                out.push(folder.join(format!("{name}.rs")));
                out.push(folder.join(name).join("mod.rs"));
            }
        }
    }
    out
}

/// Every source file of the program as (path below `src` with `/`, its text).
fn sources() -> Vec<(String, String)> {
    let src = root().join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let skipped = test_only(&files);
    files
        .into_iter()
        .filter(|p| !skipped.contains(p))
        .map(|p| {
            let name = p
                .strip_prefix(&src)
                .unwrap()
                .to_string_lossy()
                .replace('\\', "/");
            (name, std::fs::read_to_string(&p).unwrap())
        })
        .collect()
}

/// Lines of code without comments and without the test module at the end of a file.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, l)| l.trim() != "#[cfg(test)]")
        .filter(|(_, l)| !l.trim_start().starts_with("//"))
        .map(|(n, l)| (n + 1, l))
}

fn module_of(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Words of a line that are followed by `::`, preceded by no identifier character.
fn paths_named(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for (at, _) in line.match_indices("::") {
        let head = &line[..at];
        let start = head
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |i| i + 1);
        if !head[..start].ends_with("::") {
            out.push(&head[start..]);
        }
    }
    out
}

#[test]
fn a_module_uses_only_lower_ranks() {
    let ranks: BTreeMap<&str, u8> = RANKS.iter().copied().collect();
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let module = module_of(&file);
        if matches!(module, "main" | "lib") {
            continue;
        }
        let Some(&own) = ranks.get(module) else {
            faults.push(format!("{file}: module {module} has no rank"));
            continue;
        };
        for (n, line) in code(&text) {
            for (at, _) in line.match_indices("crate::") {
                let rest = &line[at + 7..];
                let used: Vec<&str> = if let Some(list) = rest.strip_prefix('{') {
                    list.split(['{', '}', ','])
                        .map(|s| s.trim().split("::").next().unwrap_or(""))
                        .collect()
                } else {
                    vec![
                        rest.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                            .next()
                            .unwrap_or(""),
                    ]
                };
                for name in used {
                    if name != module && ranks.get(name).is_some_and(|&r| r >= own) {
                        faults.push(format!(
                            "src/{file}:{n}: {module} [{own}] uses {name} [{}]",
                            ranks[name]
                        ));
                    }
                }
            }
        }
    }
    assert!(
        faults.is_empty(),
        "modules reach upwards:\n{}",
        faults.join("\n")
    );
}

#[test]
fn only_its_owner_names_a_crate() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        for (n, line) in code(&text) {
            for name in paths_named(line) {
                if let Some((_, owners)) = OWNED_NAMES.iter().find(|(c, _)| *c == name)
                    && !owners
                        .iter()
                        .any(|o| file.starts_with(&format!("{o}/")) || file == format!("{o}.rs"))
                {
                    faults.push(format!("src/{file}:{n}: {name} belongs to {owners:?}"));
                }
            }
        }
    }
    assert!(
        faults.is_empty(),
        "crates named outside their room:\n{}",
        faults.join("\n")
    );
}

#[test]
fn files_are_opened_only_where_they_may_be() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let module = module_of(&file);
        if OPENS_FILES.contains(&module) || matches!(module, "main" | "lib") {
            continue;
        }
        for (n, line) in code(&text) {
            if [
                " fs::",
                "(fs::",
                "std::fs::",
                "File::open",
                "File::create",
                "OpenOptions",
            ]
            .iter()
            .any(|w| line.contains(w))
            {
                faults.push(format!("src/{file}:{n}: {}", line.trim()));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "files opened outside their rooms:\n{}",
        faults.join("\n")
    );
}

#[test]
fn random_cases_are_the_same_at_every_run() {
    let open = concat!("proptest", "! {");
    let faults: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| {
            let mut blocks = text.split(open).skip(1);
            blocks.any(|b| {
                !b.lines()
                    .nth(1)
                    .is_some_and(|l| l.contains("random_cases("))
            })
        })
        .map(|(file, _)| {
            format!("src/{file}: start the block with #![proptest_config(random_cases(N))]")
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_file_says_what_it_is_for_and_stays_short() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        if !text.starts_with("//!") {
            faults.push(format!("src/{file}: no //! header"));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            faults.push(format!("src/{file}: {lines} lines, at most {MAX_LINES}"));
        }
    }
    let main = std::fs::read_to_string(root().join("src/main.rs")).unwrap();
    if main.lines().count() > 80 {
        faults.push("src/main.rs: over 80 lines".to_owned());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_top_level_is_as_agreed() {
    let expected = [
        ".ci",
        ".clippy.toml",
        ".gitignore",
        "ARCHITECTURE.md",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "assets",
        "packaging",
        "shaders",
        "src",
        "tests",
    ];
    let mut extra: Vec<String> = std::fs::read_dir(root())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| !expected.contains(&n.as_str()) && !matches!(n.as_str(), ".git" | "target"))
        .collect();
    extra.sort();
    assert!(extra.is_empty(), "unexpected at the top level: {extra:?}");
}

#[test]
fn unsafe_code_lives_in_the_engines_alone() {
    for (file, text) in sources() {
        for (n, line) in code(&text) {
            let named = line.contains("unsafe ") && !line.contains("unsafe_code");
            assert!(
                !named || file.starts_with("engine/cpu/") || file.starts_with("engine/cuda/"),
                "src/{file}:{n}: unsafe outside the engines"
            );
        }
    }
}
