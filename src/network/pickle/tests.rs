//! Files that PyTorch wrote, the same files broken in every way, and pickles that would do harm if anything in them ran.

use super::*;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/checkpoints")
        .join(name)
}

fn refusal(path: &Path) -> String {
    Checkpoint::open(path)
        .and_then(Checkpoint::state)
        .unwrap_err()
        .to_string()
}

#[test]
fn every_container_gives_the_same_tensors() {
    for file in [
        "tensors.pt",
        "tensors-p4.pt",
        "tensors-deflated.pt",
        "tensors-legacy.pt",
    ] {
        let mut state = Checkpoint::open(&golden(file)).unwrap().state().unwrap();
        assert_eq!(state.names().len(), 16, "{file}");
        let base: Vec<f32> = (0..24).map(|n| n as f32).collect();
        let turned: Vec<f32> = (0..4)
            .flat_map(|a| {
                (0..2).flat_map(move |b| (0..3).map(move |c| (b * 12 + c * 4 + a) as f32))
            })
            .collect();
        let expected: &[(&str, &[usize], Vec<f32>)] = &[
            ("f32", &[2, 3, 4], base.iter().map(|v| v * 0.5).collect()),
            ("f64", &[2], vec![1.5, -2.25]),
            ("f16", &[2], vec![0.5, 65504.0]),
            ("bf16", &[2], vec![1.0, -3.0]),
            ("i64", &[2], vec![1.0, -7.0]),
            ("bool", &[2], vec![1.0, 0.0]),
            ("u8", &[2], vec![0.0, 255.0]),
            ("scalar", &[], vec![3.0]),
            ("empty", &[0, 4], vec![]),
            ("turned", &[4, 2, 3], turned),
            ("step", &[3], vec![1.0, 4.0, 7.0]),
            ("shared", &[3, 4], base[12..].to_vec()),
            ("wide", &[3], vec![2.5; 3]),
            ("param", &[2], vec![9.0, 8.0]),
            ("array", &[2, 3], (0..6).map(|n| n as f32).collect()),
            ("fortran", &[2, 3], (0..6).map(|n| n as f32).collect()),
        ];
        for (name, shape, values) in expected {
            assert_eq!(state.shape(name), Some(*shape), "{file} {name}");
            assert_eq!(&state.values(name).unwrap(), values, "{file} {name}");
        }
    }
}

#[test]
fn what_a_trainer_keeps_beside_the_weights_is_read_as_data() {
    let file = Checkpoint::open(&golden("nnunet-like.pth")).unwrap();
    assert_eq!(
        file.text(&["init_args", "configuration"]),
        Some("3d_fullres")
    );
    assert_eq!(file.text(&["init_args", "device"]), Some("cuda/0"));
    assert_eq!(
        file.numbers(&["inference_allowed_mirroring_axes"]),
        Some(vec![0, 1, 2])
    );
    let best = file.find(&["_best_ema"]).unwrap();
    assert_eq!(best, Value::Float(0.75), "a numpy scalar");
    let state = file.state().unwrap();
    assert_eq!(state.names(), ["module.0.bias", "module.0.weight"]);
}

#[test]
fn a_pickle_that_would_run_a_command_is_refused_by_the_name_of_what_it_asks_for() {
    let said = refusal(&golden("calls-os-system.pt"));
    assert!(
        said.contains("posix.system") && said.contains("ever executed"),
        "{said}"
    );
}

#[test]
fn torchscript_is_named_with_the_way_to_export_it() {
    let said = refusal(&golden("script.ts"));
    assert!(
        said.contains("TorchScript") && said.contains("torch.onnx.export"),
        "{said}"
    );
}

/// A pickle in the smallest zip archive.
fn archive(pickle: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.pt");
    std::fs::write(&path, packed(&[("a/data.pkl", pickle)])).unwrap();
    (folder, path)
}

