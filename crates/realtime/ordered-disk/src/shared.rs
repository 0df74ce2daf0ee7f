//! State that the threads of a disk share, and the operations of each of them.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stasis_block::clock::Nanos;

use crate::append::{self, Change};
use crate::host::HostFile;
use crate::index::Source;
use crate::ring::Ring;
use crate::state::State;
use crate::{DiskError, Options};

/// Counters of a disk since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Flushes and barriers.
    pub orders: u64,
    /// Flushes and writes that had to be durable when they ended.
    pub durable: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Flushes and writes that waited for the log to be less behind.
    pub lag_waits: u64,
    /// Orders of ours where too much was written without one.
    pub forced_orders: u64,
    /// Bytes of data that were written to the log.
    pub log_bytes: u64,
    /// Bytes that were written to the disk's own file.
    pub checkpointed_bytes: u64,
    /// Writes that waited for room in the log.
    pub room_waits: u64,
}

/// State that the threads share.
pub(crate) struct Shared<L, D> {
    pub log: L,
    pub disk: D,
    // Name of the log, for messages.
    pub log_name: Arc<str>,
    pub disk_name: Arc<str>,
    pub options: Options,
    pub capacity: u64,
    pub ring: u64,
    start: Instant,
    pub inner: Mutex<Inner>,
    // A sync has ended, room was made, the keeper or the checkpointer has to look.
    pub synced: Condvar,
    pub room: Condvar,
    pub keep: Condvar,
    pub checkpoint: Condvar,
    pub checkpointed_bytes: AtomicU64,
}

pub(crate) struct Inner {
    pub state: State,
    pub syncing: bool,
    pub stopping: bool,
    pub lost: Option<Arc<io::Error>>,
    // True if a write waits for room; how often checkpointing failed, and why at last.
    pub waiting: bool,
    pub failures: u64,
    pub failure: Option<DiskError>,
    pub counters: Counters,
}

pub(crate) type Guard<'a> = MutexGuard<'a, Inner>;

pub(crate) fn wait<'a>(condition: &Condvar, guard: Guard<'a>) -> Guard<'a> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

impl<L: HostFile, D: HostFile> Shared<L, D> {
    pub fn new(
        (log, log_name): (L, &str),
        (disk, disk_name): (D, &str),
        state: State,
        options: Options,
    ) -> Self {
        Self {
            log,
            disk,
            log_name: log_name.into(),
            disk_name: disk_name.into(),
            capacity: state.superblock().capacity,
            ring: state.superblock().ring,
            options,
            start: Instant::now(),
            inner: Mutex::new(Inner {
                state,
                syncing: false,
                stopping: false,
                lost: None,
                waiting: false,
                failures: 0,
                failure: None,
                counters: Counters::default(),
            }),
            synced: Condvar::new(),
            room: Condvar::new(),
            keep: Condvar::new(),
            checkpoint: Condvar::new(),
            checkpointed_bytes: AtomicU64::new(0),
        }
    }

