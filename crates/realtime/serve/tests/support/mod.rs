//! A guest without a machine: memory, a queue and the messages of a VMM. The
//! messages are those of the crate that Cloud Hypervisor uses.

pub mod hostile;

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use stasis_block::Doorbells;
use stasis_media::{Execution, MediumSpec, OpenOptions};
use stasis_serve::{
    Counts, Description, Made, NewDrive, Poll, RealTime, Server, SharedRealTime, Store,
};
use stasis_virtio::{feature, Config};
use vhost::vhost_user::message::{
    VhostUserInflight, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

pub const QUEUE: u16 = 64;
pub const MEMORY: u64 = 1 << 20;
/// The client's address of the first byte.
const BASE: u64 = 0x7f00_0000_0000;
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// Headers, 16 bytes for each head, then status bytes.
const HEADERS: u64 = 0x3000;
const STATUS: u64 = 0x4000;
/// Data, 4 KiB for each head.
pub const DATA: u64 = 0x10000;

pub const IN: u32 = 0;
pub const OUT: u32 = 1;

/// A drive that is described as one without a model.
struct Plain {
    lasting: bool,
}

impl Description for Plain {
    fn index(&self) -> usize {
        0
    }

    fn label(&self) -> String {
        "null".into()
    }

    fn model(&self, _: u64) -> Result<Option<Box<dyn stasis_models::Model>>, String> {
        Ok(None)
    }

    fn with_model(&self, _: serde_json::Value) -> Result<Arc<dyn Description>, String> {
        Ok(Arc::new(Self { lasting: self.lasting }))
    }

    fn is_lasting(&self) -> bool {
        self.lasting
    }
}

/// A drive of `medium`, timed by `model`.
pub fn drive(name: &str, folder: &Path, medium: &str, model: Option<&str>) -> NewDrive {
    let spec = MediumSpec::parse(medium).unwrap();
    let (base, label) = (folder.to_owned(), name.to_owned());
    let model = model.map(|word| stasis_models::ModelSpec::parse(word).unwrap());
    NewDrive {
        nvme_tcp: None,
        vfio_user: None,
        ublk: false,
        name: name.into(),
        path: folder.join(format!("{name}.sock")),
        listener: None,
        own: true,
        config: Config {
            queues: 2,
            queue_size: 256,
            max_segments: 126,
            notify: Doorbells::Lazy,
            ..Config::default()
        },
        description: Arc::new(Plain { lasting: !medium.starts_with("ram") }),
        made: Made::default(),
        medium: medium.into(),
        record: None,
        open: Box::new(move || {
            let options =
                OpenOptions { execution: Execution::Polled, delay: Duration::ZERO, base: &base };
            let medium = spec.open(&options).map_err(|error| error.to_string())?;
            let context =
                stasis_models::BuildContext { seed: 0, capacity: medium.capacity(), path: 0 };
            let model = model.map(|model| model.build(&context).unwrap());
            Ok(Store::new(SharedRealTime::new(RealTime::new(0, label, model, medium))))
        }),
    }
}

/// The counts of the first drive.
pub fn counts(server: &Server) -> Counts {
    server.report()[0].counts
}

/// Waits until a condition holds that the server's thread brings about.
pub fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < limit, "{condition}");
        std::thread::yield_now();
    }
}

/// A server of one drive in memory.
pub fn server(folder: &Path, poll: Poll) -> Arc<Server> {
    let server = Server::new(1, poll).unwrap();
    server.attach(drive("d", folder, "ram:16MiB", None)).unwrap();
    Arc::new(server)
}

/// A guest with one queue.
pub struct Guest {
    pub frontend: Frontend,
    pub memory: File,
    pub kick: EventFd,
    pub call: EventFd,
    pub inflight: Option<(VhostUserInflight, File)>,
    next: u16,
    consumed: u16,
}

fn memory() -> File {
    let memory = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(memory);
    file.set_len(MEMORY).unwrap();
    file
}

impl Guest {
    /// Connects, and starts its queue.
    pub fn connect(path: &Path) -> Self {
        Self::with(path, memory(), None, 0)
    }

    /// Goes on where another left off.
    pub fn reconnect(self, path: &Path) -> Self {
        let Self { frontend, memory, inflight, consumed, next, .. } = self;
        drop(frontend);
        let mut guest = Self::with(path, memory, inflight, consumed);
        guest.next = next;
        guest.kick.write(1).unwrap();
        guest
    }

