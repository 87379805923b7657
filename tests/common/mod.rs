//! What several tests of the window open.

use tempfile::TempDir;

/// A MONAI bundle with a step that no version knows and without weights: its manifest is proposed.
pub(crate) fn untold_bundle() -> std::io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let configs = folder.path().join("configs");
    std::fs::create_dir_all(&configs)?;
    std::fs::write(
        configs.join("inference.json"),
        r#"{
            "network_def": {
                "_target_": "BasicUNet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                "features": [4, 4, 4, 4, 4, 4]
            },
            "preprocessing": { "_target_": "Compose", "transforms": [
                { "_target_": "LoadImaged", "keys": "image" },
                { "_target_": "Spacingd", "keys": "image", "pixdim": [1.5, 1.5, 2.0] },
                { "_target_": "scripts.transforms.BodyMaskd", "keys": "image" }
            ] },
            "inferer": { "_target_": "SlidingWindowInferer", "roi_size": [32, 32, 32], "overlap": 0.25 }
        }"#,
    )?;
    Ok(folder)
}
