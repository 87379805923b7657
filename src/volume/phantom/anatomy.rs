//! The chest without its vessels and spheres: what lies at a point in mm (x to the left, y to the back, z to the head).

use super::chance::{Chance, SmoothNoise};
use super::shape::{cover, floor, hyp, in_ellipse, in_ellipsoid, mix};

const AIR: f32 = -1000.0;
const FAT: f32 = -95.0;
const MUSCLE: f32 = 48.0;
const BLOOD: f32 = 42.0;
const LIVER: f32 = 62.0;
const MARROW: f32 = 190.0;
const CORTEX: f32 = 640.0;

/// One person's measures, drawn from a seed.
#[derive(Clone, Debug)]
pub(super) struct Chest {
    seed: u64,
    body: [f32; 2],
    fat: f32,
    lung_center: [f32; 2],
    lung_half: [f32; 2],
    apex: f32,
    floor: f32,
    dome: f32,
    heart: [f32; 3],
    heart_half: [f32; 3],
    rib_step: f32,
    rib_phase: f32,
    disc_phase: f32,
    lung_hu: f32,
    carina: f32,
}

/// How far inside a lung a point lies in mm, and the side (-1 right, 1 left).
#[derive(Clone, Copy)]
struct InLung {
    inside: f32,
    above_dome: f32,
}

/// The smooth fields that tissue varies with.
pub(super) struct Textures {
    coarse: SmoothNoise,
    fine: SmoothNoise,
    bowel: SmoothNoise,
    fat: SmoothNoise,
}

impl Chest {
    pub(super) fn new(seed: u64) -> Self {
        let mut c = Chance::new(seed, 1);
        let mut near =
            |middle: f64, spread: f64| to_f32(c.between(middle - spread, middle + spread));
        Self {
            seed,
            body: [near(149.0, 3.0), near(103.0, 3.0)],
            fat: near(11.0, 4.0),
            lung_center: [near(67.0, 2.0), near(2.0, 3.0)],
            lung_half: [near(55.0, 3.0), near(73.0, 3.0)],
            apex: near(116.0, 8.0),
            floor: near(-112.0, 8.0),
            dome: near(42.0, 8.0),
            heart: [near(16.0, 5.0), near(-26.0, 4.0), near(-46.0, 8.0)],
            heart_half: [near(57.0, 5.0), near(44.0, 4.0), near(56.0, 6.0)],
            rib_step: near(25.0, 1.5),
            rib_phase: near(0.0, 12.0),
            disc_phase: near(0.0, 13.0),
            lung_hu: near(-850.0, 20.0),
            carina: near(32.0, 6.0),
        }
    }

    /// The textures of this person; one set for each thread.
    pub(super) fn textures(&self) -> Textures {
        let [coarse, fine, bowel, fat] =
            [0xa1, 0xa2, 0xa3, 0xa4].map(|n| SmoothNoise::new(self.seed ^ n));
        Textures {
            coarse,
            fine,
            bowel,
            fat,
        }
    }

    /// The carina's height, where the airway forks and the vessels start.
    pub(super) fn carina(&self) -> f64 {
        f64::from(self.carina)
    }

    /// How far inside the lungs' air space a point lies, in mm (negative outside).
    pub(super) fn inside_lung(&self, p: [f32; 3]) -> f32 {
        let lung = self.lung(p);
        let d = lung.inside.min(lung.above_dome);
        d.min(-self.inside_middle(p))
    }

    fn lung(&self, [x, y, z]: [f32; 3]) -> InLung {
        let [a, b] = self.lung_half;
        // Narrower above: the ellipse shrinks to nothing at the apex, along a quarter of an ellipse.
        let rise = ((z + 10.0) / (self.apex + 10.0)).clamp(0.0, 1.0);
        let width = (1.0 - rise * rise).sqrt();
        let u = x.abs() - self.lung_center[0] + (1.0 - width) * 18.0;
        let v = y - self.lung_center[1];
        let shrink = if width < 0.05 { 0.05 } else { width };
        let inside = in_ellipse(u, v, a * shrink, b * shrink);
        let q = ((u / a) * (u / a) + (v / b) * (v / b)).min(1.0);
        let lift = if x < 0.0 { 8.0 } else { 0.0 };
        InLung {
            inside: if z < self.apex {
                inside
            } else {
                -1.0 - (z - self.apex)
            },
            above_dome: (z - self.floor - lift - self.dome * (1.0 - q)) * 0.8,
        }
    }

