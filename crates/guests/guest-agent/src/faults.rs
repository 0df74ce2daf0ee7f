//! Faults that the agent has a part in: those that the machine orders, and those that a process
//! asks for by the program `stasis-fault`.
//!
//! The socket of that program is in the abstract namespace (unix(7)), so that any user may use it, on any root. A
//! request is one datagram with the words; the answer is one, empty if the fault comes, else why
//! not.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    bind, recv, recvfrom, sendto, socket, AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr,
};
use stasis_channel::{Client, Job, Transport, FAULT_PROGRAM};

use crate::orders::Orders;
use crate::{programs, AgentError};

/// The faults of a run that concern the guest's agent.
pub(crate) struct Faults {
    asked: Option<Asked>,
    orders: Option<Orders>,
}

impl Faults {
    /// Takes over the faults of a job.
    pub(crate) fn of(job: &Job) -> Result<Self, AgentError> {
        let asked = job.asks.then(Asked::offer).transpose()?;
        let orders = job.ordered.then(Orders::new).transpose()?;
        Ok(Self { asked, orders })
    }

    /// Readable where there is something to attend to.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let asked = self.asked.iter().map(|asked| asked.socket.as_fd());
        asked.chain(self.orders.iter().map(Orders::descriptor))
    }

    /// Passes on what processes ask for, and carries out what the machine orders. `written`: whether
    /// the command has written something; `called`: whether the machine has called.
    pub(crate) fn attend<T: Transport>(
        &mut self,
        client: &mut Client<T>,
        written: bool,
        called: bool,
    ) -> Result<(), AgentError> {
        let asked = self.asked.as_ref().map_or(Ok(false), |asked| asked.relay(client))?;
        match &mut self.orders {
            // The answer may be an order.
            Some(orders) => orders.follow(client, asked || called, written),
            None => Ok(()),
        }
    }
}

/// Limit on the bytes of a request's words, and of its answer.
const MAX_WORDS: usize = 4096;

/// The agent's end.
struct Asked {
    socket: OwnedFd,
}

impl Asked {
    /// Makes the program and its socket.
    fn offer() -> Result<Self, AgentError> {
        programs::put(FAULT_PROGRAM)?;
        let error = |e: Errno| AgentError::new("listen to", FAULT_PROGRAM, e);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None).map_err(error)?;
        bind(socket.as_raw_fd(), &address().map_err(error)?).map_err(error)?;
        Ok(Self { socket })
    }

    /// Passes on all that is asked for; returns whether anything was.
    fn relay<T: Transport>(&self, client: &mut Client<T>) -> Result<bool, AgentError> {
        let mut any = false;
        let mut words = [0; MAX_WORDS];
        loop {
            let (length, peer) = match recvfrom::<UnixAddr>(self.socket.as_raw_fd(), &mut words) {
                Ok((length, peer)) => (length, peer),
                Err(Errno::EINTR) => continue,
                Err(_) => return Ok(any),
            };
            any = true;
            let answer = client.fault(&words[..length])?;
            let answer = &answer.as_bytes()[..answer.len().min(MAX_WORDS)];
            if let Some(peer) = peer {
                // One that is gone, or takes no answer, has asked all the same.
                let _ = sendto(self.socket.as_raw_fd(), answer, &peer, MsgFlags::MSG_DONTWAIT);
            }
        }
    }
}

fn address() -> Result<UnixAddr, Errno> {
    UnixAddr::new_abstract(FAULT_PROGRAM.as_bytes())
}

/// Runs as `stasis-fault`: asks for a fault by the arguments, and ends with 0 once it comes.
pub fn ask_for_fault() -> ! {
    let words: Vec<_> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let status = match ask(&words.join(" ")) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{FAULT_PROGRAM}: {why}");
            1
        }
    };
    std::process::exit(status)
}

fn ask(words: &str) -> Result<(), String> {
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(format!(
            "name a fault with `when = \"asked\"`, in 1 to {MAX_WORDS} bytes: {FAULT_PROGRAM} NAME"
        ));
    }
    let asked = || -> Result<String, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
        // The kernel gives it an address, for the answer (unix(7), "Autobind feature").
        bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
        sendto(socket.as_raw_fd(), words.as_bytes(), &address()?, MsgFlags::empty())?;
        let mut answer = [0; MAX_WORDS];
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    };
    match asked() {
        Ok(answer) if answer.is_empty() => Ok(()),
        Ok(answer) => Err(answer),
        Err(error) => Err(format!("no agent of a run takes it: {error}")),
    }
}
