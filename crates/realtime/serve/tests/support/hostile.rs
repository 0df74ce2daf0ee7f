//! A client that sends the messages of a script, descriptors included, to a server that has to work
//! afterwards.

use std::io::{IoSlice, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};

use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use stasis_serve::{Poll, Server};

use super::{server, socket, Guest, MEMORY};

/// Requests of the vhost-user specification, and some beyond.
const REQUESTS: u8 = 45;
/// Words that messages are about: sizes, numbers of queues, addresses.
const WORDS: [u64; 12] =
    [0, 1, 2, 63, 64, 4096, MEMORY, 1 << 30, 1 << 40, 0x7f00_0000_0000, u64::MAX - 4095, u64::MAX];

/// Remaining part of a script.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u64 {
        match self.byte() {
            choice @ 0..=199 => WORDS[usize::from(choice) % WORDS.len()],
            _ => (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte())),
        }
    }

    /// A message's bytes.
    fn message(&mut self) -> Vec<u8> {
        let request = u32::from(self.byte() % REQUESTS);
        let odd = self.byte();
        // Mostly a valid header: version 1, perhaps a reply is wanted.
        let flags = match odd {
            0..=199 => 1,
            200..=239 => 1 | 1 << 3,
            _ => self.word() as u32,
        };
        let mut body = Vec::new();
        // A region's description, the longest that matters, has five words.
        for _ in 0..self.byte() % 12 {
            match self.byte() {
                // Half a word, as for counts and padding.
                0..=63 => body.extend((self.word() as u32).to_le_bytes()),
                _ => body.extend(self.word().to_le_bytes()),
            }
        }
        let length = match odd % 16 {
            15 => self.word() as u32,
            _ => body.len() as u32,
        };
        let header = [request, flags, length];
        header.into_iter().flat_map(u32::to_le_bytes).chain(body).collect()
    }

    /// Descriptors that come with a message.
    fn descriptors(&mut self) -> Vec<OwnedFd> {
        let count = match self.byte() {
            0..=127 => 0,
            128..=223 => 1,
            more => usize::from(more - 222).min(10),
        };
        let mut given = Vec::new();
        for _ in 0..count {
            let one = match self.byte() % 3 {
                0 => eventfd(0, EventfdFlags::CLOEXEC).ok(),
                // A file of any size, which may be too short for its announced use.
                1 => memfd_create("given", MemfdFlags::CLOEXEC).ok().inspect(|file| {
                    let _ = ftruncate(file, self.word().min(1 << 24));
                }),
                _ => std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
            };
            given.extend(one);
        }
        given
    }
}

fn send(stream: &UnixStream, message: &[u8], descriptors: &[OwnedFd]) -> bool {
    let borrowed: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(10))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    let vectors = [IoSlice::new(message)];
    rustix::net::sendmsg(stream, &vectors, &mut ancillary, SendFlags::NOSIGNAL).is_ok()
}

/// Connects, follows the script, and checks that the next client is served.
pub fn run(script: &[u8]) {
    static SERVER: OnceLock<Mutex<(tempfile::TempDir, Arc<Server>)>> = OnceLock::new();
    let served = SERVER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let server = server(folder.path(), Poll::Adaptive);
        Mutex::new((folder, server))
    });
    // A drive has one client at a time.
    let served = served.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (folder, server) = &*served;
    let path = socket(folder.path());
    let mut stream = UnixStream::connect(&path).expect("the server listens");
    let mut script = Script(script);
    while !script.0.is_empty() {
        let (message, descriptors) = (script.message(), script.descriptors());
        // The server hangs up when it has seen enough.
        if !send(&stream, &message, &descriptors) {
            break;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
    drop(stream);
    let before = server.report()[0].counts.connections;
    Guest::connect(&path).check(0, before as u8);
}
