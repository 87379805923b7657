//! Where the spheres lie: inside the lungs, apart from each other, some centred on the demo's window faces.

use super::anatomy::{Chest, to_f32};
use super::chance::Chance;
use super::shape::{Tube, distance};
use super::{Frame, Sphere};

/// Diameters in mm, from the hardest to the easiest.
const DIAMETERS_MM: [f64; 12] = [
    4.2, 5.0, 6.2, 6.8, 7.5, 8.2, 9.0, 10.0, 11.5, 13.0, 15.5, 19.0,
];

/// The demo's window and its step, in voxels (x, y, z); at overlap 0.25.
const WINDOW: [usize; 3] = [128, 128, 64];
const STEP: [usize; 3] = [96, 96, 48];

/// Positions along an axis of `size` voxels where a window of the demo starts or ends, as voxel borders.
fn faces(size: usize, axis: usize) -> Vec<usize> {
    let (window, step) = (WINDOW[axis], STEP[axis]);
    let mut out = Vec::new();
    let mut start = 0;
    while start + window < size {
        out.push(start + window);
        start = (start + step).min(size - window);
        out.push(start);
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// Draws the spheres; fewer than twelve where a small or thin volume has no room for them.
pub(super) fn place(frame: &Frame, chest: &Chest, vessels: &[Tube], seed: u64) -> Vec<Sphere> {
    let mut chance = Chance::new(seed, 3);
    let mut room = Room {
        frame,
        chest,
        vessels,
        placed: Vec::new(),
    };
    for (n, &nominal) in DIAMETERS_MM.iter().enumerate().rev() {
        let radius_mm = 0.5 * nominal * chance.between(0.97, 1.06);
        let hu = to_f32(chance.between(0.0, 50.0));
        let snap = snap_axis(n)
            .map(|axis| (axis, faces(frame.size(axis), axis)))
            .filter(|(_, borders)| !borders.is_empty());
        let on_face = snap.and_then(|(axis, borders)| {
            (0..TRIES).find_map(|_| {
                let mut index = room.somewhere(&mut chance);
                index[axis] = borders[chance.below(borders.len())] as f64 - 0.5;
                room.holds(index, radius_mm).then_some(index)
            })
        });
        let anywhere = || {
            (0..TRIES).find_map(|_| {
                let index = room.somewhere(&mut chance);
                room.holds(index, radius_mm).then_some(index)
            })
        };
        let on_window_face = on_face.is_some();
        if let Some(center_index) = on_face.or_else(anywhere) {
            room.placed.push(Sphere {
                center_index,
                radius_mm,
                hu,
                on_window_face,
            });
        }
    }
    room.placed
}

/// How often a place is drawn before a sphere is given up.
const TRIES: usize = 6000;

/// The axis on whose window faces the n-th size is tried: 6.8 and 11.5 mm across z, 9 mm across y, 15.5 mm across x.
const fn snap_axis(n: usize) -> Option<usize> {
    match n {
        3 | 8 => Some(2),
        6 => Some(1),
        10 => Some(0),
        _ => None,
    }
}

/// Where spheres can lie.
struct Room<'a> {
    frame: &'a Frame,
    chest: &'a Chest,
    vessels: &'a [Tube],
    placed: Vec<Sphere>,
}

impl Room<'_> {
    fn somewhere(&self, chance: &mut Chance) -> [f64; 3] {
        std::array::from_fn(|a| chance.unit() * self.frame.size(a) as f64 - 0.5)
    }

    /// Whether a sphere here is whole, inside a lung, apart from the others and not hidden by a vessel.
    fn holds(&self, index: [f64; 3], radius_mm: f64) -> bool {
        let frame = self.frame;
        let whole = (0..3).all(|a| {
            let edge = (index[a] + 0.5).min(frame.size(a) as f64 - 0.5 - index[a]);
            edge * frame.spacing[a] >= radius_mm + 1.0
        });
        let p = frame.position(index);
        if !whole || f64::from(self.chest.inside_lung(p.map(to_f32))) < radius_mm + 1.5 {
            return false;
        }
        let apart = self
            .placed
            .iter()
            .all(|o| distance(p, frame.position(o.center_index)) > radius_mm + o.radius_mm + 10.0);
        // Small vessels may touch a sphere; a wide one may not hide it.
        apart
            && self
                .vessels
                .iter()
                .all(|t| t.radius[0] < 1.6 || t.inside(p) < -(radius_mm + 1.0))
    }
}
