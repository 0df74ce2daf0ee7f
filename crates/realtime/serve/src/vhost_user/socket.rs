//! A drive's socket: it takes one client at a time and turns others away.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

use crate::vhost_user::protocol::Error;
use crate::vhost_user::session::{Session, Target};
use crate::ServeError;

/// Limit on the time that a client may take for a message that it has begun, and after its arrival
/// for starting a queue, if the socket is handed over meanwhile.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which a client that is waited for in this way is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Limit on the bytes of a socket's path (unix(7): 108 with the zero behind it).
const MAX_PATH: usize = 107;

/// Listens at `path`; takes the place of a socket that nobody listens on.
///
/// # Errors
/// If another process does, or it cannot be made.
pub fn listen(path: &Path) -> Result<UnixListener, ServeError> {
    let failed = |source: io::Error| {
        let source = match source.kind() {
            io::ErrorKind::NotFound => io::Error::other("its folder is not there; make it first"),
            _ => source,
        };
        ServeError::Listen { path: path.to_owned(), source }
    };
    let bytes = path.as_os_str().len();
    if bytes > MAX_PATH {
        let message = format!("its path has {bytes} bytes, and a socket's at most {MAX_PATH}");
        return Err(failed(io::Error::other(message)));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeError::NoSocket(path.to_owned()));
        }
        Ok(_) => {
            if UnixStream::connect(path).is_ok() {
                return Err(ServeError::InUse(path.to_owned()));
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    Ok(listener)
}

/// A socket with its thread.
pub(crate) struct Socket {
    path: PathBuf,
    /// True if the path is ours to remove.
    own: bool,
    listener: Arc<UnixListener>,
    stop: Arc<OwnedFd>,
    /// Set if another server takes over the socket.
    handed_over: Arc<AtomicBool>,
    /// The client's connection, to end it from outside.
    client: Arc<Mutex<Option<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Socket {
    /// Takes clients for a drive.
    pub(crate) fn start(
        listener: UnixListener,
        path: PathBuf,
        own: bool,
        target: Target,
    ) -> Result<Self, ServeError> {
        let failed = |source: io::Error| ServeError::Listen { path: path.clone(), source };
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = Arc::new(listener);
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let stop = Arc::new(stop);
        let client = Arc::new(Mutex::new(None));
        let handed_over = Arc::new(AtomicBool::new(false));
        let accepting = Accepting {
            listener: Arc::clone(&listener),
            stop: Arc::clone(&stop),
            handed_over: Arc::clone(&handed_over),
            client: Arc::clone(&client),
            target,
        };
        let thread = std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || accepting.run())
            .map_err(failed)?;
        Ok(Self { path, own, listener, stop, handed_over, client, thread: Some(thread) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket itself, for another server to take over.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// Hands the socket over to another server.
    pub(crate) fn hand_over(&mut self) {
        self.own = false;
        self.handed_over.store(true, Ordering::Relaxed);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if !self.handed_over.load(Ordering::Relaxed) {
            if let Some(client) = &*lock(&self.client) {
                let _ = client.shutdown(std::net::Shutdown::Both);
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.own {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Events while a client is served.
struct Happened {
    /// The client has sent something, or has gone.
    message: bool,
    /// Another client wants to come.
    other: bool,
    /// The server is to end.
    stop: bool,
    /// The client has gone.
    gone: bool,
}

/// Returns whether a client has gone by now.
fn has_hung_up(client: &UnixStream) -> bool {
    let mut fds = [PollFd::new(client, PollFlags::IN)];
    let _ = poll(&mut fds, Some(&Timespec::default()));
    fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

struct Accepting {
    listener: Arc<UnixListener>,
    stop: Arc<OwnedFd>,
    handed_over: Arc<AtomicBool>,
    client: Arc<Mutex<Option<UnixStream>>>,
    target: Target,
}

impl Accepting {
    fn run(&self) {
        loop {
            let mut fds = [
                PollFd::new(&*self.listener, PollFlags::IN),
                PollFd::new(&*self.stop, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            if fds[1].revents().intersects(PollFlags::IN) {
                return;
            }
            let Ok((stream, _)) = self.listener.accept() else { continue };
            self.serve(stream);
        }
    }

    /// Serves a client until it goes.
    fn serve(&self, stream: UnixStream) {
        let prepared = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
            .and_then(|()| Ok((stream.try_clone()?, stream.try_clone()?)));
        let (look, end) = match prepared {
            Ok(clones) => clones,
            Err(error) => return self.warn(&format!("cannot serve a client: {error}")),
        };
        let came = Instant::now();
        if !self.take_drive(end) {
            *lock(&self.client) = None;
            return;
        }
        let mut session = Session::new(self.target.clone());
        let mut stopped = false;
        loop {
            let happened = self.next(&look, stopped);
            stopped |= happened.stop;
            // QEMU 7.2 may not come back if its connection ends while it sets the device
            // up anew: a hand-over waits for that.
            let setting_up = || !session.is_running() && came.elapsed() < TIMEOUT;
            if stopped && !(self.handed_over.load(Ordering::Relaxed) && setting_up()) {
                break;
            }
            // A client that comes after this one has gone is the next one. It may
            // have gone, and the next come, while both were looked at.
            if happened.other && !happened.gone && !has_hung_up(&look) {
                self.turn_away();
            }
            if !happened.message {
                continue;
            }
            if let Err(error) = session.serve(&stream) {
                self.report(&error);
                break;
            }
        }
        *lock(&self.client) = None;
        drop(session);
    }

    fn warn(&self, message: &str) {
        crate::log::warn(&self.target.name, message);
    }

    /// Has the drive for a client whose connection `end` ends, once the last client's I/Os are
    /// done; false if the drive ends before that.
    fn take_drive(&self, end: UnixStream) -> bool {
        let hang_up = end.try_clone();
        *lock(&self.client) = Some(end);
        let (worker, drive) = (&self.target.worker, self.target.drive);
        let (next, idle) = std::sync::mpsc::channel();
        worker.with(drive, move |served| served.await_idle(next));
        if idle.recv().is_err() {
            return false;
        }
        worker.with(drive, move |served| {
            served.backend.counts.connections += 1;
            served.set_hang_up(hang_up.ok().map(|stream| {
                Box::new(move || {
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                }) as Box<dyn Fn() + Send>
            }));
        });
        true
    }

    /// Waits for the next event: of the client only, and not for long, once it is to end.
    fn next(&self, client: &UnixStream, stopped: bool) -> Happened {
        loop {
            let mut fds = [
                PollFd::new(client, PollFlags::IN),
                PollFd::new(&*self.listener, PollFlags::IN),
                PollFd::new(&*self.stop, PollFlags::IN),
            ];
            let polled = match stopped {
                true => poll(&mut fds[..1], Some(&LOOK)),
                false => poll(&mut fds, None),
            };
            if polled.is_ok() {
                let gone = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
                let [message, other, stop] = fds.map(|fd| !fd.revents().is_empty());
                return Happened { message, other, stop, gone };
            }
        }
    }

    /// Logs the cause of a session's end, unless the client has ended it or it is logged.
    fn report(&self, error: &Error) {
        let cause = match error {
            // A refusal is in the log, and counted.
            Error::Gone | Error::Refused => return,
            Error::Stalled => {
                let timeout = TIMEOUT.as_secs();
                format!("a client sent half a message and no more for {timeout} s")
            }
            _ => format!("a client's message cannot be served: {error}"),
        };
        self.warn(&format!("{cause}; its connection ends"));
        self.target.worker.with(self.target.drive, |served| served.backend.counts.faults += 1);
    }

    /// A second client: it learns of the refusal by the close of its connection.
    fn turn_away(&self) {
        if let Ok(connection) = self.listener.accept() {
            crate::log::warn(
                &self.target.name,
                "a second client was turned away: a drive serves one guest at a time",
            );
            self.target.worker.with(self.target.drive, |served| served.backend.counts.refused += 1);
            // Only now: a client that sees the close finds it counted.
            drop(connection);
        }
    }
}
