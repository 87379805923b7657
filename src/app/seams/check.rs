//! Whether an opened result is of the very volume that is open: by its voxels, hashed on a thread.

use crate::app::derived::key;
use crate::app::state::{Severity, State};
use crate::app::work::{Kind, News};
use crate::exchange::result::volume_sha256;

impl State {
    /// Hashes the open volume when a result of a file lies beside it.
    pub(in crate::app) fn derive_volume_check(&mut self) {
        let generation = self.volume_state().map(|v| v.generation);
        let of_file = self.outcome.as_ref().filter(|o| o.path.is_some());
        let wanted = of_file.and_then(|o| Some((o.id, o.result.volume_sha256.clone()?)));
        let (Some((id, wanted)), Some(volume)) = (wanted, self.whole_volume()) else {
            self.seams.other_volume = false;
            self.seams.volume_key = 0;
            return;
        };
        let new_key = key(&(id, generation));
        if new_key == self.seams.volume_key {
            return;
        }
        self.seams.volume_key = new_key;
        self.seams.other_volume = false;
        self.spawn(Kind::Hash, "Check the result's volume", move |_, out| {
            let same = volume_sha256(volume.extent, &volume.voxels) == wanted;
            let _closed = out.send(News::VolumeChecked(new_key, same));
        });
    }

    pub(in crate::app) fn take_volume_check(&mut self, of: u64, same: bool) {
        if of != self.seams.volume_key || same {
            return;
        }
        self.seams.other_volume = true;
        self.say(
            Severity::Warning,
            "The result is of another volume",
            "its voxels are not those of the study that is open, so boxes and seams may lie anywhere: open the study that it was run on",
        );
    }
}
