//! The demo detectors find the phantom's spheres; and the means to make their training data again.

use std::io::Write as _;
use std::path::Path;
use voxfit::geometry::Extent;
use voxfit::volume::Voxels;
use voxfit::volume::phantom::{Phantom, generate};

/// `VOXFIT_DEMO_DATA=DIR cargo test --profile ci --test demo -- --ignored` writes what `assets/demo/train.py` reads.
#[test]
#[ignore = "writes 1.8 GB of training data; run by hand as assets/demo/README.md says"]
fn write_the_phantoms_that_the_demo_networks_are_trained_on() {
    let Some(dir) = std::env::var_os("VOXFIT_DEMO_DATA") else {
        panic!("VOXFIT_DEMO_DATA must name the folder to write to");
    };
    let sets = [
        ("train", "256x256x160", 1000, 30),
        ("train", "320x320x200", 2000, 5),
        ("train", "192x192x128", 3000, 5),
        ("train", "512x512x240", 4000, 3),
        ("train", "224x224x140", 5000, 3),
        ("test", "256x256x160", FRESH, 20),
    ];
    for (split, size, first, count) in sets {
        let folder = Path::new(&dir).join(split);
        std::fs::create_dir_all(&folder).unwrap();
        let extent: Extent = size.parse().unwrap();
        for seed in first..first + count {
            write(
                &folder.join(format!("{size}_{seed}")),
                &generate(extent, seed),
            );
        }
    }
}

/// First seed of the phantoms that no training has seen.
const FRESH: u64 = 900_000;

fn write(stem: &Path, phantom: &Phantom) {
    let Voxels::I16(voxels) = &phantom.volume.voxels else {
        panic!("the phantom is whole HU");
    };
    let Extent { x, y, z } = phantom.volume.extent;
    let mut header =
        format!("{{'descr': '<i2', 'fortran_order': False, 'shape': ({z}, {y}, {x}), }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap();
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(voxels.iter().flat_map(|v| v.to_le_bytes()));
    std::fs::File::create(stem.with_extension("npy"))
        .unwrap()
        .write_all(&bytes)
        .unwrap();
    let spheres: Vec<_> = phantom
        .spheres
        .iter()
        .map(|s| serde_json::json!({"center": s.center_index, "radius": s.radius_mm}))
        .collect();
    let truth = serde_json::json!({
        "size": phantom.volume.extent,
        "spacing": phantom.volume.affine.spacing_mm(),
        "spheres": spheres,
    });
    std::fs::write(stem.with_extension("json"), truth.to_string()).unwrap();
}
