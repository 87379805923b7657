//! Where a plane of a stored volume lies on the screen: patient directions to voxel axes, voxels to points and back.

use crate::geometry::{Affine, Extent, Plane};
use eframe::egui::{Pos2, Rect, Vec2, pos2, vec2};

/// The voxel axes of one view, chosen so that the picture is the usual radiological one however the volume is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaneMap {
    /// Which view.
    pub plane: Plane,
    /// Voxel axis across the view.
    pub across: usize,
    /// Whether its index falls towards head (axial), posterior (coronal) or left (sagittal).
    pub across_falls: bool,
    /// Voxel axis to the right, and whether its index falls to the right.
    pub right: (usize, bool),
    /// Voxel axis down, and whether its index falls downwards.
    pub down: (usize, bool),
    /// Spacing in mm along i, j, k.
    pub spacing: [f64; 3],
    /// Size in voxels.
    pub extent: [usize; 3],
    /// Unit vectors (LPS) to the right and down in the picture.
    pub towards: [[f64; 3]; 2],
}

/// Components smaller than this (about 6 degrees) add no letter.
const LETTER_FROM: f64 = 0.1;

/// Where a direction (LPS) points, in letters, the strongest first: "A", "AL", "HAR". Empty for no direction.
pub(super) fn letters_of(towards: [f64; 3]) -> String {
    let names = [['L', 'R'], ['P', 'A'], ['H', 'F']];
    let mut parts: Vec<(f64, char)> = towards
        .iter()
        .zip(names)
        .map(|(&c, [plus, minus])| (c.abs(), if c >= 0.0 { plus } else { minus }))
        .filter(|(size, _)| *size >= LETTER_FROM)
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    parts.into_iter().map(|(_, letter)| letter).collect()
}

/// For each patient axis (left, posterior, head) the voxel axis nearest to it and whether it runs the other way.
fn axes(affine: &Affine) -> [(usize, bool); 3] {
    let dirs = affine.directions();
    let mut taken = [false; 3];
    let mut out = [(0, false), (1, false), (2, false)];
    let mut open = [true; 3];
    for _ in 0..3 {
        let mut best = (0, 0, -1.0);
        for (p, &is_open) in open.iter().enumerate() {
            for (v, dir) in dirs.iter().enumerate() {
                if is_open && !taken[v] && dir[p].abs() > best.2 {
                    best = (p, v, dir[p].abs());
                }
            }
        }
        let (p, v, _) = best;
        out[p] = (v, dirs[v][p] < 0.0);
        open[p] = false;
        taken[v] = true;
    }
    out
}

impl PlaneMap {
    /// The view `plane` of a volume.
    pub fn new(plane: Plane, affine: &Affine, extent: Extent) -> Self {
        let [left, posterior, head] = axes(affine);
        let feet = (head.0, !head.1);
        let spacing = affine
            .spacing_mm()
            .map(|s| if s > 0.0 && s.is_finite() { s } else { 1.0 });
        let (across, right, down) = match plane {
            Plane::Axial => (head, left, posterior),
            Plane::Coronal => (posterior, left, feet),
            Plane::Sagittal => (left, posterior, feet),
        };
        let (across, across_falls) = across;
        let directions = affine.directions();
        let towards =
            [right, down].map(|(axis, falls)| directions[axis].map(|c| if falls { -c } else { c }));
        Self {
            plane,
            across,
            across_falls,
            right,
            down,
            spacing,
            extent: extent.to_array(),
            towards,
        }
    }

    /// Letters at the left, right, top and bottom edge.
    pub fn letters(&self) -> [String; 4] {
        let [right, down] = self.towards;
        [right.map(|c| -c), right, down.map(|c| -c), down].map(letters_of)
    }

    /// Size of the whole picture in mm.
    pub fn size_mm(&self) -> [f64; 2] {
        [self.right.0, self.down.0].map(|a| self.extent[a] as f64 * self.spacing[a])
    }
}

/// A view's pan and zoom, kept between frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pane {
    /// 1 shows the whole picture.
    pub zoom: f32,
    /// Shift of the picture in points.
    pub pan: Vec2,
    /// Wheel steps not yet worth a slice.
    pub wheel: f32,
    /// Points per mm when it was drawn last.
    pub scale: f32,
}

impl Default for Pane {
    fn default() -> Self {
        Self {
            zoom: 1.0,
            pan: Vec2::ZERO,
            wheel: 0.0,
            scale: 0.0,
        }
    }
}

/// Voxels to points and back for one frame of one view.
#[derive(Clone, Copy, Debug)]
pub struct Projection {
    /// The view's axes.
    pub map: PlaneMap,
    /// The view on the screen.
    pub rect: Rect,
    /// Points per mm, the same on both axes.
    pub scale: f32,
    centre: Pos2,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "screen positions need no more than f32"
)]
const fn f(x: f64) -> f32 {
    x as f32
}

