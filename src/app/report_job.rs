//! The report of what is on screen, written on a thread.

use super::page::Page;
use super::state::State;
use super::work::{Kind, saved};
use crate::geometry::Axis;
use std::path::Path;
use std::sync::Arc;

impl State {
    /// The report page of what is on screen; a result of an older plan says so.
    pub fn page(&self) -> Page {
        let d = &self.document;
        let network = self
            .network
            .info()
            .map_or_else(|| "no network".to_owned(), |n| n.model.graph.name.clone());
        let roi = super::document::roi_text(d.roi_size, "x");
        let plan = format!(
            "{network}, roi {roi}, overlap {}, {}, {}",
            super::document::overlap_text(d.overlap),
            d.layout.name(),
            format!("{:?}, {:?}", d.precision, d.runtime).to_lowercase()
        );
        let mut notes: Vec<String> = self
            .derived
            .warnings
            .iter()
            .map(|w| w.text.clone())
            .collect();
        if let Some(e) = &self.derived.exactness {
            notes.insert(0, format!("Exactness forecast: {}", e.verdict));
        }
        let stale = self.stale();
        if !stale.is_empty() {
            notes.push(format!(
                "The result is from an older plan: {}",
                stale.join(", ")
            ));
        }
        Page {
            title: format!("{network} on {}", self.page_subject()),
            plan,
            budget: self.derived.budget.clone().and_then(Result::ok),
            cards: d
                .cards
                .iter()
                .filter_map(|id| self.catalogue.get(id).ok().cloned())
                .collect(),
            focus: d.card_in_focus.clone(),
            surface: self.derived.surface.clone().and_then(|s| {
                let roi = self.derived.plan()?.roi;
                Some((s, roi, d.batch))
            }),
            result: self.outcome.as_ref().map(|o| o.result.clone()),
            volume: self.whole_volume().map(|v| (v, self.window_level())),
            faces: Axis::ALL.map(|axis| {
                let here = self.derived.seams.iter().filter(|s| s.axis == axis);
                here.map(|s| s.at).collect()
            }),
            notes,
        }
    }

    fn page_subject(&self) -> String {
        self.study.as_ref().and_then(|s| s.selected()).map_or_else(
            || format!("a volume of {}", self.document.volume_without_data),
            |s| s.subject.clone(),
        )
    }

    pub(super) fn start_report(&mut self, path: &Path) {
        let page = self.page();
        let path = Arc::<Path>::from(path);
        self.spawn(Kind::Other, "Write report", move |_, out| {
            let figures = page.figures();
            let done = page.write(&figures, &path).map_err(|e| e.to_string());
            let _closed = out.send(saved("Report saved", &path, done));
        });
    }
}
