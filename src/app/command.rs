//! Everything that a user can do, as one enum. Menu, shortcut, palette, command line and tests send the same commands.

use super::document::{
    Display, EngineChoice, Mode, Optimizer, Runtime, SeriesRef, StitchOn, WindowLevel,
};
use super::settings::Theme;
use super::view::{Filter, Layer, SeamMap, SortBy, Workspace};
use crate::geometry::{Axis, Extent, Plane};
use crate::hardware::Knob;
use crate::memory::Precision;
use crate::tiling::{Blend, Layout};
use crate::units::Bytes;
use std::path::PathBuf;

/// Declares the enum together with the list of its variants, so that a test can hold the table against it.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $(($ty:ty))?,)+) => {
        /// One action of the user.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Command {
            $($(#[$doc])* $name $(($ty))?,)+
        }

        impl Command {
            /// The names of all variants.
            pub const VARIANTS: &'static [&'static str] = &[$(stringify!($name)),+];

            /// The variant's name.
            pub const fn variant(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)+
                }
            }
        }
    };
}

commands! {
    // File.
    /// Ask for a folder and open it.
    OpenFolderDialog,
    /// Ask for a file (DICOM, `NIfTI`, MHD, npy, plan, network, result) and open it.
    OpenFileDialog,
    /// Ask for a network file and open it.
    OpenNetworkDialog,
    /// Open a folder or file of any kind: argument, drop and dialog all end here.
    Open(PathBuf),
    /// Open `phantom:XxYxZ[:SEED]` or a path given as text.
    OpenStudy(String),
    /// Open the recent item at this place of the list.
    OpenRecent(usize),
    /// Forget the recent items.
    ClearRecent,
    /// Load this series of the open study.
    SelectSeries(SeriesRef),
    /// Resample the series (linear) to a straight grid, or show it as stored.
    SetStraightGrid(bool),
    /// Generate the demo study and take the demo network.
    TryDemo,
    /// Close the study and plan for this size.
    PlanWithoutData(Extent),
    /// Save the plan where it was saved last, or ask.
    SavePlan,
    /// Ask where to save the plan.
    SavePlanDialog,
    /// Save the plan here.
    SavePlanTo(PathBuf),
    /// Ask where to write the report.
    ExportReportDialog,
    /// Write the report here.
    ExportReportTo(PathBuf),
    /// Ask where to write the result file.
    SaveResultDialog,
    /// Write the result file here.
    SaveResultTo(PathBuf),
    /// Ask where to save the network's manifest, to be changed there.
    SaveManifestDialog,
    /// Save the network's manifest here.
    SaveManifestTo(PathBuf),
    /// Ask where to write the volume as `NIfTI`.
    ExportVolumeDialog,
    /// Write the volume as `NIfTI` here.
    ExportVolumeTo(PathBuf),
    /// Ask where to write a picture of the window (identity masked).
    ScreenshotDialog,
    /// Write a picture of the window here.
    ScreenshotTo(PathBuf),
    /// The picture of the window is there: show names again if the settings say so.
    PictureTaken,
    /// No file dialog opens on this machine: say what to do instead.
    NoDialog,
    /// Close the study, keep the plan.
    CloseStudy,
    /// Leave the program.
    Quit,

    // Plan.
    /// Take this network (a file or `preset:NAME`).
    SetNetwork(String),
    /// Take these weights (`F.safetensors` or `seeded:N`); `None` for those that come with the network.
    SetWeights(Option<String>),
    /// Ask for a file with weights.
    OpenWeightsDialog,
    /// Window size as typed, x y z.
    SetRoi([i64; 3]),
    /// Share of the window per axis.
    SetOverlap([f64; 3]),
    /// Importance map.
    SetBlend(Blend),
    /// Placement rule.
    SetLayout(Layout),
    /// Whose runtime the budget is for.
    SetRuntime(Runtime),
    /// Inference or training.
    SetMode(Mode),
    /// Optimizer of a training budget.
    SetOptimizer(Optimizer),
    /// Activation checkpointing on or off.
    SetCheckpointing(bool),
    /// `expandable_segments` of PyTorch's allocator, on or off.
    SetExpandableSegments(bool),
    /// How values are stored.
    SetPrecision(Precision),
    /// Windows per forward pass, or the training batch.
    SetBatch(usize),
    /// Most bytes of the arena, so that larger windows run in tiles; `None` for whole maps.
    SetMemoryLimit(Option<Bytes>),
    /// Where outputs are stitched.
    SetStitchOn(StitchOn),
    /// What else the card shows.
    SetDisplay(Display),
    /// Show or hide a card in the budget plot.
    ToggleCard(String),
    /// The card that verdict and fixes speak of.
    FocusCard(String),
    /// Take the fix at this place of the list.
    ApplyFix(usize),
    /// Show the network's manifest, field by field, with where each comes from.
    ShowManifest,
    /// Take the manifest that was proposed for a network without one, so that it can be run.
    AcceptManifest,
    /// Begin a worked example: the study is closed, the plan becomes the example's.
    StartTour(super::tour::Tour),
    /// The next step of the tour (true) or the one before.
    StepTour(bool),
    /// Leave the tour; the plan stays.
    EndTour,
    /// Show measured points and the line through them.
    ShowCalibration,
    /// Measured points as typed, X=BYTES joined by commas.
    SetPoints(String),
    /// Studies a day that cards are bought for.
    SetStudiesPerDay(f64),
    /// A figure that costs are reckoned with.
    SetCost((Knob, f64)),
    /// Add what the last run measured to the points.
    AddMeasuredPoint,
    /// Allow one pass over the whole volume, for the next run only.
    AllowSinglePass(bool),
    /// Back to the previous choice.
    Undo,
    /// Forward to the choice that was undone.
    Redo,

    /// Show the network's layers in the Plan workspace, or the budget again.
    ShowLayers,
    /// Search the layers by name, operation or shape.
    SearchLayers(String),
    /// Fold a stage of the layer list, or unfold it.
    FoldStage(usize),
    /// Fold all stages, or none.
    FoldAllStages(bool),

    // Run.
    /// Run the plan on the study.
    Run,
    /// Stop the run.
    CancelRun,
    /// Stop the job with this number.
    CancelJob(u64),
    /// Which engine runs.
    SetEngine(EngineChoice),
    /// Look again at what can run here.
    ProbeEngines,

    // View.
    /// Show a workspace.
    ShowWorkspace(Workspace),
    /// One plane large.
    ShowLarge(Plane),
    /// The three planes.
    ShowMpr,
    /// Zoom, position and window level as they were at first.
    ResetView,
    /// One step in.
    ZoomIn,
    /// One step out.
    ZoomOut,
    /// The whole slice in view.
    ZoomToFit,
    /// Black for white.
    Invert,
    /// One slice, then the maximum, mean and minimum of 10 mm.
    NextSlab,
    /// Play the slices of the active plane one after the other, or stop.
    ToggleCine,
    /// Show or hide a layer.
    ToggleLayer(Layer),
    /// Hide every overlay while true.
    HideOverlays(bool),
    /// Move this many slices up (down when negative) in the active plane.
    Scroll(i64),
    /// Scroll this plane by so many slices.
    ScrollPlane((Plane, i64)),
    /// First (lowest index) slice of the active plane.
    FirstSlice,
    /// Last slice of the active plane.
    LastSlice,
    /// Show this slice of this plane.
    GoToSlice((Plane, usize)),
    /// Put the crosshair on this voxel.
    SetCrosshair([f64; 3]),
    /// Say which plane keys go to.
    Activate(Plane),
    /// Window level by number: 1 soft to 7 full, 0 the series' own.
    WindowLevelPreset(u8),
    /// Window level by figures.
    SetWindowLevel(WindowLevel),

    // Review.
    /// The next detection of the list.
    NextDetection,
    /// The one before.
    PreviousDetection,
    /// Select a row of the list and go there.
    SelectDetection(usize),
    /// Hide detections below.
    SetScoreThreshold(f32),
    /// 0.05 higher.
    RaiseScoreThreshold,
    /// 0.05 lower.
    LowerScoreThreshold,
    /// Sort the list by this column; the same column again turns the order round.
    SortDetections(SortBy),
    /// Show all or only some.
    FilterDetections(Filter),
    /// Ask for a result to hold the run against.
    CompareDialog,
    /// Hold the run against this result, of any program.
    CompareWith(PathBuf),
    /// Hold later runs against the result that is there now.
    HoldAsReference,
    /// Take the reference away.
    DropReference,
    /// Select a finding that only the reference has, by its place in the match, and go there.
    SelectReference(usize),
    /// The next seam of the table, worst first.
    NextSeam,
    /// The one before.
    PreviousSeam,
    /// Select the seam across this axis at this voxel of the prepared volume, and go there.
    SelectSeam((Axis, usize)),
    /// What lies over the slice of the Seams workspace.
    ShowSeamMap(SeamMap),
    /// Show the reference in the run's place while true.
    Flicker(bool),

    // Tools and help.
    /// Search all commands.
    ShowPalette,
    /// Show all keys.
    ShowKeys,
    /// Show the settings.
    ShowSettings,
    /// Show the jobs list.
    ShowJobs,
    /// Show the messages.
    ShowMessages,
    /// Show what a yellow strip speaks of: the series' warnings and skipped files.
    ShowWarnings,
    /// Show facts of the series: size, spacing, steps, encodings, files.
    ShowSeriesDetails,
    /// Say what Voxfit is and what it is not for.
    ShowAbout,
    /// Close what is open on top; never quits.
    Escape,
    /// Take a message away.
    DismissMessage(u64),
    /// Dark, light or high contrast.
    SetTheme(Theme),
    /// Size of the user interface in per cent, 75 to 250.
    SetUiScale(u16),
    /// Show or mask names.
    ToggleIdentity,
    /// Use the whole screen, or not.
    ToggleFullScreen,
    /// Move the keyboard focus to the next panel.
    NextPanel,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_knows_its_name() {
        assert_eq!(Command::SetRoi([1, 2, 3]).variant(), "SetRoi");
        assert!(Command::VARIANTS.contains(&"ShowPalette"));
    }
}
