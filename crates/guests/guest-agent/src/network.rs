//! The guest's network interfaces, and the names of other machines.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{recv, MsgFlags, SockProtocol};
use stasis_channel::NetworkInterface;

use crate::wait::{listen, readable};
use crate::AgentError;

/// Names of addresses (hosts(5)).
const HOSTS: &str = "/etc/hosts";

/// Brings up the loopback interface: programs expect 127.0.0.1 to be there.
pub(crate) fn loopback_up() -> Result<(), AgentError> {
    Control::open()?.up("lo")
}

/// The lines of `/etc/hosts` that an engine writes in each container (moby, libnetwork, etchosts.go), and programs
/// of images count on.
const LOCAL: &str =
    "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\nfe00:: ip6-localnet\n\
    ff00:: ip6-mcastprefix\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n";

/// Writes the names that a container of this host name knows before those of other machines.
pub(crate) fn name_container(hostname: &str) -> Result<(), AgentError> {
    let write = |path: &str, text: &str| {
        fs::write(path, text).map_err(|e| AgentError::new("write", path, e))
    };
    write(HOSTS, LOCAL)?;
    write("/etc/hostname", &format!("{hostname}\n"))
}

/// Gives the interfaces their addresses and brings them up, and makes the machines' names known.
pub(crate) fn set_up(
    interfaces: &[NetworkInterface],
    hosts: &[(Ipv4Addr, Vec<String>)],
) -> Result<(), AgentError> {
    if interfaces.is_empty() {
        return Ok(());
    }
    let control = Control::open()?;
    let links = listen(SockProtocol::NetlinkRoute, libc::RTMGRP_LINK as u32)?;
    for interface in interfaces {
        let name = name_of(interface.port)?;
        control.set_address(&name, libc::SIOCSIFADDR as _, interface.address)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(interface.prefix)).unwrap_or(0);
        control.set_address(&name, libc::SIOCSIFNETMASK as _, Ipv4Addr::from(mask))?;
        control.up(&name)?;
        wait_until_up(&name, &links)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).open(HOSTS);
    let error = |error: io::Error| AgentError::new("write", HOSTS, error);
    let file = file.as_mut().map_err(|e| error(io::Error::from(e.kind())))?;
    file.write_all(lines(hosts).as_bytes()).map_err(error)
}

/// Longest wait for a link, in seconds of virtual time: the kernel looks at one within a second.
const SECONDS: u64 = 5;

/// Waits until the kernel has seen that the link is up, of which `links` has the changes: programs look at
/// the state of their interfaces. Meanwhile the guest does nothing, so that its time is skipped.
fn wait_until_up(name: &str, links: &OwnedFd) -> Result<(), AgentError> {
    let subject = format!("the link of {name}");
    let state = format!("/sys/class/net/{name}/operstate");
    let deadline = Instant::now() + Duration::from_secs(SECONDS);
    loop {
        let text = fs::read_to_string(&state).map_err(|e| AgentError::new("read", &state, e))?;
        if text.trim() == "up" {
            return Ok(());
        }
        if !readable(links, deadline, &subject)? {
            return Err(AgentError::NoDevice { name: subject, seconds: SECONDS });
        }
        // The state is read where programs read it, so the messages themselves are dropped.
        while recv(links.as_raw_fd(), &mut [0; 8192], MsgFlags::empty()).is_ok() {}
    }
}

/// Lines of `/etc/hosts`; the first does not continue a line that has no end.
fn lines(hosts: &[(Ipv4Addr, Vec<String>)]) -> String {
    let lines = hosts.iter().map(|(address, names)| format!("{address} {}\n", names.join(" ")));
    format!("\n{}", lines.collect::<String>())
}

/// Name of the interface at a port.
fn name_of(port: [u8; 6]) -> Result<String, AgentError> {
    const CLASS: &str = "/sys/class/net";
    let text = port.map(|byte| format!("{byte:02x}")).join(":");
    let entries = fs::read_dir(CLASS).map_err(|e| AgentError::new("list", CLASS, e))?;
    let mut names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is = |name: &String| {
        fs::read_to_string(format!("{CLASS}/{name}/address")).is_ok_and(|a| a.trim() == text)
    };
    names.find(is).ok_or(AgentError::NoInterface(text))
}

/// A socket whose ioctls set interfaces (netdevice(7)).
struct Control(OwnedFd);

impl Control {
    fn open() -> Result<Self, AgentError> {
        // SAFETY: creates a descriptor and touches nothing.
        let socket =
            unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        let socket = Errno::result(socket)
            .map_err(|e| AgentError::new("open", "a socket for network interfaces", e))?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(socket) }))
    }

    fn up(&self, name: &str) -> Result<(), AgentError> {
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        self.call("bring up", name, libc::SIOCSIFFLAGS as _, &request)
    }

    fn set_address(
        &self,
        name: &str,
        number: libc::c_ulong,
        address: Ipv4Addr,
    ) -> Result<(), AgentError> {
        let mut request = request(name);
        let place = libc::sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
            sin_zero: [0; 8],
        };
        // SAFETY: both are plain data of 16 bytes, the general form and the one of IPv4 (ip(7)).
        request.ifr_ifru.ifru_addr =
            unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(place) };
        self.call("give an address to", name, number, &request)
    }

    fn call(
        &self,
        action: &'static str,
        name: &str,
        number: libc::c_ulong,
        request: &libc::ifreq,
    ) -> Result<(), AgentError> {
        // SAFETY: these ioctls read an `ifreq`.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, request) };
        let on = || format!("the network interface {name}");
        Errno::result(result).map(drop).map_err(|e| AgentError::new(action, on(), e))
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = CString::new(name).unwrap_or_default();
    // The last byte stays 0.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_address_and_its_names() {
        let hosts = [
            (Ipv4Addr::new(10, 0, 0, 1), vec!["a".into(), "a.lan".into()]),
            (Ipv4Addr::new(10, 0, 0, 2), vec!["b".into()]),
        ];
        assert_eq!(lines(&hosts), "\n10.0.0.1 a a.lan\n10.0.0.2 b\n");
    }
}
