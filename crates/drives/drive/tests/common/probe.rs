//! A layer that records its commands.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{
    CacheKind, Command, Health, Operation, PowerLoss, Request, Status, VendorCommand, VendorError,
};
use stasis_drive::{Control, Done, Layer, Properties};
use stasis_media::MediumError;

/// The names of methods, in the order in which they were called.
pub type Asked = Rc<RefCell<Vec<&'static str>>>;

/// Answers unlike any default.
pub struct Probe {
    asked: Asked,
    properties: Properties,
    /// Something happens once, at 1 ns.
    due: bool,
}

fn properties() -> Properties {
    Properties {
        index: 3,
        name: "probe".into(),
        capacity: 1 << 20,
        discard_zeroes: true,
        barrier: Some(5),
        power_loss: PowerLoss::new(CacheKind::Volatile(7), 1024),
    }
}

impl Probe {
    pub fn new() -> (Self, Asked) {
        let asked = Asked::default();
        (Self { asked: Rc::clone(&asked), properties: properties(), due: true }, asked)
    }

    fn note(&self, name: &'static str) {
        self.asked.borrow_mut().push(name);
    }
}

impl Layer for Probe {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, _: Nanos, _: Request) {
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

    fn in_flight(&self) -> usize {
        self.note("in_flight");
        0
    }

    fn instant(&mut self, _: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.note("instant");
        (Status::Ok, data)
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Probe {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        None
    }

    fn health(&mut self) -> Health {
        Health { percentage_used: 77, ..Health::default() }
    }

    fn vendor(&mut self, _: Nanos, _: &mut VendorCommand) -> Result<u32, VendorError> {
        Ok(11)
    }

    fn start(&mut self, _: Nanos) {
        self.note("start");
    }

    fn inside(&mut self, _: Nanos) -> Option<Inside> {
        Some(Inside::Other("probe".into()))
    }

    fn watch(&mut self, _: &mut Tracks) {
        self.note("watch");
    }

    fn take_spans(&mut self, _: &mut Spans) {
        self.note("take_spans");
    }

    fn frozen(&mut self) -> Duration {
        Duration::from_secs(9)
    }

    fn take_error(&mut self) -> Option<MediumError> {
        Some(MediumError::Memory { offset: 0 })
    }
}

/// Calls every method of `layer`, which stands on a [`Probe`], and checks that the probe was
/// asked and that its answers came through.
pub fn every_method_reaches_the_layer_below(layer: &mut dyn Layer, asked: &Asked) {
    let read = || Command::new(Operation::Read, 0, 512);
    let reached = |name: &str| {
        let asked = std::mem::take(&mut *asked.borrow_mut());
        assert!(asked.contains(&name), "{name} does not reach the layer below: {asked:?}");
    };
    assert_eq!(*layer.properties(), properties());
    layer.submit(0, Request::new(1, read(), vec![0; 512]));
    reached("submit");
    layer.next_event();
    reached("next_event");
    layer.advance(1, &mut Vec::new());
    reached("advance");
    layer.instant(read(), vec![0; 512]);
    reached("instant");
    let control = layer.control();
    assert_eq!(control.frozen(), Duration::from_secs(9));
    assert!(matches!(control.take_error(), Some(MediumError::Memory { .. })));
    assert_eq!(control.health().percentage_used, 77);
    let mut command = VendorCommand { opcode: 0xc0, dwords: [0; 6], data: Vec::new() };
    assert!(matches!(control.vendor(2, &mut command), Ok(11)));
    assert_eq!(control.inside(2), Some(Inside::Other("probe".into())));
    control.watch(&mut Tracks::default());
    reached("watch");
    control.start(1);
    reached("start");
    control.take_spans(&mut Spans::default());
    reached("take_spans");
}
