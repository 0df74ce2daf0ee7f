//! The control interface: a Unix socket on which each line is a request in
//! JSON, answered by a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use stasis_block::Model;

use crate::store::OpenStore;
use crate::{NewDrive, ServeError, Server};

/// Connections at a time.
const MOST: usize = 16;
/// Longest line (bytes).
const LONGEST: u64 = 64 << 10;
/// Most sockets that are handed over: what a message can carry (unix(7),
/// `SCM_MAX_FD`).
pub const MOST_SOCKETS: usize = 253;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The drives' names and sockets.
    List,
    /// What they have done: all, or one.
    Statistics {
        /// Which.
        #[serde(default)]
        drive: Option<String>,
    },
    /// Makes a drive's medium and serves it.
    Create {
        /// As a `[[drive]]` table has it, or a word of `--drive`.
        drive: Value,
    },
    /// Serves a drive whose medium is there.
    Attach {
        /// As a `[[drive]]` table has it, or a word of `--drive`.
        drive: Value,
    },
    /// Serves a drive no more, once all of it is durable.
    Detach {
        /// Which.
        drive: String,
    },
    /// Gives a drive another size.
    Resize {
        /// Which.
        drive: String,
        /// Such as `2GiB`.
        size: String,
    },
    /// Times a drive otherwise.
    Timing {
        /// Which.
        drive: String,
        /// As the drive's table has it.
        model: Value,
    },
    /// Hands the sockets to whoever asks, ends serving, and says when that is
    /// over.
    Replace,
}

/// What the interface needs others for: they know how drives are described.
pub trait Actions: Send + Sync {
    /// A drive of a description; `create`: its medium is to be made.
    ///
    /// # Errors
    /// What is wrong with it.
    fn drive(&self, description: Value, create: bool) -> Result<NewDrive, String>;

    /// The model of a description for the drive `name` of `capacity` bytes, and
    /// its label.
    ///
    /// # Errors
    /// What is wrong with it.
    fn model(
        &self,
        name: &str,
        capacity: u64,
        description: Value,
    ) -> Result<(String, Option<Box<dyn Model>>), String>;

    /// Makes the store of `name` again with another size, to be called while
    /// nobody has it open.
    ///
    /// # Errors
    /// Why that cannot be.
    fn resize(&self, name: &str, size: &str) -> Result<OpenStore, String>;

    /// Whether the contents of all drives outlive this process; otherwise the
    /// name of one that does not.
    fn lasting(&self) -> Result<(), String>;

    /// The server has been replaced: the program is to end.
    fn replaced(&self);
}

/// Answers requests from threads of its own.
///
/// # Errors
/// If no thread can be started.
pub fn serve(
    listener: UnixListener,
    server: Arc<Server>,
    actions: Arc<dyn Actions>,
) -> Result<(), ServeError> {
    let connections = Arc::new(AtomicUsize::new(0));
    let accept = move || {
        for stream in listener.incoming().flatten() {
            if connections.fetch_add(1, Ordering::AcqRel) >= MOST {
                connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (server, actions, connections) =
                (server.clone(), actions.clone(), Guard(connections.clone()));
            let talk = move || {
                let _connection = connections;
                let _ = converse(&stream, &server, &*actions);
            };
            let _ = std::thread::Builder::new().name("control".into()).spawn(talk);
        }
    };
    std::thread::Builder::new()
        .name("control".into())
        .spawn(accept)
        .map(drop)
        .map_err(|source| ServeError::Wait { source })
}

/// Counts a connection until it is over.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn converse(stream: &UnixStream, server: &Server, actions: &dyn Actions) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut out = stream;
    loop {
        let mut line = String::new();
        if lines.by_ref().take(LONGEST).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim().is_empty() {
            continue;
        }
        let request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                let names = "list, statistics, create, attach, detach, resize, timing, replace";
                let message = format!(
                    "{error}; a request is an object such as {{\"do\": \"list\"}}, one of {names}"
                );
                writeln!(out, "{}", json!({ "error": message }))?;
                continue;
            }
        };
        if request == ControlRequest::Replace {
            return replace(stream, server, actions);
        }
        let answer = match answer(request, server, actions) {
            Ok(answer) => answer,
            Err(message) => json!({ "error": message }),
        };
        writeln!(out, "{answer}")?;
    }
}

