//! A virtual disk: a region of a shared drive, as its machine holds it.

use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_block::medium::MediumError;
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    Command, Delivery, Health, Operation, Request, Status, VendorCommand, VendorError,
};
use stasis_scheduler::QueueSpec;

use super::region::Region;
use super::{Member, Owner, SharedDrive};
use crate::{Control, Done, Layer, LayerTimes, Properties};

/// A region of a shared drive. Its commands see their own offsets.
pub struct VirtualDisk {
    shared: SharedDrive,
    number: usize,
    region: Region,
    properties: Properties,
}

/// A tenant's hold on its shared drive, beside the way of its data.
#[derive(Debug, Clone)]
pub struct TenantHandle {
    shared: SharedDrive,
    number: usize,
}

impl TenantHandle {
    /// The tenant begins or ends to need help from those it shares the drive with.
    pub fn help(&self, now: Nanos, on: bool) {
        self.shared.help(now, self.number, on);
    }
}

impl SharedDrive {
    /// A virtual disk on `region`, in results number `index` with this name.
    /// Regions may overlap, as partitions of a real drive may.
    pub fn disk(&self, index: u16, name: String, region: Region, queue: &QueueSpec) -> VirtualDisk {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        // The machine's own scheduler has ordered its requests.
        let tenant = inner.scheduled.add_tenant(now, &QueueSpec { ordered: true, ..*queue });
        let number = inner.members.len();
        let weight = queue.effective_weight();
        let tail = inner.tails.add(&name);
        inner.members.push(Member::new(name.clone(), tenant, tail, weight));
        inner.owns(tenant, Owner::Disk(number));
        drop(inner);
        VirtualDisk::new(self.clone(), number, index, name, region)
    }
}

impl VirtualDisk {
    fn new(shared: SharedDrive, number: usize, index: u16, name: String, region: Region) -> Self {
        let of_drive = shared.0.borrow().scheduled.properties().clone();
        let properties = Properties { index, name, capacity: region.length, ..of_drive };
        Self { shared, number, region, properties }
    }

    /// Makes a flush cover all commands that were submitted before it, as a
    /// [`Drive`](crate::Drive)'s does: for a layer that stands on a disk as on a drive, such as an
    /// image.
    #[must_use]
    pub fn covering(self) -> Self {
        self.shared.0.borrow_mut().members[self.number].covers = true;
        self
    }

    /// Returns the owner's hold on the drive.
    pub fn tenant(&self) -> TenantHandle {
        TenantHandle { shared: self.shared.clone(), number: self.number }
    }

    fn place(&self, mut command: Command, outwards: bool) -> Command {
        let moves = !matches!(command.operation, Operation::Flush | Operation::Barrier);
        let shift = |at: u64| {
            let offset = self.region.offset;
            if outwards {
                at.saturating_add(offset)
            } else {
                at.saturating_sub(offset)
            }
        };
        if moves {
            command.offset = shift(command.offset);
        }
        if command.operation == Operation::Copy {
            command.source = shift(command.source);
        }
        command
    }

    fn fits(&self, command: &Command) -> bool {
        let within =
            |at: u64| at.checked_add(command.length).is_some_and(|end| end <= self.region.length);
        within(command.offset) && (command.operation != Operation::Copy || within(command.source))
    }
}

impl Layer for VirtualDisk {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        let inner = self.shared.0.borrow();
        let member = &inner.members[self.number];
        member.in_flight + member.due.len()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        let fits = self.fits(&request.command);
        let mut inner = self.shared.0.borrow_mut();
        inner.catch_up(now);
        if !fits {
            // Controllers check ranges against the capacity: nobody comes here.
            debug_assert!(false, "{:?} does not fit", request.command);
            let Request { tag, queue, command, data, .. } = request;
            let status = command.operation.failure();
            let command = self.place(command, true);
            let (submit, at, order) = (now, now, 0);
            let member = &mut inner.members[self.number];
            let (failed_at, layers, delivery) = (0, LayerTimes::default(), Delivery::Once);
            let done = Done {
                tag,
                queue,
                command,
                status,
                failed_at,
                data,
                submit,
                order,
                at,
                layers,
                delivery,
            };
            member.due.push(done);
            return;
        }
        let command = self.place(request.command, true);
        // Another tenant may have brought the drive to a later time: a consequence of an earlier
        // completion then counts as of that time.
        inner.submit(self.number, Request { command, ..request });
    }

    fn next_event(&self) -> Option<Nanos> {
        let inner = self.shared.0.borrow();
        let due = inner.members[self.number].due.first().map(|done| done.at);
        due.into_iter().chain(inner.next_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let first = done.len();
        {
            let mut inner = self.shared.0.borrow_mut();
            inner.catch_up(now);
            done.append(&mut inner.members[self.number].due);
        }
        for done in &mut done[first..] {
            done.command = self.place(done.command, false);
        }
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        if !self.fits(&command) {
            return (command.operation.failure(), data);
        }
        let command = self.place(command, true);
        self.shared.0.borrow_mut().scheduled.instant(command, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

// All who share a drive start it once, and report it once; each begins to count by itself
// (`SharedDrive::start`, `SharedDrive::report`).
impl Control for VirtualDisk {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    /// The drive itself begins with all of its tenants.
    fn start(&mut self, now: Nanos) {
        self.shared.begin(now, self.number);
    }

    fn health(&mut self) -> Health {
        self.shared.0.borrow_mut().scheduled.control().health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        let mut inner = self.shared.0.borrow_mut();
        inner.catch_up(now);
        inner.scheduled.control().vendor(now, command)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.shared.watch(tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.shared.0.borrow_mut().scheduled.control().take_spans(spans);
    }

    fn frozen(&mut self) -> Duration {
        // The drive's time, once.
        if self.number > 0 {
            return Duration::ZERO;
        }
        self.shared.0.borrow_mut().scheduled.control().frozen()
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.shared.0.borrow_mut().scheduled.control().take_error()
    }
}

impl std::fmt::Debug for VirtualDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("VirtualDisk").field("name", &self.properties.name).finish_non_exhaustive()
    }
}
