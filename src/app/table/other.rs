//! Entries of the run, review, tools and help menus.

use super::{CommandInfo, Menu, c, now, typed};
use crate::app::command::Command;
use crate::app::document::EngineChoice;
use crate::app::keys::{Chord, Key};
use crate::app::parse;
use crate::app::settings::Theme;
use crate::app::tour::Tour;
use crate::app::view::{Filter, SeamMap, SortBy};
use crate::app::why;

pub(super) fn run() -> Vec<CommandInfo> {
    use Menu::Run as M;
    vec![
        now(M, Command::Run, "Run", "Runs the plan on the open study.")
            .key(Chord::ctrl(Key::Enter))
            .when(why::cannot_run),
        now(
            M,
            Command::CancelRun,
            "Cancel run",
            "Stops before the next window; nothing is kept.",
        )
        .key(Chord::ctrl(c('.')))
        .when(why::no_run),
        typed(M, "CancelJob", "Cancel job", "1", parse::cancel_job).when(why::no_jobs),
        now(
            M,
            Command::ShowManifest,
            "Manifest of the network",
            "How a volume becomes its input: each field with its value, told or guessed.",
        )
        .when(why::no_network),
        now(
            M,
            Command::AcceptManifest,
            "Accept the proposed manifest",
            "For a network that does not say how a volume becomes its input.",
        )
        .when(why::no_proposal),
        now(
            M,
            Command::AllowSinglePass(true),
            "Allow one pass over the whole volume",
            "For the next run only.",
        ),
        now(
            M,
            Command::AllowSinglePass(false),
            "Refuse one pass over the whole volume",
            "The guard stands again.",
        )
        .palette_only(),
        now(
            M,
            Command::SetEngine(EngineChoice::Auto),
            "Engine: automatic",
            "CUDA where it can run, else the CPU; the result says which.",
        ),
        now(
            M,
            Command::SetEngine(EngineChoice::Cpu),
            "Engine: CPU",
            "This machine's processor.",
        ),
        now(
            M,
            Command::SetEngine(EngineChoice::Cuda),
            "Engine: CUDA",
            "An NVIDIA card, never the CPU in its place.",
        )
        .when(why::no_cuda),
        now(M, Command::ShowJobs, "Jobs", "What is running now."),
        now(
            M,
            Command::ProbeEngines,
            "Look for engines again",
            "After a driver was installed.",
        ),
    ]
}

pub(super) fn review() -> Vec<CommandInfo> {
    use Menu::Review as M;
    let sort = |s, name| {
        now(
            M,
            Command::SortDetections(s),
            name,
            "The same column again turns the order round.",
        )
        .palette_only()
        .when(why::no_detections)
    };
    vec![
        now(
            M,
            Command::NextDetection,
            "Next detection",
            "In the order of the list.",
        )
        .key(Chord::plain(c('N')))
        .when(why::no_detections),
        now(
            M,
            Command::PreviousDetection,
            "Previous detection",
            "In the order of the list.",
        )
        .key(Chord::shift(c('N')))
        .when(why::no_detections),
        typed(
            M,
            "SelectDetection",
            "Go to detection",
            "5",
            parse::detection,
        )
        .when(why::no_detections),
        now(
            M,
            Command::RaiseScoreThreshold,
            "Raise score threshold",
            "By 0.05.",
        )
        .key(Chord::plain(c(']'))),
        now(
            M,
            Command::LowerScoreThreshold,
            "Lower score threshold",
            "By 0.05.",
        )
        .key(Chord::plain(c('['))),
        typed(
            M,
            "SetScoreThreshold",
            "Score threshold",
            "0.50",
            parse::threshold,
        ),
        now(
            M,
            Command::FilterDetections(Filter::All),
            "All detections",
            "At or above the threshold.",
        )
        .when(why::no_detections),
        now(
            M,
            Command::FilterDetections(Filter::NearSeam),
            "Detections near a seam",
            "Within 5 mm of a window face.",
        )
        .when(why::no_detections),
        sort(SortBy::Number, "Sort by number"),
        sort(SortBy::Label, "Sort by label"),
        sort(SortBy::Score, "Sort by score"),
        sort(SortBy::Size, "Sort by size"),
        now(
            M,
            Command::FilterDetections(Filter::Changed),
            "Detections that changed",
            "Those that the reference has otherwise or not at all.",
        )
        .when(why::no_reference),
        sort(SortBy::Seam, "Sort by distance to seam"),
        sort(SortBy::Reference, "Sort by the reference's score"),
        sort(SortBy::Drift, "Sort by drift"),
    ]
}

