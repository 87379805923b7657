//! A generated chest-like study at any size: body, lungs, vessels, ribs, spine, heart, airway, couch, noise and
//! a dozen spheres whose places are known. The same size and seed give the same bits on every machine.

mod anatomy;
mod chance;
mod shape;
mod spheres;
mod vessels;

use super::{Volume, Voxels};
use crate::geometry::{Affine, BoxF, Extent};
use crate::jobs::{Cancelled, Control};
use anatomy::{Chest, to_f32};
use chance::Chance;
use rayon::prelude::*;
use shape::{Tube, cover, mix};

/// HU of a vessel's blood.
const VESSEL_HU: f32 = 35.0;
/// Width and depth of the field of view and the tallest height, in mm.
const FIELD_MM: f64 = 320.0;

/// A sphere that the phantom holds: what a detector should find.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sphere {
    /// Voxel index of its centre (fractional; voxel centres are at whole indices).
    pub center_index: [f64; 3],
    /// Its radius in mm.
    pub radius_mm: f64,
    /// Its HU, 0 to 50.
    pub hu: f32,
    /// Whether its centre was put on a face of the demo's windows (128x128x64, overlap 0.25).
    pub on_window_face: bool,
}

impl Sphere {
    /// Its diameter in mm.
    pub fn diameter_mm(&self) -> f64 {
        2.0 * self.radius_mm
    }

    /// The half-open corner box around it, in voxels of a volume with this spacing.
    pub fn box_in_volume(&self, spacing_mm: [f64; 3]) -> BoxF {
        let edge = |a: usize, sign: f64| {
            to_f32(self.center_index[a] + 0.5 + sign * self.radius_mm / spacing_mm[a])
        };
        BoxF([
            edge(0, -1.0),
            edge(1, -1.0),
            edge(2, -1.0),
            edge(0, 1.0),
            edge(1, 1.0),
            edge(2, 1.0),
        ])
    }
}

/// A generated study and its truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Phantom {
    /// The voxels, whole HU.
    pub volume: Volume,
    /// The spheres, largest first.
    pub spheres: Vec<Sphere>,
}

/// The grid: spacing and where index 0 lies, the chest's middle at the origin.
#[derive(Clone, Copy, Debug)]
struct Frame {
    extent: Extent,
    spacing: [f64; 3],
}

impl Frame {
    /// Square pixels so that the field is 320 mm wide (and deep enough for a body 212 mm deep); slices 1.25 to 2.5 mm.
    fn new(extent: Extent) -> Self {
        let pixel = (FIELD_MM / extent.x.max(1) as f64).max(240.0 / extent.y.max(1) as f64);
        let slice = (FIELD_MM / extent.z.max(1) as f64).clamp(1.25, 2.5);
        Self {
            extent,
            spacing: [pixel, pixel, slice],
        }
    }

    fn size(&self, axis: usize) -> usize {
        self.extent.to_array()[axis]
    }

    fn position(&self, index: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|a| (index[a] + 0.5 - 0.5 * self.size(a) as f64) * self.spacing[a])
    }

    fn affine(&self) -> Affine {
        Affine {
            origin: self.position([0.0; 3]),
            ..Affine::axis_aligned(self.spacing)
        }
    }

    /// Width of a soft edge in mm: about one voxel.
    fn soft(&self) -> f32 {
        to_f32(self.spacing[0].max(0.7))
    }
}

/// Makes the phantom of this size and seed. Work is shared out by slice; its bits do not depend on how.
pub fn generate(extent: Extent, seed: u64) -> Phantom {
    make(extent, seed, &Control::new())
}

/// As [`generate`], and a cancel ends it within a slice.
pub fn generate_until(extent: Extent, seed: u64, control: &Control) -> Result<Phantom, Cancelled> {
    let made = make(extent, seed, control);
    control.check()?;
    Ok(made)
}

fn make(extent: Extent, seed: u64, control: &Control) -> Phantom {
    let frame = Frame::new(extent);
    let chest = Chest::new(seed);
    let tubes = vessels::grow(&chest, seed);
    let spheres = spheres::place(&frame, &chest, &tubes, seed);
    let scene = Scene {
        frame,
        chest,
        parts: parts(&frame, &tubes, &spheres),
        seed,
    };
    let plane = extent.x * extent.y;
    let mut voxels = vec![0i16; extent.voxels()];
    if plane > 0 {
        voxels
            .par_chunks_mut(plane)
            .enumerate()
            .for_each(|(k, out)| {
                if !control.is_cancelled() {
                    scene.slice(k, out);
                }
            });
    }
    Phantom {
        volume: Volume {
            extent,
            affine: frame.affine(),
            voxels: Voxels::I16(voxels),
            padding: None,
            is_hu: true,
            z_spacing_known: true,
        },
        spheres,
    }
}

/// A tube or ball to paint, with the HU it has and how much of a voxel on its middle it fills.
struct Part {
    tube: Tube,
    hu: f32,
    fill: f32,
}

fn parts(frame: &Frame, tubes: &[Tube], spheres: &[Sphere]) -> Vec<Part> {
    let soft = f64::from(frame.soft());
    let vessels = tubes.iter().map(|&tube| {
        // A tube thinner than a voxel fills only part of it.
        let across = (2.2 * tube.radius[1] / soft).min(1.0);
        Part {
            tube,
            hu: VESSEL_HU,
            fill: to_f32(across * across),
        }
    });
    let balls = spheres.iter().map(|s| Part {
        tube: Tube {
            ends: [frame.position(s.center_index); 2],
            radius: [s.radius_mm; 2],
        },
        hu: s.hu,
        fill: 1.0,
    });
    vessels.chain(balls).collect()
}

