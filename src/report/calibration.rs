//! Measured points and the line through them as data. Positions are (X, GiB).

use super::chart::axis;
use crate::memory::calibrate::{Calibration, Point};
use crate::units::Bytes;

/// The whole chart.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationChart {
    /// The points.
    pub points: Vec<[f64; 2]>,
    /// Both ends of the line, from X = 0 on.
    pub line: Option<[[f64; 2]; 2]>,
    /// Whether the line must not be used.
    pub refused: bool,
    /// Cards: name and usable GiB.
    pub cards: Vec<(String, f64)>,
    /// End of the horizontal axis.
    pub x_max: f64,
    /// Its ticks.
    pub x_ticks: Vec<f64>,
    /// Lower and upper end of the vertical axis, GiB; below zero when the line is.
    pub y: [f64; 2],
    /// Its ticks, GiB.
    pub y_ticks: Vec<f64>,
}

/// The chart of points, with the line where there is one; `None` without points.
pub fn calibration_chart(
    points: &[Point],
    line: Option<&Calibration>,
    cards: &[(String, Bytes)],
) -> Option<CalibrationChart> {
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    let at: Vec<[f64; 2]> = points.iter().map(|p| [p.x, gib(p.bytes)]).collect();
    let most = |i: usize| at.iter().map(|p| p[i]).fold(0.0, f64::max);
    let (x_max, x_ticks) = axis(most(0) * 1.05);
    let mut top = most(1);
    // The next card above the points says what the largest X is for; those far above would flatten the plot.
    let mut cards: Vec<(String, f64)> = cards
        .iter()
        .map(|(name, b)| (name.clone(), b.as_gib()))
        .collect();
    cards.sort_by(|a, b| a.1.total_cmp(&b.1));
    cards.retain(|(_, b)| *b <= top * 1.5);
    if let Some((_, highest)) = cards.last() {
        top = top.max(*highest);
    }
    let (y_max, y_ticks) = axis(top * 1.05);
    let ends = line.map(|l| {
        let on = |x: f64| [x, gib(l.slope.mul_add(x, l.intercept))];
        [on(0.0), on(x_max)]
    });
    let low = ends.map_or(0.0, |[a, b]| a[1].min(b[1])).min(0.0);
    (!at.is_empty()).then_some(CalibrationChart {
        points: at,
        line: ends,
        refused: line.is_some_and(|l| l.refused.is_some()),
        cards,
        x_max,
        x_ticks,
        y: [low * 1.1, y_max],
        y_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::calibrate::fit;

    #[test]
    fn an_impossible_line_is_drawn_to_below_zero_where_it_shows_why() {
        let points: Vec<Point> = [(192.0, 44.0), (100.0, 22.0), (64.0, 10.59)]
            .map(|(x, gb)| Point { x, bytes: gb * 1e9 })
            .to_vec();
        let line = fit(&points).unwrap();
        let cards = [
            ("16 GB".to_owned(), Bytes::gib(15)),
            ("80 GB".to_owned(), Bytes::gib(79)),
        ];
        let chart = calibration_chart(&points, Some(&line), &cards).unwrap();
        let [start, _] = chart.line.unwrap();
        assert!(chart.refused && start[0] == 0.0 && start[1] < -4.0);
        assert!(chart.y[0] < start[1] && chart.y[1] >= 41.0 && chart.x_max >= 192.0);
        assert_eq!(
            chart.cards.len(),
            1,
            "the large card would flatten the plot"
        );
        assert_eq!(calibration_chart(&[], None, &cards), None);
    }
}
