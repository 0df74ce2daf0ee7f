//! All drives, their threads and their sockets.

mod open;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use stasis_block::inside::Inside;
use stasis_block::units::format_size;
use stasis_drive::{DriveFault, Layer};
use stasis_media::{MIN_CAPACITY, SECTOR};
use stasis_nvme::AnaState;
use stasis_virtio::Config;

use crate::description::Description;
use crate::endpoint::Endpoint;
use crate::new_drive::NewDrive;
use crate::polling::Poll;
use crate::statistics::DriveReport;
use crate::store::check_served;
use crate::transport::Transport;
use crate::ublk::Device;
use crate::worker::{DriveId, Worker};
use crate::ServeError;

/// A drive that is served.
struct Entry {
    id: DriveId,
    worker: usize,
    endpoint: Endpoint,
    description: Arc<dyn Description>,
    medium: String,
}

/// Time that media may take for operations under way where a drive is to end.
const END: Duration = Duration::from_secs(30);

/// A server.
pub struct Server {
    workers: Vec<Arc<Worker>>,
    started: Instant,
    drives: Mutex<(DriveId, BTreeMap<String, Entry>)>,
    /// Held while drives end.
    ending: Mutex<()>,
}

impl Server {
    /// A server of no drives, with `threads` polling threads.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(threads: usize, poll: Poll) -> Result<Self, ServeError> {
        let started = Instant::now();
        let workers = (0..threads.max(1))
            .map(|number| Worker::start(number, poll, started).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { workers, started, drives: Mutex::default(), ending: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, (DriveId, BTreeMap<String, Entry>)> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one more drive.
    ///
    /// # Errors
    /// If its store, its socket or its block device cannot be had.
    pub fn attach(&self, mut new: NewDrive) -> Result<(), ServeError> {
        let mut drives = self.lock();
        if drives.1.contains_key(&new.name) {
            return Err(ServeError::Exists(new.name));
        }
        // Before anything is opened. The capacity is the store's.
        let config = Config { capacity: new.config.block_size.into(), ..new.config.clone() };
        if let Err(source) = config.check() {
            return Err(ServeError::Device { name: new.name, source });
        }
        let made = std::mem::take(&mut new.made);
        let id = drives.0;
        drives.0 += 1;
        let least = self.workers.iter().enumerate();
        let least = least.min_by_key(|(_, worker)| worker.load.load(Ordering::Relaxed));
        let Some((number, worker)) = least else { return Err(ServeError::Missing(new.name)) };
        let (name, medium) = (new.name.clone(), new.medium.clone());
        let description = Arc::clone(&new.description);
        let endpoint = match (new.nvme_tcp.take(), new.vfio_user.take(), new.ublk) {
            (Some(settings), ..) => open::nvme_tcp(new, settings, id, worker)?,
            (_, Some(settings), _) => open::vfio_user(new, settings, id, worker)?,
            (None, None, true) => open::device(new, id, worker)?,
            (None, None, false) => open::socket(new, id, worker)?,
        };
        worker.load.fetch_add(1, Ordering::Relaxed);
        drives.1.insert(name, Entry { id, worker: number, endpoint, description, medium });
        made.keep();
        Ok(())
    }

    /// Ends the service of a drive: its client is disconnected, requests under way end, all is made
    /// durable.
    ///
    /// # Errors
    /// If there is no such drive, or it could not be made durable.
    pub fn detach(&self, name: &str) -> Result<(), ServeError> {
        let entry = self.lock().1.remove(name);
        let entry = entry.ok_or_else(|| ServeError::Missing(name.into()))?;
        self.end(BTreeMap::from([(name.to_owned(), entry)]))
    }

    /// Ends drives together: requests under way at one do not delay another.
    fn end(&self, drives: BTreeMap<String, Entry>) -> Result<(), ServeError> {
        // A caller that ends all of them also waits for one that another has begun to end.
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in drives.values() {
            let id = entry.id;
            self.workers[entry.worker].call(move |state| {
                let now = state.now();
                if let Some(transport) = state.drives.get_mut(&id) {
                    transport.begin_end(now);
                }
            });
        }
        let mut of_workers: BTreeMap<usize, Vec<(String, DriveId)>> = BTreeMap::new();
        let mut devices = Vec::new();
        for (name, Entry { id, worker, endpoint, .. }) in drives {
            devices.extend(endpoint.close());
            self.workers[worker].load.fetch_sub(1, Ordering::Relaxed);
            of_workers.entry(worker).or_default().push((name, id));
        }
        let limit = Instant::now() + END;
        let mut result = Ok(());
        for (worker, drives) in of_workers {
            let (names, ids): (Vec<_>, Vec<_>) = drives.into_iter().unzip();
            let ended = self.workers[worker].finish(ids, limit);
            for (name, ended) in names.into_iter().zip(ended) {
                let ended = ended.map_err(|message| ServeError::Store { name, message });
                // All of them, whatever the outcome of one.
                result = result.and(ended);
            }
        }
        devices.iter().for_each(Device::remove);
        result
    }

    /// Ends everything; the first error, after all is done.
    ///
    /// # Errors
    /// As [`Server::detach`].
    pub fn stop(&self) -> Result<(), ServeError> {
        let drives = std::mem::take(&mut self.lock().1);
        self.end(drives)
    }

    /// Returns the sockets, for another server to take over. This server continues as well, until
    /// [`Server::hand_over`].
    ///
    /// # Errors
    /// If descriptors are short.
    pub fn share(&self) -> Result<Vec<(String, OwnedFd)>, ServeError> {
        let drives = self.lock();
        let mut sockets = Vec::new();
        for (name, entry) in &drives.1 {
            if let Endpoint::Socket(socket) = &entry.endpoint {
                let socket = socket.share().map_err(|source| ServeError::System {
                    action: "hand a socket over",
                    source,
                })?;
                sockets.push((name.clone(), socket));
            }
        }
        Ok(sockets)
    }

    /// Leaves the sockets and the block devices as they are, for another server that has taken them
    /// over.
    pub fn hand_over(&self) {
        for entry in self.lock().1.values_mut() {
            match &mut entry.endpoint {
                Endpoint::Socket(socket) => socket.hand_over(),
                // Their clients connect again, to an address or a name that is made anew.
                Endpoint::NvmeTcp(_) | Endpoint::VfioUser(_) => {}
                Endpoint::Ublk(device) => {
                    device.hand_over();
                    let id = entry.id;
                    self.workers[entry.worker].call(move |state| {
                        if let Some(Transport::Ublk(ublk)) = state.drives.get_mut(&id) {
                            ublk.hand_over();
                        }
                    });
                }
            }
        }
    }

    /// The number of the next drive: one more than any has.
    pub fn next_index(&self) -> usize {
        let drives = self.lock();
        drives.1.values().map(|entry| entry.description.index() + 1).max().unwrap_or(0)
    }

    /// Checks that another server can go on with all drives: their contents outlive this process,
    /// and their clients find it.
    ///
    /// # Errors
    /// [`ServeError::Fleeting`] or [`ServeError::Impossible`], which names the drive that stays.
    pub fn check_replaceable(&self) -> Result<(), ServeError> {
        let drives = self.lock();
        let fleeting = drives.1.iter().find(|(_, entry)| !entry.description.is_lasting());
        if let Some((name, _)) = fleeting {
            return Err(ServeError::Fleeting(name.clone()));
        }
        for (name, entry) in &drives.1 {
            let id = entry.id;
            let stays = || {
                let snapshot = self.workers[entry.worker]
                    .call(move |state| state.drives.get(&id).map(Transport::snapshot));
                snapshot.flatten().is_some_and(|drive| drive.transport.in_use)
            };
            if matches!(entry.endpoint, Endpoint::VfioUser(_)) && stays() {
                let message = "a guest has it, and QEMU does not connect again: stop the guest, or \
                     end this server first, after which `device_add` gives the guest the drive back";
                return Err(ServeError::Impossible { name: name.clone(), message: message.into() });
            }
        }
        Ok(())
    }

    /// The names of all drives.
    pub fn names(&self) -> Vec<String> {
        self.lock().1.keys().cloned().collect()
    }

    /// All drives.
    pub fn report(&self) -> Vec<DriveReport> {
        let drives = self.lock();
        let report = drives.1.iter().filter_map(|(name, entry)| {
            let id = entry.id;
            let known = self.workers[entry.worker]
                .call(move |state| state.drives.get(&id).map(Transport::snapshot))
                .flatten()?;
            Some(DriveReport {
                name: name.clone(),
                socket: entry.endpoint.place(),
                capacity: known.transport.capacity,
                model: entry.description.label(),
                medium: entry.medium.clone(),
                thread: entry.worker,
                in_use: known.transport.in_use,
                in_flight: known.transport.in_flight,
                counts: known.counts,
                read: known.read,
                write: known.write,
                flush: known.flush,
                timing_error: known.timing_error,
                timing_bias_ns: known.timing_bias_ns,
                way_ns: known.transport.way,
            })
        });
        report.collect()
    }

    /// Internal activity of the models of all drives, by their names. Where a
    /// model is large this takes its thread some time.
    pub fn inside(&self) -> BTreeMap<String, Inside> {
        let drives = self.lock();
        let known = drives.1.iter().filter_map(|(name, entry)| {
            let id = entry.id;
            let inside = self.workers[entry.worker].call(move |state| {
                state.drives.get(&id)?.backend().store.drive.lock().control().inside(state.now())
            });
            Some((name.clone(), inside.flatten()?))
        });
        known.collect()
    }

    /// Times a drive otherwise from now on, by a model as the drive's table has it. Returns
    /// its label.
    ///
    /// # Errors
    /// If there is no such drive, or the model is wrong; then the drive keeps its own.
    pub fn set_model(&self, name: &str, model: Value) -> Result<String, ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let refused = |message| ServeError::Impossible { name: name.into(), message };
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let description = entry.description.with_model(model).map_err(refused)?;
        let model = description.model(capacity(worker, id)?).map_err(refused)?;
        let changed = worker.call(move |state| {
            let now = state.now();
            let backend = state.drives.get_mut(&id)?.backend_mut();
            backend.set_timed(model.is_some());
            backend.store.drive.lock().set_model(now, model);
            Some(())
        });
        changed.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        entry.description = description;
        Ok(entry.description.label())
    }

    /// Checks that a drive can have a fault.
    ///
    /// # Errors
    /// If there is no such drive, or it cannot.
    pub fn check_fault(&self, name: &str, fault: &DriveFault) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let controller = matches!(find(&mut drives.1, name)?.endpoint, Endpoint::VfioUser(_));
        let refused = |message| ServeError::Impossible { name: name.into(), message };
        check_served(fault, controller).map_err(refused)
    }

