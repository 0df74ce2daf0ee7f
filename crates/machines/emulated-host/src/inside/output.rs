//! The event stream's way out; see `packet.rs`.

use super::memory::{populate, PageMap};
use super::port;
use crate::packet::{
    again, bulk, cross, debug, place, program, read, short_head, wait, ANSWER, BULK, GONE, SHORT,
};
use stasis_channel::{Keyboard, Typed};
use stasis_layout::{number, take, u32_at, U64};
use stasis_run_events::{encode, Debugger, EventSink, RunEvent};
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
                    port::write_events(&bulk(piece.len()));
                    port::shake_hands();
                }
            }
            _ => {
                for piece in bytes.chunks(SHORT) {
                    port::write_events(&short_head(piece.len()));
                    port::write_events(piece);
                }
            }
        }
        Ok(())
    }
}

/// The terminal of the person who watches from outside.
#[derive(Debug)]
pub(super) struct Outside;

impl Keyboard for Outside {
    fn read(&mut self, limit: u64) -> io::Result<Typed> {
        let Output { bulk: buffer, .. } =
            &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the buffer there is no place for an answer.
        let Some(memory) = buffer else { return Ok(Typed::default()) };
        port::write_events(&wait(limit));
        port::shake_hands();
        // SAFETY: within `memory`, which the outer side has written behind the compiler's back
        // and does not write again before the next packet.
        let byte = |at: usize| unsafe { std::ptr::read_volatile(&raw const memory[at]) };
        let length = number(&[0, 1, 2, 3].map(byte)) as usize;
        let bytes: Vec<u8> = (4..memory.len().min(4 + length)).map(byte).collect();
        Ok(Typed::decode(&bytes).unwrap_or_default())
    }
}

impl Debugger for Outside {
    fn exchange(&mut self, mut bytes: &[u8], wait: bool) -> io::Result<Option<Vec<u8>>> {
        let Output { bulk: buffer, .. } =
            &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the buffer there is no place for an answer.
        let memory = buffer.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let mut came = Vec::new();
        loop {
            let (piece, rest) = bytes.split_at(bytes.len().min(memory.len()));
            memory[..piece.len()].copy_from_slice(piece);
            bytes = rest;
            port::write_events(&debug(piece.len(), wait && rest.is_empty()));
            port::shake_hands();
            let (length, answer) = answer(memory);
            match length {
                GONE => return Ok(None),
                length => came.extend_from_slice(&answer[..answer.len().min(length as usize)]),
            }
            if bytes.is_empty() {
                return Ok(Some(came));
            }
        }
    }

    fn again(&mut self, plan: &[u8], turn: u64) -> io::Error {
        let Output { bulk: buffer, .. } =
            &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the buffer there is no place for the plan.
        let Some(memory) = buffer else { return io::ErrorKind::Unsupported.into() };
        let Some(place) = memory.get_mut(..plan.len()) else {
            return io::Error::other("there are too many breakpoints");
        };
        place.copy_from_slice(plan);
        port::write_events(&again(turn, plan.len()));
        port::shake_hands();
        let (length, text) = answer(memory);
        failure(length, text)
    }
}

impl stasis_network::Outside for Outside {
    fn exchange(&mut self, frames: &[u8], limit: u64) -> io::Result<Vec<u8>> {
        let Output { bulk: buffer, .. } =
            &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the buffer there is no place for frames: they are lost.
        let Some(memory) = buffer else { return Ok(Vec::new()) };
        let Some(place) = memory.get_mut(..frames.len()) else { return Ok(Vec::new()) };
        place.copy_from_slice(frames);
        port::write_events(&cross(frames.len(), limit));
        port::shake_hands();
        let bytes = answered(memory)?;
        let Some(length) = u32_at(bytes, 0) else { return Ok(Vec::new()) };
        let came = &bytes[HEAD..];
        Ok(came[..came.len().min(length as usize)].to_vec())
    }
}

/// The bytes of an answer that begins with a length that is 0, or that of a text that says why
/// there are none.
fn answered(memory: &mut [u8]) -> io::Result<&[u8]> {
    match answer(memory) {
        (0, bytes) => Ok(bytes),
        (length, text) => Err(failure(length, text)),
    }
}

/// The number at the beginning of an answer, and what follows.
fn answer(memory: &mut [u8]) -> (u32, &[u8]) {
    let (head, bytes) = port::written(memory).split_at(HEAD);
    (u32_at(head, 0).unwrap_or(0), bytes)
}

/// The error that says the first `length` bytes.
fn failure(length: u32, bytes: &[u8]) -> io::Error {
    let text = &bytes[..bytes.len().min(length as usize)];
    io::Error::other(String::from_utf8_lossy(text).into_owned())
}

/// Fills `into` with bytes of the outer side's source from `offset` on.
pub(super) fn read_source(into: &mut [u8], mut offset: u64) -> io::Result<()> {
    let Output { bulk: buffer, .. } = &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the buffer there is no place for an answer.
    let memory = buffer.as_mut().ok_or(io::ErrorKind::Unsupported)?;
    // The answer's head lies before its bytes; on the bare machine all of the buffer is there.
    for piece in into.chunks_mut(ANSWER.min(memory.len() - HEAD)) {
        port::write_events(&read(offset, piece.len()));
        port::shake_hands();
        piece.copy_from_slice(&answered(memory)?[..piece.len()]);
        offset += piece.len() as u64;
    }
    Ok(())
}

/// Asks the outer side for what it knows of a guest's program; None where that is nothing.
pub(super) fn read_program(path: &str) -> Option<Vec<u8>> {
    /// Limit on what is taken of one (bytes).
    const MAX_BYTES: u64 = 64 << 20;
    let Output { bulk: buffer, .. } = &mut *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    // Without the buffer there is no place for an answer.
    let memory = buffer.as_mut()?;
    let mut all = Vec::new();
    loop {
        memory.get_mut(..path.len())?.copy_from_slice(path.as_bytes());
        port::write_events(&program(all.len() as u64, path.len()));
        port::shake_hands();
        let mut bytes = answered(memory).ok()?;
        let length = take::<U64>(&mut bytes)?.get();
        if length == 0 || length > MAX_BYTES {
            return None;
        }
        let rest = (length as usize).checked_sub(all.len())?;
        all.extend_from_slice(bytes.get(..rest.min(ANSWER))?);
        if all.len() as u64 == length {
            return Some(all);
        }
    }
}

/// Bytes of an answer's head.
const HEAD: usize = 4;

/// Sets the memory for bulk packets up and sends its address; without it all packets are short.
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
        port::write_events(&place(address, length));
        let mut output = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
        output.bulk = Some(&mut memory[..length]);
    }
    Ok(())
}
