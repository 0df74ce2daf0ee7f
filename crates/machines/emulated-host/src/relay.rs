//! Receives the inner side's packets until the purpose is reached.

use crate::packet::{Packet, Packets, ANSWER, BULK, GONE, HANDSHAKE};
use crate::saved::{paused, Machine};
use crate::snapshots::Recorder;
use crate::{items, Control, Error};
use stasis_channel::{Keyboard, Typed};
use stasis_network::Outside;
use stasis_qemu_vm::fd::readable;
use stasis_run_events::{Decoder, EventSink, FrameError, Instant, RunEvent};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{self, Duration};
use tempfile::TempDir;

/// Longest time for the inner side to end after it was asked to.
const GRACE: Duration = Duration::from_secs(3);

/// Something that the inner side has sent.
pub(crate) enum Sent {
    /// The event stream's next bytes.
    Bytes(Vec<u8>),
    /// Place of its buffer, as a physical address.
    Place(u64),
    /// The inner side pauses the machine.
    Pause,
    /// The job is to be done once more, by this plan, from a snapshot before this turn.
    Again(u64, Vec<u8>),
    /// The inner side pauses the machine for a snapshot.
    Snapshot(Instant),
}

/// End of a machine's event stream.
pub(crate) enum Ended {
    /// The job has ended.
    Over,
    /// The job is to be done once more, by this plan, from a snapshot before this turn.
    Again(u64, Vec<u8>),
}

/// A machine with a job under way.
pub(crate) struct Started {
    pub machine: Machine,
    /// Files with the events of the job so far.
    pub events_so_far: Vec<PathBuf>,
    /// Stores the job's snapshots, if they are stored.
    pub recorder: Option<Recorder>,
    /// The machine's folder, where it has one of its own.
    pub folder: Option<TempDir>,
    /// A remark for the user.
    pub note: Option<String>,
}

impl Started {
    /// A job at its beginning.
    pub(crate) fn anew(machine: Machine) -> Self {
        Self { machine, events_so_far: Vec::new(), recorder: None, folder: None, note: None }
    }
}

