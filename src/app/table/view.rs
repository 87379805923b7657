//! Entries of the view menu: workspaces, planes, window level, layers, slices.

use super::{CommandInfo, Menu, c, now, typed};
use crate::app::command::Command;
use crate::app::keys::{Chord, Key};
use crate::app::parse;
use crate::app::view::{Layer, Workspace};
use crate::app::why;
use crate::geometry::Plane;

pub(super) fn view() -> Vec<CommandInfo> {
    use Menu::View as M;
    let workspace = |w: Workspace, tip, key| {
        now(
            M,
            Command::ShowWorkspace(w),
            match w {
                Workspace::Plan => "Plan workspace",
                Workspace::Review => "Review workspace",
                Workspace::Seams => "Seams workspace",
                Workspace::Buy => "Buy workspace",
            },
            tip,
        )
        .key(Chord::ctrl(c(key)))
    };
    vec![
        workspace(Workspace::Plan, "Memory budget, windows and fixes.", '1'),
        workspace(Workspace::Review, "Slices and the detection list.", '2'),
        workspace(Workspace::Seams, "Where windows meet.", '3'),
        workspace(Workspace::Buy, "Cards and what they hold.", '4'),
        now(
            M,
            Command::ShowLarge(Plane::Axial),
            "Axial large",
            "Again for three planes.",
        )
        .key(Chord::plain(c('A')))
        .when(why::no_volume),
        now(
            M,
            Command::ShowLarge(Plane::Sagittal),
            "Sagittal large",
            "Again for three planes.",
        )
        .key(Chord::plain(c('S')))
        .when(why::no_volume),
        now(
            M,
            Command::ShowLarge(Plane::Coronal),
            "Coronal large",
            "Again for three planes.",
        )
        .key(Chord::plain(c('C')))
        .when(why::no_volume),
        now(
            M,
            Command::ShowMpr,
            "Three planes",
            "Axial, coronal and sagittal side by side.",
        )
        .when(why::no_volume),
    ]
}

pub(super) fn display() -> Vec<CommandInfo> {
    use Menu::View as M;
    vec![
        now(
            M,
            Command::ResetView,
            "Reset view",
            "Zoom, position and window level as at first.",
        )
        .key(Chord::plain(c('R')))
        .when(why::no_volume),
        now(M, Command::ZoomIn, "Zoom in", "The active plane.")
            .key(Chord::plain(c('+')))
            .when(why::no_volume),
        now(M, Command::ZoomOut, "Zoom out", "The active plane.")
            .key(Chord::plain(c('-')))
            .when(why::no_volume),
        now(
            M,
            Command::ZoomToFit,
            "Zoom to fit",
            "The whole slice in view.",
        )
        .key(Chord::plain(c('=')))
        .when(why::no_volume),
        now(M, Command::Invert, "Invert greys", "Black for white.")
            .key(Chord::plain(c('I')))
            .when(why::no_volume),
        now(
            M,
            Command::NextSlab,
            "Next slab mode",
            "One slice; maximum, mean or minimum of 10 mm.",
        )
        .key(Chord::plain(c('M')))
        .when(why::no_volume),
        now(
            M,
            Command::ToggleCine,
            "Play slices",
            "Ten a second in the active plane; again or Esc stops.",
        )
        .key(Chord::plain(c('P')))
        .when(why::no_volume),
    ]
}

