//! Networks that lead outside: the sockets of programs such as passt, or QEMU's `-netdev stream`.
//!
//! On such a socket each frame stands behind its length, 4 bytes in network order (passt(1);
//! qemu(1), `-netdev stream`).

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{bail, Context, Result};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use stasis_experiment::Engine;
use stasis_network::{Frames, NetworkSpec, Outside, SharedOutside};

use crate::pace::Pace;

/// Bytes before a frame.
const HEAD: usize = 4;
/// Limit on a frame's length: a program that says more speaks something else.
const MAX_FRAME: usize = 1 << 16;
/// Limit on the bytes that wait for a program that does not read; more frames are dropped.
const MAX_WAITING: usize = 1 << 20;
/// Bytes that are read together.
const PIECE: usize = 1 << 16;

/// The sockets at the ports that lead outside.
#[derive(Debug)]
struct Sockets {
    ports: Vec<Port>,
    pace: Pace,
}

/// A port, and the socket at it.
#[derive(Debug)]
struct Port {
    network: usize,
    port: usize,
    name: String,
    stream: UnixStream,
    /// Bytes that have come, from the next frame's head on.
    came: Vec<u8>,
    /// Bytes that wait to be sent.
    waiting: Vec<u8>,
}

/// Connects the ports that lead outside, if there are any.
///
/// # Errors
/// If `engine` has no world outside, or a socket has no program.
pub(crate) fn connect(networks: &[NetworkSpec], engine: Engine) -> Result<Option<SharedOutside>> {
    let mut ports = Vec::new();
    for (number, network) in networks.iter().enumerate() {
        let name = network.name.as_deref().unwrap_or_default();
        for (index, outside) in network.outside.iter().enumerate() {
            if engine == Engine::Exact {
                bail!(
                    "network {name} leads outside, and a run under `exact` depends on nothing but \
                     its experiment: take --engine kvm or softkvm"
                );
            }
            let stream = connect_to(&outside.socket).with_context(|| format!("network {name}"))?;
            ports.push(Port {
                network: number,
                port: network.machines.len() + index,
                name: outside.socket.display().to_string(),
                stream,
                came: Vec::new(),
                waiting: Vec::new(),
            });
        }
    }
    if ports.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Mutex::new(Sockets { ports, pace: Pace::from(Instant::now()) }))))
}

