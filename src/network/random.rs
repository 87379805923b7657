//! Random networks for tests of laws: skips, residuals, ways down and up of every kind, norms over space.

use super::builder::{Builder, Conv};
use super::graph::{Act, Graph, TensorId};

/// Numbers that a random network is made from, one after the other.
pub(crate) struct Dice(Vec<usize>, usize);

impl Dice {
    /// Dice that fall as these numbers say; at least one.
    pub(crate) const fn new(numbers: Vec<usize>) -> Self {
        Self(numbers, 0)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.1 += 1;
        self.0[self.1 % self.0.len()] / (1 + self.1 / self.0.len()) % sides
    }
}

/// A random network with skips, residuals, ups and downs of every kind, with or without norms over space.
pub(crate) fn network(dice: &mut Dice, norms: bool) -> Graph {
    let mut b = Builder::new("random", 3);
    let x = b.input("x", 1 + dice.roll(2));
    let mut width = 1 + dice.roll(9);
    let kernel = [1 + 2 * dice.roll(3), 1 + 2 * dice.roll(2), 3];
    let mut x = b.conv("first", x, Conv::new(width, &kernel));
    let mut skips = Vec::new();
    for level in 0..2 {
        for i in 0..=dice.roll(2) {
            let at = format!("down{level}.{i}");
            let y = b.conv(&at, x, Conv::k3(width));
            let y = norm(&mut b, dice, norms, &format!("{at}.n"), y);
            let y = b.act(&format!("{at}.a"), y, Act::LeakyRelu { slope: 0.1 }, false);
            x = match dice.roll(3) {
                0 => b.add(&format!("{at}.sum"), y, x, false),
                _ => y,
            };
        }
        skips.push(x);
        let at = format!("pool{level}");
        x = match dice.roll(4) {
            0 => b.max_pool(&at, x, &[2; 3], &[2; 3], &[0; 3]),
            1 => b.max_pool(&at, x, &[3; 3], &[2; 3], &[1; 3]),
            2 => {
                width += 2;
                b.conv(&at, x, Conv::k3(width).stride(&[2; 3]))
            }
            _ => {
                width += 1;
                b.conv(&at, x, Conv::k1(width).stride(&[2; 3]))
            }
        };
    }
    x = b.conv("bottom", x, Conv::k3(width));
    let mut outs = vec![];
    for level in (0..2).rev() {
        let skip = skips[level];
        let channels = b.channels(skip);
        let at = format!("up{level}");
        let up = match dice.roll(3) {
            0 => b.conv_transpose(&at, x, channels, &[2; 3], true),
            1 => {
                let up = b.upsample_nearest(&at, x, &[2; 3]);
                b.conv(&format!("{at}.c"), up, Conv::k1(channels))
            }
            _ => {
                let narrow = b.conv(&format!("{at}.c"), x, Conv::k1(channels));
                b.upsample_linear(&at, narrow, &[2; 3])
            }
        };
        let joined = match dice.roll(2) {
            0 => b.add(&format!("{at}.sum"), up, skip, false),
            _ => b.concat(&format!("{at}.cat"), &[up, skip]),
        };
        if dice.roll(4) == 0 {
            outs.push(joined);
        }
        x = b.conv(&format!("{at}.conv"), joined, Conv::k3(channels));
        x = norm(&mut b, dice, norms, &format!("{at}.n"), x);
        x = b.act(&format!("{at}.a"), x, Act::Relu, false);
    }
    let out = b.conv("out", x, Conv::k1(2));
    outs.push(b.act("scores", out, Act::Sigmoid, false));
    for out in outs {
        b.output(out);
    }
    b.finish()
}

fn norm(b: &mut Builder, dice: &mut Dice, norms: bool, at: &str, x: TensorId) -> TensorId {
    match dice.roll(3) {
        0 => b.batch_norm(at, x),
        1 if norms => b.instance_norm(at, x, true),
        2 if norms => b.group_norm(at, x, 1),
        _ => x,
    }
}