pub(super) fn seams() -> Vec<CommandInfo> {
    use Menu::Review as M;
    let map = |m, name, tip| now(M, Command::ShowSeamMap(m), name, tip).palette_only();
    vec![
        now(
            M,
            Command::NextSeam,
            "Next seam",
            "Worst first, in the order of the seam table.",
        )
        .key(Chord::plain(c('J')))
        .when(why::no_seams),
        now(
            M,
            Command::PreviousSeam,
            "Previous seam",
            "Worst first, in the order of the seam table.",
        )
        .key(Chord::shift(c('J')))
        .when(why::no_seams),
        typed(M, "SelectSeam", "Go to seam", "z 64", parse::seam).when(why::no_seams),
        now(
            M,
            Command::HoldAsReference,
            "Hold this result as reference",
            "Later runs are held against it.",
        )
        .when(why::no_result),
        now(
            M,
            Command::DropReference,
            "Take the reference away",
            "The result stands alone again.",
        )
        .when(why::no_reference),
        typed(
            M,
            "SelectReference",
            "Go to missing finding",
            "1",
            parse::missing,
        )
        .when(why::no_missing),
        map(
            SeamMap::Difference,
            "Seam map: difference",
            "From the reference, voxel by voxel.",
        )
        .key(Chord::plain(c('D'))),
        map(
            SeamMap::Grid,
            "Seam map: window grid",
            "Window faces alone.",
        ),
        map(
            SeamMap::Cover,
            "Seam map: coverage",
            "How many windows cover each voxel.",
        ),
        map(
            SeamMap::Mismatch,
            "Seam map: raw mismatch",
            "Where windows disagree, before blending.",
        ),
        map(
            SeamMap::Flicker,
            "Seam map: flicker",
            "Scores of the run, of the reference while F is held.",
        ),
        now(
            M,
            Command::Flicker(true),
            "Show the reference while held",
            "The reference in the run's place while the key is down.",
        )
        .key(Chord::plain(c('F')))
        .palette_only()
        .when(why::no_reference),
    ]
}

pub(super) fn tools() -> Vec<CommandInfo> {
    use Menu::{Help, Tools as M};
    vec![
        now(
            M,
            Command::ShowPalette,
            "Search commands",
            "Every command by name.",
        )
        .key(Chord::ctrl(c('K'))),
        now(
            M,
            Command::ToggleIdentity,
            "Show or mask identity",
            "Names on screen; outputs are always masked.",
        )
        .key(Chord::ctrl_shift(c('I'))),
        now(
            M,
            Command::ShowMessages,
            "Messages",
            "What was said before.",
        ),
        typed(M, "DismissMessage", "Dismiss message", "1", parse::message).when(why::no_messages),
        now(
            M,
            Command::ShowWarnings,
            "Warnings of the study",
            "What is odd about it, and files passed over.",
        )
        .when(why::no_study),
        now(
            M,
            Command::ShowSeriesDetails,
            "Series details",
            "Size, spacing, steps, tilt, encodings, values, and the file of each slice.",
        )
        .key(Chord::ctrl(c('I')))
        .when(why::no_series),
        now(
            M,
            Command::ShowSettings,
            "Settings",
            "Theme, size, identity.",
        )
        .key(Chord::ctrl(c(','))),
        now(
            M,
            Command::SetTheme(Theme::Dark),
            "Theme: dark",
            "For the reading room.",
        ),
        now(
            M,
            Command::SetTheme(Theme::Light),
            "Theme: light",
            "For bright rooms.",
        ),
        now(
            M,
            Command::SetTheme(Theme::HighContrast),
            "Theme: high contrast",
            "Black, white and full colours.",
        ),
        typed(
            M,
            "SetUiScale",
            "Size of the user interface",
            "75 to 250 per cent",
            parse::ui_scale,
        ),
        now(
            M,
            Command::Escape,
            "Close or cancel",
            "What is open on top; never quits.",
        )
        .key(Chord::plain(Key::Escape))
        .palette_only(),
        now(
            Help,
            Command::ShowKeys,
            "Keys",
            "Every command and its keys.",
        )
        .key(Chord::plain(Key::F(1))),
        now(
            Help,
            Command::ShowAbout,
            "About Voxfit",
            "What it is for, and that it is not for clinical use.",
        ),
    ]
}

pub(super) fn tours() -> Vec<CommandInfo> {
    use Menu::Help;
    vec![
        now(
            Help,
            Command::StartTour(Tour::Training),
            "Tour: training at 256 cubed on 40 GB",
            "A worked example in five steps; closes the study.",
        ),
        now(
            Help,
            Command::StartTour(Tour::Detector),
            "Tour: a 44 GB detector on 16 GB",
            "A worked example in five steps; closes the study.",
        ),
        now(
            Help,
            Command::StepTour(true),
            "Tour: next step",
            "The plan of the next step, and what is seen.",
        )
        .palette_only()
        .when(why::no_tour),
        now(
            Help,
            Command::StepTour(false),
            "Tour: step back",
            "The plan of the step before.",
        )
        .palette_only()
        .when(why::no_tour),
        now(
            Help,
            Command::EndTour,
            "Tour: end",
            "The plan stays as the tour has set it.",
        )
        .palette_only()
        .when(why::no_tour),
    ]
}
