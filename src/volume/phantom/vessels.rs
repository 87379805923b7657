//! Trees of narrowing tubes from the lung roots outward: the look-alikes that make finding spheres a task.

use super::anatomy::{Chest, to_f32};
use super::chance::Chance;
use super::shape::{Tube, length};

/// All vessels of both lungs.
pub(super) fn grow(chest: &Chest, seed: u64) -> Vec<Tube> {
    let mut tree = Tree {
        chest,
        chance: Chance::new(seed, 2),
        tubes: Vec::new(),
    };
    for side in [-1.0, 1.0] {
        let root = [side * 30.0, 12.0, chest.carina() - 24.0];
        for _ in 0..16 {
            let mut way = tree.chance.direction();
            way[0] = side * (way[0].abs() + 0.35);
            way[2] *= 1.3;
            let radius = tree.chance.between(2.4, 4.0);
            tree.branch(root, way, radius, 0);
        }
    }
    tree.tubes
}

/// Vessels grown so far.
struct Tree<'a> {
    chest: &'a Chest,
    chance: Chance,
    tubes: Vec<Tube>,
}

impl Tree<'_> {
    fn branch(&mut self, from: [f64; 3], way: [f64; 3], radius: f64, depth: usize) {
        if depth > 11 || radius < 0.4 || self.tubes.len() > 4000 {
            return;
        }
        let long = self.chance.between(8.0, 15.0) * if depth == 0 { 1.5 } else { 1.0 };
        let unit = way.map(|c| c / length(way));
        let to: [f64; 3] = std::array::from_fn(|a| from[a] + unit[a] * long);
        let inside = f64::from(self.chest.inside_lung(to.map(to_f32)));
        if inside < radius + 1.0 && depth > 0 {
            return;
        }
        let end = radius * 0.9;
        self.tubes.push(Tube {
            ends: [from, to],
            radius: [radius, end],
        });
        let ahead = self.turned(unit, 0.3);
        self.branch(to, ahead, end * 0.94, depth + 1);
        if self.chance.unit() < 0.8 {
            let aside = self.turned(unit, 0.9);
            let thinner = end * self.chance.between(0.5, 0.78);
            self.branch(to, aside, thinner, depth + 1);
        }
    }

    /// A direction turned aside by about `by`.
    fn turned(&mut self, unit: [f64; 3], by: f64) -> [f64; 3] {
        let aside = self.chance.direction();
        std::array::from_fn(|a| unit[a] + by * aside[a])
    }
}
