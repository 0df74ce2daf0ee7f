//! The event stream's way out; see `packet.rs`.

use super::memory::{populate, PageMap};
use super::port;
use crate::packet::{bulk, place, short_head, BULK, SHORT};
use stasis_run_events::{encode, EventSink, RunEvent};
use std::io;
use std::sync::{Mutex, PoisonError};

/// One for the whole process, so that the packets of different threads do not
/// mix.
static OUTPUT: Mutex<Output> = Mutex::new(Output { bytes: Vec::new(), bulk: None });

struct Output {
    bytes: Vec<u8>,
    /// Memory that lies in one piece physically.
    bulk: Option<&'static mut [u8]>,
}

/// A handle on the event stream.
pub(super) struct Port;

impl EventSink for Port {
    fn event(&mut self, event: RunEvent) -> io::Result<()> {
        let Output { bytes, bulk: buffer } =
            &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.clear();
        encode(&event, bytes);
        match buffer {
            Some(memory) if bytes.len() > SHORT => {
                for piece in bytes.chunks(memory.len()) {
                    memory[..piece.len()].copy_from_slice(piece);
                    port::write_journal(&bulk(piece.len()));
                    port::shake_hands();
                }
            }
            _ => {
                for piece in bytes.chunks(SHORT) {
                    port::write_journal(&short_head(piece.len()));
                    port::write_journal(piece);
                }
            }
        }
        Ok(())
    }
}

/// Sets the memory for bulk packets up and tells where it is; without it all
/// packets are short.
pub(super) fn prepare() -> io::Result<()> {
    // Twice the size, so that an aligned huge page is in it.
    let memory: &'static mut [u8] = Box::leak(vec![0; 2 * BULK].into_boxed_slice());
    let aligned = memory.as_ptr().align_offset(BULK);
    let Some(memory) = memory.get_mut(aligned..aligned + BULK) else { return Ok(()) };
    populate(memory)?;
    let mut first = None;
    PageMap::open()?.pieces(memory, |address, length| {
        first.get_or_insert((address, length));
        Ok::<(), io::Error>(())
    })?;
    if let Some((address, length)) = first {
        port::write_journal(&place(address, length));
        let mut output = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        output.bulk = Some(&mut memory[..length]);
    }
    Ok(())
}