    /// How far inside the heart, the great vessels or the tissue between the lungs a point lies, in mm.
    fn inside_middle(&self, [x, y, z]: [f32; 3]) -> f32 {
        let heart = in_ellipsoid(
            [
                x - self.heart[0] - 0.25 * (y - self.heart[1]),
                y - self.heart[1],
                z - self.heart[2],
            ],
            self.heart_half,
        );
        let column = in_ellipse(x - 2.0, y - 8.0, 25.0, 62.0);
        let aorta = 12.5 - hyp(x - 20.0, y - 48.0);
        let aorta = if z < self.carina + 34.0 { aorta } else { -20.0 };
        heart.max(column).max(aorta)
    }

    /// HU at a point, edges `soft` mm wide.
    pub(super) fn hu(&self, p: [f32; 3], soft: f32, textures: &mut Textures) -> f32 {
        let [x, y, _] = p;
        let body = in_ellipse(x, y, self.body[0], self.body[1]);
        if body < -soft {
            return self.couch(x, y, soft);
        }
        let lung = self.lung(p);
        let middle = self.inside_middle(p);
        let in_lung = lung.inside.min(lung.above_dome).min(-middle);
        let air = cover(in_lung, soft);
        let mut hu = 0.0;
        if air < 1.0 {
            hu = self.wall(body, soft);
            hu = belly(p, hu, lung, soft, textures);
            hu = mediastinum(p, hu, middle, soft, textures);
            hu = self.bones(p, hu, soft);
        }
        if air > 0.0 {
            hu = mix(hu, self.parenchyma(p, textures), air);
        }
        self.airway(p, hu, soft)
    }

    fn couch(&self, x: f32, y: f32, soft: f32) -> f32 {
        let top = self.body[1] + 7.0 - x * x / 900.0;
        let below = y - top;
        if x.abs() > 140.0 || below < -soft {
            return AIR;
        }
        let shell =
            cover(1.5 - (below - 1.5).abs(), soft).max(cover(1.5 - (below - 17.0).abs(), soft));
        mix(
            AIR,
            if (3.0..15.5).contains(&below) {
                -930.0
            } else {
                -560.0
            },
            shell.max(cover(8.0 - (below - 9.0).abs(), soft)),
        )
    }

    fn parenchyma(&self, p: [f32; 3], textures: &mut Textures) -> f32 {
        let coarse = textures.coarse.at(p.map(|c| c / 17.0));
        let fine = textures.fine.at(p.map(|c| c / 5.0));
        self.lung_hu + 0.22 * p[1] + 14.0 * coarse + 18.0 * fine
    }

    /// Skin, fat and muscle.
    fn wall(&self, body: f32, soft: f32) -> f32 {
        let hu = mix(AIR, 20.0, cover(body, soft));
        let hu = mix(hu, FAT, cover(body - 2.0, soft));
        mix(hu, MUSCLE, cover(body - 2.0 - self.fat, soft))
    }

    fn bones(&self, [x, y, z]: [f32; 3], hu: f32, soft: f32) -> f32 {
        let hu = self.ribs(x, y, z, hu, soft);
        let hu = self.spine(x, y, z, hu, soft);
        let sternum = (15.0 - x.abs())
            .min(5.0 - (y + self.body[1] - 20.0).abs())
            .min(z + 70.0);
        bone(hu, sternum, 2.0, soft)
    }

    fn ribs(&self, x: f32, y: f32, z: f32, hu: f32, soft: f32) -> f32 {
        let [a, b] = [self.body[0] - 22.0, self.body[1] - 17.0];
        let radial = in_ellipse(x, y, a, b);
        if radial.abs() > 8.0 || y < -b * 0.86 {
            return hu;
        }
        // Ribs fall towards the front.
        let slanted = (z - 0.55 * y + self.rib_phase) / self.rib_step;
        let off = (slanted - floor(slanted) - 0.5) * self.rib_step;
        let inside = 1.0 - hyp(radial / 4.6, off / 7.0);
        bone(hu, inside * 4.6, 1.6, soft)
    }