fn connect_to(socket: &Path) -> Result<UnixStream> {
    let stream = UnixStream::connect(socket).with_context(|| {
        format!(
            "no program answers at the socket {}: start one first, for example passt --socket {0}",
            socket.display()
        )
    })?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

impl Outside for Sockets {
    fn exchange(&mut self, frames: &[u8], limit: u64) -> io::Result<Vec<u8>> {
        for (network, number, frame) in Frames::read(frames) {
            let at = |port: &&mut Port| (port.network, port.port) == (network, number);
            if let Some(port) = self.ports.iter_mut().find(at) {
                port.queue(frame);
            }
        }
        let mut came = Frames::default();
        for port in &mut self.ports {
            port.send()?;
            port.receive(&mut came)?;
        }
        let wait = (limit > 0).then(|| self.pace.wait(limit, Instant::now()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero() && came.bytes().is_empty()) {
            let readable = |port| PollFd::new(port, PollFlags::IN);
            let mut all: Vec<PollFd> =
                self.ports.iter().map(|port| readable(&port.stream)).collect();
            match poll(&mut all, Timespec::try_from(wait).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.ports.iter_mut().try_for_each(|port| port.receive(&mut came))?;
        }
        Ok(came.bytes().to_vec())
    }
}

impl Port {
    /// Takes a frame that is to be sent. A wire that is full loses it.
    fn queue(&mut self, frame: &[u8]) {
        if self.waiting.len() + HEAD + frame.len() <= MAX_WAITING {
            self.waiting.extend_from_slice(&(frame.len() as u32).to_be_bytes());
            self.waiting.extend_from_slice(frame);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    /// Hands on the frames that have come, as many as have room.
    fn receive(&mut self, into: &mut Frames) -> io::Result<()> {
        loop {
            while let Some((head, rest)) = self.came.split_first_chunk::<HEAD>() {
                let length = u32::from_be_bytes(*head) as usize;
                if length > MAX_FRAME {
                    let why = format!("a frame of {length} bytes: it is not passt's protocol");
                    return Err(self.failed(&io::Error::other(why)));
                }
                let Some(frame) = rest.get(..length) else { break };
                if !into.push(self.network, self.port, frame) {
                    return Ok(());
                }
                self.came.drain(..HEAD + length);
            }
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    return Err(self.failed(&io::Error::other("it has closed the connection")));
                }
                Ok(length) => self.came.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    fn failed(&self, error: &io::Error) -> io::Error {
        io::Error::other(format!("the program at {}: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    /// A network of one machine that leads outside, to the other end.
    fn pair() -> (SharedOutside, UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let text = format!("machines = ['a']\noutside = [{{ socket = '{}' }}]", socket.display());
        let network: NetworkSpec = toml::from_str(&text).unwrap();
        let outside = connect(&[network], Engine::Softkvm).unwrap().unwrap();
        (outside, listener.accept().unwrap().0)
    }

    fn exchange(outside: &SharedOutside, frames: &[u8], limit: u64) -> io::Result<Vec<Vec<u8>>> {
        let came = outside.lock().unwrap().exchange(frames, limit)?;
        Ok(Frames::read(&came)
            .map(|(network, port, frame)| {
                assert_eq!((network, port), (0, 1));
                frame.to_vec()
            })
            .collect())
    }

    #[test]
    fn frames_cross_in_both_directions() {
        let (outside, mut peer) = pair();
        let mut frames = Frames::default();
        frames.push(0, 1, b"first");
        frames.push(0, 0, b"a machine's port leads nowhere");
        frames.push(0, 1, b"second");
        assert_eq!(exchange(&outside, frames.bytes(), 0).unwrap(), [] as [&[u8]; 0]);
        let mut sent = [0; 19];
        peer.read_exact(&mut sent).unwrap();
        assert_eq!(&sent, b"\0\0\0\x05first\0\0\0\x06second");
        // However a stream is cut into pieces.
        for byte in b"\0\0\0\x03" {
            peer.write_all(&[*byte]).unwrap();
            assert_eq!(exchange(&outside, &[], 0).unwrap(), [] as [&[u8]; 0]);
        }
        peer.write_all(b"one\0\0\0\0\0\0\0\x03two").unwrap();
        let came = exchange(&outside, &[], u64::MAX).unwrap();
        assert_eq!(came, [&b"one"[..], b"", b"two"]);
    }

    #[test]
    fn a_wait_ends_with_a_frame_and_takes_its_time_without_one() {
        let (outside, mut peer) = pair();
        let begun = Instant::now();
        assert_eq!(exchange(&outside, &[], 20_000_000).unwrap(), [] as [&[u8]; 0]);
        assert!(begun.elapsed() >= Duration::from_millis(19), "{:?}", begun.elapsed());
        let sender = std::thread::spawn(move || {
            peer.write_all(b"\0\0\0\x01x").unwrap();
            peer
        });
        let came = (0..1000).find_map(|_| {
            let came = exchange(&outside, &[], 50_000_000).unwrap();
            (!came.is_empty()).then_some(came)
        });
        assert_eq!(came.unwrap(), [b"x"]);
        drop(sender.join().unwrap());
        let gone = exchange(&outside, &[], 0).unwrap_err().to_string();
        assert!(gone.contains("has closed the connection"), "{gone}");
    }

    #[test]
    fn a_peer_that_does_not_read_loses_frames_and_one_that_says_nonsense_ends_the_run() {
        let (outside, mut peer) = pair();
        let mut frames = Frames::default();
        while frames.push(0, 1, &[7; 1500]) {}
        for _ in 0..10 {
            exchange(&outside, frames.bytes(), 0).unwrap();
        }
        peer.write_all(&u32::MAX.to_be_bytes()).unwrap();
        let message = exchange(&outside, &[], 0).unwrap_err().to_string();
        assert!(message.contains("not passt's protocol"), "{message}");
    }

    #[test]
    fn what_cannot_lead_outside_is_refused_by_name() {
        let network: NetworkSpec =
            toml::from_str("name = 'lan'\noutside = [{ socket = '/nowhere/s' }]").unwrap();
        let refusal =
            |engine| format!("{:#}", connect(std::slice::from_ref(&network), engine).unwrap_err());
        assert!(refusal(Engine::Exact).contains("--engine kvm or softkvm"));
        let nobody = refusal(Engine::Softkvm);
        assert!(nobody.contains("network lan: no program answers at"), "{nobody}");
        assert!(connect(&[NetworkSpec::default()], Engine::Exact).unwrap().is_none());
    }
}
