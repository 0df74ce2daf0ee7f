//! The disk as it is used, from several threads.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::append::Change;
use crate::host::HostFile;
use crate::record::{checksum, MAX_DATA};
use crate::shared::{Counters, Shared};
use crate::state::State;
use crate::{checkpointer, DiskError, Durability, Options};

/// An open disk.
pub struct OrderedDisk<L: HostFile + 'static = std::fs::File, D: HostFile + 'static = std::fs::File>
{
    shared: Arc<Shared<L, D>>,
    threads: Vec<JoinHandle<()>>,
}

impl<L: HostFile + 'static, D: HostFile + 'static> OrderedDisk<L, D> {
    /// The disk in `disk`, with an empty log in `log` that continues from `state`.
    pub(crate) fn start(
        (log, log_name): (L, &str),
        (disk, disk_name): (D, &str),
        state: State,
        options: Options,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new((log, log_name), (disk, disk_name), state, options));
        let mut disk = Self { shared, threads: Vec::new() };
        let keeper = disk.shared.clone();
        disk.spawn("stasis-keep", move || keeper.keep())?;
        let checkpointer = disk.shared.clone();
        let end = checkpointer.lock().state.end();
        disk.spawn("stasis-checkpoint", move || checkpointer::run(&checkpointer, end))?;
        Ok(disk)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the disk's size (bytes).
    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// Beyond the disk's end, or the host's.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        self.shared.read(offset, buffer)
    }

    /// Writes `data` from `offset` on; with `fua` it and everything that was
    /// written before is durable when this ends.
    ///
    /// # Errors
    /// Beyond the disk's end, or the host's: then any part may be written, and the disk stays
    /// usable.
    pub fn write(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), DiskError> {
        self.shared.check(offset, data.len() as u64)?;
        let mut at = offset;
        for part in data.chunks(MAX_DATA as usize) {
            self.shared.change(at, Change::Data(part, checksum(part)))?;
            at += part.len() as u64;
        }
        if fua {
            return self.shared.make_durable();
        }
        Ok(())
    }

    /// The range reads as zeroes from now on.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn write_zeroes(&self, offset: u64, length: u64, fua: bool) -> Result<(), DiskError> {
        self.shared.check(offset, length)?;
        if length > 0 {
            self.shared.change(offset, Change::Zeroes(length))?;
        }
        if fua {
            return self.shared.make_durable();
        }
        Ok(())
    }

    /// The range is no longer needed: it reads as zeroes, and its place on the
    /// host is given back.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub fn discard(&self, offset: u64, length: u64) -> Result<(), DiskError> {
        self.write_zeroes(offset, length, false)
    }

    /// A guest's flush, in the disk's way: everything is durable when it ends, or
    /// with [`Durability::Ordered`] it is an order.
    ///
    /// # Errors
    /// The host's; no later flush can be believed then.
    pub fn flush(&self) -> Result<(), DiskError> {
        match self.shared.options.durability {
            Durability::Flush | Durability::Barrier => self.shared.make_durable(),
            Durability::Ordered => self.shared.order(),
        }
    }

    /// Makes earlier writes durable before later ones, without a wait; with [`Durability::Flush`]
    /// it is a flush.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn barrier(&self) -> Result<(), DiskError> {
        match self.shared.options.durability {
            Durability::Flush => self.shared.make_durable(),
            Durability::Barrier | Durability::Ordered => self.shared.order(),
        }
    }

    /// Makes everything durable, whatever the disk's durability.
    ///
    /// # Errors
    /// As for [`Self::flush`].
    pub fn make_durable(&self) -> Result<(), DiskError> {
        self.shared.make_durable()
    }

    /// Counters of the disk since it was opened.
    pub fn counters(&self) -> Counters {
        let inner = self.shared.lock();
        let checkpointed_bytes = self.shared.checkpointed_bytes.load(Relaxed);
        let forced_orders = inner.state.forced_orders;
        Counters { checkpointed_bytes, forced_orders, ..inner.counters }
    }

    /// Makes everything durable and checkpoints it to the disk's own file, which is
    /// then a plain image.
    ///
    /// # Errors
    /// The host's; the content of the log is checkpointed when the disk is next opened.
    pub fn close(mut self) -> Result<(), DiskError> {
        self.stop();
        checkpointer::close(&self.shared)
    }

    fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.keep.notify_all();
        self.shared.checkpoint.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

