//! What to buy for the plan's load: reckoned on a thread while the Buy workspace is open, again when what it rests on changes.

use super::derived::{key, request};
use super::document::{Document, Mode};
use super::state::State;
use super::view::Workspace;
use super::work::{Kind, News};
use crate::geometry::Extent;
use crate::hardware::{
    Card, Catalogue, Choice, Costs, Knob, MOST_STUDIES, NetworkWork, Offer, Work, Workload,
    choices, shortlist,
};
use crate::network::Model;
use crate::report::scatter::{Scatter, cost_chart};
use std::sync::Arc;

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buying {
    /// One offer for each card that can be bought, in the order of the catalogue.
    pub offers: Vec<Offer>,
    /// Ways to carry the load, the cheapest first.
    pub choices: Vec<Choice>,
    /// Cost against throughput; `None` where nothing fits and is priced.
    pub chart: Option<Scatter>,
}

/// What costs are reckoned with: the defaults, and what was set by hand.
pub fn costs(document: &Document) -> Costs {
    let mut costs = Costs::builtin();
    for (knob, value) in &document.costs {
        // A plan file may hold anything; what makes no sense leaves the default.
        let _refused = costs.set(*knob, *value);
    }
    costs
}

/// Studies a day as typed.
pub fn studies(text: &str) -> Result<f64, String> {
    match text.trim().replace([',', ' '], "").parse::<f64>() {
        Ok(n) if n > 0.0 && n <= MOST_STUDIES => Ok(n),
        _ => Err(format!(
            "studies a day are a number above 0 and at most {}, found {text}",
            crate::units::number(MOST_STUDIES, 0)
        )),
    }
}

/// A cost figure as typed, such as `life_years=5`.
pub fn cost(text: &str) -> Result<(Knob, f64), String> {
    let names = || Knob::ALL.map(Knob::name).join(", ");
    let (name, value) = text.split_once('=').ok_or_else(|| {
        format!(
            "type NAME=VALUE, such as life_years=5; names are {}",
            names()
        )
    })?;
    let knob = Knob::ALL
        .into_iter()
        .find(|k| k.name() == name.trim())
        .ok_or_else(|| format!("no figure {}; there are {}", name.trim(), names()))?;
    let value = value
        .trim()
        .parse()
        .map_err(|_e| format!("{} is a number, found {}", knob.name(), value.trim()))?;
    Costs::builtin().set(knob, value)?;
    Ok((knob, value))
}

/// What the answer is reckoned from.
struct Question {
    document: Document,
    model: Arc<Model>,
    catalogue: Arc<Catalogue>,
    roi: Extent,
    volume: Extent,
    loaded: Extent,
    n_windows: usize,
}

fn answer(q: &Question) -> Result<Buying, String> {
    let input = &q.model.manifest.input;
    let precision = q.document.precision;
    let work = Work::of(&q.model.graph, q.roi, input.axes, precision).map_err(|e| e.to_string())?;
    let voxels = |e: Extent| e.voxels() as u64;
    let workload = Workload {
        networks: vec![NetworkWork {
            request: request(&q.document, &q.model, q.roi, q.volume),
            work,
            n_windows: q.n_windows,
            resampled_voxels: input.spacing_mm.map(|_| voxels(q.loaded)),
        }],
        loaded_voxels: voxels(q.loaded),
        studies_per_day: q.document.studies_per_day,
        display: q.document.display,
        measured: None,
    };
    let costs = costs(&q.document);
    let all = q.catalogue.cards().iter();
    let cards: Vec<&Card> = all.filter(|c| c.can_be_bought()).collect();
    let offers = shortlist(&workload, &cards, &costs).map_err(|e| e.to_string())?;
    Ok(Buying {
        choices: choices(&offers, &cards, &workload, &costs),
        chart: cost_chart(&offers, &cards, costs.get(Knob::BusyAtMost)),
        offers,
    })
}

