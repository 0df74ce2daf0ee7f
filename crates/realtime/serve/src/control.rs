//! The control interface: a Unix socket on which each line is a request in
//! JSON, answered by a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use stasis_block::units::parse_size;
use stasis_drive::DriveFault;
use stasis_nvme::fabrics::MAX_NQN;
use stasis_nvme::AnaState;

use crate::{NewDrive, ServeError, Server};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 16;
/// Longest line (bytes).
const MAX_LINE: u64 = 64 << 10;
/// Limit on the sockets that are handed over: the capacity of a message (unix(7),
/// `SCM_MAX_FD`).
pub const MAX_SOCKETS: usize = 253;

/// Request over the control socket.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// The drives' names and sockets.
    List {},
    /// Counters of drives: all, or one.
    Statistics {
        /// Name of the drive.
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
        /// Name of the drive.
        drive: String,
    },
    /// Changes a drive's size.
    Resize {
        /// Name of the drive.
        drive: String,
        /// Such as `2GiB`.
        size: String,
        /// True if it may become smaller: data behind the new end is lost.
        #[serde(default)]
        shrink: bool,
    },
    /// Times a drive otherwise.
    Timing {
        /// Name of the drive.
        drive: String,
        /// As the drive's table has it.
        model: Value,
    },
    /// Has a drive fail from now on.
    Fault {
        /// Name of the drive.
        drive: String,
        /// As a `[[fault]]` table has it; times count from now.
        fault: Value,
    },
    /// Ends a fault of a drive.
    EndFault {
        /// Name of the drive.
        drive: String,
        /// Its number, as it was answered.
        fault: u16,
    },
    /// Sets the access to an NVMe/TCP drive on a path.
    Ana {
        /// Name of the drive.
        drive: String,
        /// Number of the path, from 1.
        path: u16,
        /// `optimized`, `non-optimized`, `inaccessible`, `persistent-loss` or `change`.
        state: AnaState,
    },
    /// Attaches a namespace of an NVMe drive to its hosts.
    AttachNamespace(NamespaceOf),
    /// Detaches it from them.
    DetachNamespace(NamespaceOf),
    /// Hands the sockets to the caller, ends serving, and reports when that is over.
    Replace {},
}

/// A namespace of a drive, and the hosts concerned.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceOf {
    /// Name of the drive.
    drive: String,
    /// Number of the namespace, from 1.
    namespace: u32,
    /// NVMe Qualified Name of the host; without one, all hosts.
    #[serde(default)]
    host: Option<String>,
}

/// Actions for which the interface needs the program, which reads the descriptions of drives.
pub trait Actions: Send + Sync {
    /// The drive number `index` of a description; `create`: its medium is made.
    ///
    /// # Errors
    /// The fault of the description; then nothing is made.
    fn drive(&self, description: Value, create: bool, index: usize) -> Result<NewDrive, String>;

    /// The fault of a description, of the drive of that name.
    ///
    /// # Errors
    /// The fault of the description.
    fn fault(&self, drive: &str, description: Value) -> Result<DriveFault, String>;

    /// Gives a fault of the drive of that name a number that no other has: its happenings are written
    /// down from now on.
    ///
    /// # Errors
    /// There are too many, or they cannot be written down.
    fn numbered(&self, drive: &str, fault: DriveFault) -> Result<DriveFault, String>;

    /// The server has been replaced: the program is to end.
    fn replaced(&self);
}

/// The interface of a server.
struct Control {
    server: Arc<Server>,
    actions: Arc<dyn Actions>,
    /// Held by a request that changes something, from its check to its end.
    changing: Mutex<()>,
}

