//! Messages of vhost-user on a client's connection (vhost-user specification, "Message
//! Specification"): received whole, with the descriptors that come with them, and answered.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Bytes of a header: request, flags, length of the body.
const HEADER: usize = 12;
/// Limit on the bytes of a body.
pub(super) const MAX_BODY: usize = 4096;
/// Limit on the descriptors of a message.
const MAX_FILES: usize = 32;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Cause for which a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The client has ended it.
    #[error("the client has gone")]
    Gone,
    /// The client has begun a message, and does not go on.
    #[error("half a message")]
    Stalled,
    /// The client's fault, which is in the log.
    #[error("a fault of the client's")]
    Refused,
    /// A message that the specification does not have, or that needs a feature which the client has
    /// not accepted.
    #[error("{0}")]
    Invalid(&'static str),
    /// The drive has ended.
    #[error("the drive has ended")]
    Ended,
    /// The connection is of no use.
    #[error("{0}")]
    Broken(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Stalled,
            io::ErrorKind::UnexpectedEof => Self::Invalid("it ends before its end"),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Gone,
            _ => Self::Broken(error),
        }
    }
}

/// Result of a message.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A message.
pub(super) struct Message {
    pub(super) request: u32,
    pub(super) needs_reply: bool,
    pub(super) body: Vec<u8>,
    pub(super) files: Vec<File>,
}

/// Receives the next message.
pub(super) fn receive(stream: &UnixStream) -> Result<Message> {
    let mut header = [0; HEADER];
    let mut files = Vec::new();
    let mut filled = 0;
    while filled < HEADER {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut header[filled..])];
        let received = match recvmsg(stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                files.extend(descriptors.map(File::from));
            }
        }
        match (received, filled) {
            (0, 0) => return Err(Error::Gone),
            (0, _) => return Err(Error::Invalid("it ends within its header")),
            _ => filled += received,
        }
    }
    let mut words = Body(&header);
    let (request, flags, length) = (words.u32()?, words.u32()?, words.u32()? as usize);
    if flags & !NEED_REPLY != VERSION {
        return Err(Error::Invalid("its flags are not those of a request of version 1"));
    }
    if length > MAX_BODY {
        return Err(Error::Invalid("it is longer than 4,096 bytes"));
    }
    let mut body = vec![0; length];
    (&mut &*stream).read_exact(&mut body)?;
    Ok(Message { request, needs_reply: flags & NEED_REPLY != 0, body, files })
}

/// Sends the reply to a request.
pub(super) fn reply(
    stream: &UnixStream,
    request: u32,
    body: &[u8],
    file: Option<&File>,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    for word in [request, VERSION | REPLY, body.len() as u32] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(body);
    let descriptors: Vec<BorrowedFd> = file.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let parts = [IoSlice::new(&bytes)];
    let sent =
        rustix::io::retry_on_intr(|| sendmsg(stream, &parts, &mut ancillary, SendFlags::NOSIGNAL));
    let sent = sent.map_err(io::Error::from)?;
    (&mut &*stream).write_all(&bytes[sent..])?;
    Ok(())
}

/// The rest of a body.
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH]> {
        let (first, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Refuses a body that goes on.
    pub(super) fn end(&self) -> Result<()> {
        self.0.is_empty().then_some(()).ok_or(Error::Invalid("it is longer than its request"))
    }
}

const SHORT: Error = Error::Invalid("it is shorter than its request");

/// The one descriptor of a message.
pub(super) fn one(files: Vec<File>) -> Result<File> {
    let [file] = <[File; 1]>::try_from(files)
        .map_err(|_| Error::Invalid("it does not come with one descriptor"))?;
    Ok(file)
}
