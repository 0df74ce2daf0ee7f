//! The machine's end of the channel over a virtio port: requests as frames.

use crate::fd::readable;
use stasis_channel::{HEADER_SIZE, MAX_PAYLOAD};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// End of a wait for a frame without one.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The other end is closed.
    Closed,
    /// Nothing whole came in time.
    Late,
    /// The caller wants no more.
    Stopped,
    /// The header gives this length, which none has.
    TooLong(usize),
    /// The system refuses.
    System(io::Error),
}

/// Longest time for the other end to take in an answer.
const MAX_WRITE: Duration = Duration::from_secs(30);

/// One end of a stream of frames.
#[derive(Debug)]
pub(crate) struct Port {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Port {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(MAX_WRITE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Waits for the next frame, and puts its header and payload into `frame`.
    pub(crate) fn receive(
        &mut self,
        frame: &mut Vec<u8>,
        deadline: Instant,
        stopped: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        loop {
            if take(&mut self.buffer, frame)? {
                return Ok(());
            }
            if stopped() {
                return Err(Failure::Stopped);
            }
            if Instant::now() > deadline {
                return Err(Failure::Late);
            }
            let [ready] = readable([self.stream.as_fd()], 50).map_err(Failure::System)?;
            if ready {
                self.fill()?;
            }
        }
    }

    /// Sends an answer: header and payload.
    pub(crate) fn send(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(frame).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::Late,
            _ => Failure::Closed,
        })
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let mut piece = [0; 1 << 16];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(Failure::Closed),
            Ok(length) => {
                self.buffer.extend_from_slice(&piece[..length]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(Failure::Closed),
            Err(error) => Err(Failure::System(error)),
        }
    }
}

/// Moves the first whole frame, if there is one, from `buffer` to `frame`.
fn take(buffer: &mut Vec<u8>, frame: &mut Vec<u8>) -> Result<bool, Failure> {
    let Some(header) = buffer.first_chunk::<HEADER_SIZE>() else { return Ok(false) };
    let [_, _, _, _, l0, l1, l2, l3] = *header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_PAYLOAD {
        return Err(Failure::TooLong(length));
    }
    let end = HEADER_SIZE + length;
    if buffer.len() < end {
        return Ok(false);
    }
    frame.clear();
    frame.extend(buffer.drain(..end));
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            cut in 1usize..40,
        ) {
            let frames: Vec<_> = payloads.iter().map(|payload| frame(4, payload)).collect();
            let (mut buffer, mut taken, mut one) = (Vec::new(), Vec::new(), Vec::new());
            for piece in frames.concat().chunks(cut) {
                buffer.extend_from_slice(piece);
                while take(&mut buffer, &mut one).unwrap() {
                    taken.push(one.clone());
                }
            }
            prop_assert_eq!(taken, frames);
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn garbage_is_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut buffer = bytes.clone();
            let mut one = Vec::new();
            match take(&mut buffer, &mut one) {
                Ok(true) => prop_assert_eq!([one, buffer].concat(), bytes),
                Ok(false) => prop_assert_eq!(buffer, bytes),
                Err(Failure::TooLong(length)) => prop_assert!(length > MAX_PAYLOAD),
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn waits_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut port = Port::new(ours).unwrap();
        let mut one = Vec::new();
        theirs.write_all(&frame(1, b"abcd")[..9]).unwrap();
        let late = port.receive(&mut one, Instant::now(), || false);
        assert!(matches!(late, Err(Failure::Late)));
        assert!(matches!(port.receive(&mut one, soon(), || true), Err(Failure::Stopped)));
        theirs.write_all(b"bcd").unwrap();
        port.receive(&mut one, soon(), || false).unwrap();
        assert_eq!(one, frame(1, b"abcd"));
        theirs.write_all(&[1, 0, 0, 0, 255, 255, 255, 255]).unwrap();
        let bad = port.receive(&mut one, soon(), || false);
        assert!(matches!(bad, Err(Failure::TooLong(0xffff_ffff))));
        drop(theirs);
        port.buffer.clear();
        assert!(matches!(port.receive(&mut one, soon(), || false), Err(Failure::Closed)));
        assert!(matches!(port.send(b"x"), Err(Failure::Closed)));
    }
}
