//! Entries of the plan menu.

use super::{CommandInfo, Menu, c, now, typed};
use crate::app::buying;
use crate::app::command::Command;
use crate::app::document::{Display, Mode, Optimizer, Runtime, StitchOn};
use crate::app::keys::Chord;
use crate::app::parse;
use crate::app::why;
use crate::memory::Precision;
use crate::tiling::{Blend, Layout};

pub(super) fn plan() -> Vec<CommandInfo> {
    use Menu::Plan as M;
    vec![
        now(M, Command::Undo, "Undo", "Back to the previous choice.")
            .key(Chord::ctrl(c('Z')))
            .when(why::no_undo),
        now(M, Command::Redo, "Redo", "Forward again.")
            .key(Chord::ctrl_shift(c('Z')))
            .when(why::no_redo),
        now(
            M,
            Command::SetLayout(Layout::Monai),
            "Layout: MONAI",
            "Windows as sliding_window_inference places them.",
        ),
        now(
            M,
            Command::SetLayout(Layout::Nnunet),
            "Layout: nnU-Net",
            "Evenly spread steps.",
        ),
        now(
            M,
            Command::SetLayout(Layout::Aligned),
            "Layout: aligned",
            "Starts at multiples of the stride, halo thrown away: exact where it can be.",
        ),
        now(
            M,
            Command::SetBlend(Blend::Constant),
            "Blend: constant",
            "Every voxel of a window weighs the same.",
        ),
        now(
            M,
            Command::SetBlend(Blend::Gaussian),
            "Blend: Gaussian",
            "The middle of a window weighs more.",
        ),
        now(
            M,
            Command::SetRuntime(Runtime::Voxfit),
            "Runtime: Voxfit",
            "Planned to the byte.",
        ),
        now(
            M,
            Command::SetRuntime(Runtime::Pytorch),
            "Runtime: PyTorch",
            "Modelled, with what cannot be known as a range.",
        ),
    ]
}

pub(super) fn training() -> Vec<CommandInfo> {
    use Menu::Plan as M;
    let precision = |p, name, tip| now(M, Command::SetPrecision(p), name, tip);
    vec![
        now(
            M,
            Command::SetMode(Mode::Inference),
            "Mode: inference",
            "Forward only.",
        ),
        now(
            M,
            Command::SetMode(Mode::Training),
            "Mode: training",
            "Forward, backward and optimizer step.",
        ),
        now(
            M,
            Command::SetOptimizer(Optimizer::None),
            "Optimizer: none",
            "No state.",
        )
        .palette_only(),
        now(
            M,
            Command::SetOptimizer(Optimizer::Sgd),
            "Optimizer: SGD",
            "One momentum a parameter.",
        )
        .palette_only(),
        now(
            M,
            Command::SetOptimizer(Optimizer::Adam),
            "Optimizer: Adam",
            "Two moments a parameter.",
        )
        .palette_only(),
        now(
            M,
            Command::SetOptimizer(Optimizer::AdamW),
            "Optimizer: AdamW",
            "Two moments a parameter.",
        )
        .palette_only(),
        now(
            M,
            Command::SetCheckpointing(true),
            "Checkpointing on",
            "Activations are computed twice and kept once.",
        )
        .palette_only(),
        now(
            M,
            Command::SetCheckpointing(false),
            "Checkpointing off",
            "All activations are kept.",
        )
        .palette_only(),
        now(
            M,
            Command::SetExpandableSegments(true),
            "Expandable segments on",
            "PyTorch's allocator grows one segment by pages and wastes less.",
        )
        .palette_only(),
        now(
            M,
            Command::SetExpandableSegments(false),
            "Expandable segments off",
            "PyTorch's allocator keeps segments of their own, its default.",
        )
        .palette_only(),
        precision(Precision::Fp32, "Precision: fp32", "4 bytes a value."),
        precision(Precision::Fp16, "Precision: fp16", "2 bytes a value."),
        precision(
            Precision::Bf16,
            "Precision: bf16",
            "2 bytes a value, the range of fp32.",
        )
        .palette_only(),
        precision(
            Precision::Amp,
            "Precision: AMP",
            "PyTorch's autocast; planning only.",
        ),
        now(
            M,
            Command::SetStitchOn(StitchOn::Card),
            "Stitch on the card",
            "Outputs in the card's memory.",
        )
        .palette_only(),
        now(
            M,
            Command::SetStitchOn(StitchOn::Host),
            "Stitch on the host",
            "Outputs in the host's memory.",
        )
        .palette_only(),
        now(
            M,
            Command::SetDisplay(Display::Headless),
            "Display: headless",
            "The card shows nothing.",
        )
        .palette_only(),
        now(
            M,
            Command::SetDisplay(Display::Desktop),
            "Display: desktop",
            "The card shows a Linux desktop.",
        )
        .palette_only(),
        now(
            M,
            Command::SetDisplay(Display::Windows),
            "Display: Windows",
            "The card shows a Windows desktop.",
        )
        .palette_only(),
    ]
}