fn packed(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let short = |n: usize| u16::try_from(n).unwrap().to_le_bytes();
    let long = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    for (name, data) in entries {
        let at = out.len();
        let sizes = [long(data.len()), long(data.len())].concat();
        let tail = [&short(name.len())[..], &[0; 2]].concat();
        out.extend(
            [
                b"PK\x03\x04",
                &[0; 14][..],
                &sizes,
                &tail,
                name.as_bytes(),
                data,
            ]
            .concat(),
        );
        directory.extend(
            [
                b"PK\x01\x02",
                &[0; 16][..],
                &sizes,
                &tail,
                &[0; 10],
                &long(at),
                name.as_bytes(),
            ]
            .concat(),
        );
    }
    let at = out.len();
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0\0\0");
    out.extend(short(entries.len()));
    out.extend(long(directory.len()));
    out.extend(long(at));
    out.extend([0, 0]);
    out
}

fn refused_pickle(pickle: &[u8]) -> String {
    let (_folder, path) = archive(pickle);
    refusal(&path)
}

#[test]
fn each_fault_of_a_pickle_is_answered_with_what_is_wrong() {
    let deep = [&b"\x80\x02"[..], &b"]".repeat(200_000), b"."].concat();
    for (fault, pickle, words) in [
        ("it has no end", &b"\x80\x02}"[..], "ends early"),
        ("an old protocol", b"\x80\x00.", "protocol 2 to 5"),
        ("an empty stack", b"\x80\x02.", "empty stack"),
        (
            "a text longer than the file",
            b"\x80\x02X\xff\xff\xff\x7fabc.",
            "ends early",
        ),
        (
            "a length past 64 bits",
            b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            "ends early",
        ),
        ("a recall of nothing", b"\x80\x02h\x07.", "did not remember"),
        ("a far memo", b"\x80\x02Nr\xff\xff\xff\x7f.", "remembers"),
        ("a mark past its own", b"\x80\x02N(\x85.", "past a mark"),
        (
            "a key without a value",
            b"\x80\x02}(Nu.",
            "key without a value",
        ),
        (
            "an append to a number",
            b"\x80\x02K\x01Na.",
            "expected a list",
        ),
        ("a call of a number", b"\x80\x02K\x01)R.", "expected a name"),
        (
            "builtins.eval",
            b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
            "builtins.eval",
        ),
        ("an extension", b"\x80\x02\x82\x01.", "EXT"),
        ("an old instance", b"\x80\x02(ios\nsystem\n.", "INST"),
        (
            "a getattr",
            b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
            "builtins.getattr",
        ),
        (
            "a whole module",
            b"\x80\x02cmonai.networks.nets.unet\nUNet\n.",
            "state_dict",
        ),
        ("a nest of lists", &deep, "dictionary of tensors"),
        ("a number alone", b"\x80\x02K\x01.", "dictionary of tensors"),
        (
            "other keys",
            b"\x80\x02}X\x01\x00\x00\x00aK\x01s.",
            "with the keys a",
        ),
        (
            "an outside thing that is no storage",
            b"\x80\x02K\x01Q.",
            "must be a tuple",
        ),
    ] {
        let said = refused_pickle(pickle);
        assert!(
            said.contains(words) && said.ends_with("f.pt"),
            "{fault}: {said}"
        );
    }
}

fn tensor(storage: &str, numbers: &str, shape: &str, stride: &str) -> Vec<u8> {
    format!(
        "\u{2}}}X\u{1}\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\u{7}\0\0\0storagectorch\n{storage}\nX\u{1}\0\0\x000X\u{3}\0\0\0cpu{numbers}tQK\0({shape}t({stride}t\u{89}NtRs."
    )
    .chars()
    .fold(vec![0x80], |mut v, c| {
        v.push(u8::try_from(u32::from(c)).unwrap());
        v
    })
}