    pub fn lock(&self) -> Guard<'_> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    pub fn log_error(&self, action: &'static str, source: io::Error) -> DiskError {
        DiskError::Host { path: self.log_name.clone(), action, source: Arc::new(source) }
    }

    pub fn check(&self, offset: u64, length: u64) -> Result<(), DiskError> {
        let capacity = self.capacity;
        match offset.checked_add(length) {
            Some(end) if end <= capacity => Ok(()),
            _ => Err(DiskError::OutOfRange { offset, length, capacity }),
        }
    }

    fn sound<'a>(&self, inner: Guard<'a>) -> Result<Guard<'a>, DiskError> {
        match &inner.lost {
            Some(source) => {
                Err(DiskError::Lost { path: self.log_name.clone(), source: source.clone() })
            }
            None => Ok(inner),
        }
    }

    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.check(offset, buffer.len() as u64)?;
        loop {
            let inner = self.lock();
            let extents: Vec<_> = inner.state.index().find(offset, buffer.len() as u64).collect();
            drop(inner);
            let ring = Ring { file: &self.log, size: self.ring };
            append::read(&ring, &self.disk, &extents, offset, buffer).map_err(|source| {
                let (path, action) = (self.disk_name.clone(), "reading it");
                DiskError::Host { path, action, source: Arc::new(source) }
            })?;
            // Data read from the log may have been overwritten meanwhile.
            let sources = extents.iter().filter(|extent| matches!(extent.source, Source::Log(_)));
            match sources.map(|extent| extent.source.address()).min() {
                Some(first) if first < self.lock().state.tail() => {}
                _ => return Ok(()),
            }
        }
    }

    pub fn change(&self, offset: u64, change: Change<'_>) -> Result<(), DiskError> {
        let size = change.size();
        let mut inner = self.lock();
        loop {
            inner = self.sound(inner)?;
            if !inner.state.has_room(size) {
                inner = self.wait_for_room(inner)?;
            } else if inner.state.behind() >= self.options.max_lag_bytes {
                inner.counters.lag_waits += 1;
                inner = self.sync_once(inner);
            } else {
                break;
            }
        }
        let behind = inner.state.behind();
        let result = append::append(&mut inner.state, &self.log, offset, change, self.now());
        result.map_err(|source| self.log_error("writing it", source))?;
        inner.counters.log_bytes += size;
        let half = self.options.max_lag_bytes / 2;
        if behind < half && inner.state.behind() >= half {
            self.keep.notify_one();
        }
        if inner.state.used() > self.ring / 2 {
            self.checkpoint.notify_one();
        }
        Ok(())
    }

    fn wait_for_room<'a>(&self, mut inner: Guard<'a>) -> Result<Guard<'a>, DiskError> {
        let failures = inner.failures;
        inner.counters.room_waits += 1;
        inner.waiting = true;
        self.checkpoint.notify_one();
        inner = wait(&self.room, inner);
        match &inner.failure {
            Some(error) if inner.failures > failures => Err(error.clone()),
            _ => Ok(inner),
        }
    }

    /// Syncs the log, or waits for a sync that is under way.
    pub fn sync_once<'a>(&'a self, mut inner: Guard<'a>) -> Guard<'a> {
        if inner.syncing {
            return wait(&self.synced, inner);
        }
        let now = self.now();
        let point = append::begin_sync(&mut inner.state, &self.log, now);
        inner.syncing = true;
        drop(inner);
        let result = point.and_then(|point| self.log.sync().map(|()| point));
        let mut inner = self.lock();
        inner.syncing = false;
        inner.counters.syncs += 1;
        match result {
            Ok(point) => inner.state.synced(point),
            Err(error) => {
                inner.lost = Some(Arc::new(error));
                self.room.notify_all();
            }
        }
        self.synced.notify_all();
        inner
    }

    /// Waits until the log is durable up to the epoch's end at `target`.
    pub fn sync_until<'a>(
        &'a self,
        mut inner: Guard<'a>,
        target: u64,
    ) -> Result<Guard<'a>, DiskError> {
        while inner.state.whole() < target {
            inner = self.sound(inner)?;
            inner = self.sync_once(inner);
        }
        self.sound(inner)
    }

    pub fn make_durable(&self) -> Result<(), DiskError> {
        let mut inner = self.sound(self.lock())?;
        let target = inner.state.order(self.now());
        inner.counters.durable += 1;
        self.sync_until(inner, target).map(|_| ())
    }

    pub fn order(&self) -> Result<(), DiskError> {
        let mut inner = self.sound(self.lock())?;
        let now = self.now();
        let first = inner.state.oldest_order().is_none();
        inner.state.order(now);
        inner.counters.orders += 1;
        match inner.state.oldest_order() {
            Some(_) if first => self.keep.notify_one(),
            Some((boundary, then)) if now > then.saturating_add(self.options.max_lag) => {
                inner.counters.lag_waits += 1;
                drop(self.sync_until(inner, boundary)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Syncs the log in time, until the disk is closed.
    pub fn keep(&self) {
        let mut inner = self.lock();
        while !inner.stopping {
            let full = inner.state.behind() >= self.options.max_lag_bytes / 2;
            // Early enough to be over in time if a sync takes half of it.
            let due = inner.state.oldest_order().map(|(_, then)| then + self.options.max_lag / 2);
            let due = due.filter(|_| inner.lost.is_none());
            let now = self.now();
            inner = match due {
                _ if full && inner.lost.is_none() => self.sync_once(inner),
                Some(due) if due <= now => self.sync_once(inner),
                Some(due) => {
                    let timeout = Duration::from_nanos(due - now);
                    let waited = self.keep.wait_timeout(inner, timeout);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => wait(&self.keep, inner),
            };
        }
    }
}
