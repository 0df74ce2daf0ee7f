//! Linux's binary block trace: `struct blk_io_trace` (include/uapi/linux/blktrace_api.h),
//! little-endian, one after the other in the order of time.
//!
//! Each I/O is three events: queued (Q) and issued (D) at its submission, completed (C) when
//! its completion was visible to the guest. The processor is always 0: a trace file is one
//! processor's, and fio's `read_iolog` takes one file. The queue is in the field for the
//! process.

use std::io::{self, Write};

use stasis_block::Operation;
use stasis_run_events::IoRecord;
use stasis_workload::blktrace::*;

use crate::Exported;

/// `EIO`, which a failed completion carries.
const EIO: u16 = 5;

/// One event, before it has its number.
#[derive(Clone, Copy)]
struct Event {
    time: u64,
    /// The I/O's number among the submissions, and which of its events it is: the order at
    /// equal times.
    order: (u64, u8),
    io: usize,
}

/// Writes the trace of one drive's I/Os. `device` is the drive's number, the minor number of
/// the trace's device. All are in memory while the events are sorted: some 150 bytes an I/O.
///
/// Virtual time begins with the machine; the trace's times are the same ns.
///
/// # Errors
/// Errors of `out`.
pub fn blktrace(ios: &[IoRecord], device: u8, out: &mut dyn Write) -> io::Result<Exported> {
    let mut exported = Exported::default();
    let mut events = Vec::with_capacity(ios.len() * 3);
    for (io, record) in ios.iter().enumerate() {
        // A trace's length is 32 bits; a controller's own refusal reached no drive.
        if record.refused() || u32::try_from(record.bytes).is_err() {
            exported.left_out += 1;
            continue;
        }
        exported.ios += 1;
        let number = record.order;
        events.push(Event { time: record.submit, order: (number, 0), io });
        events.push(Event { time: record.submit, order: (number, 1), io });
        events.push(Event { time: record.delivered, order: (number, 2), io });
    }
    events.sort_unstable_by_key(|event| (event.time, event.order));
    for (sequence, event) in events.iter().enumerate() {
        let record = &ios[event.io];
        out.write_all(&encoded(record, event, sequence as u32 + 1, u32::from(device)))?;
    }
    out.flush()?;
    Ok(exported)
}

fn encoded(record: &IoRecord, event: &Event, sequence: u32, device: u32) -> [u8; EVENT] {
    let (action, stage) = match event.order.1 {
        0 => (QUEUE, QUEUED),
        1 => (ISSUE, ISSUED),
        _ => (COMPLETE, COMPLETED),
    };
    let error = if event.order.1 == 2 && record.failed() { EIO } else { 0 };
    // The length is checked before.
    let bytes = u32::try_from(record.bytes).unwrap_or(u32::MAX);
    let has_range = !matches!(record.operation, Operation::Flush | Operation::Barrier);
    let (sector, bytes) = if has_range { (record.offset / SECTOR, bytes) } else { (0, 0) };
    let action = action | (stage | categories(record)) << CATEGORY;
    // A device of the guest's own, such as 259 for NVMe's block devices (dev_t of 12 and 20
    // bits).
    let device = 259 << 20 | device;
    let mut out = [0; EVENT];
    let mut place = 0;
    let mut put = |bytes: &[u8]| {
        out[place..place + bytes.len()].copy_from_slice(bytes);
        place += bytes.len();
    };
    put(&(MAGIC | VERSION).to_le_bytes());
    put(&sequence.to_le_bytes());
    put(&event.time.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&bytes.to_le_bytes());
    put(&action.to_le_bytes());
    put(&u32::from(record.queue).to_le_bytes());
    put(&device.to_le_bytes());
    put(&0_u32.to_le_bytes());
    put(&error.to_le_bytes());
    put(&0_u16.to_le_bytes());
    out
}

fn categories(record: &IoRecord) -> u32 {
    let operation = match record.operation {
        Operation::Read | Operation::Verify => READ,
        Operation::Discard => DISCARD | WRITE,
        Operation::Flush | Operation::Barrier => FLUSH | SYNC | WRITE,
        _ => WRITE,
    };
    let fua = if record.fua { FUA | SYNC } else { 0 };
    operation | fua | FS
}