#[test]
fn a_tensor_that_reaches_past_its_storage_is_refused_before_a_value_is_read() {
    let open = |pickle: &[u8], data: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.pt");
        std::fs::write(&path, packed(&[("a/data.pkl", pickle), ("a/data/0", data)])).unwrap();
        Checkpoint::open(&path)
            .and_then(Checkpoint::state)
            .map(|mut s| s.values("w").unwrap())
            .map_err(|e| e.to_string())
    };
    let two = [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat();
    let good = tensor("FloatStorage", "K\u{2}", "K\u{2}", "K\u{1}");
    assert_eq!(open(&good, &two).unwrap(), [1.0, 2.0]);
    let huge = "\u{8a}\u{8}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{7f}";
    for (fault, pickle, words) in [
        (
            "three of two",
            tensor("FloatStorage", "K\u{2}", "K\u{3}", "K\u{1}"),
            "reaches past",
        ),
        (
            "a long step",
            tensor("FloatStorage", "K\u{2}", "K\u{2}", "K\u{9}"),
            "reaches past",
        ),
        (
            "a size past 64 bits",
            tensor("FloatStorage", "K\u{2}", &huge.repeat(2), "K\u{1}K\u{1}"),
            "reaches past",
        ),
        (
            "a bomb of one value",
            tensor("FloatStorage", "K\u{2}", huge, "K\0"),
            "reaches past",
        ),
        (
            "a bomb of one value that is within all sizes",
            tensor("FloatStorage", "K\u{2}", "J\0\0\0\u{8}", "K\0"),
            "repeat what their storages hold",
        ),
        (
            "a storage that is a part of another",
            tensor(
                "FloatStorage",
                "K\u{2}(X\u{1}\0\0\0vK\u{1}K\u{1}t",
                "K\u{2}",
                "K\u{1}",
            ),
            "part of another",
        ),
        (
            "a negative size",
            tensor(
                "FloatStorage",
                "K\u{2}",
                "J\u{ff}\u{ff}\u{ff}\u{ff}",
                "K\u{1}",
            ),
            "size of -1",
        ),
        (
            "a size in words",
            tensor("FloatStorage", "K\u{2}", "N", "K\u{1}"),
            "None for a size",
        ),
        (
            "more storage than bytes",
            tensor("FloatStorage", "K\u{5}", "K\u{2}", "K\u{1}"),
            "should have 20 bytes, found 8",
        ),
        (
            "a storage of complex numbers",
            tensor("ComplexFloatStorage", "K\u{2}", "K\u{2}", "K\u{1}"),
            "ComplexFloatStorage",
        ),
        (
            "more axes than any tensor",
            tensor(
                "FloatStorage",
                "K\u{2}",
                &"K\u{1}".repeat(17),
                &"K\u{1}".repeat(17),
            ),
            "17 axes",
        ),
    ] {
        let said = open(&pickle, &two).unwrap_err();
        assert!(said.contains(words), "{fault}: {said}");
    }
}

#[test]
fn a_pickle_that_repeats_itself_into_a_bomb_is_stopped() {
    // A tuple of a thousand values, handed to a name again and again.
    let mut pickle = b"\x80\x02(".to_vec();
    pickle.extend(b"N".repeat(1000));
    pickle.extend(b"tq\x00ccollections\nOrderedDict\nq\x01");
    for _ in 0..10_000 {
        pickle.extend(b"h\x01h\x00R0");
    }
    pickle.push(b'.');
    let start = std::time::Instant::now();
    let said = refused_pickle(&pickle);
    assert!(said.contains("more than 8000000 values"), "{said}");
    assert!(start.elapsed().as_secs() < 5);
}

#[test]
fn a_file_cut_anywhere_or_with_any_byte_changed_never_panics() {
    for file in [
        "tensors.pt",
        "tensors-deflated.pt",
        "tensors-legacy.pt",
        "nnunet-like.pth",
    ] {
        let bytes = std::fs::read(golden(file)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.pt");
        let try_one = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            if let Ok(mut s) = Checkpoint::open(&path).and_then(Checkpoint::state) {
                let names: Vec<String> = s.names().iter().map(|n| (*n).to_owned()).collect();
                for name in names {
                    let _any = s.values(&name);
                }
            }
        };
        for cut in (0..bytes.len()).step_by(41) {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(refusal(&path).ends_with("f.pt"), "{file} cut at {cut}");
        }
        for at in (0..bytes.len()).step_by(13) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x5a;
            try_one(&changed);
        }
    }
}

#[test]
fn files_that_are_something_else_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.pt");
    let mut tar = vec![0u8; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, words) in [
        (
            &b"version https://git-lfs.github.com/spec/v1\noid sha256:00"[..],
            "git lfs pull",
        ),
        (&tar, "tar file"),
        (b"hello", "does not begin"),
        (b"", "does not begin"),
        (b"PK\x03\x04", "no zip directory"),
        (&packed(&[("a/b", b"x")]), "without data.pkl"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let said = refusal(&path);
        assert!(said.contains(words) && said.ends_with("f.pt"), "{said}");
    }
    assert!(refusal(folder.path()).contains("found a folder"));
}
