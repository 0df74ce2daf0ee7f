//! The connection to a guest's socket, made again whenever it is gone.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{connect, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use stasis_block::clock::{Nanos, MILLISECOND};

/// Interval at which a socket is tried that is not there yet.
const RETRY: Nanos = 500 * MILLISECOND;

#[derive(Debug)]
pub(crate) struct Link {
    path: PathBuf,
    stream: Option<UnixStream>,
    retry: Nanos,
    complaint: String,
}

/// Input from a link.
#[derive(Debug)]
pub(crate) enum Received {
    Bytes(usize),
    Nothing,
    Gone,
}

impl Link {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stream: None, retry: 0, complaint: String::new() }
    }

    pub(crate) fn stream(&self) -> Option<&UnixStream> {
        self.stream.as_ref()
    }

    /// Returns the time to try again to connect.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.stream.is_none().then_some(self.retry)
    }

    /// Connects where that is due. Returns a message to be logged: that it is connected, or the
    /// reason why not, once for each reason.
    pub(crate) fn connect(&mut self, now: Nanos) -> Option<String> {
        if self.stream.is_some() || now < self.retry {
            return None;
        }
        let complaint = match open(&self.path) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.complaint.clear();
                return Some("connected".into());
            }
            Err(error) => complaint(&error),
        };
        self.retry = now + RETRY;
        (complaint != self.complaint).then(|| {
            self.complaint = complaint;
            self.complaint.clone()
        })
    }

    pub(crate) fn receive(&mut self, now: Nanos, into: &mut [u8]) -> Received {
        let Some(stream) = &mut self.stream else { return Received::Nothing };
        match stream.read(into) {
            Ok(count) if count > 0 => return Received::Bytes(count),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Received::Nothing
            }
            _ => {}
        }
        self.hang_up(now);
        Received::Gone
    }

    /// Closes the connection; it is made again after a while.
    pub(crate) fn hang_up(&mut self, now: Nanos) {
        (self.stream, self.retry) = (None, now + RETRY);
    }
}

fn open(path: &Path) -> io::Result<UnixStream> {
    // One that does not wait: QEMU takes one client at a time, and lets others
    // wait for it.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

fn complaint(error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it is not there yet".into(),
        io::ErrorKind::ConnectionRefused => "nobody listens on it yet".into(),
        io::ErrorKind::WouldBlock => "another program is connected to it".into(),
        io::ErrorKind::PermissionDenied => "permission denied; run as its owner or root".into(),
        _ => error.to_string(),
    };
    format!("cannot connect: {why}; trying again")
}