fn answer(
    request: ControlRequest,
    server: &Server,
    actions: &dyn Actions,
) -> Result<Value, String> {
    let say = |error: ServeError| error.to_string();
    let find = |name: &str| {
        let drive = server.report().into_iter().find(|drive| drive.name == name);
        drive.ok_or_else(|| say(ServeError::Missing(name.into())))
    };
    Ok(match request {
        ControlRequest::List => {
            let drives = server.report().into_iter().map(|drive| {
                json!({ "name": drive.name, "socket": drive.socket, "capacity": drive.capacity,
                        "model": drive.model, "medium": drive.medium, "in_use": drive.in_use })
            });
            json!({ "drives": drives.collect::<Vec<_>>() })
        }
        ControlRequest::Statistics { drive: None } => json!({ "drives": server.report() }),
        ControlRequest::Statistics { drive: Some(name) } => json!({ "drives": [find(&name)?] }),
        ControlRequest::Create { drive } => attach(server, actions.drive(drive, true)?)?,
        ControlRequest::Attach { drive } => attach(server, actions.drive(drive, false)?)?,
        ControlRequest::Detach { drive } => {
            server.detach(&drive).map_err(say)?;
            json!({ "detached": drive })
        }
        ControlRequest::Resize { drive, size } => {
            find(&drive)?;
            let store = actions.resize(&drive, &size)?;
            let capacity = server.resize(&drive, store).map_err(say)?;
            json!({ "drive": drive, "capacity": capacity })
        }
        ControlRequest::Timing { drive, model } => {
            let capacity = find(&drive)?.capacity;
            let (label, model) = actions.model(&drive, capacity, model)?;
            server.set_model(&drive, label.clone(), model).map_err(say)?;
            json!({ "drive": drive, "model": label })
        }
        ControlRequest::Replace => Value::Null,
    })
}

fn attach(server: &Server, drive: NewDrive) -> Result<Value, String> {
    let (name, socket) = (drive.name.clone(), drive.path.display().to_string());
    server.attach(drive).map_err(|error| error.to_string())?;
    Ok(json!({ "drive": name, "socket": socket }))
}

/// Hands the sockets over, with a line that names them; then ends serving, and
/// says so by another line.
fn replace(stream: &UnixStream, server: &Server, actions: &dyn Actions) -> std::io::Result<()> {
    let mut out = stream;
    if let Err(message) = actions.lasting() {
        return writeln!(out, "{}", json!({ "error": message }));
    }
    let sockets = match server.hand_over() {
        Ok(sockets) if sockets.len() <= MOST_SOCKETS => sockets,
        Ok(_) => {
            let message = format!("more than {MOST_SOCKETS} drives cannot be handed over");
            return writeln!(out, "{}", json!({ "error": message }));
        }
        Err(error) => return writeln!(out, "{}", json!({ "error": error.to_string() })),
    };
    let names: Vec<_> = sockets.iter().map(|(name, _)| name).collect();
    let line = format!("{}\n", json!({ "sockets": names }));
    let borrowed: Vec<BorrowedFd> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    let bytes = [std::io::IoSlice::new(line.as_bytes())];
    rustix::net::sendmsg(stream, &bytes, &mut ancillary, SendFlags::empty())?;
    let ended = server.stop();
    let line = match ended {
        Ok(()) => json!({ "ended": true }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let said = writeln!(out, "{line}");
    actions.replaced();
    said
}

/// Asks the server at `path` for its sockets, and waits until it serves no
/// more; they are served by whoever has them.
///
/// # Errors
/// Why it did not give them.
pub fn take_over(
    path: &std::path::Path,
) -> Result<std::collections::BTreeMap<String, UnixListener>, ServeError> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let failed =
        |source| ServeError::System { what: "take the place of the server that runs", source };
    let stream = UnixStream::connect(path).map_err(failed)?;
    writeln!(&stream, "{}", json!({ "do": "replace" })).map_err(failed)?;
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; LONGEST as usize];
    let mut vectors = [std::io::IoSliceMut::new(&mut buffer)];
    let received =
        rustix::net::recvmsg(&stream, &mut vectors, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| failed(error.into()))?;
    let mut sockets = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors.map(UnixListener::from));
        }
    }
    let first = String::from_utf8_lossy(&buffer[..received.bytes]).into_owned();
    let (first, rest) = first.split_once('\n').unwrap_or((&first, ""));
    let value: Value = serde_json::from_str(first).map_err(|error| failed(error.into()))?;
    if let Some(error) = value["error"].as_str() {
        return Err(failed(std::io::Error::other(error.to_owned())));
    }
    let mut last = rest.to_owned();
    (&stream).read_to_string(&mut last).map_err(failed)?;
    let value: Value = serde_json::from_str(&last).map_err(|error| failed(error.into()))?;
    if let Some(error) = value["error"].as_str() {
        crate::log::warn("the server before", error);
    }
    let value: Value = serde_json::from_str(first).map_err(|error| failed(error.into()))?;
    let names = value["sockets"].as_array().cloned().unwrap_or_default();
    let names = names.iter().map(|name| name.as_str().unwrap_or_default().to_owned());
    Ok(names.zip(sockets).collect())
}