impl<L: HostFile + 'static, D: HostFile + 'static> Drop for OrderedDisk<L, D> {
    /// Stops as a crash of the program does: no acknowledged data is lost, and the log is
    /// checkpointed when the disk is next opened.
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::host::{File, Power};
    use crate::superblock::{Superblock, SUPERBLOCKS, UNKNOWN};

    const RING: u64 = 4 << 20;
    const CAPACITY: u64 = 8 << 20;
    const BLOCK: usize = 64 << 10;

    type Simulated = OrderedDisk<Arc<File>, Arc<File>>;

    /// A disk, the file of its log and its own file.
    fn disk() -> (Simulated, Arc<File>, Arc<File>) {
        let power = Power::new();
        let file = |bytes: u64| Arc::new(File::new(vec![0; bytes as usize], power.clone(), 1));
        let (log, image) = (file(SUPERBLOCKS + RING), file(CAPACITY));
        let superblock = Superblock {
            generation: 0,
            incarnation: 1,
            capacity: CAPACITY,
            ring: RING,
            tail: 0,
            epoch: 0,
            boot: UNKNOWN,
            clean: false,
        };
        let options = Options { max_lag_bytes: RING / 2, ..Options::default() };
        let disk = OrderedDisk::start(
            (log.clone(), "log"),
            (image.clone(), "image"),
            State::new(superblock),
            options,
        );
        (disk.unwrap(), log, image)
    }

    fn check(disk: &Simulated, model: &[u8]) {
        let mut found = vec![1; model.len()];
        disk.read(0, &mut found).unwrap();
        assert!(found == model);
    }

    #[test]
    fn without_space_for_the_image_writes_fail_once_the_log_is_full() {
        let (disk, _, image) = disk();
        image.set_full(true);
        let mut model = vec![0; CAPACITY as usize];
        let mut write = |number: usize| {
            let at = number % (CAPACITY as usize / BLOCK) * BLOCK;
            let result = disk.write(at as u64, &[number as u8; BLOCK], number.is_multiple_of(5));
            if result.is_ok() {
                model[at..at + BLOCK].fill(number as u8);
            }
            (result, model.clone())
        };
        let failed = (0..).find_map(|number| write(number).0.err()).unwrap();
        assert!(matches!(&failed, DiskError::Host { path, .. } if &**path == "image"), "{failed}");
        assert!(disk.counters().log_bytes > RING / 2, "until then they went into the log");
        let (again, model) = write(99);
        assert!(again.is_err());
        check(&disk, &model);
        image.set_full(false);
        for number in 100..400 {
            write(number).0.unwrap();
        }
        check(&disk, &write(0).1);
        disk.close().unwrap();
    }

    #[test]
    fn after_a_sync_that_failed_nothing_is_believed() {
        // Faults by file, not by a count of operations: the checkpointer works beside.
        let (disk, log, _) = disk();
        disk.write(0, &[1; BLOCK], true).unwrap();
        log.set_full(true);
        assert!(disk.write(0, &[2; BLOCK], true).is_err());
        log.set_full(false);
        disk.make_durable().unwrap();
        log.set_sync_fails(true);
        assert!(matches!(disk.write(0, &[3; BLOCK], true), Err(DiskError::Lost { .. })));
        log.set_sync_fails(false);
        assert!(matches!(disk.make_durable(), Err(DiskError::Lost { .. })));
        assert!(matches!(disk.write(0, &[3; BLOCK], false), Err(DiskError::Lost { .. })));
    }
}