    /// A drive has one more fault from now on, at which its times begin, of those that it can have
    /// ([`Server::check_fault`]).
    ///
    /// # Errors
    /// If there is no such drive, or it has too many faults.
    pub fn add_fault(&self, name: &str, fault: DriveFault) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let added = worker.call(move |state| {
            let now = state.now();
            Some(state.drives.get_mut(&id)?.backend_mut().add_fault(now, fault))
        });
        let added = added.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        added.map_err(|message| ServeError::Impossible { name: name.into(), message })
    }

    /// Ends a fault of a drive. Returns how often it has happened.
    ///
    /// # Errors
    /// If there is no such drive, or no such fault.
    pub fn end_fault(&self, name: &str, number: u16) -> Result<u64, ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let ended = worker.call(move |state| {
            let now = state.now();
            Some(state.drives.get_mut(&id)?.backend_mut().end_fault(number, now))
        });
        let ended = ended.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        ended.map_err(|message| ServeError::Impossible { name: name.into(), message })
    }

    /// Sets the access to an NVMe/TCP drive on a path, of which the first has number 1.
    ///
    /// # Errors
    /// If there is no such drive, it is no NVMe/TCP target, or it has no such path.
    pub fn set_ana(&self, name: &str, path: u16, state: AnaState) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let set = worker.call(move |state_of| match state_of.drives.get_mut(&id)? {
            Transport::NvmeTcp(served) => Some(served.set_ana(path, state)),
            _ => Some(Err(0)),
        });
        let set = set.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        set.map_err(|paths| {
            let message = match paths {
                0 => "it is no NVMe/TCP target, and has no paths".into(),
                paths => format!("it has no path {path}: it has {paths}, counted from 1"),
            };
            ServeError::Impossible { name: name.into(), message }
        })
    }

    /// Attaches a namespace of an NVMe drive, from number 1 on, to the controllers of a host by its
    /// NQN, or of all hosts, those that come later included; or detaches it.
    ///
    /// # Errors
    /// If there is no such drive, it is no NVMe drive, it has no such namespace, or its hosts have no
    /// names.
    pub fn set_attached(
        &self,
        name: &str,
        nsid: u32,
        host: Option<String>,
        attached: bool,
    ) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let set = worker.call(move |state| {
            Some(state.drives.get_mut(&id)?.set_attached(nsid, host.as_deref(), attached))
        });
        let set = set.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        set.map_err(|message| ServeError::Impossible { name: name.into(), message })
    }

    /// Changes a drive's size to `bytes`, once nothing is under way, and notifies the guest.
    /// `shrink`: it may become smaller.
    ///
    /// # Errors
    /// If there is no such drive, or it cannot have that size; then it keeps its own, and
    /// nothing of its bytes has changed.
    pub fn resize(&self, name: &str, bytes: u64, shrink: bool) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let entry = find(&mut drives.1, name)?;
        let (id, worker) = (entry.id, &self.workers[entry.worker]);
        let refused = |message| ServeError::Impossible { name: name.into(), message };
        let now = capacity(worker, id)?;
        if bytes < MIN_CAPACITY || !bytes.is_multiple_of(SECTOR) {
            return Err(refused(format!(
                "a size of {bytes} bytes: a drive has at least {}, and a multiple of {SECTOR} bytes",
                format_size(MIN_CAPACITY)
            )));
        }
        if bytes < now && !shrink {
            return Err(refused(format!(
                "it has {}, and what is behind {} would be lost: say \"shrink\": true if that is meant",
                format_size(now),
                format_size(bytes)
            )));
        }
        let model = entry.description.model(bytes).map_err(refused)?;
        let resized = worker.call(move |state| {
            let started = state.started;
            let clock = || started.elapsed().as_nanos() as u64;
            let transport = state.drives.get_mut(&id)?;
            Some(transport.resize(bytes, model, &clock))
        });
        let resized = resized.flatten().ok_or_else(|| ServeError::Missing(name.into()))?;
        resized.map_err(refused)
    }

    /// Start of its service.
    pub fn started(&self) -> Instant {
        self.started
    }
}

fn find<'a>(
    drives: &'a mut BTreeMap<String, Entry>,
    name: &str,
) -> Result<&'a mut Entry, ServeError> {
    drives.get_mut(name).ok_or_else(|| ServeError::Missing(name.into()))
}

/// The capacity of a drive on its thread.
fn capacity(worker: &Worker, id: DriveId) -> Result<u64, ServeError> {
    let capacity =
        worker.call(move |state| Some(state.drives.get(&id)?.snapshot().transport.capacity));
    capacity.flatten().ok_or_else(|| ServeError::Missing("on its thread".into()))
}
