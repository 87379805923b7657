//! Entries of the file menu: open, save, export.

use super::{CommandInfo, Menu, c, now, typed};
use crate::app::command::Command;
use crate::app::keys::Chord;
use crate::app::parse;
use crate::app::why;

pub(super) fn file() -> Vec<CommandInfo> {
    use Menu::File as M;
    vec![
        now(
            M,
            Command::OpenFolderDialog,
            "Open folder\u{2026}",
            "A folder of DICOM files, with all its series.",
        )
        .key(Chord::ctrl(c('O'))),
        now(
            M,
            Command::OpenFileDialog,
            "Open file\u{2026}",
            "DICOM, NIfTI, MHD, npy, a network, a plan or a result.",
        ),
        now(
            M,
            Command::OpenNetworkDialog,
            "Open network\u{2026}",
            "An ONNX file, nnU-Net plans or a MONAI bundle.",
        )
        .key(Chord::ctrl_shift(c('O'))),
        now(
            M,
            Command::CompareDialog,
            "Compare with a result\u{2026}",
            "Of Voxfit, MONAI, LUNA16 or Slicer, held against the result that is shown.",
        ),
        typed(
            M,
            "CompareWith",
            "Compare with path",
            "reference.json",
            |t, _| parse::path(t).map(Command::CompareWith),
        ),
        typed(M, "Open", "Open path", "/data/study-0412", parse::open),
        typed(
            M,
            "OpenStudy",
            "Open generated study",
            "phantom:512x512x192",
            parse::open_study,
        ),
        typed(M, "OpenRecent", "Open recent item", "1", parse::recent).when(why::no_recent),
        now(
            M,
            Command::ClearRecent,
            "Clear recent items",
            "Forgets what was opened before.",
        )
        .palette_only()
        .when(why::no_recent),
        typed(M, "SelectSeries", "Load series", "2", parse::series).when(why::no_series),
        now(
            M,
            Command::SetStraightGrid(true),
            "Resample to a straight grid",
            "Linear, for a series that leans (gantry tilt), has gaps or uneven steps.",
        )
        .when(why::no_straight_grid),
        now(
            M,
            Command::SetStraightGrid(false),
            "Show the series as stored",
            "Undoes the resampling to a straight grid.",
        )
        .when(why::no_stored_grid),
        now(
            M,
            Command::TryDemo,
            "Try the demo",
            "A generated chest phantom and a small network; no files needed.",
        ),
        typed(
            M,
            "PlanWithoutData",
            "Plan without data",
            "512x512x192",
            parse::plan_without_data,
        ),
    ]
}

pub(super) fn save() -> Vec<CommandInfo> {
    use Menu::File as M;
    vec![
        now(
            M,
            Command::SavePlan,
            "Save plan",
            "Keeps network, roi, overlap and cards in a .voxplan file.",
        )
        .key(Chord::ctrl(c('S'))),
        now(
            M,
            Command::SavePlanDialog,
            "Save plan as\u{2026}",
            "Asks for another file.",
        ),
        typed(
            M,
            "SavePlanTo",
            "Save plan to path",
            "trial.voxplan",
            |t, _| parse::path(t).map(Command::SavePlanTo),
        ),
        now(
            M,
            Command::ExportReportDialog,
            "Export report\u{2026}",
            "One self-contained page, identity masked.",
        )
        .key(Chord::ctrl(c('E')))
        .when(why::no_plan),
        typed(
            M,
            "ExportReportTo",
            "Export report to path",
            "report.html",
            |t, _| parse::path(t).map(Command::ExportReportTo),
        )
        .when(why::no_plan),
        now(
            M,
            Command::SaveResultDialog,
            "Save result\u{2026}",
            "The result file of the last run.",
        )
        .when(why::no_result),
        typed(
            M,
            "SaveResultTo",
            "Save result to path",
            "result.json",
            |t, _| parse::path(t).map(Command::SaveResultTo),
        )
        .when(why::no_result),
        now(
            M,
            Command::SaveManifestDialog,
            "Save manifest\u{2026}",
            "Beside the network, where it can be changed and is read when the network is opened.",
        )
        .when(why::no_manifest_file),
        typed(
            M,
            "SaveManifestTo",
            "Save manifest to path",
            "network.voxfit.toml",
            |t, _| parse::path(t).map(Command::SaveManifestTo),
        )
        .when(why::no_network),
        now(
            M,
            Command::ExportVolumeDialog,
            "Export volume\u{2026}",
            "The loaded volume as NIfTI.",
        )
        .when(why::no_volume),
        typed(
            M,
            "ExportVolumeTo",
            "Export volume to path",
            "volume.nii.gz",
            |t, _| parse::path(t).map(Command::ExportVolumeTo),
        )
        .when(why::no_volume),
        now(
            M,
            Command::ScreenshotDialog,
            "Screenshot\u{2026}",
            "The window as a picture, identity masked.",
        )
        .key(Chord::ctrl_shift(c('S'))),
        typed(
            M,
            "ScreenshotTo",
            "Screenshot to path",
            "voxfit.png",
            |t, _| parse::path(t).map(Command::ScreenshotTo),
        ),
        now(
            M,
            Command::PictureTaken,
            "End a screenshot",
            "Names are shown again, if they were; it ends by itself.",
        )
        .palette_only()
        .when(why::no_picture),
        now(
            M,
            Command::NoDialog,
            "Open without a file dialog",
            "Says how, on a machine whose dialogs do not open.",
        )
        .palette_only(),
        now(M, Command::CloseStudy, "Close study", "Keeps the plan.").when(why::no_study),
        now(M, Command::Quit, "Quit", "Leaves the program.").key(Chord::ctrl(c('Q'))),
    ]
}
