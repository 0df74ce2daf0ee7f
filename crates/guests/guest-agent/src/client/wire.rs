//! Connections to servers: names, time limits, and bytes that are hostile until they are read.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{recv, MsgFlags};

/// Limit on an answer's bytes.
const MAX_ANSWER: usize = 16 << 20;
/// Limit on the bytes of a line of an answer.
const MAX_LINE: usize = 64 << 10;
const CHUNK: usize = 16 << 10;

/// Why a connection is of no more use, or none is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The connection is lost or silent, or its bytes are not of the protocol.
    Lost(String),
    /// The server does not begin a session.
    Refused(String),
    /// The server wants what this program does not do.
    Unsupported(String),
}

impl Failure {
    pub(super) fn malformed(part: &str) -> Self {
        Self::Lost(format!("not of the protocol: {part}"))
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Lost(text) | Self::Refused(text) | Self::Unsupported(text) => text,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // A read that waits too long gives the former (socket(7), SO_RCVTIMEO).
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Lost("no answer".into()),
            io::ErrorKind::UnexpectedEof => Self::Lost("the server has closed it".into()),
            _ => Self::Lost(error.to_string()),
        }
    }
}

/// A server's name and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub name: String,
    pub port: u16,
}

impl Address {
    /// Reads `NAME`, `NAME:PORT` or `[IPV6]:PORT`.
    pub(super) fn read(word: &str, port: Option<u16>) -> Result<Self, String> {
        let (name, given) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None => match word.split_once(':') {
                Some((name, given)) if !given.contains(':') => (name, Some(given)),
                _ => (word, None),
            },
        };
        let port = match given {
            Some(given) => given.parse().map_err(|_| format!("`{given}` is no port"))?,
            None => port.ok_or(format!("`{word}` needs a port: {word}:PORT"))?,
        };
        match name {
            "" => Err(format!("`{word}` names no server")),
            _ => Ok(Self { name: name.into(), port }),
        }
    }

    /// Looks the name up in `hosts`, a text as in hosts(5). The C library's own way is closed to a
    /// static program: it would load libraries of the guest's.
    fn find(&self, hosts: &str) -> Option<SocketAddr> {
        let written = hosts.lines().find_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            let address: IpAddr = words.next()?.parse().ok()?;
            words.any(|word| word.eq_ignore_ascii_case(&self.name)).then_some(address)
        });
        let local = (self.name == "localhost").then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address = self.name.parse().ok().or(written).or(local)?;
        Some(SocketAddr::new(address, self.port))
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read.
    taken: usize,
    /// Bytes that the rest of the answer may have.
    allowance: usize,
    deadline: Instant,
    /// True if the server closes it after this answer.
    pub ends: bool,
}

impl Wire {
    pub(super) fn connect(address: &Address, deadline: Instant) -> Result<Self, Failure> {
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let unknown = || Failure::Lost(format!("no server `{}` in /etc/hosts", address.name));
        let found = address.find(&hosts).ok_or_else(unknown)?;
        let stream = TcpStream::connect_timeout(&found, left(deadline)?)?;
        stream.set_nodelay(true)?;
        let (buffer, allowance) = (Vec::new(), MAX_ANSWER);
        Ok(Self { stream, buffer, taken: 0, allowance, deadline, ends: false })
    }

    /// Returns whether nothing has come, not even an end, since the last answer.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let more = recv(self.stream.as_raw_fd(), &mut [0], flags);
        self.taken == self.buffer.len() && more == Err(nix::errno::Errno::EAGAIN)
    }

    /// Begins another answer, which is to come by `deadline`.
    pub(super) fn begin(&mut self, deadline: Instant) {
        (self.allowance, self.deadline) = (MAX_ANSWER, deadline);
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        self.allowance = self.allowance.checked_sub(count).ok_or_else(too_long)?;
        while self.buffer.len() - self.taken < count {
            self.more()?;
        }
        let bytes = self.buffer[self.taken..self.taken + count].to_vec();
        self.taken += count;
        Ok(bytes)
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut searched = 0;
        let end = loop {
            let rest = &self.buffer[self.taken..];
            if let Some(end) = rest[searched..].iter().position(|byte| *byte == b'\n') {
                break searched + end;
            }
            searched = rest.len();
            if searched > MAX_LINE {
                return Err(too_long());
            }
            self.more()?;
        };
        let mut line = self.bytes(end + 1)?;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }

    /// All that comes before the server closes the connection.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        self.ends = true;
        while self.more_or_end()? {
            if self.buffer.len() - self.taken > self.allowance {
                return Err(too_long());
            }
        }
        self.bytes(self.buffer.len() - self.taken)
    }

    fn more(&mut self) -> Result<(), Failure> {
        match self.more_or_end()? {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    fn more_or_end(&mut self) -> Result<bool, Failure> {
        if self.taken > CHUNK || self.taken == self.buffer.len() {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        let mut chunk = [0; CHUNK];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }
}

fn too_long() -> Failure {
    Failure::malformed("it is longer than 16 MiB, or a line of it than 64 KiB")
}

/// Time left; a limit of no time at all would be none (setsockopt(2)).
fn left(deadline: Instant) -> Result<Duration, Failure> {
    let rest = deadline.saturating_duration_since(Instant::now());
    match rest.is_zero() {
        true => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        false => Ok(rest.max(Duration::from_micros(1))),
    }
}

/// Bytes of one message, read from its front.
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        let cut = || Failure::malformed("a message is cut short");
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    /// An unsigned number of up to eight bytes, the least significant first.
    pub(super) fn little(&mut self, count: usize) -> Result<u64, Failure> {
        Ok(self.take(count)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// An unsigned number of up to eight bytes, the most significant first.
    pub(super) fn big(&mut self, count: usize) -> Result<u64, Failure> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A text that a zero ends, or the message.
    pub(super) fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[(end + 1).min(self.0.len())..];
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_with_and_without_a_port() {
        let read = |word| Address::read(word, Some(6379)).map(|one| (one.name, one.port));
        assert_eq!(read("redis1"), Ok(("redis1".into(), 6379)));
        assert_eq!(read("redis1:26379"), Ok(("redis1".into(), 26379)));
        assert_eq!(read("[::1]:5"), Ok(("::1".into(), 5)));
        assert_eq!(read("::1"), Ok(("::1".into(), 6379)));
        assert!(read(":5").is_err() && read("a:70000").is_err());
        assert!(Address::read("a", None).is_err());
    }

    #[test]
    fn names_are_those_of_the_hosts_file() {
        let hosts = "127.0.0.1 localhost\n# 10.0.0.9 b\nx y\n10.0.0.2 b.lan b # c\n10.0.0.3 B";
        let find = |name: &str| {
            let found = Address { name: name.into(), port: 1 }.find(hosts);
            found.map(|address| address.ip().to_string())
        };
        assert_eq!(find("b").as_deref(), Some("10.0.0.2"));
        assert_eq!(find("10.9.9.9").as_deref(), Some("10.9.9.9"));
        assert_eq!(find("localhost").as_deref(), Some("127.0.0.1"));
        assert_eq!((find("c"), find("y")), (None, None));
    }
}