impl State {
    /// Starts the reckoning when something that it rests on has changed; nothing while another workspace is open.
    pub(super) fn derive_buying(&mut self) {
        if self.view.workspace != Workspace::Buy {
            return;
        }
        let (Some(network), Some(plan)) = (self.network.info(), self.derived.plan()) else {
            self.derived.buying = None;
            self.derived.buying_key = 0;
            self.jobs.drop_kind(Kind::Buying);
            return;
        };
        let (roi, volume, n_windows) = (plan.roi, plan.volume, plan.n_windows());
        let d = &self.document;
        let costs: Vec<(Knob, f64)> = d.costs.iter().map(|(k, v)| (*k, *v)).collect();
        let loaded = self.derived.loaded.unwrap_or(volume);
        let new_key = key(&(
            (roi, volume, n_windows, loaded),
            (self.network_generation, d.runtime, d.mode, d.precision),
            (d.batch, d.stitch_on, d.display, d.blend, d.memory_limit),
            (d.expandable_segments, d.studies_per_day, costs),
        ));
        if new_key == self.derived.buying_key {
            return;
        }
        self.derived.buying_key = new_key;
        if d.mode == Mode::Training {
            let why = "a load of studies is inference: choose it in Plan";
            self.derived.buying = Some(Err(why.to_owned()));
            return;
        }
        let question = Question {
            document: d.clone(),
            model: Arc::clone(&network.model),
            catalogue: Arc::clone(&self.catalogue),
            roi,
            volume,
            loaded,
            n_windows,
        };
        self.spawn(Kind::Buying, "What to buy", move |_, out| {
            let found = answer(&question).map(Arc::new);
            let _closed = out.send(News::Buying(new_key, found));
        });
    }

    /// Takes an answer in, unless what it rests on has changed since.
    pub(super) fn take_buying(&mut self, of: u64, found: Result<Arc<Buying>, String>) {
        if of == self.derived.buying_key {
            self.derived.buying = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{Command, SettingsDir};
    use crate::jobs::Waker;
    use crate::memory::Verdict;
    use std::time::Duration;

    fn settled(commands: impl IntoIterator<Item = Command>) -> State {
        let mut s = State::new(SettingsDir::none(), Waker::default());
        for c in commands {
            s.dispatch(c);
            while !s.settle(Duration::from_millis(20)) {}
        }
        s
    }

    #[test]
    fn the_shortlist_follows_the_load_and_the_price_of_power() {
        let mut s = settled([
            Command::SetNetwork("preset:monai-lung-nodule".to_owned()),
            Command::SetRoi([512, 512, 64]),
        ]);
        assert!(s.derived.buying.is_none(), "nobody looks at it yet");
        let mut ask = |c: Command| {
            s.dispatch(c);
            while !s.settle(Duration::from_millis(20)) {}
            s.derived.buying.clone().unwrap().unwrap()
        };
        let few = ask(Command::ShowWorkspace(Workspace::Buy));
        let many = ask(Command::SetStudiesPerDay(1e6));
        let dear = ask(Command::SetCost((Knob::UsdPerKwh, 1.0)));
        let n = |b: &Buying| b.choices[0].cards.iter().map(|c| c.n).sum::<u64>();
        assert!(n(&many) > 100 * n(&few), "{} {}", n(&many), n(&few));
        let cost = |b: &Buying| {
            let running = |o: &Offer| o.running.as_ref()?.cost_at_full_load;
            let fits = |o: &&Offer| o.verdict == Verdict::Fits;
            b.offers
                .iter()
                .filter(fits)
                .filter_map(running)
                .sum::<f64>()
        };
        assert!(cost(&dear) > cost(&many));
        assert!(dear.chart.is_some());
    }

    #[test]
    fn what_is_typed_is_taken_or_refused_in_a_sentence() {
        assert_eq!(studies("20,000"), Ok(20_000.0));
        for bad in ["0", "-1", "nan", "1e12", "many"] {
            assert!(studies(bad).unwrap_err().contains("above 0"), "{bad}");
        }
        assert_eq!(cost("life_years = 5"), Ok((Knob::LifeYears, 5.0)));
        for bad in ["life_years", "life_years=0", "lifetime=4", "life_years=x"] {
            assert!(cost(bad).is_err(), "{bad}");
        }
    }
}