pub(super) fn levels() -> Vec<CommandInfo> {
    use Menu::View as M;
    vec![
        now(
            M,
            Command::WindowLevelPreset(1),
            "Window level: soft tissue",
            "Width 400, center 40.",
        )
        .key(Chord::plain(c('1')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(2),
            "Window level: lung",
            "Width 1500, center \u{2212}600.",
        )
        .key(Chord::plain(c('2')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(3),
            "Window level: liver",
            "Width 150, center 90.",
        )
        .key(Chord::plain(c('3')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(4),
            "Window level: bone",
            "Width 2500, center 480.",
        )
        .key(Chord::plain(c('4')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(5),
            "Window level: brain",
            "Width 80, center 40.",
        )
        .key(Chord::plain(c('5')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(6),
            "Window level: mediastinum",
            "Width 350, center 50.",
        )
        .key(Chord::plain(c('6')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(7),
            "Window level: full range",
            "From the smallest to the largest value.",
        )
        .key(Chord::plain(c('7')))
        .when(why::no_volume),
        now(
            M,
            Command::WindowLevelPreset(0),
            "Window level: as stored",
            "The file's own, else all but 0.1 % at either end.",
        )
        .key(Chord::plain(c('0')))
        .when(why::no_volume),
        typed(
            M,
            "SetWindowLevel",
            "Window level by figures",
            "400/40 (width/center)",
            parse::window_level,
        )
        .when(why::no_volume),
        now(
            M,
            Command::ToggleFullScreen,
            "Full screen",
            "Again to leave it.",
        )
        .key(Chord::plain(Key::F(11))),
        now(
            M,
            Command::NextPanel,
            "Next panel",
            "Moves the keyboard focus.",
        )
        .key(Chord::plain(Key::F(6))),
    ]
}

pub(super) fn layers() -> Vec<CommandInfo> {
    use Menu::View as M;
    let layer =
        |l: Layer, name, tip| now(M, Command::ToggleLayer(l), name, tip).when(why::no_volume);
    vec![
        layer(
            Layer::Boxes,
            "Show or hide boxes",
            "Detection boxes on slices.",
        )
        .key(Chord::plain(c('B'))),
        layer(
            Layer::ReferenceBoxes,
            "Show or hide reference boxes",
            "Boxes of the result that the run is held against.",
        )
        .palette_only(),
        layer(
            Layer::Grid,
            "Show or hide window grid",
            "Faces of the windows on slices.",
        )
        .key(Chord::plain(c('G'))),
        layer(
            Layer::Crosshair,
            "Show or hide crosshair",
            "Lines of the other two planes.",
        )
        .key(Chord::plain(c('X'))),
        layer(
            Layer::CornerText,
            "Show or hide corner text",
            "Slice, subject, HU, window level.",
        )
        .key(Chord::plain(c('T'))),
        layer(
            Layer::Letters,
            "Show or hide orientation letters",
            "R, L, A, P, H, F at the edges.",
        )
        .key(Chord::plain(c('O'))),
        layer(Layer::Image, "Show or hide image", "The slice itself.").palette_only(),
        layer(Layer::ScaleBar, "Show or hide scale bar", "Length in mm.").palette_only(),
        now(
            M,
            Command::HideOverlays(true),
            "Hide overlays while held",
            "The bare image while the key is down.",
        )
        .key(Chord::plain(Key::Space))
        .palette_only()
        .when(why::no_volume),
    ]
}

pub(super) fn slices() -> Vec<CommandInfo> {
    use Menu::View as M;
    let scroll = |n, name, tip, key| {
        now(M, Command::Scroll(n), name, tip)
            .key(Chord::plain(key))
            .palette_only()
            .when(why::no_volume)
    };
    vec![
        scroll(
            1,
            "Next slice",
            "One slice up in the active plane.",
            Key::Up,
        ),
        scroll(
            -1,
            "Previous slice",
            "One slice down in the active plane.",
            Key::Down,
        ),
        scroll(10, "Ten slices up", "In the active plane.", Key::PageUp),
        scroll(
            -10,
            "Ten slices down",
            "In the active plane.",
            Key::PageDown,
        ),
        now(
            M,
            Command::FirstSlice,
            "First slice",
            "In the active plane.",
        )
        .key(Chord::plain(Key::Home))
        .palette_only()
        .when(why::no_volume),
        now(M, Command::LastSlice, "Last slice", "In the active plane.")
            .key(Chord::plain(Key::End))
            .palette_only()
            .when(why::no_volume),
        typed(
            M,
            "ScrollPlane",
            "Scroll a plane",
            "axial 5",
            parse::scroll_plane,
        )
        .when(why::no_volume),
        typed(
            M,
            "GoToSlice",
            "Go to slice",
            "axial 43",
            parse::go_to_slice,
        )
        .when(why::no_volume),
        typed(
            M,
            "SetCrosshair",
            "Crosshair to voxel",
            "256, 256, 64",
            parse::crosshair,
        )
        .when(why::no_volume),
        typed(M, "Activate", "Keys go to plane", "axial", |t, _| {
            parse::plane(t).map(Command::Activate)
        })
        .when(why::no_volume),
    ]
}