/// All that a slice is drawn from.
struct Scene {
    frame: Frame,
    chest: Chest,
    parts: Vec<Part>,
    seed: u64,
}

impl Scene {
    /// Draws slice `k`.
    fn slice(&self, k: usize, out: &mut [i16]) {
        let soft = self.frame.soft();
        let mut hu = vec![0f32; out.len()];
        let mut textures = self.chest.textures();
        for (j, row) in hu.chunks_mut(self.frame.extent.x).enumerate() {
            for (i, value) in row.iter_mut().enumerate() {
                let p = self.frame.position([i as f64, j as f64, k as f64]);
                *value = self.chest.hu(p.map(to_f32), soft, &mut textures);
            }
        }
        for part in &self.parts {
            self.paint(part, &mut hu, k);
        }
        add_noise(&mut hu, &self.frame, self.seed, k);
        for (to, value) in out.iter_mut().zip(&hu) {
            *to = whole(*value);
        }
    }

    /// Paints what lies of a part in slice `k`, where it is denser than what is there.
    fn paint(&self, part: &Part, hu: &mut [f32], k: usize) {
        let (frame, soft) = (&self.frame, self.frame.soft());
        let margin = f64::from(soft);
        let z = frame.position([0.0, 0.0, k as f64])[2];
        let [low, high] = part.tube.reach(2, margin);
        if z < low || z > high {
            return;
        }
        let span = |axis: usize| {
            let [low, high] = part.tube.reach(axis, margin);
            let size = frame.size(axis);
            let index = |mm: f64| mm / frame.spacing[axis] + 0.5 * size as f64 - 0.5;
            whole_index(index(low), size)..whole_index(index(high) + 2.0, size)
        };
        let columns = span(0);
        for j in span(1) {
            for i in columns.clone() {
                let p = frame.position([i as f64, j as f64, k as f64]);
                let share = cover(to_f32(part.tube.inside(p)), soft) * part.fill;
                let at = &mut hu[j * frame.extent.x + i];
                if share > 0.0 && part.hu > *at {
                    *at = mix(*at, part.hu, share);
                }
            }
        }
    }
}

/// Noise of about 20 HU, smoothed along rows as a scanner's is, more within the body's shadow than in air.
fn add_noise(hu: &mut [f32], frame: &Frame, seed: u64, k: usize) {
    let mut chance = Chance::new(seed, 1000 + k as u64);
    let mut above = vec![0f32; frame.extent.x];
    for row in hu.chunks_mut(frame.extent.x) {
        let mut before = chance.normal();
        for (value, above) in row.iter_mut().zip(above.iter_mut()) {
            let now = chance.normal();
            let smooth = 0.6 * now + 0.4 * before + 0.4 * *above;
            before = now;
            *above = now;
            *value += smooth * if *value < -950.0 { 12.0 } else { 24.0 };
        }
    }
}

/// An index within `0..=size`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the volume before the cast"
)]
fn whole_index(index: f64, size: usize) -> usize {
    index.clamp(0.0, size as f64) as usize
}

/// Rounded to a whole HU that int16 holds, as a scanner stores it.
#[expect(clippy::cast_possible_truncation, reason = "clamped before the cast")]
fn whole(hu: f32) -> i16 {
    (hu.clamp(-1024.0, 3071.0) + 2048.5) as i16 - 2048
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Phantom {
        generate(Extent::new(96, 96, 64), 7)
    }

    #[test]
    fn the_same_seed_gives_the_same_study_whatever_the_threads() {
        let one = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        assert_eq!(one.install(small), small());
        assert_ne!(generate(Extent::new(96, 96, 64), 8).volume, small().volume);
    }

    #[test]
    fn spheres_are_soft_tissue_inside_a_lung_and_as_large_as_they_say() {
        let p = generate(Extent::new(160, 160, 128), 3);
        assert_eq!(p.spheres.len(), 12);
        for s in &p.spheres {
            let middle = p
                .volume
                .at(s.center_index.map(|c| whole_index(c + 0.5, 160)));
            if s.radius_mm > 3.0 {
                assert!(
                    (-120.0..170.0).contains(&middle.unwrap()),
                    "{s:?} {middle:?}"
                );
            }
            let size = s.box_in_volume(p.volume.affine.spacing_mm()).size();
            assert!((f64::from(size[0]) * 2.0 - s.diameter_mm()).abs() < 1e-4);
        }
        assert!(p.spheres.iter().filter(|s| s.on_window_face).count() >= 3);
        assert!(p.spheres.iter().filter(|s| s.diameter_mm() >= 6.0).count() >= 8);
    }

    #[test]
    fn every_size_makes_a_study_even_one_voxel_and_none() {
        for e in [[0, 0, 0], [1, 1, 1], [5, 3, 2], [16, 16, 1], [40, 90, 7]] {
            let e = Extent::from(e);
            assert_eq!(generate(e, 1).volume.voxels.len(), e.voxels());
        }
    }

    #[test]
    fn the_bits_of_a_study_are_the_same_on_every_machine() {
        let Voxels::I16(v) = small().volume.voxels else {
            panic!("whole HU expected")
        };
        let sum: i64 = v.iter().map(|&x| i64::from(x)).sum();
        let mixed = v.iter().fold(0u64, |h, &x| {
            (h ^ u64::from(x.cast_unsigned())).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!((sum, mixed), (-389_784_619, 16_383_385_521_003_092_725));
    }
}
