//! What a run takes of the host: the resident size of the program, looked at again and again while it works.

use crate::exchange::result::HostRecord;
use crate::units::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

/// Looks at the resident size until it is dropped or asked.
pub(super) struct Watch {
    before: Bytes,
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// How long between two looks.
const EACH: Duration = Duration::from_millis(10);

/// The resident size of this program now; `None` where the system does not say.
fn resident(system: &mut System) -> Option<u64> {
    let pid = sysinfo::get_current_pid().ok()?;
    let what = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    Some(system.process(pid)?.memory())
}

impl Watch {
    /// Begins to look; `None` where the system does not say, or has no thread to spare.
    pub(super) fn begin() -> Option<Self> {
        let mut system = System::new();
        let before = resident(&mut system)?;
        let watch = Self {
            before: Bytes(before),
            peak: Arc::new(AtomicU64::new(before)),
            stop: Arc::new(AtomicBool::new(false)),
        };
        let (peak, stop) = (Arc::clone(&watch.peak), Arc::clone(&watch.stop));
        std::thread::Builder::new()
            .name("host memory".to_owned())
            .spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Some(now) = resident(&mut system) {
                        peak.fetch_max(now, Ordering::Relaxed);
                    }
                    std::thread::sleep(EACH);
                }
            })
            .ok()?;
        Some(watch)
    }

    /// What was seen, beside what the plan says that the run adds.
    pub(super) fn record(&self, planned: Bytes) -> HostRecord {
        let now = resident(&mut System::new()).unwrap_or_default();
        HostRecord {
            before: self.before,
            peak: Bytes(self.peak.fetch_max(now, Ordering::Relaxed).max(now)),
            planned,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_filled_while_watched_shows_in_the_peak_and_stays_after_it_is_given_back() {
        let watch = Watch::begin().unwrap();
        let filled = vec![1_u8; 96 << 20];
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(std::hint::black_box(&filled)[12345], 1);
        drop(filled);
        let seen = watch.record(Bytes::mib(96));
        assert!(seen.peak.0 >= seen.before.0 + (90 << 20), "{seen:?}");
    }
}
