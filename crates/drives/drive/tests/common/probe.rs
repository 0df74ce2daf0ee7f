//! A layer that records its commands.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    CacheKind, Command, Health, Operation, PowerLoss, Status, VendorCommand, VendorError,
};
use stasis_clock::Nanos;
use stasis_drive::{Done, Layer, Statistics, Submission};
use stasis_media::MediumError;

/// The names of methods, in the order in which they were called.
pub type Asked = Rc<RefCell<Vec<&'static str>>>;

/// Answers unlike any default.
pub struct Probe {
    asked: Asked,
    statistics: Statistics,
    /// Something happens once, at 1 ns.
    due: bool,
}

impl Probe {
    pub fn new() -> (Self, Asked) {
        let asked = Asked::default();
        let mut statistics = Statistics::default();
        statistics.add(Operation::Read, 7, Status::Ok);
        (Self { asked: Rc::clone(&asked), statistics, due: true }, asked)
    }

    fn note(&self, name: &'static str) {
        self.asked.borrow_mut().push(name);
    }
}

impl Layer for Probe {
    fn index(&self) -> u16 {
        self.note("index");
        3
    }

    fn name(&self) -> &str {
        self.note("name");
        "probe"
    }

    fn capacity(&self) -> u64 {
        self.note("capacity");
        1 << 20
    }

    fn discard_zeroes(&self) -> bool {
        self.note("discard_zeroes");
        true
    }

    fn barrier(&self) -> Option<Nanos> {
        self.note("barrier");
        Some(5)
    }

    fn power_loss(&self) -> PowerLoss {
        self.note("power_loss");
        PowerLoss::new(CacheKind::Volatile(7), 1024)
    }

    fn in_flight(&self) -> usize {
        self.note("in_flight");
        0
    }

    fn submit(&mut self, _: Nanos, _: Submission) {
        self.note("submit");
    }

    fn next_event(&self) -> Option<Nanos> {
        self.note("next_event");
        self.due.then_some(1)
    }

    fn advance(&mut self, _: Nanos, _: &mut Vec<Done>) {
        self.note("advance");
        self.due = false;
    }

    fn instant(&mut self, _: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.note("instant");
        (Status::Ok, data)
    }

    fn frozen(&self) -> Duration {
        self.note("frozen");
        Duration::from_secs(9)
    }

    fn statistics(&self) -> &Statistics {
        self.note("statistics");
        &self.statistics
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.note("take_error");
        Some(MediumError::Memory { offset: 0 })
    }

    fn health(&self) -> Health {
        self.note("health");
        Health { percentage_used: 77, ..Health::default() }
    }

    fn vendor(&mut self, _: Nanos, _: &mut VendorCommand) -> Result<u32, VendorError> {
        self.note("vendor");
        Ok(11)
    }

    fn help(&mut self, _: Nanos, _: bool) {
        self.note("help");
    }

    fn urge(&mut self, _: &mut dyn Iterator<Item = u64>) {
        self.note("urge");
    }

    fn start(&mut self, _: Nanos) {
        self.note("start");
    }

    fn inside(&self, _: Nanos) -> Option<String> {
        self.note("inside");
        Some("{}".into())
    }

    fn watch(&mut self, _: &mut Tracks) {
        self.note("watch");
    }

    fn take_spans(&mut self, _: &mut Spans) {
        self.note("take_spans");
    }
}

/// Calls every method of `layer`, which stands on a [`Probe`], and checks that the probe was
/// asked and that its answers came through.
pub fn every_method_reaches_the_layer_below(layer: &mut dyn Layer, asked: &Asked) {
    let read = || Command::new(Operation::Read, 0, 512);
    let submission = Submission { tag: 1, queue: 0, command: read(), data: vec![0; 512] };
    let reached = |name: &str| {
        let asked = std::mem::take(&mut *asked.borrow_mut());
        assert!(asked.contains(&name), "{name} does not reach the layer below: {asked:?}");
    };
    assert_eq!((layer.index(), layer.capacity(), layer.barrier()), (3, 1 << 20, Some(5)));
    reached("barrier");
    assert_eq!(layer.power_loss(), PowerLoss::new(CacheKind::Volatile(7), 1024));
    reached("power_loss");
    assert_eq!((layer.name(), layer.discard_zeroes()), ("probe", true));
    reached("discard_zeroes");
    layer.submit(0, submission);
    reached("submit");
    layer.next_event();
    reached("next_event");
    layer.advance(1, &mut Vec::new());
    reached("advance");
    assert_eq!(layer.frozen(), Duration::from_secs(9));
    assert_eq!(layer.statistics().of(Operation::Read).bytes, 7);
    assert!(matches!(layer.take_error(), Some(MediumError::Memory { .. })));
    assert_eq!(layer.health().percentage_used, 77);
    let mut command = VendorCommand { opcode: 0xc0, dwords: [0; 6], data: Vec::new() };
    assert!(matches!(layer.vendor(2, &mut command), Ok(11)));
    assert_eq!(layer.inside(2).as_deref(), Some("{}"));
    layer.help(3, true);
    reached("help");
    layer.urge(&mut [8].into_iter());
    reached("urge");
    layer.instant(read(), vec![0; 512]);
    reached("instant");
    layer.watch(&mut Tracks::default());
    reached("watch");
    layer.start(1);
    reached("start");
    layer.take_spans(&mut Spans::default());
    reached("take_spans");
}
