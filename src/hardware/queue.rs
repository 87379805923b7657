//! How long studies wait: the M/M/c queue, by Erlang's second formula.

/// Seconds within which this share of the studies is back, with `n` cards, so many arriving a second and so many seconds for
/// one; `None` where the cards cannot keep up.
pub(super) fn response(share: f64, n: f64, arriving: f64, seconds: f64) -> Option<f64> {
    let offered = arriving * seconds;
    // Past this many cards nobody waits: what is left is the time of one study.
    if offered >= n || n > 1e5 {
        return (offered < n).then(|| -(1.0 - share).ln() * seconds);
    }
    let waits = erlang_c(n, offered);
    let late = |t: f64| beyond(t / seconds, n, offered, waits);
    let (mut low, mut high) = (0.0, seconds);
    while late(high) > 1.0 - share {
        high *= 2.0;
        if high > 1e12 {
            return None;
        }
    }
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if late(middle) > 1.0 - share {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// The share of studies that wait at all, by the recurrence of Erlang's first formula.
fn erlang_c(n: f64, offered: f64) -> f64 {
    let mut blocked = 1.0;
    let mut k = 1.0;
    while k <= n {
        blocked = offered * blocked / (k + offered * blocked);
        k += 1.0;
    }
    n * blocked / (n - offered * (1.0 - blocked))
}

/// The share of studies that take longer than `t` times of one study.
fn beyond(t: f64, n: f64, offered: f64, waits: f64) -> f64 {
    let spare = n - offered;
    let gone = (-t).exp();
    if (spare - 1.0).abs() < 1e-6 {
        return gone * (1.0 + waits * t);
    }
    gone * (1.0 + waits * (1.0 - (-(spare - 1.0) * t).exp()) / (spare - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_card_waits_as_the_textbook_says() {
        // M/M/1 at half load: the time in the system is exponential with mean 2.
        let t = response(0.95, 1.0, 0.5, 1.0).unwrap();
        assert!((t - 20.0_f64.ln() * 2.0).abs() < 1e-6, "{t}");
        // Two servers at an offered load of 1: a third of the studies wait.
        assert!((erlang_c(2.0, 1.0) - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn more_cards_are_never_slower_and_too_few_never_catch_up() {
        assert_eq!(response(0.95, 2.0, 2.0, 1.0), None);
        let mut before = f64::INFINITY;
        for n in [3.0, 4.0, 8.0, 100.0, 100_000.0, 1e6] {
            let t = response(0.95, n, 2.0, 1.0).unwrap();
            assert!(t <= before + 1e-9 && t > 2.9, "{n} {t}");
            before = t;
        }
    }
}
