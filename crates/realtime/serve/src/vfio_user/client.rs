//! A client's socket: messages with descriptors, in and out.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use stasis_vfio_user::{Connection, Fault, Message, MAX_DESCRIPTORS, MAX_MESSAGE};

use super::page::Page;

/// Descriptors that are taken at a time: one more than may come, so that more are noticed.
const ROOM: usize = MAX_DESCRIPTORS + 1;

/// A client.
pub(super) struct Client {
    stream: UnixStream,
    connection: Connection<OwnedFd>,
    chunk: Box<[u8]>,
    pub(super) page: Page,
    /// A reply that the socket has not taken yet, and whether the page's descriptor goes with it.
    reply: (Vec<u8>, bool),
    /// Bytes of it that were sent.
    sent: usize,
    /// True if a refusal was logged.
    pub(super) logged: bool,
}

/// Input of a client's socket.
pub(super) enum Heard {
    /// A message.
    Message(Message<OwnedFd>),
    /// Nothing more now.
    Nothing,
    /// No message any more: the client has gone, or `Some` fault.
    End(Option<Fault>),
}

impl Client {
    pub(super) fn new(stream: UnixStream, page: Page) -> Self {
        Self {
            stream,
            connection: Connection::default(),
            chunk: vec![0; MAX_MESSAGE].into(),
            page,
            reply: (Vec::new(), false),
            sent: 0,
            logged: false,
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Returns whether a reply waits for the client to take it.
    pub(super) fn is_full(&self) -> bool {
        self.sent < self.reply.0.len()
    }

    /// Takes the next message, unless a reply waits.
    pub(super) fn hear(&mut self) -> Heard {
        loop {
            if self.is_full() {
                return Heard::Nothing;
            }
            let wants = self.connection.wants().min(self.chunk.len());
            let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(ROOM))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut vectors = [IoSliceMut::new(&mut self.chunk[..wants])];
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let received = rustix::net::recvmsg(&self.stream, &mut vectors, &mut ancillary, flags);
            let bytes = match received {
                Ok(received) if received.bytes > 0 => received.bytes,
                Err(Errno::AGAIN) => return Heard::Nothing,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => return Heard::End(None),
            };
            let mut descriptors = Vec::new();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    descriptors.extend(received);
                }
            }
            match self.connection.receive(&self.chunk[..bytes], descriptors) {
                Ok(Some(message)) => return Heard::Message(message),
                Ok(None) => {}
                Err(fault) => return Heard::End(Some(fault)),
            }
        }
    }

    /// Sends a reply, with the page's descriptor or without; whether the client is still there.
    pub(super) fn send(&mut self, reply: Vec<u8>, with_page: bool) -> bool {
        self.reply = (reply, with_page);
        self.sent = 0;
        self.go_on()
    }

    /// Goes on with a reply that waits; whether the client is still there.
    pub(super) fn go_on(&mut self) -> bool {
        while self.is_full() {
            let mut space = [const { MaybeUninit::uninit() }; rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let page = [self.page.file().as_fd()];
            if self.reply.1 && self.sent == 0 {
                ancillary.push(SendAncillaryMessage::ScmRights(&page));
            }
            let bytes = [IoSlice::new(&self.reply.0[self.sent..])];
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::sendmsg(&self.stream, &bytes, &mut ancillary, flags) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}