pub(super) fn layers() -> Vec<CommandInfo> {
    use Menu::Plan as M;
    vec![
        now(
            M,
            Command::ShowLayers,
            "Network layers",
            "Every layer with shape, bytes, FLOPs and reach; again for the budget.",
        )
        .key(Chord::ctrl(c('L')))
        .when(why::no_network),
        typed(
            M,
            "SearchLayers",
            "Search layers",
            "conv, 1x32x128 or 32 128; empty for all",
            |t, _| Ok(Command::SearchLayers(t.to_owned())),
        )
        .when(why::no_layers),
        typed(M, "FoldStage", "Fold or unfold stage", "1", parse::stage).when(why::no_layers),
        now(
            M,
            Command::FoldAllStages(true),
            "Fold all stages",
            "One line for each resolution, with its sums.",
        )
        .palette_only()
        .when(why::no_layers),
        now(
            M,
            Command::FoldAllStages(false),
            "Unfold all stages",
            "Every layer.",
        )
        .palette_only()
        .when(why::no_layers),
    ]
}

pub(super) fn plan_typed() -> Vec<CommandInfo> {
    use Menu::Plan as M;
    vec![
        typed(M, "SetNetwork", "Network", "preset:demo", parse::network),
        typed(
            M,
            "SetWeights",
            "Weights",
            "seeded:1 or a path to .safetensors; empty for the network's own",
            parse::weights,
        )
        .when(why::no_plan),
        now(
            M,
            Command::OpenWeightsDialog,
            "Open weights\u{2026}",
            "A .safetensors file for the network of the plan.",
        )
        .when(why::no_plan),
        typed(
            M,
            "SetRoi",
            "Window size (roi)",
            "128x128x64; 0 or -1 for a whole axis",
            parse::roi,
        ),
        typed(
            M,
            "SetOverlap",
            "Overlap",
            "0.25 or 0.25,0.25,0.5",
            parse::overlap,
        ),
        typed(M, "SetBatch", "Batch", "1", |t, _| {
            parse::count(t).map(Command::SetBatch)
        }),
        typed(
            M,
            "SetMemoryLimit",
            "Memory limit of the arena (larger windows run in tiles)",
            "3.6 GiB; none for whole maps",
            parse::memory_limit,
        ),
        typed(
            M,
            "ToggleCard",
            "Show or hide a card",
            "rtx-5070-ti",
            parse::toggle_card,
        ),
        typed(
            M,
            "FocusCard",
            "Card in focus",
            "rtx-5070-ti",
            parse::focus_card,
        ),
        now(
            M,
            Command::ShowCalibration,
            "Calibrate",
            "Measured peaks, the line through them, and the largest batch for each card.",
        ),
        typed(
            M,
            "SetPoints",
            "Measured points",
            "64=10.6 GiB, 100=22 GiB",
            |t, _| parse::points(t).map(|_points| Command::SetPoints(t.trim().to_owned())),
        ),
        now(
            M,
            Command::AddMeasuredPoint,
            "Add the last run to the measured points",
            "Slices of its window and the highest byte that its arena used.",
        )
        .palette_only()
        .when(why::no_result),
        typed(M, "SetStudiesPerDay", "Studies a day", "500", |t, _| {
            buying::studies(t).map(Command::SetStudiesPerDay)
        }),
        typed(M, "SetCost", "Figure of cost", "life_years=5", |t, _| {
            buying::cost(t).map(Command::SetCost)
        }),
        typed(M, "ApplyFix", "Apply fix", "1", parse::fix).when(why::no_fixes),
    ]
}