impl Projection {
    /// The projection of `pane` in `rect`.
    pub fn new(map: PlaneMap, rect: Rect, pane: &Pane) -> Self {
        let [w, h] = map.size_mm().map(f);
        let fit = (rect.width() / w.max(1e-3)).min(rect.height() / h.max(1e-3));
        Self {
            map,
            rect,
            scale: fit * pane.zoom,
            centre: rect.center() + pane.pan,
        }
    }

    fn along(&self, (axis, flipped): (usize, bool), edge: f64) -> f32 {
        let from_middle = edge - self.map.extent[axis] as f64 / 2.0;
        let mm = from_middle * self.map.spacing[axis];
        f(if flipped { -mm } else { mm }) * self.scale
    }

    /// x of a voxel edge (half-open: voxel i reaches from edge i to i + 1) along the axis to the right.
    pub fn x(&self, edge: f64) -> f32 {
        self.centre.x + self.along(self.map.right, edge)
    }

    /// y of a voxel edge along the axis down.
    pub fn y(&self, edge: f64) -> f32 {
        self.centre.y + self.along(self.map.down, edge)
    }

    /// The rectangle of a half-open box of voxels.
    pub fn rect_of(&self, min: [f64; 3], max: [f64; 3]) -> Rect {
        let (r, d) = (self.map.right.0, self.map.down.0);
        Rect::from_two_pos(
            pos2(self.x(min[r]), self.y(min[d])),
            pos2(self.x(max[r]), self.y(max[d])),
        )
    }

    /// The whole picture on the screen.
    pub fn picture(&self) -> Rect {
        self.rect_of([0.0; 3], self.map.extent.map(|n| n as f64))
    }

    /// Voxel index (centres at whole numbers) under a point; the index across is `slice`.
    pub fn voxel(&self, at: Pos2, slice: f64) -> [f64; 3] {
        let d = at - self.centre;
        let mut out = [slice; 3];
        for ((axis, flipped), points) in [(self.map.right, d.x), (self.map.down, d.y)] {
            let mm = f64::from(points / self.scale);
            let mm = if flipped { -mm } else { mm };
            out[axis] = mm / self.map.spacing[axis] + self.map.extent[axis] as f64 / 2.0 - 0.5;
        }
        out
    }

    /// The step in voxels that one point to the right (first) and down (second) makes.
    pub fn step(&self) -> [[f32; 3]; 2] {
        let mut out = [[0.0; 3]; 2];
        for (step, (axis, flipped)) in out.iter_mut().zip([self.map.right, self.map.down]) {
            let per_point = 1.0 / (self.scale * f(self.map.spacing[axis]));
            step[axis] = if flipped { -per_point } else { per_point };
        }
        out
    }

    /// Zooms so that the point stays over the same voxel.
    pub fn zoom_at(pane: &mut Pane, rect: Rect, at: Pos2, factor: f32) {
        let new = (pane.zoom * factor).clamp(0.2, 40.0);
        let factor = new / pane.zoom;
        let from_centre = at - rect.center() - pane.pan;
        pane.pan += from_centre * (1.0 - factor);
        pane.zoom = new;
        if (pane.zoom - 1.0).abs() < 1e-3 && pane.pan.length() < 1.0 {
            pane.pan = vec2(0.0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_stored_feet_last_still_shows_the_head_on_top() {
        let e = Extent::new(10, 10, 20);
        let up = PlaneMap::new(Plane::Coronal, &Affine::axis_aligned([1.0, 1.0, 2.0]), e);
        assert_eq!(up.down, (2, true));
        let mut affine = Affine::axis_aligned([1.0, 1.0, 2.0]);
        affine.step[2][2] = -2.0;
        let down = PlaneMap::new(Plane::Coronal, &affine, e);
        assert_eq!(down.down, (2, false));
    }

    #[test]
    fn a_sagittal_acquisition_is_turned_into_the_usual_axial_view() {
        let affine = Affine {
            step: [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [3.0, 0.0, 0.0]],
            origin: [0.0; 3],
        };
        let m = PlaneMap::new(Plane::Axial, &affine, Extent::new(4, 5, 6));
        assert_eq!((m.across, m.right, m.down), (1, (2, false), (0, false)));
    }

    fn letters(plane: Plane, step: [[f64; 3]; 3]) -> [String; 4] {
        let affine = Affine {
            step,
            origin: [0.0; 3],
        };
        PlaneMap::new(plane, &affine, Extent::new(8, 9, 10)).letters()
    }

    #[test]
    fn letters_are_right_for_head_first_feet_first_coronal_and_sagittal_acquisitions() {
        let usual = [
            (Plane::Axial, ["R", "L", "A", "P"]),
            (Plane::Coronal, ["R", "L", "H", "F"]),
            (Plane::Sagittal, ["A", "P", "H", "F"]),
        ];
        let acquired = [
            // Head first, feet first (rows towards the right), prone.
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]],
            [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]],
            // Coronal and sagittal stacks.
            [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
            [[0.0, 1.0, 0.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0]],
        ];
        for step in acquired {
            for (plane, want) in usual {
                assert_eq!(letters(plane, step), want, "{plane:?} {step:?}");
            }
        }
    }

    #[test]
    fn oblique_and_tilted_slices_have_combined_letters_the_strongest_first() {
        let (s, c) = 20f64.to_radians().sin_cos();
        // Turned about the head-feet axis by 20 degrees: rows run to the left and a little to the back.
        let turned = [[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]];
        assert_eq!(letters(Plane::Axial, turned), ["RA", "LP", "AL", "PR"]);
        // Gantry tilt of 15 degrees: columns run to the back and to the feet.
        let (s, c) = 15f64.to_radians().sin_cos();
        let tilted = [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, 0.0, 1.0]];
        assert_eq!(letters(Plane::Axial, tilted), ["R", "L", "AH", "PF"]);
        assert_eq!(letters_of([0.577, -0.578, 0.576]), "ALH");
        // Four degrees of tilt are no direction of their own.
        let (s, c) = 4f64.to_radians().sin_cos();
        assert_eq!(letters_of([0.0, c, -s]), "P");
    }