/// Answers requests from dedicated threads.
///
/// # Errors
/// If no thread can be started.
pub fn serve(
    listener: UnixListener,
    server: Arc<Server>,
    actions: Arc<dyn Actions>,
) -> Result<(), ServeError> {
    let connections = Arc::new(AtomicUsize::new(0));
    let control = Arc::new(Control { server, actions, changing: Mutex::default() });
    let accept = move || {
        for stream in listener.incoming().flatten() {
            if connections.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
                connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (control, connections) = (control.clone(), Guard(connections.clone()));
            let talk = move || {
                let _connection = connections;
                let _ = converse(&stream, &control);
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

/// The next line, without its end; `None` at the end of the stream. One that is too long is
/// read to its end, and is an error.
fn line(lines: &mut impl BufRead) -> std::io::Result<Option<Result<Vec<u8>, String>>> {
    let mut line = Vec::new();
    if lines.take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let whole = line.pop_if(|last| *last == b'\n').is_some();
    if whole || (line.len() as u64) < MAX_LINE {
        return Ok(Some(Ok(line)));
    }
    let message = format!("a line of more than {MAX_LINE} bytes; a request is shorter");
    loop {
        line.clear();
        let read = lines.take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 || line.last() == Some(&b'\n') {
            return Ok(Some(Err(message)));
        }
    }
}

fn parse(line: &[u8]) -> Result<ControlRequest, String> {
    serde_json::from_slice(line).map_err(|error| {
        let names = names();
        format!("{error}; a request is an object such as {{\"do\": \"list\"}}, {names}")
    })
}

/// Lists the names of the requests: serde names them if one is unknown.
fn names() -> String {
    let unknown = serde_json::from_value::<ControlRequest>(json!({ "do": "" }));
    let message = unknown.map_or_else(|error| error.to_string(), |_| String::new());
    message.split_once("expected ").map_or(String::new(), |(_, names)| names.to_owned())
}

fn converse(stream: &UnixStream, control: &Control) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut out = stream;
    while let Some(line) = line(&mut lines)? {
        let answer = match line.and_then(|line| parse(&line)) {
            Ok(ControlRequest::Replace {}) => return replace(stream, control),
            Ok(request) => answer(request, control),
            Err(message) => Err(message),
        };
        writeln!(out, "{}", answer.unwrap_or_else(|message| json!({ "error": message })))?;
    }
    Ok(())
}

fn answer(request: ControlRequest, control: &Control) -> Result<Value, String> {
    let server = &*control.server;
    let say = |error: ServeError| error.to_string();
    let _changing = control.changing.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match request {
        ControlRequest::List {} => {
            let drives = server.report().into_iter().map(|drive| {
                json!({ "name": drive.name, "socket": drive.socket, "capacity": drive.capacity,
                        "model": drive.model, "medium": drive.medium, "in_use": drive.in_use })
            });
            json!({ "drives": drives.collect::<Vec<_>>() })
        }
        ControlRequest::Statistics { drive: None } => json!({ "drives": server.report() }),
        ControlRequest::Statistics { drive: Some(name) } => {
            let drive = server.report().into_iter().find(|drive| drive.name == name);
            json!({ "drives": [drive.ok_or_else(|| say(ServeError::Missing(name)))?] })
        }
        ControlRequest::Create { drive } => attach(control, drive, true)?,
        ControlRequest::Attach { drive } => attach(control, drive, false)?,
        ControlRequest::Detach { drive } => {
            server.detach(&drive).map_err(say)?;
            json!({ "detached": drive })
        }
        ControlRequest::Resize { drive, size, shrink } => {
            let bytes = parse_size(&size).map_err(|error| format!("size: {error}"))?;
            server.resize(&drive, bytes, shrink).map_err(say)?;
            json!({ "drive": drive, "capacity": bytes })
        }
        ControlRequest::Timing { drive, model } => {
            let label = server.set_model(&drive, model).map_err(say)?;
            json!({ "drive": drive, "model": label })
        }
        ControlRequest::Fault { drive, fault } => {
            let fault = control.actions.fault(&drive, fault)?;
            server.check_fault(&drive, &fault).map_err(say)?;
            let fault = control.actions.numbered(&drive, fault)?;
            let (number, kind) = (fault.number, fault.kind.name());
            server.add_fault(&drive, fault).map_err(say)?;
            json!({ "drive": drive, "fault": number, "kind": kind })
        }
        ControlRequest::EndFault { drive, fault } => {
            let happened = server.end_fault(&drive, fault).map_err(say)?;
            json!({ "drive": drive, "fault": fault, "happened": happened })
        }
        ControlRequest::Ana { drive, path, state } => {
            server.set_ana(&drive, path, state).map_err(say)?;
            json!({ "drive": drive, "path": path, "state": state })
        }
        ControlRequest::AttachNamespace(attachment) => set_attached(server, attachment, true)?,
        ControlRequest::DetachNamespace(attachment) => set_attached(server, attachment, false)?,
        ControlRequest::Replace {} => Value::Null,
    })
}

fn set_attached(server: &Server, attachment: NamespaceOf, attached: bool) -> Result<Value, String> {
    let NamespaceOf { drive, namespace, host } = attachment;
    if host.as_ref().is_some_and(|host| !(1..=MAX_NQN).contains(&host.len())) {
        return Err(format!("host: an NVMe Qualified Name has 1 to {MAX_NQN} bytes"));
    }
    let set = server.set_attached(&drive, namespace, host, attached);
    set.map_err(|error| error.to_string())?;
    Ok(json!({ "drive": drive, "namespace": namespace, "attached": attached }))
}

fn attach(control: &Control, description: Value, create: bool) -> Result<Value, String> {
    let Control { server, actions, .. } = control;
    let drive = actions.drive(description, create, server.next_index())?;
    let (name, socket) = (drive.name.clone(), drive.path.display().to_string());
    server.attach(drive).map_err(|error| error.to_string())?;
    Ok(json!({ "drive": name, "socket": socket }))
}

/// Hands the sockets over, with a line that names them; then ends serving, and confirms it by
/// another line.
fn replace(stream: &UnixStream, control: &Control) -> std::io::Result<()> {
    let Control { server, actions, changing } = control;
    let _changing = changing.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out = stream;
    let sockets = match server.check_replaceable().and_then(|()| server.share()) {
        Ok(sockets) if sockets.len() <= MAX_SOCKETS => sockets,
        Ok(_) => {
            let message = format!("more than {MAX_SOCKETS} drives cannot be handed over");
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
    // A caller that does not get them has not taken its place.
    rustix::net::sendmsg(stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
    server.hand_over();
    let ended = server.stop();
    let line = match ended {
        Ok(()) => json!({ "ended": true }),
        Err(error) => json!({ "error": error.to_string() }),
    };
    let sent = writeln!(out, "{line}");
    actions.replaced();
    sent
}

/// Asks the server at `path` for its sockets, and waits until it serves no more; they are served by
/// their new holder.
///
/// # Errors
/// The reason why the server did not give them.
pub fn take_over(
    path: &std::path::Path,
) -> Result<std::collections::BTreeMap<String, UnixListener>, ServeError> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let failed =
        |source| ServeError::System { action: "take the place of the server that runs", source };
    let stream = UnixStream::connect(path).map_err(failed)?;
    writeln!(&stream, "{}", json!({ "do": "replace" })).map_err(failed)?;
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; MAX_LINE as usize];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_line_is_told_every_request_that_there_is() {
        let every = ["list", "statistics", "create", "attach", "detach", "resize", "timing", "ana"];
        let namespaces = ["attach-namespace", "detach-namespace", "fault", "end-fault"];
        for line in ["{}", "7", r#"{"do": "lisp"}"#] {
            let message = parse(line.as_bytes()).unwrap_err();
            for name in every.iter().chain(&namespaces).chain(&["replace"]) {
                assert!(message.contains(&format!("`{name}`")), "no {name} in {message}");
            }
        }
        assert_eq!(parse(br#"{"do": "list"}"#), Ok(ControlRequest::List {}));
    }
}