/// Hands the event stream on, `events_so_far` before anything else, until the job has ended. Adds remarks for
/// the user to `notes`.
pub(crate) fn relay(
    started: Started,
    notes: &mut Vec<String>,
    events: &mut dyn EventSink,
    control: &Control,
) -> Result<Ended, Error> {
    let Started { mut machine, events_so_far, mut recorder, folder: _folder, note } = started;
    notes.extend(note);
    let mut decoder = Decoder::new();
    let mut hand_on = |bytes: &[u8]| -> Result<bool, Error> {
        decoder.push(bytes);
        while let Some(event) = decoder.next_event()? {
            let last = matches!(event, RunEvent::Outcome(_) | RunEvent::Failed(_));
            events.event(event).map_err(Error::EventSink)?;
            if last {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut piece = vec![0; 1 << 16];
    for path in events_so_far {
        let mut file = File::open(&path).map_err(Error::io("cannot read", &path))?;
        loop {
            let length = file.read(&mut piece).map_err(Error::io("cannot read", &path))?;
            match length {
                0 => break,
                length if hand_on(&piece[..length])? => return Ok(Ended::Over),
                _ => {}
            }
        }
    }
    let mut ended = Ended::Over;
    let pumped = pump(&mut machine, control, |machine, sent| match sent {
        Sent::Bytes(bytes) => {
            if let Some(recorder) = &mut recorder {
                recorder.told(&bytes);
            }
            hand_on(&bytes)
        }
        Sent::Place(_) => Ok(false),
        // The inner side was not asked to pause.
        Sent::Pause => Err(Error::NotKept),
        Sent::Snapshot(instant) => {
            match &mut recorder {
                Some(recorder) => recorder.take(machine, instant)?,
                None => paused(machine)?,
            }
            machine.go_on().map(|()| false)
        }
        Sent::Again(turn, plan) => {
            ended = Ended::Again(turn, plan);
            Ok(true)
        }
    });
    notes.extend(recorder.and_then(|recorder| recorder.off));
    pumped.map(|()| ended)
}

/// Continues the waiting inner side with the terminal's input.
fn answer(machine: &mut Machine, control: &Control, limit: u64) -> Result<(), Error> {
    let failed = |source| Error::System { action: "read the terminal", source };
    let typed = match &control.keyboard {
        Some(keyboard) => Arc::clone(keyboard).read(limit).map_err(failed)?,
        None => Typed::default(),
    };
    let mut bytes = vec![0; 4];
    typed.encode(&mut bytes);
    bytes.truncate(BULK);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    go_on(machine, &bytes)
}

/// Sends `length` bytes of the buffer to the debugger, and continues the waiting inner side with
/// what has come from it.
fn answer_debug(
    machine: &mut Machine,
    control: &Control,
    length: usize,
    wait: bool,
) -> Result<(), Error> {
    let bytes = buffered(machine, length, "take a debugger's bytes from the software host")?;
    let came = control.debugger.as_ref().and_then(|debugger| {
        let mut debugger = debugger.lock().unwrap_or_else(PoisonError::into_inner);
        // A wire that fails is a debugger that has gone.
        debugger.exchange(&bytes, wait).ok().flatten()
    });
    let answer = match came {
        Some(mut came) => {
            came.truncate(ANSWER);
            let mut answer = (came.len() as u32).to_le_bytes().to_vec();
            answer.append(&mut came);
            answer
        }
        None => GONE.to_le_bytes().to_vec(),
    };
    go_on(machine, &answer)
}

/// Sends `length` bytes of the buffer, which are frames, outside, and continues the waiting inner
/// side with those that have come, or with why none can.
fn answer_cross(
    machine: &mut Machine,
    control: &Control,
    length: usize,
    limit: u64,
) -> Result<(), Error> {
    let frames = buffered(machine, length, "take frames from the software host")?;
    let came = match &control.outside {
        Some(outside) => Arc::clone(outside).exchange(&frames, limit),
        None => Err(std::io::Error::other("there is no world outside")),
    };
    let answer = match came {
        Ok(mut came) => {
            came.truncate(ANSWER);
            let mut answer = 0u32.to_le_bytes().to_vec();
            answer.extend_from_slice(&(came.len() as u32).to_le_bytes());
            answer.append(&mut came);
            answer
        }
        Err(error) => told(&error.to_string()),
    };
    go_on(machine, &answer)
}

/// Continues the waiting inner side with `length` bytes of the source.
fn answer_read(
    machine: &mut Machine,
    control: &Control,
    offset: u64,
    length: usize,
) -> Result<(), Error> {
    let mut bytes = vec![0; 4 + length.min(ANSWER)];
    let read = match &control.source {
        Some(source) => source(&mut bytes[4..], offset),
        None => Err(std::io::Error::other("there is no source")),
    };
    if let Err(error) = read {
        bytes = told(&error.to_string());
    }
    go_on(machine, &bytes)
}

/// Continues the waiting inner side with what is known of the program whose path is `length` bytes of the
/// buffer, from `offset` on.
fn answer_program(
    machine: &mut Machine,
    control: &Control,
    offset: u64,
    length: usize,
) -> Result<(), Error> {
    let path = buffered(machine, length, "take a program's path from the software host")?;
    let known = control.programs.as_ref().zip(std::str::from_utf8(&path).ok());
    let known = known.and_then(|(programs, path)| programs(path)).unwrap_or_default();
    let rest = usize::try_from(offset).ok().and_then(|offset| known.get(offset..));
    let rest = rest.unwrap_or_default();
    let mut answer = 0u32.to_le_bytes().to_vec();
    answer.extend_from_slice(&(known.len() as u64).to_le_bytes());
    answer.extend_from_slice(&rest[..rest.len().min(ANSWER)]);
    go_on(machine, &answer)
}

/// Reads `length` bytes from the start of the buffer, at most all of it; an error names `action`.
fn buffered(machine: &Machine, length: usize, action: &'static str) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length.min(BULK)];
    let read = machine.memory.read_exact_at(&mut bytes, machine.buffer);
    read.map(|()| bytes).map_err(Error::system(action))
}

/// The answer that says why there is none: a text behind its length.
fn told(why: &str) -> Vec<u8> {
    let mut answer = (why.len() as u32).to_le_bytes().to_vec();
    answer.extend_from_slice(why.as_bytes());
    answer.truncate(ANSWER);
    answer
}

/// Continues the waiting inner side with an answer.
fn go_on(machine: &mut Machine, answer: &[u8]) -> Result<(), Error> {
    machine
        .memory
        .write_all_at(answer, machine.buffer)
        .and_then(|()| machine.qemu.handshake.read_exact(&mut [0; HANDSHAKE]))
        .map_err(Error::system("answer the software host"))
}

/// Calls `take` with each message of the inner side, until `take` returns that it is enough.
pub(crate) fn pump(
    machine: &mut Machine,
    control: &Control,
    mut take: impl FnMut(&mut Machine, Sent) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut packets = Packets::default();
    let mut piece = vec![0; 1 << 16];
    let mut asked: Option<(u8, time::Instant)> = None;
    let ended = |why: u8| match why {
        items::TIMEOUT_BYTE => Error::WallLimit,
        _ => Error::Stopped,
    };
    loop {
        let [ready] = readable([machine.qemu.events.as_fd()], 50)
            .map_err(Error::system("wait for the software host"))?;
        if ready {
            let length = machine
                .qemu
                .events
                .read(&mut piece)
                .map_err(Error::system("read from the software host"))?;
            if length == 0 {
                return Err(asked.map_or_else(|| machine.qemu.died(), |(why, _)| ended(why)));
            }
            packets.push(&piece[..length]);
            while let Some(packet) = packets.next().map_err(FrameError::Kind)? {
                let sent = match packet {
                    Packet::Short(bytes) => Sent::Bytes(bytes),
                    Packet::Bulk { length } => {
                        let action = "take results from the software host";
                        let bytes = buffered(machine, length, action)?;
                        let taken = machine.qemu.handshake.read_exact(&mut [0; HANDSHAKE]);
                        taken.map_err(Error::system(action))?;
                        Sent::Bytes(bytes)
                    }
                    Packet::Place { address, .. } => {
                        machine.place(address)?;
                        Sent::Place(address)
                    }
                    Packet::Pause => Sent::Pause,
                    Packet::Wait { limit } => {
                        answer(machine, control, limit)?;
                        continue;
                    }
                    Packet::Debug { length, wait } => {
                        answer_debug(machine, control, length, wait)?;
                        continue;
                    }
                    Packet::Snapshot(instant) => Sent::Snapshot(instant),
                    Packet::Again { turn, length } => {
                        if let Some(why) = &control.once {
                            go_on(machine, &told(why))?;
                            continue;
                        }
                        let action = "take a plan from the software host";
                        Sent::Again(turn, buffered(machine, length, action)?)
                    }
                    Packet::Cross { length, limit } => {
                        answer_cross(machine, control, length, limit)?;
                        continue;
                    }
                    Packet::Program { offset, length } => {
                        answer_program(machine, control, offset, length)?;
                        continue;
                    }
                    Packet::Read { offset, length } => {
                        answer_read(machine, control, offset, length)?;
                        continue;
                    }
                };
                if take(machine, sent)? {
                    return Ok(());
                }
            }
        }
        match asked {
            None => {
                let why = if control.stop.load(Ordering::Relaxed) {
                    items::STOP_BYTE
                } else if control.is_over() {
                    items::TIMEOUT_BYTE
                } else {
                    continue;
                };
                // If QEMU is gone, the event stream's end shows it.
                let _ = machine.qemu.stop.write_all(&[why]);
                asked = Some((why, time::Instant::now()));
            }
            Some((why, when)) if when.elapsed() > GRACE => return Err(ended(why)),
            Some(_) => {}
        }
    }
}