    /// Directions all around: what a point further to the right (or down) in the picture is, the affine says.
    #[test]
    fn over_many_directions_the_letters_name_where_the_affine_leads() {
        let mut tried = 0;
        for i in 0..12 {
            for j in 0..12 {
                for k in 0..6 {
                    let (a, b, g) = (
                        f64::from(i) * 0.531,
                        f64::from(j) * 0.417,
                        f64::from(k) * 0.791,
                    );
                    let step = turned(a, b, g);
                    let affine = Affine {
                        step,
                        origin: [5.0, -7.0, 11.0],
                    };
                    for plane in Plane::ALL {
                        let m = PlaneMap::new(plane, &affine, Extent::new(8, 9, 10));
                        check(&affine, &m);
                        tried += 1;
                    }
                }
            }
        }
        assert_eq!(tried, 12 * 12 * 6 * 3);
    }

    /// Steps of a volume turned by three angles, with unequal spacings.
    fn turned(a: f64, b: f64, g: f64) -> [[f64; 3]; 3] {
        let ((sa, ca), (sb, cb), (sg, cg)) = (a.sin_cos(), b.sin_cos(), g.sin_cos());
        let r = [
            [ca * cb, sa * cb, -sb],
            [ca * sb * sg - sa * cg, sa * sb * sg + ca * cg, cb * sg],
            [ca * sb * cg + sa * sg, sa * sb * cg - ca * sg, cb * cg],
        ];
        [
            r[0].map(|x| x * 0.7),
            r[1].map(|x| x * 0.7),
            r[2].map(|x| x * 2.5),
        ]
    }

    fn check(affine: &Affine, m: &PlaneMap) {
        let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(400.0, 300.0));
        let p = Projection::new(*m, rect, &Pane::default());
        let place = |x: f32, y: f32| affine.to_patient(p.voxel(pos2(x, y), 3.0));
        let middle = place(200.0, 150.0);
        let [left, right, top, bottom] = m.letters();
        for (x, y, letters) in [
            (100.0, 150.0, left),
            (300.0, 150.0, right),
            (200.0, 50.0, top),
            (200.0, 250.0, bottom),
        ] {
            let there = place(x, y);
            let d: [f64; 3] = std::array::from_fn(|i| there[i] - middle[i]);
            let length = d.iter().map(|c| c * c).sum::<f64>().sqrt();
            let mut last = f64::INFINITY;
            for letter in letters.chars() {
                let along = match letter {
                    'L' => d[0],
                    'R' => -d[0],
                    'P' => d[1],
                    'A' => -d[1],
                    'H' => d[2],
                    _ => -d[2],
                } / length;
                assert!(along >= 0.099 && along <= last + 1e-6, "{letters} {d:?}");
                last = along;
            }
            let named = letters.len();
            let strong = d.iter().filter(|c| c.abs() / length >= 0.101).count();
            assert!(named >= strong && named > 0, "{letters} {d:?}");
        }
    }

    #[test]
    fn the_point_over_a_voxel_leads_back_to_it_at_any_zoom() {
        let map = PlaneMap::new(
            Plane::Coronal,
            &Affine::axis_aligned([0.7, 0.7, 2.5]),
            Extent::new(512, 512, 140),
        );
        let rect = Rect::from_min_size(pos2(180.0, 40.0), vec2(435.0, 419.0));
        let mut pane = Pane::default();
        Projection::zoom_at(&mut pane, rect, pos2(300.0, 200.0), 2.5);
        let p = Projection::new(map, rect, &pane);
        let v = p.voxel(pos2(p.x(100.5), p.y(33.5)), 7.0);
        assert!((v[0] - 100.0).abs() < 1e-3 && (v[2] - 33.0).abs() < 1e-3 && v[1] == 7.0);
    }
}
