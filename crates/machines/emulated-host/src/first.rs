//! The first part of a job, which many jobs have alike, under the exact mode. The kept state is a machine that
//! has done it: each of these jobs goes on from there.

use crate::exact::Start;
use crate::kept::{Kept, Store};
use crate::qemu::Purpose;
use crate::relay::Started;
use crate::saved::{make_folder, restore, Machine};
use crate::Error;
use std::fs;
use std::path::Path;

/// Folder of these machines in the cache.
pub(crate) const FIRSTS: &str = "firsts";

impl Start<'_> {
    /// The machine that has done the first part of the job; None where there is no such part, where it is
    /// wanted for the first time, or where it cannot be made.
    pub(crate) fn after_first(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<Option<Started>, Error> {
        let Some(kept) = self.first(stopped, progress)? else { return Ok(None) };
        let purpose = Purpose::AfterFirst { job: self.files, save: false };
        match restore(self.host, &kept.folder, &purpose, self.log, stopped, None) {
            Ok(machine) => Ok(Some(Started { note: kept.note.clone(), ..Started::anew(machine) })),
            // QEMU did not take it: the job begins with nothing.
            Err(error) if error.is_of_restore() => kept.discard().map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether there is such a part, on a machine that can be kept after it.
    pub(crate) fn has_first(&self) -> bool {
        self.job.first.is_some() && self.host.snapshot
    }

    /// The kept machine, on which [`Start::after_first`] has the conditions.
    pub(crate) fn first(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<Option<Kept>, Error> {
        let Some(first) = self.job.first.as_ref().filter(|_| self.has_first()) else {
            return Ok(None);
        };
        let store = Store::new(self.host.cache.join("softkvm").join(FIRSTS));
        if !store.wanted_again(self.key_of("exact first part 1", first)?, 1)? {
            return Ok(None);
        }
        match store.get(self.key_of("exact first part 1", first)?, |folder| {
            self.do_first(folder, stopped, progress)
        }) {
            Ok(kept) => Ok(Some(kept)),
            Err(error @ (Error::Stopped | Error::WallLimit)) => Err(error),
            // The job by itself gives more messages.
            Err(_) => Ok(None),
        }
    }

    /// A copy in `folder` of the machine that has done the first part, which is to be saved once more, and
    /// the place of its buffer.
    pub(crate) fn copy_of_first(
        &self,
        first: &Kept,
        folder: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Machine, Option<u64>), Error> {
        fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
        for name in ["state", "place", "firmware"] {
            let to = folder.join(name);
            fs::copy(first.folder.join(name), &to).map_err(Error::io("cannot write", &to))?;
        }
        let ram = folder.join("ram");
        crate::snapshots::copy(&first.folder.join("ram"), &ram)
            .map_err(Error::io("cannot write", &ram))?;
        let purpose = Purpose::AfterFirst { job: self.files, save: true };
        let machine = restore(self.host, folder, &purpose, self.log, stopped, None)?;
        Ok((machine, Some(crate::saved::read_place(folder)?)))
    }

    /// Does the first part, and saves the machine in `folder`.
    fn do_first(
        &self,
        folder: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<(), Error> {
        progress("booting the guest (kept for later runs)", None);
        make_folder(self.host, folder)?;
        let image = folder.join("image");
        let purpose = Purpose::First { first: &self.files.first, image: &image };
        let machine = self.program(folder, &purpose, stopped)?;
        self.save_paused(machine, folder, None, stopped)?;
        fs::remove_file(&image).map_err(Error::io("cannot remove", &image))
    }
}
