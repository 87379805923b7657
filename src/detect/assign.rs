//! The heaviest assignment between two lists where only some pairs may meet: the Hungarian method by shortest augmenting
//! paths, on the pairs that there are instead of a full matrix, so that ten thousand boxes take milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A pair that may be matched, and what it is worth (above 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) weight: i64,
}

/// Pairs `(row, column)` by row, each row and each column at most once, of the greatest sum of weights.
/// Of equal sums always the same one is found: ties go to the lower column.
pub(super) fn heaviest(rows: usize, columns: usize, edges: &[Edge]) -> Vec<(usize, usize)> {
    let mut search = Search::new(rows, columns, edges);
    for row in 0..rows {
        search.place(row);
    }
    let own = search.column_of.iter().enumerate();
    own.filter_map(|(row, c)| c.filter(|c| *c < columns).map(|c| (row, c)))
        .collect()
}

/// Each row has a column of its own besides, worth nothing: to be left alone.
struct Search {
    /// Cost of each pair of a row, never below 0: the heaviest weight less its own.
    costs: Vec<Vec<(usize, i64)>>,
    row_of: Vec<Option<usize>>,
    column_of: Vec<Option<usize>>,
    row_price: Vec<i64>,
    column_price: Vec<i64>,
    /// Distance and last row of the columns that the present search has met.
    met: Vec<Option<(i64, usize)>>,
    done: Vec<bool>,
}

impl Search {
    fn new(rows: usize, columns: usize, edges: &[Edge]) -> Self {
        let most = edges.iter().map(|e| e.weight).max().unwrap_or(0).max(0);
        let mut costs = vec![Vec::new(); rows];
        for e in edges.iter().filter(|e| e.weight > 0) {
            costs[e.row].push((e.column, most - e.weight));
        }
        for (row, list) in costs.iter_mut().enumerate() {
            list.sort_unstable();
            list.push((columns + row, most));
        }
        let all = columns + rows;
        Self {
            costs,
            row_of: vec![None; all],
            column_of: vec![None; rows],
            row_price: vec![0; rows],
            column_price: vec![0; all],
            met: vec![None; all],
            done: vec![false; all],
        }
    }

    /// Gives one more row a column along the cheapest chain of moves.
    fn place(&mut self, start: usize) {
        let cheapest = self.costs[start]
            .iter()
            .map(|&(c, cost)| cost - self.column_price[c])
            .min();
        self.row_price[start] = cheapest.unwrap_or(0);
        let (mut heap, mut touched, mut closed) = (BinaryHeap::new(), Vec::new(), Vec::new());
        let (mut row, mut base) = (start, 0);
        let end = loop {
            for &(c, cost) in &self.costs[row] {
                let at = base + cost - self.row_price[row] - self.column_price[c];
                if self.done[c] || self.met[c].is_some_and(|(d, _)| d <= at) {
                    continue;
                }
                if self.met[c].is_none() {
                    touched.push(c);
                }
                self.met[c] = Some((at, row));
                heap.push(Reverse((at, c)));
            }
            let nearest = loop {
                match heap.pop() {
                    Some(Reverse((_, c))) if self.done[c] => {}
                    other => break other,
                }
            };
            // A row always reaches a place of its own, so the search never runs dry.
            let Some(Reverse((at, column))) = nearest else {
                break None;
            };
            self.done[column] = true;
            closed.push((column, at));
            match self.row_of[column] {
                Some(next) => (row, base) = (next, at),
                None => break Some((column, at)),
            }
        };
        if let Some((column, at)) = end {
            self.settle(start, at, &closed);
            self.move_along(start, column);
        }
        for c in touched {
            (self.met[c], self.done[c]) = (None, false);
        }
    }

    /// Prices after a search that ended at this distance: reduced costs stay at 0 and above, and 0 on matched pairs.
    fn settle(&mut self, start: usize, end: i64, closed: &[(usize, i64)]) {
        self.row_price[start] += end;
        for &(column, at) in closed {
            if let Some(row) = self.row_of[column] {
                self.row_price[row] += end - at;
            }
            self.column_price[column] -= end - at;
        }
    }

    /// Moves each row of the chain to the column by which it was met.
    fn move_along(&mut self, start: usize, end: usize) {
        let mut column = end;
        while let Some((_, row)) = self.met[column] {
            self.row_of[column] = Some(row);
            let before = self.column_of[row].replace(column);
            match before {
                Some(next) if row != start => column = next,
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(edges: &[Edge], pairs: &[(usize, usize)]) -> i64 {
        let weight = |p: &(usize, usize)| {
            let found = edges.iter().find(|e| (e.row, e.column) == *p);
            found.map_or(-1_000_000, |e| e.weight)
        };
        pairs.iter().map(weight).sum()
    }

    /// The best sum by trying everything.
    fn best(edges: &[Edge], row: usize, rows: usize, taken: &mut Vec<usize>) -> i64 {
        if row == rows {
            return 0;
        }
        let mut most = best(edges, row + 1, rows, taken);
        for e in edges.iter().filter(|e| e.row == row) {
            if !taken.contains(&e.column) {
                taken.push(e.column);
                most = most.max(e.weight + best(edges, row + 1, rows, taken));
                taken.pop();
            }
        }
        most
    }

    proptest! {
        #![proptest_config(crate::random_cases::random_cases(300))]

        #[test]
        fn no_other_assignment_weighs_more(
            weights in prop::collection::vec(prop::option::weighted(0.6, 1_i64..20), 30),
            rows in 1_usize..6,
        ) {
            let columns = 30 / rows.max(5);
            let edges: Vec<Edge> = (0..rows * columns)
                .filter_map(|i| weights[i].map(|weight| Edge { row: i / columns, column: i % columns, weight }))
                .collect();
            let pairs = heaviest(rows, columns, &edges);
            prop_assert_eq!(sum(&edges, &pairs), best(&edges, 0, rows, &mut Vec::new()));
            let mut columns_used: Vec<usize> = pairs.iter().map(|p| p.1).collect();
            columns_used.sort_unstable();
            columns_used.dedup();
            prop_assert_eq!(columns_used.len(), pairs.len());
        }
    }

    #[test]
    fn a_second_best_pair_is_taken_where_that_serves_both() {
        let edges = [(0, 0, 10), (0, 1, 9), (1, 0, 8)].map(|(row, column, weight)| Edge {
            row,
            column,
            weight,
        });
        assert_eq!(heaviest(2, 2, &edges), [(0, 1), (1, 0)]);
        assert_eq!(heaviest(2, 2, &[]), []);
    }
}
