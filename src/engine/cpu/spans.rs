//! Along one axis: runs of outputs that see the same taps. Padding taps are never multiplied, so borders are runs of their own.

/// A run of outputs along one axis, all with the same taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// First output.
    pub(super) out: usize,
    /// Distance between its outputs.
    pub(super) out_step: usize,
    /// How many outputs.
    pub(super) count: usize,
    /// Distance between the inputs of neighbouring outputs.
    pub(super) in_step: usize,
    /// Taps in ascending order: index in the kernel and the input it meets at the first output.
    pub(super) taps: Vec<(usize, usize)>,
}

/// Kernel, stride, padding before, dilation along one axis, and the sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) pad: usize,
    pub(super) dilation: usize,
    pub(super) input: usize,
    pub(super) output: usize,
}

impl Axis {
    /// The runs of a convolution: output o meets input o * stride - pad + tap * dilation.
    pub(super) fn convolution(&self) -> Vec<Span> {
        let taps = |o: usize| -> Vec<(usize, usize)> {
            (0..self.kernel)
                .filter_map(|k| {
                    let i = (o * self.stride + k * self.dilation).checked_sub(self.pad)?;
                    (i < self.input).then_some((k, i))
                })
                .collect()
        };
        runs(0, 1, self.output, self.stride, &taps)
    }

    /// The runs of a transposed convolution: output o meets input (o + pad - tap * dilation) / stride where that is whole.
    pub(super) fn transposed(&self) -> Vec<Span> {
        let taps = |o: usize| -> Vec<(usize, usize)> {
            (0..self.kernel)
                .filter_map(|k| {
                    let i = (o + self.pad).checked_sub(k * self.dilation)?;
                    (i.is_multiple_of(self.stride) && i / self.stride < self.input)
                        .then_some((k, i / self.stride))
                })
                .collect()
        };
        (0..self.stride.min(self.output))
            .flat_map(|phase| runs(phase, self.stride, self.output, 1, &taps))
            .collect()
    }
}

/// Groups outputs `first, first + step, ...` below `end` by their taps.
fn runs(
    first: usize,
    step: usize,
    end: usize,
    in_step: usize,
    taps: &dyn Fn(usize) -> Vec<(usize, usize)>,
) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for o in (first..end).step_by(step) {
        let here = taps(o);
        if let Some(last) = spans.last_mut() {
            let along = last.count * last.in_step;
            let same = last.taps.len() == here.len()
                && last
                    .taps
                    .iter()
                    .zip(&here)
                    .all(|(a, b)| a.0 == b.0 && a.1 + along == b.1);
            if same {
                last.count += 1;
                continue;
            }
        }
        spans.push(Span {
            out: o,
            out_step: step,
            count: 1,
            in_step,
            taps: here,
        });
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_padded_convolution_has_a_run_for_each_border_and_one_inside() {
        let axis = Axis {
            kernel: 3,
            stride: 1,
            pad: 1,
            dilation: 1,
            input: 8,
            output: 8,
        };
        let spans = axis.convolution();
        assert_eq!(
            spans.iter().map(|s| (s.out, s.count)).collect::<Vec<_>>(),
            [(0, 1), (1, 6), (7, 1)]
        );
        assert_eq!(spans[0].taps, [(1, 0), (2, 1)]);
    }

    #[test]
    fn a_transposed_convolution_has_a_run_for_each_phase() {
        let axis = Axis {
            kernel: 2,
            stride: 2,
            pad: 0,
            dilation: 1,
            input: 4,
            output: 8,
        };
        let spans = axis.transposed();
        assert_eq!(spans.len(), 2);
        assert_eq!((spans[1].out, spans[1].out_step, spans[1].count), (1, 2, 4));
        assert_eq!(spans[1].taps, [(1, 0)]);
    }
}
