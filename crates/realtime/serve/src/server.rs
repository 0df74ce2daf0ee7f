//! All drives, their threads and their sockets.

mod open;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stasis_block::Model;
use stasis_drive::Layer;

use crate::endpoint::Endpoint;
use crate::new_drive::NewDrive;
use crate::statistics::DriveReport;
use crate::store::OpenStore;
use crate::transport::Transport;
use crate::worker::{DriveId, Poll, Worker};
use crate::ServeError;

/// A drive that is served.
struct Entry {
    id: DriveId,
    worker: usize,
    endpoint: Endpoint,
    model: String,
    medium: String,
}

/// A server.
pub struct Server {
    workers: Vec<Arc<Worker>>,
    started: Instant,
    drives: Mutex<(DriveId, BTreeMap<String, Entry>)>,
}

impl Server {
    /// A server of no drives, with `threads` polling threads.
    ///
    /// # Errors
    /// If they cannot be started.
    pub fn new(threads: usize, poll: Poll) -> Result<Self, ServeError> {
        let started = Instant::now();
        let workers = (0..threads.max(1))
            .map(|number| Worker::start(number, poll, started).map(Arc::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { workers, started, drives: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, (DriveId, BTreeMap<String, Entry>)> {
        self.drives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one more drive.
    ///
    /// # Errors
    /// If its store, its socket or its block device cannot be had.
    pub fn attach(&self, new: NewDrive) -> Result<(), ServeError> {
        let mut drives = self.lock();
        if drives.1.contains_key(&new.name) {
            return Err(ServeError::Exists(new.name));
        }
        let id = drives.0;
        drives.0 += 1;
        let least = self.workers.iter().enumerate();
        let least = least.min_by_key(|(_, worker)| worker.load.load(Ordering::Relaxed));
        let Some((number, worker)) = least else { return Err(ServeError::Missing(new.name)) };
        let (name, model, medium) = (new.name.clone(), new.model.clone(), new.medium.clone());
        let endpoint = match new.ublk {
            true => open::device(new, id, worker)?,
            false => open::socket(new, id, worker)?,
        };
        worker.load.fetch_add(1, Ordering::Relaxed);
        drives.1.insert(name, Entry { id, worker: number, endpoint, model, medium });
        Ok(())
    }

    /// Serves a drive no more: its client is disconnected, what is under way
    /// ends, all is made durable.
    ///
    /// # Errors
    /// If there is no such drive, or it could not be made durable.
    pub fn detach(&self, name: &str) -> Result<(), ServeError> {
        let entry = self.lock().1.remove(name);
        let entry = entry.ok_or_else(|| ServeError::Missing(name.into()))?;
        self.end(name, entry)
    }

    fn end(&self, name: &str, entry: Entry) -> Result<(), ServeError> {
        let Entry { id, worker, endpoint, .. } = entry;
        let endpoint = endpoint.close();
        let worker = &self.workers[worker];
        worker.load.fetch_sub(1, Ordering::Relaxed);
        let ended = finish(worker, id);
        if let Some(device) = endpoint {
            device.remove();
        }
        match ended {
            Some(Err(message)) => Err(ServeError::Store { name: name.into(), message }),
            _ => Ok(()),
        }
    }

    /// Ends everything; the first error, after all is done.
    ///
    /// # Errors
    /// As [`Server::detach`].
    pub fn stop(&self) -> Result<(), ServeError> {
        let drives = std::mem::take(&mut self.lock().1);
        let mut result = Ok(());
        for (name, entry) in drives {
            // All of them, whatever becomes of one.
            result = result.and(self.end(&name, entry));
        }
        result
    }

    /// The sockets, for another server to go on with; this one leaves them
    /// and the block devices where they are.
    ///
    /// # Errors
    /// If descriptors are short.
    pub fn hand_over(&self) -> Result<Vec<(String, OwnedFd)>, ServeError> {
        let mut drives = self.lock();
        let mut sockets = Vec::new();
        for (name, entry) in &mut drives.1 {
            match &mut entry.endpoint {
                Endpoint::Socket(socket) => {
                    let socket = socket.hand_over().map_err(|source| ServeError::System {
                        what: "hand a socket over",
                        source,
                    })?;
                    sockets.push((name.clone(), socket));
                }
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
        Ok(sockets)
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
                socket: entry.endpoint.path().display().to_string(),
                capacity: known.transport.capacity,
                model: entry.model.clone(),
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
            })
        });
        report.collect()
    }

    /// What the models of all drives did inside, by their names, as JSON. Where a
    /// model is large this takes its thread some time.
    pub fn inside(&self) -> BTreeMap<String, String> {
        let drives = self.lock();
        let known = drives.1.iter().filter_map(|(name, entry)| {
            let id = entry.id;
            let inside = self.workers[entry.worker].call(move |state| {
                state.drives.get(&id)?.backend().store.drive.lock().inside(state.now())
            });
            Some((name.clone(), inside.flatten()?))
        });
        known.collect()
    }

    /// Times a drive otherwise from now on; `None`: without a model.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn set_model(
        &self,
        name: &str,
        label: String,
        model: Option<Box<dyn Model>>,
    ) -> Result<(), ServeError> {
        let mut drives = self.lock();
        let missing = || ServeError::Missing(name.into());
        let entry = drives.1.get_mut(name).ok_or_else(missing)?;
        entry.model = label;
        let id = entry.id;
        let changed = self.workers[entry.worker].call(move |state| {
            let now = state.now();
            let backend = state.drives.get_mut(&id)?.backend_mut();
            backend.set_timed(model.is_some());
            backend.store.drive.lock().set_model(now, model);
            Some(())
        });
        changed.flatten().ok_or_else(missing)
    }

    /// Gives a drive another store, of another size, which it gets once nothing
    /// is under way and nobody has the old one; the guest is told. Says the new
    /// size.
    ///
    /// # Errors
    /// If there is no such drive, or the new store cannot be had: the drive
    /// then fails every request.
    pub fn resize(&self, name: &str, open: OpenStore) -> Result<u64, ServeError> {
        let drives = self.lock();
        let missing = || ServeError::Missing(name.into());
        let entry = drives.1.get(name).ok_or_else(missing)?;
        let id = entry.id;
        let resized = self.workers[entry.worker].call(move |state| {
            let started = state.started;
            let clock = || started.elapsed().as_nanos() as u64;
            state.drives.get_mut(&id).map(|transport| transport.replace_store(open, &clock))
        });
        let resized = resized.flatten().ok_or_else(missing)?;
        resized.map_err(|message| ServeError::Store { name: name.into(), message })
    }

    /// Since when it serves.
    pub fn started(&self) -> Instant {
        self.started
    }
}

/// Ends a drive on its thread; `None` if it is not there.
fn finish(worker: &Worker, id: DriveId) -> Option<Result<(), String>> {
    let ended = worker.call(move |state| {
        let started = state.started;
        let clock = || started.elapsed().as_nanos() as u64;
        state.drives.remove(&id).map(|transport| transport.finish(&clock))
    });
    ended.flatten()
}