    fn spine(&self, x: f32, y: f32, z: f32, hu: f32, soft: f32) -> f32 {
        let back = self.body[1] - 36.0;
        if x.abs() > 32.0 || y < back - 22.0 {
            return hu;
        }
        let cycle = (z + self.disc_phase) / 26.0;
        let disc = ((cycle - floor(cycle) - 0.5) * 26.0).abs();
        let body = in_ellipse(x, y - back, 18.0, 15.0);
        let hu = mix(hu, 85.0, cover(body, soft));
        let hu = bone(hu, body.min(11.0 - disc), 1.8, soft);
        let arch = in_ellipse(x, y - back - 21.0, 14.0, 11.0);
        let hu = bone(hu, arch, 3.5, soft);
        let hu = mix(hu, 30.0, cover(7.5 - hyp(x, y - back - 20.0), soft));
        let process = (2.6 - x.abs())
            .min(y - back - 28.0)
            .min(back + 46.0 - y)
            .min(9.0 - disc);
        let wing = (3.2 - (y - back - 18.0 - 0.15 * x.abs()).abs())
            .min(x.abs() - 8.0)
            .min(30.0 - x.abs())
            .min(6.0 - disc);
        bone(hu, process.max(wing), 1.5, soft)
    }

    /// The windpipe and the two main airways, dark with a thin wall.
    fn airway(&self, [x, y, z]: [f32; 3], hu: f32, soft: f32) -> f32 {
        let drop = self.carina - z;
        let (inside, wall) = if drop < 0.0 {
            (8.5 - hyp(x, y - 8.0), 1.8)
        } else if drop < 46.0 {
            // The right one is steeper and wider.
            let slope = if x < 0.0 { 0.75 } else { 1.05 };
            let off = x.abs() - slope * drop;
            let across = off * if x < 0.0 { 0.8 } else { 0.69 };
            let v = y - 8.0 - 0.2 * drop;
            (6.8 - 0.05 * drop - hyp(across, v), 1.4)
        } else {
            return hu;
        };
        let hu = mix(hu, 20.0, cover(inside + wall, soft));
        mix(hu, -985.0, cover(inside, soft))
    }
}

/// Below the domes: liver on the right, a fatty and gassy mixture on the left.
fn belly(p: [f32; 3], hu: f32, lung: InLung, soft: f32, textures: &mut Textures) -> f32 {
    let share = cover(lung.inside.min(-lung.above_dome), soft);
    if share <= 0.0 {
        return hu;
    }
    let left = cover(p[0] - 8.0, 12.0);
    let bowel = textures.bowel.at(p.map(|c| c / 22.0));
    let gas = cover(bowel * 40.0 - 22.0, soft);
    let mixture = mix(-40.0 + 80.0 * bowel, -820.0, gas);
    mix(hu, mix(LIVER, mixture, left), share)
}

/// Heart, great vessels and what lies between the lungs, loose fat in it.
fn mediastinum(p: [f32; 3], hu: f32, middle: f32, soft: f32, textures: &mut Textures) -> f32 {
    let share = cover(middle, soft);
    if share <= 0.0 {
        return hu;
    }
    let fat = textures.fat.at(p.map(|c| c / 15.0));
    mix(hu, mix(BLOOD, FAT + 30.0, cover(fat - 0.45, 0.5)), share)
}

/// Marrow within a rim of cortex `rim` mm thick.
fn bone(hu: f32, inside: f32, rim: f32, soft: f32) -> f32 {
    let outer = cover(inside, soft);
    if outer <= 0.0 {
        return hu;
    }
    let within = mix(CORTEX, MARROW, cover(inside - rim, soft));
    mix(hu, within, outer)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a measure in mm or HU needs no more than f32"
)]
pub(super) fn to_f32(v: f64) -> f32 {
    v as f32
}
