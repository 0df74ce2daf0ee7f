//! The I/O tap: requests to a layer, as a stream that its reader drains.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stasis_block::clock::Nanos;
use stasis_block::{Command, PowerLoss, Status};
use stasis_drive::{IoTap, Layer, Properties, TraceSink};

use crate::frame::{Frame, Level};

/// Frames on their way out, of all drives in the order of events.
#[derive(Debug, Clone, Default)]
pub struct TraceStream(Arc<Mutex<Vec<u8>>>);

impl TraceStream {
    /// Takes the frames gathered since the last call.
    pub fn drain(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wraps a layer so that each request to it is in the stream. `block`: size of the guest's
    /// logical blocks in bytes, which are never torn.
    pub fn tap(&self, lower: Box<dyn Layer>, level: Level, block: u32) -> IoTap {
        let &Properties { index: drive, capacity, discard_zeroes, power_loss, .. } =
            lower.properties();
        let mut sink = DriveSink {
            stream: self.clone(),
            drive,
            level,
            capacity,
            discard_zeroes,
            power_loss,
            recorded: None,
        };
        sink.set_block_size(block);
        IoTap::new(lower, Box::new(sink))
    }
}

struct DriveSink {
    stream: TraceStream,
    drive: u16,
    level: Level,
    capacity: u64,
    discard_zeroes: bool,
    // The drive's power loss, whatever its blocks are; and its blocks, as the last frame has them.
    power_loss: PowerLoss,
    recorded: Option<PowerLoss>,
}

impl TraceSink for DriveSink {
    fn request(&mut self, place: u64, at: Nanos, command: &Command, data: &[u8]) {
        let Self { drive, level, .. } = *self;
        let frame = Frame::Request { drive, level, place, at, command: *command, data };
        frame.encode(&mut self.stream.lock());
    }

    fn completion(&mut self, place: u64, at: Nanos, status: Status) {
        let Self { drive, level, .. } = *self;
        Frame::Completion { drive, level, place, at, status }.encode(&mut self.stream.lock());
    }

    fn set_block_size(&mut self, bytes: u32) {
        let Self { drive, level, capacity, discard_zeroes, .. } = *self;
        let power_loss = self.power_loss.for_blocks(bytes.into());
        if self.recorded.replace(power_loss) != Some(power_loss) {
            let frame = Frame::Drive { drive, level, capacity, discard_zeroes, power_loss };
            frame.encode(&mut self.stream.lock());
        }
    }
}
