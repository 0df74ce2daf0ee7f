//! The machine of the exact mode: the program itself below the guest, on the bare machine
//! (`stasis_bare`). The kept state is a machine whose guest is about to ask for its task.

use crate::kept::{Kept, Key, Store};
use crate::qemu::{machine, JobFiles, Purpose};
use crate::relay::{pump, Sent, Started};
use crate::saved::{convert, make_folder, restore, save, write, Machine, MAX_MOVE};
use crate::snapshots::{copy, link, Recorder, Set, TAKEN};
use crate::{Control, Error, Host, Job, Snapshots};
use stasis_qemu_vm::process::find_qemu;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
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
        let image = folder.join("image");
        let purpose = Purpose::Exact { job: self.files, image: &image, save: false };
        self.program(folder, &purpose, stopped)
    }

    /// The machine from one that is kept, or from a snapshot of the job; None where it is not to be
    /// kept, or cannot be.
    pub(crate) fn kept(
        &self,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
    ) -> Result<Option<Started>, Error> {
        if !self.job.keeps || !self.host.snapshot {
            return self.after_first(stopped, progress);
        }
        let store = Store::new(self.host.cache.join("softkvm/guests"));
        let records = self.job.snapshots.as_ref().is_some_and(|snapshots| snapshots.records);
        let sets = self.sets();
        let snapshots = match &self.job.snapshots {
            Some(wish) if records || sets.has(self.set_key(wish)?) => Some(wish),
            Some(wish) if wish.must => return Err(Error::NoSnapshot),
            _ => None,
        };
        // A job that goes on from its first part is nearly as quick.
        let times = if self.has_first() { 2 } else { 1 };
        if snapshots.is_none() && !store.wanted_again(self.key()?, times)? {
            return self.after_first(stopped, progress);
        }
        // The second time what is kept is made anew: QEMU did not take it.
        for last in [false, true] {
            let mut note = None;
            let boot = |folder: &Path| self.boot(folder, stopped, progress, &mut note);
            let kept = match store.get(self.key()?, boot) {
                Ok(kept) => kept,
                Err(error @ (Error::Stopped | Error::WallLimit)) => return Err(error),
                Err(error) if records => return Err(error),
                // A guest that does not come up gives more messages in a run that keeps no machine.
                Err(_) => return Ok(None),
            };
            let started = match snapshots {
                Some(wish) => self.with_snapshots(&kept, wish, stopped),
                None => self.restore(&kept, stopped),
            };
            match started {
                Ok(started) => {
                    let note = kept.note.clone().or(note).or(started.note);
                    return Ok(Some(Started { note, ..started }));
                }
                Err(error) if last || !error.is_of_restore() => return Err(error),
                Err(_) => {
                    kept.discard()?;
                    // It may be the snapshot's.
                    match snapshots {
                        Some(wish) if sets.has(self.set_key(wish)?) => {
                            sets.get(self.set_key(wish)?, |_| Err(Error::NoSnapshot))?.discard()?;
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(None)
    }

    fn restore(&self, kept: &Kept, stopped: &(dyn Fn() -> bool + Sync)) -> Result<Started, Error> {
        let events_so_far = vec![kept.folder.join("told")];
        let purpose = Purpose::Restore { job: self.files, shares: false, resume: None };
        let machine = restore(self.host, &kept.folder, &purpose, self.log, stopped, None)?;
        Ok(Started { events_so_far, ..Started::anew(machine) })
    }

    /// The runs with snapshots.
    fn sets(&self) -> Store {
        Store::new(self.host.cache.join("softkvm").join(crate::cache::SNAPSHOTS))
    }

    /// Everything that the snapshots of a run depend on.
    fn set_key(&self, wish: &Snapshots) -> Result<Key, Error> {
        let mut key = self.key()?;
        key.part(b"snapshots 1");
        key.part(&wish.identity);
        Ok(key)
    }

    /// The machine at the beginning that `wish` asks for: as `kept`, or at a snapshot. Snapshots that are
    /// found damaged are removed, and the machine begins at one that is sound.
    fn with_snapshots(
        &self,
        kept: &Kept,
        wish: &Snapshots,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Started, Error> {
        let make = || {
            let make = |folder: &Path| Set::make(folder, &kept.folder);
            Ok::<_, Error>(Set::new(self.sets().get(self.set_key(wish)?, make)?))
        };
        let mut damage = None;
        loop {
            let set = make()?;
            damage = damage.or(set.note());
            match (self.begin_in(set, kept, wish, stopped), damage.take()) {
                (Err(Error::DamagedSnapshot(found)), _) => {
                    let snapshot = found.path().parent().unwrap_or(Path::new(""));
                    make()?.discard(snapshot)?;
                    damage = Some(format!("{found}: the snapshot is removed, with those after it"));
                }
                (Err(Error::NoSnapshot), Some(damage)) => return Err(Error::NoneLeft(damage)),
                (started, damage) => {
                    return started
                        .map(|started| Started { note: damage.or(started.note), ..started });
                }
            }
        }
    }

    /// As [`Start::with_snapshots`], in `set` as it is.
    fn begin_in(
        &self,
        set: Set,
        kept: &Kept,
        wish: &Snapshots,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<Started, Error> {
        let chain = set.find(&wish.from)?;
        if chain.is_none() && wish.must {
            return Err(Error::NoSnapshot);
        }
        if chain.is_none() && !wish.records {
            return self.restore(kept, stopped);
        }
        let runs = self.files.machine.parent().unwrap_or(Path::new("."));
        let folder = tempfile::tempdir_in(runs).map_err(Error::system("make a folder"))?;
        let own = |name: &str| folder.path().join(name);
        let from = chain.as_ref().map_or(set.folder(), |chain| chain.folders[0].as_path());
        link(&from.join("state"), &own("state"))?;
        for name in ["place", "firmware"] {
            link(&set.folder().join(name), &own(name))?;
        }
        let (base, ram) = (set.folder().join("ram"), own("ram"));
        let shared = match wish.records {
            true => Some(copy(&base, &ram).map_err(Error::io("cannot write", &ram))?),
            false => link(&base, &ram).map(|()| None)?,
        };
        let mut pages = chain.as_ref();
        if let (Some(file), Some(chain)) = (&shared, pages.take_if(|_| wish.records)) {
            let read = chain.read(|at, page| file.write_all_at(page, at));
            read.map_err(|error| error.convert(Error::io("cannot write", &ram)))?;
        }
        let events_so_far = set.told(chain.as_ref());
        let resume = chain.as_ref().map(|chain| chain.instant.at);
        let recorder = match shared {
            Some(file) => Recorder::new(set, folder.path(), file, resume)?,
            None => None,
        };
        let note = (wish.records && recorder.is_none()).then(|| TAKEN.to_owned());
        let purpose = Purpose::Restore { job: self.files, shares: wish.records, resume };
        let machine = restore(self.host, folder.path(), &purpose, self.log, stopped, pages)?;
        Ok(Started { machine, events_so_far, recorder, folder: Some(folder), note })
    }

    /// Everything that a kept machine depends on.
    fn key(&self) -> Result<Key, Error> {
        let mut key = self.key_of("exact guest 1", &self.job.machine)?;
        // Those of machines that are kept are only read.
        for drive in &self.host.drives {
            key.file(&drive.path)?;
        }
        Ok(key)
    }

    /// Everything that a machine of this kind depends on, which is kept after this part of a job.
    pub(crate) fn key_of(&self, kind: &str, part: &[u8]) -> Result<Key, Error> {
        let mut key = Key::new(kind);
        // To read all of it would take longer than the rest of a run's start.
        key.file(&self.host.executable)?;
        key.file(&find_qemu().ok_or(Error::QemuMissing)?)?;
        machine(self.host).iter().for_each(|argument| key.part(argument.as_bytes()));
        key.part(part);
        for input in self.host.inputs.iter().filter(|input| !input.late) {
            key.part(input.name.as_bytes());
            key.file(&input.path)?;
        }
        Ok(key)
    }

    /// Runs the guest until it asks what it is to do, and saves the machine in `folder`. A remark of the
    /// first part goes to `note`.
    fn boot(
        &self,
        folder: &Path,
        stopped: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(&str, Option<f64>),
        note: &mut Option<String>,
    ) -> Result<(), Error> {
        progress("booting the guest (kept for later runs)", None);
        if let Some(first) = self.first(stopped, progress)? {
            note.clone_from(&first.note);
            let (machine, place) = self.copy_of_first(&first, folder, stopped)?;
            return self.save_paused(machine, folder, place, stopped);
        }
        make_folder(self.host, folder)?;
        let image = folder.join("image");
        let purpose = Purpose::Exact { job: self.files, image: &image, save: true };
        let machine = self.program(folder, &purpose, stopped)?;
        self.save_paused(machine, folder, None, stopped)?;
        fs::remove_file(&image).map_err(Error::io("cannot remove", &image))
    }

    /// Lets `machine` run until it pauses, and saves it in `folder`, with what it has told. `place`: that of
    /// its buffer, if it has sent it before.
    pub(crate) fn save_paused(
        &self,
        mut machine: Machine,
        folder: &Path,
        mut place: Option<u64>,
        stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Error> {
        let mut events = Vec::new();
        pump(&mut machine, self.control, |_, sent| {
            match sent {
                Sent::Bytes(bytes) => events.extend_from_slice(&bytes),
                Sent::Place(address) => place = Some(address),
                Sent::Pause => return Ok(true),
                // No debugger has hold of it yet, and no snapshot is taken.
                Sent::Again(..) | Sent::Snapshot(_) => return Err(Error::NotKept),
            }
            match events.len() {
                length if length > MAX_TOLD => Err(Error::NotKept),
                _ => Ok(false),
            }
        })?;
        let Machine { mut qemu, qmp, .. } = machine;
        let state = save(&mut qmp.until(stopped), folder, MAX_MOVE)
            .map_err(|error| convert(error, "pause", MAX_MOVE, &mut qemu))?;
        drop(qemu);
        let path = folder.join("told");
        fs::write(&path, events).map_err(Error::io("cannot write", &path))?;
        write(folder, &state, place.ok_or(Error::NotKept)?, false)
    }

    /// Starts the program on the bare machine for `purpose`, whose image is to be in `folder`.
    pub(crate) fn program(
        &self,
        folder: &Path,
        purpose: &Purpose,
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
        Machine::start(host, purpose, folder, self.log, stopped, |_, _| Ok(0))?.go()
    }
}
