//! Ports of the host's loopback that lead to a function on a tap interface: the counterpart of
//! QEMU's own forwarding for its user-mode network. Ordinary sockets, no rights.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use stasis_qemu_vm::fd::readable;

use crate::Error;

/// Limit on the connections of a port at a time; more are closed at once.
const MAX_CONNECTIONS: usize = 128;
/// Limit on the time for a function to accept.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the pieces that are carried (bytes).
const PIECE: usize = 64 << 10;

/// Listens on port `port` of 127.0.0.1.
///
/// # Errors
/// The port is taken, or may not be had.
pub(crate) fn listen(port: u16) -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        Error::Invalid(format!(
            "cannot listen on port {port} of 127.0.0.1: {error}; --port NAME=PORT puts it elsewhere"
        ))
    })
}

/// A port of the host that leads to one of a guest; dropped, it takes no more
/// connections.
#[derive(Debug)]
pub struct Forward {
    stop: Option<UnixStream>,
    accepts: Option<JoinHandle<()>>,
}

impl Forward {
    /// Forwards connections to port `port` of 127.0.0.1 to `to`.
    ///
    /// # Errors
    /// The port is taken, or may not be had.
    pub fn start(port: u16, to: SocketAddr) -> Result<Self, Error> {
        Self::with(listen(port)?, to)
    }

    fn with(listener: TcpListener, to: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::System { action: "forward a port", source };
        // A client that has gone before it is accepted is not waited for.
        listener.set_nonblocking(true).map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let accepts = std::thread::Builder::new()
            .name("forward".into())
            .spawn(move || accept(&listener, &stopped, to))
            .map_err(failed)?;
        Ok(Self { stop: Some(stop), accepts: Some(accepts) })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(accepts) = self.accepts.take() {
            // It panics at nothing.
            let _ = accepts.join();
        }
    }
}

/// Takes connections until `stopped` is closed.
fn accept(listener: &TcpListener, stopped: &UnixStream, to: SocketAddr) {
    let open = Arc::new(AtomicUsize::new(0));
    while let Ok([_, false]) = readable([listener.as_fd(), stopped.as_fd()], -1) {
        let client = match listener.accept() {
            Ok((client, _)) => client,
            // Descriptors are short, for example: not to be asked about all the time.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
            Err(_) => continue,
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let count = Arc::clone(&open);
        let copy_both_ways = move || {
            // A function that is not there closes its connections.
            let _ = copy_both_ways(&client, to);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("forward".into()).spawn(copy_both_ways).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Carries a connection's bytes both ways until both ends have ended.
fn copy_both_ways(client: &TcpStream, to: SocketAddr) -> io::Result<()> {
    let function = TcpStream::connect_timeout(&to, TIMEOUT)?;
    for end in [client, &function] {
        end.set_nonblocking(false)?;
        // Small requests are not held back.
        end.set_nodelay(true)?;
    }
    std::thread::scope(|scope| {
        let back = std::thread::Builder::new()
            .name("forward".into())
            .spawn_scoped(scope, || one_way(&function, client));
        match back {
            Ok(_) => one_way(client, &function),
            Err(_) => close(client, &function),
        }
    });
    Ok(())
}

/// Carries one direction to its end, and ends it at the other side too.
fn one_way(mut from: &TcpStream, mut to: &TcpStream) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(length) if to.write_all(&piece[..length]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Broken, in both directions.
            Ok(_) | Err(_) => return close(from, to),
        }
    }
}

fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that answers two clients with everything they send, backwards, once they have sent
    /// all.
    fn backwards() -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |mut stream: TcpStream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.reverse();
            stream.write_all(&all).unwrap();
        };
        let accept = move || {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (stream, _) = listener.accept().unwrap();
                    scope.spawn(move || answer(stream));
                }
            });
        };
        (address, std::thread::spawn(accept))
    }

    /// A forward from any port, and that.
    fn forward(to: SocketAddr) -> (Forward, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let from = listener.local_addr().unwrap();
        (Forward::with(listener, to).unwrap(), from)
    }

    fn connect(from: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(from).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    #[test]
    fn bytes_are_carried_both_ways_and_ends_are_told() {
        let (address, peer) = backwards();
        let (_forward, from) = forward(address);
        let mut idle = connect(from);
        let mut stream = connect(from);
        // More than any buffer on the way holds.
        let sent: Vec<u8> = (0..8u32 << 20).map(|n| (n % 251) as u8).collect();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got.iter().rev().eq(&sent));
        // The other was open all the time.
        idle.shutdown(Shutdown::Write).unwrap();
        assert_eq!(idle.read(&mut [0]).unwrap(), 0);
        peer.join().unwrap();
    }

    #[test]
    fn who_is_not_there_closes_and_a_port_is_given_back() {
        let gone = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
        let (forward, from) = forward(gone);
        // Closed, or reset if that is seen first.
        assert!(!matches!(connect(from).read(&mut [0]), Ok(1..)));
        let port = from.port();
        let taken = Forward::start(port, gone).unwrap_err().to_string();
        assert!(taken.contains(&format!("port {port}")) && taken.contains("--port"), "{taken}");
        drop(forward);
        Forward::start(port, gone).unwrap();
    }
}
