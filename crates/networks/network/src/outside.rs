//! Ports of networks that lead out of the experiment: frames that cross together.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Limit on the bytes of frames that cross together, with their heads.
pub const FRAMES: usize = 1 << 20;

/// Bytes before each frame: network, port, length; little endian.
const HEAD: usize = 8;

/// The world outside.
pub trait Outside: Debug + Send {
    /// Sends `frames`, and returns those that have come, as [`Frames`] has them. Waits for some at
    /// most `limit` of the wall clock (ns), and paces its caller: one call after another, virtual
    /// time that passes by so much does not pass faster than the wall clock.
    ///
    /// # Errors
    /// If a program at the other end of a port has gone.
    fn exchange(&mut self, frames: &[u8], limit: u64) -> io::Result<Vec<u8>>;
}

/// An outside with several holders.
pub type SharedOutside = Arc<Mutex<dyn Outside>>;

impl Outside for SharedOutside {
    fn exchange(&mut self, frames: &[u8], limit: u64) -> io::Result<Vec<u8>> {
        self.lock().unwrap_or_else(PoisonError::into_inner).exchange(frames, limit)
    }
}

/// Frames that cross together: of each its network, its port and its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames(Vec<u8>);

impl Frames {
    /// Takes `frame` of a port, if there is room.
    pub fn push(&mut self, network: usize, port: usize, frame: &[u8]) -> bool {
        let [Ok(network), Ok(port)] = [network, port].map(u16::try_from) else { return false };
        if self.0.len() + HEAD + frame.len() > FRAMES {
            return false;
        }
        self.0.extend_from_slice(&network.to_le_bytes());
        self.0.extend_from_slice(&port.to_le_bytes());
        self.0.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        self.0.extend_from_slice(frame);
        true
    }

    /// Returns whether there is room for a frame of `length` bytes.
    pub fn has_room(&self, length: usize) -> bool {
        self.0.len() + HEAD + length <= FRAMES
    }

    /// The bytes, as they cross.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the frames of `bytes`: network, port and frame, up to the first that is incomplete.
    pub fn read(mut bytes: &[u8]) -> impl Iterator<Item = (usize, usize, &[u8])> {
        std::iter::from_fn(move || {
            let (&[a, b, c, d, length @ ..], rest) = bytes.split_first_chunk::<HEAD>()?;
            let length = u32::from_le_bytes(length) as usize;
            let (frame, rest) = rest.split_at_checked(length)?;
            bytes = rest;
            Some((u16::from_le_bytes([a, b]).into(), u16::from_le_bytes([c, d]).into(), frame))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(
            all in prop::collection::vec(
                (0usize..1 << 16, 0usize..1 << 16, prop::collection::vec(any::<u8>(), 0..99)), 0..20
            ),
            cut in 0usize..3000,
        ) {
            let mut frames = Frames::default();
            for (network, port, frame) in &all {
                prop_assert!(frames.push(*network, *port, frame));
            }
            let read: Vec<_> = Frames::read(frames.bytes())
                .map(|(network, port, frame)| (network, port, frame.to_vec()))
                .collect();
            prop_assert_eq!(&read, &all);
            let cut = &frames.bytes()[..cut.min(frames.bytes().len())];
            prop_assert!(Frames::read(cut).count() <= all.len());
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            Frames::read(&noise).for_each(drop);
        }
    }

    #[test]
    fn no_more_crosses_than_has_room() {
        let mut frames = Frames::default();
        assert!(!frames.push(0, 0, &[0; FRAMES]));
        assert!(frames.push(0, 0, &[0; FRAMES - 2 * HEAD]));
        assert!(frames.has_room(0) && !frames.has_room(1));
        assert!(frames.push(1, 2, &[]) && !frames.push(1, 2, &[]));
    }
}