    fn with(
        path: &Path,
        memory: File,
        inflight: Option<(VhostUserInflight, File)>,
        consumed: u16,
    ) -> Self {
        let mut frontend = Frontend::connect(path, 2).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        assert!(offered & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0);
        let known = frontend.get_protocol_features().unwrap();
        frontend.set_protocol_features(known & !VhostUserProtocolFeatures::REPLY_ACK).unwrap();
        assert!(frontend.get_queue_num().unwrap() >= 2);
        // Other servers may have none.
        let noted = known.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD);
        let inflight = inflight.or_else(|| {
            noted
                .then(|| frontend.get_inflight_fd(&VhostUserInflight::new(0, 0, 1, QUEUE)).unwrap())
        });
        if let Some((description, buffer)) = &inflight {
            frontend.set_inflight_fd(description, buffer.as_raw_fd()).unwrap();
        }
        let wanted = [feature::VERSION_1, feature::FLUSH, feature::INDIRECT_DESC];
        let wanted = wanted.iter().fold(1 << 30, |bits, bit| bits | 1u64 << bit);
        frontend.set_features(wanted & offered).unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY,
            userspace_addr: BASE,
            mmap_offset: 0,
            mmap_handle: memory.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        frontend.set_vring_num(0, QUEUE).unwrap();
        let data = VringConfigData {
            queue_max_size: QUEUE,
            queue_size: QUEUE,
            flags: 0,
            desc_table_addr: BASE + DESCRIPTORS,
            used_ring_addr: BASE + USED,
            avail_ring_addr: BASE + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &data).unwrap();
        frontend.set_vring_base(0, consumed).unwrap();
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        frontend.set_vring_call(0, &call).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        Self { frontend, memory, kick, call, inflight, next: consumed, consumed }
    }

    pub fn word(&self, at: u64) -> u16 {
        let mut raw = [0; 2];
        self.memory.read_exact_at(&mut raw, at).unwrap();
        u16::from_le_bytes(raw)
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// A descriptor.
    pub fn describe(&self, index: u16, address: u64, length: u32, flags: u16, next: u16) {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&address.to_le_bytes());
        raw[8..12].copy_from_slice(&length.to_le_bytes());
        raw[12..14].copy_from_slice(&flags.to_le_bytes());
        raw[14..].copy_from_slice(&next.to_le_bytes());
        self.put(DESCRIPTORS + 16 * u64::from(index), &raw);
    }

    /// Makes the chain at `head` available, and notifies if that is wanted.
    pub fn submit(&mut self, head: u16) {
        let place = AVAILABLE + 4 + 2 * u64::from(self.next % QUEUE);
        self.put(place, &head.to_le_bytes());
        self.next = self.next.wrapping_add(1);
        self.put(AVAILABLE + 2, &self.next.to_le_bytes());
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        // `VRING_USED_F_NO_NOTIFY` (virtio 1.2, 2.7.8): the server is looking.
        if self.word(USED) & 1 == 0 {
            self.kick.write(1).unwrap();
        }
    }

    /// Asks for a transfer of 4 KiB at `sector` in slot `slot`, of 0 to 15.
    pub fn request(&mut self, slot: u16, kind: u32, sector: u64) {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        let (head, place) = (3 * slot, HEADERS + 16 * u64::from(slot));
        self.put(place, &header);
        self.put(STATUS + u64::from(slot), &[0xff]);
        let data = DATA + 4096 * u64::from(slot);
        self.describe(head, place, 16, 1, head + 1);
        self.describe(head + 1, data, 4096, 1 | if kind == IN { 2 } else { 0 }, head + 2);
        self.describe(head + 2, STATUS + u64::from(slot), 1, 2, 0);
        self.submit(head);
    }

    /// Number of requests given back in all.
    pub fn given(&self) -> u16 {
        self.word(USED + 2)
    }

    /// Returns the slots of requests given back since the last call.
    pub fn take_given(&mut self) -> Vec<u16> {
        let mut slots = Vec::new();
        while self.consumed != self.given() {
            let head = self.word(USED + 4 + 8 * u64::from(self.consumed % QUEUE));
            slots.push(head / 3);
            self.consumed = self.consumed.wrapping_add(1);
        }
        slots
    }

    /// Returns whether the guest is rung within `limit`.
    pub fn is_rung(&self, limit: Duration) -> bool {
        // SAFETY: open as long as the guest is.
        let call = unsafe { BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        let mut fds = [PollFd::new(&call, PollFlags::IN)];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
        poll(&mut fds, Some(&limit)).unwrap() > 0
    }

    /// Waits until `count` more requests were given back; returns whether they were in time.
    pub fn wait(&mut self, count: u16) -> bool {
        let goal = self.consumed.wrapping_add(count);
        let limit = Instant::now() + Duration::from_secs(20);
        while (self.given().wrapping_sub(goal) as i16) < 0 {
            if self.is_rung(Duration::from_secs(1)) {
                self.call.read().unwrap();
            }
            if Instant::now() > limit {
                return false;
            }
        }
        self.consumed = goal;
        true
    }

    pub fn status(&self, slot: u16) -> u8 {
        let mut byte = [0];
        self.memory.read_exact_at(&mut byte, STATUS + u64::from(slot)).unwrap();
        byte[0]
    }

    pub fn data(&self, slot: u16) -> Vec<u8> {
        let mut data = vec![0; 4096];
        self.memory.read_exact_at(&mut data, DATA + 4096 * u64::from(slot)).unwrap();
        data
    }

    /// Writes and reads back one block.
    pub fn check(&mut self, sector: u64, value: u8) {
        self.put(DATA, &[value; 4096]);
        self.request(0, OUT, sector);
        assert!(self.wait(1), "a write ends");
        assert_eq!(self.status(0), 0);
        self.request(1, IN, sector);
        assert!(self.wait(1), "a read ends");
        assert_eq!(self.status(1), 0);
        assert_eq!(self.data(1), [value; 4096]);
    }
}

/// A drive's socket.
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("d.sock")
}
