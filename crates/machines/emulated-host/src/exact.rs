//! The machine of the exact mode: the program itself below the guest, on the bare machine
//! (`stasis_bare`). The kept state is a machine whose guest is about to ask for its task.

use crate::kept::{Kept, Key, Store};
use crate::qemu::{machine, JobFiles, Purpose};
use crate::relay::{pump, Sent};
use crate::snapshot::{convert, make_folder, restore, save, write, Machine, MAX_MOVE};
use crate::{Control, Error, Host, Job};
use stasis_qemu_vm::process::find_qemu;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Limit on the bytes of a guest's boot events for its machine to be kept.
const MAX_TOLD: usize = 16 << 20;

/// One run's machine.
pub(crate) struct Start<'a> {
    pub host: &'a Host,
    pub job: &'a Job,
    pub files: &'a JobFiles,
    pub log: &'a Path,
    pub control: &'a Control,
}

impl Start<'_> {
    /// Starts the machine from its first instruction. `folder` is needed while it
    /// starts only.
    pub(crate) fn anew(
        &self,
        folder: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Machine, Error> {
        self.program(folder, false, stopped)
    }

    /// The machine and the events of its guest's boot, from a machine that is kept; None where it
    /// is not to be kept, or cannot be.
    pub(crate) fn kept(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<Option<(Machine, Vec<u8>)>, Error> {
        let store = Store::new(self.host.cache.join("softkvm/guests"));
        if !self.job.keeps || !self.host.snapshot || !store.wanted_again(self.key()?)? {
            return Ok(None);
        }
        // The second time what is kept is made anew: it was damaged.
        for last in [false, true] {
            let kept = match store.get(self.key()?, |folder| self.boot(folder, stopped, progress)) {
                Ok(kept) => kept,
                Err(error @ (Error::Stopped | Error::WallLimit)) => return Err(error),
                // A guest that does not come up gives more messages in a run that keeps no machine.
                Err(_) => return Ok(None),
            };
            match self.restore(&kept, stopped) {
                Ok(started) => return Ok(Some(started)),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) if last => return Err(error),
                Err(_) => kept.discard()?,
            }
        }
        Ok(None)
    }

    fn restore(
        &self,
        kept: &Kept,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Machine, Vec<u8>), Error> {
        let told = kept.folder.join("told");
        let told = fs::read(&told).map_err(Error::io("cannot read", &told))?;
        let purpose = Purpose::Restore { job: self.files };
        Ok((restore(self.host, &kept.folder, &purpose, self.log, stopped)?, told))
    }

    /// Everything that a kept machine depends on.
    fn key(&self) -> Result<Key, Error> {
        let mut key = Key::new("exact guest 1");
        // To read all of it would take longer than the rest of a run's start.
        key.file(&self.host.executable)?;
        key.file(&find_qemu().ok_or(Error::QemuMissing)?)?;
        machine(self.host).iter().for_each(|argument| key.part(argument.as_bytes()));
        key.part(&self.job.machine);
        for input in self.host.inputs.iter().filter(|input| !input.late) {
            key.part(input.name.as_bytes());
            key.file(&input.path)?;
        }
        Ok(key)
    }

    /// Runs the guest until it asks what it is to do, and saves the machine in
    /// `folder`.
    fn boot(
        &self,
        folder: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<(), Error> {
        progress("booting the guest (kept for later runs)", None);
        make_folder(self.host, folder)?;
        let mut machine = self.program(folder, true, stopped)?;
        let (mut told, mut place) = (Vec::new(), None);
        pump(&mut machine, self.control, |sent| {
            match sent {
                Sent::Bytes(bytes) => told.extend_from_slice(&bytes),
                Sent::Place(address) => place = Some(address),
                Sent::Pause => return Ok(true),
                // No debugger has hold of it yet.
                Sent::Again(_) => return Err(Error::NotKept),
            }
            match told.len() {
                length if length > MAX_TOLD => Err(Error::NotKept),
                _ => Ok(false),
            }
        })?;
        let Machine { mut qemu, qmp, .. } = machine;
        let state = save(&mut qmp.until(stopped), folder, MAX_MOVE)
            .map_err(|error| convert(error, "pause", MAX_MOVE, &mut qemu))?;
        drop(qemu);
        let path = folder.join("told");
        fs::write(&path, told).map_err(Error::io("cannot write", &path))?;
        let path = folder.join("image");
        fs::remove_file(&path).map_err(Error::io("cannot remove", &path))?;
        write(folder, &state, place.ok_or(Error::NotKept)?, false)
    }

    fn program(
        &self,
        folder: &Path,
        save: bool,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Machine, Error> {
        let host = self.host;
        let executable =
            fs::read(&host.executable).map_err(Error::io("cannot read", &host.executable))?;
        let program = stasis_bare::image(&executable, host.megabytes() << 20)?;
        let write = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).map_err(Error::io("cannot write", path))
        };
        let image = folder.join("image");
        write(&image, &program.memory)?;
        write(&folder.join("firmware"), program.firmware)?;
        let purpose = Purpose::Exact { job: self.files, image: &image, save };
        Machine::start(host, &purpose, folder, self.log, stopped, |_| Ok(0))?.go()
    }
}
