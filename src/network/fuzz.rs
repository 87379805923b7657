//! Broken files of every kind that is read here, made from good ones: run by hand, for as long as is asked.
//! `VOXFIT_FUZZ_SECONDS=600 cargo test --profile ci --lib network::fuzz -- --ignored --nocapture`

use super::{Choice, facts, open_choice};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No broken file may take longer.
const MOST: Duration = Duration::from_secs(20);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn below(rng: &mut Pcg64Mcg, n: usize) -> usize {
    usize::try_from(rng.next_u64() % (n.max(1) as u64)).unwrap()
}

/// One to sixteen changes: bytes flipped, cut, doubled, overwritten by telling ones; numbers and words swapped in text.
fn broken(rng: &mut Pcg64Mcg, mut bytes: Vec<u8>, other: &[u8]) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "-1",
        "0",
        "99999999999999999999",
        "1e308",
        "null",
        "true",
        "[]",
        "{}",
        "\"@network_def\"",
        "\"$@a + @b\"",
        "[[[[[[[[",
        "\"%x.json#a\"",
        "*a",
        "&a",
        "\u{0}",
        "\"3d_fullres\"",
    ];
    for _ in 0..=below(rng, 16) {
        let n = bytes.len();
        let at = below(rng, n);
        match below(rng, 8) {
            0 if n > 0 => bytes[at] ^= 1 << below(rng, 8),
            1 => bytes.truncate(at),
            2 => {
                let end = (at + below(rng, 64)).min(n);
                let piece = bytes[at.min(n)..end].to_vec();
                bytes.splice(at.min(n)..at.min(n), piece);
            }
            3 => {
                let end = (at + below(rng, 64)).min(n);
                bytes.drain(at.min(n)..end);
            }
            4 if n > 0 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'(', b'R', b't', b'.'][below(rng, 8)],
            5 => {
                let word = WORDS[below(rng, WORDS.len())].as_bytes().to_vec();
                let end = (at + below(rng, 8)).min(n);
                bytes.splice(at.min(n)..end, word);
            }
            6 if !other.is_empty() => {
                let from = below(rng, other.len());
                let end = (from + below(rng, 256)).min(other.len());
                bytes.splice(at.min(n)..at.min(n), other[from..end].to_vec());
            }
            _ if n >= 8 => {
                let at = at.min(n - 8);
                let huge = [u64::MAX, 1 << 63, 1 << 32, 0][below(rng, 4)].to_le_bytes();
                bytes[at..at + 8].copy_from_slice(&huge);
            }
            _ => {}
        }
    }
    bytes
}

#[test]
#[ignore = "runs as long as VOXFIT_FUZZ_SECONDS says"]
fn broken_networks_are_answered_within_bounded_time() {
    let seconds = std::env::var("VOXFIT_FUZZ_SECONDS").map_or(60, |s| s.parse().unwrap());
    let seed: u64 = std::env::var("VOXFIT_FUZZ_SEED").map_or(1, |s| s.parse().unwrap());
    println!("seed {seed}, {seconds} s");
    let results = "nnunet/nnUNetTrainer__nnUNetPlans__3d_fullres";
    let bundle = "bundles/unet_plain_aniso";
    let read = |name: &str| std::fs::read(golden(name)).unwrap();
    let checkpoint = read(&format!("{results}/fold_0/checkpoint_final.pth"));
    let plans = read(&format!("{results}/plans.json"));
    let data = read(&format!("{results}/dataset.json"));
    let config = read(&format!("{bundle}/configs/inference.json"));
    let model = read(&format!("{bundle}/models/model.pt"));
    let yaml = b"network_def: &a {_target_: BasicUNet, features: [4, 4, 4, 4, 4, 4]}\nnet: *a\npreprocessing: {_target_: Compose, transforms: [{_target_: LoadImaged, keys: image}, {_target_: Spacingd, keys: image, pixdim: '$[1, 1, 1] if @a else @b'}]}\na: true\nb: '@a'\n".to_vec();
    // What the word "%x.json#a" asks for.
    let other = br#"{"a": {"_target_": "UNet", "channels": "%x.json#b"}, "b": [4, "@a"]}"#;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let put = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut opened, mut slowest) = (0u64, 0u64, Duration::ZERO);
    let mut number = seed;
    while Instant::now() < end {
        let mut rng = Pcg64Mcg::seed_from_u64(number);
        let kind = below(&mut rng, 6);
        let mut hit = |bytes: &[u8], other: &[u8]| broken(&mut rng, bytes.to_vec(), other);
        let at = match kind {
            0 => {
                put("r/plans.json", &plans);
                put("r/dataset.json", &data);
                put("r/fold_0/checkpoint_final.pth", &hit(&checkpoint, &model));
                "r"
            }
            1 => {
                put("p/plans.json", &hit(&plans, &config));
                put("p/dataset.json", &data);
                "p/plans.json"
            }
            2 => {
                put("d/plans.json", &plans);
                put("d/dataset.json", &hit(&data, &plans));
                "d/plans.json"
            }
            3 => {
                put("b/configs/x.json", other);
                put("b/configs/inference.json", &hit(&config, &plans));
                "b"
            }
            4 => {
                put("m/configs/inference.json", &config);
                put("m/models/model.pt", &hit(&model, &checkpoint));
                "m"
            }
            _ => {
                put("y/configs/x.json", other);
                put("y/configs/inference.yaml", &hit(&yaml, &config));
                "y"
            }
        };
        let start = Instant::now();
        let path = root.join(at);
        let made = std::panic::catch_unwind(|| {
            open_choice(path.to_str().unwrap(), &Choice::default())
                .map(|m| facts::of(&m.graph).is_ok())
        });
        let took = start.elapsed();
        assert!(made.is_ok(), "number {number} ({at}) panicked");
        assert!(took < MOST, "number {number} ({at}) took {took:?}");
        opened += u64::from(made.is_ok_and(|m| m.is_ok()));
        slowest = slowest.max(took);
        tried += 1;
        number += 1;
    }
    println!(
        "{tried} files, {opened} opened, the slowest took {slowest:?}, the next number is {number}"
    );
}
