//! Network of a function: QEMU's user-mode network with ports on the host's loopback, or a tap
//! interface with vhost-net.

use std::ffi::OsString;
use std::path::Path;

use crate::definition::{is_name, Port};
use crate::forward::Forward;
use crate::Error;

/// Address of the guest in QEMU's user-mode network, of the host and the prefix
/// (QEMU's documentation, "Using the user mode network stack").
const USER: (&str, &str, u8) = ("10.0.2.15", "10.0.2.2", 24);

/// The device by which vhost-net is reached.
const VHOST_NET: &str = "/dev/vhost-net";

/// Network of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// QEMU's own network stack; ports of the guest are ports of the host's
    /// loopback. Needs no rights.
    User,
    /// A tap interface of the host, which QEMU makes; the function has a separate address. Needs
    /// root.
    Tap {
        /// Its name, at most 15 characters.
        interface: String,
        /// The guest's address; the host has the one before it.
        guest: [u8; 4],
        /// True if the kernel carries the packets.
        vhost: bool,
    },
}

impl Network {
    /// A network by its word: `user`, or `tap[:INTERFACE[:ADDRESS]]`.
    ///
    /// # Errors
    /// The word is not a valid network.
    pub fn parse(word: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::Invalid(format!(
                "`{word}` is no network: `user`, or `tap`, or `tap:INTERFACE:ADDRESS` such as tap:stasis0:10.77.0.2, \
                 the guest's address; the host takes the one before it"
            ))
        };
        let mut parts = word.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("user"), None, ..) => Ok(Self::User),
            (Some("tap"), interface, address, None) => {
                let interface = interface.unwrap_or("stasis0").to_owned();
                let address: std::net::Ipv4Addr =
                    address.unwrap_or("10.77.0.2").parse().map_err(|_| wrong())?;
                let guest = address.octets();
                if !is_name(&interface) || interface.len() > 15 || guest[3] < 2 || guest[3] == 255 {
                    return Err(wrong());
                }
                Ok(Self::Tap { interface, guest, vhost: Path::new(VHOST_NET).exists() })
            }
            _ => Err(wrong()),
        }
    }

    /// The best network here: a tap with vhost-net where KVM runs the guest and this
    /// user may, else the user-mode network.
    pub fn best(kvm: bool) -> Self {
        let root = rustix::process::geteuid().is_root();
        let vhost = Path::new(VHOST_NET).exists();
        if kvm && root && vhost {
            return Self::Tap { interface: "stasis0".into(), guest: [10, 77, 0, 2], vhost };
        }
        Self::User
    }

    /// QEMU's arguments.
    pub(crate) fn arguments(&self, ports: &[Port], polling: bool) -> Vec<OsString> {
        let backend = match self {
            Self::User => {
                let mut text = "user,id=net".to_owned();
                for port in ports {
                    text += &format!(",hostfwd=tcp:127.0.0.1:{}-:{}", port.host, port.guest);
                }
                text
            }
            Self::Tap { interface, vhost, .. } => {
                let mut text = format!("tap,id=net,ifname={interface},script=no,downscript=no");
                if *vhost {
                    text += ",vhost=on";
                    if polling {
                        // Time for which the kernel's thread looks before it waits, in us: as
                        // long as the guest's own busy polling.
                        text += ",poll-us=50";
                    }
                }
                text
            }
        };
        ["-netdev", &backend, "-device", "virtio-net-pci,netdev=net,romfile="]
            .map(OsString::from)
            .to_vec()
    }

    /// Addresses of guest and host, and the prefix.
    pub(crate) fn addresses(&self) -> (String, String, u8) {
        match self {
            Self::User => (USER.0.into(), USER.1.into(), USER.2),
            Self::Tap { guest, .. } => {
                (address(*guest), address([guest[0], guest[1], guest[2], guest[3] - 1]), 24)
            }
        }
    }

    /// Address and port by which the host reaches `port`, by the shortest way.
    pub fn reached(&self, port: &Port) -> (String, u16) {
        match self {
            Self::User => ("127.0.0.1".into(), port.host),
            Self::Tap { guest, .. } => (address(*guest), port.guest),
        }
    }

    /// Checks that each of `ports` is free on the host's loopback: a machine that finds one
    /// taken does not start.
    ///
    /// # Errors
    /// One is taken, twice in `ports` included, or may not be had.
    pub fn check_ports(&self, ports: &[Port]) -> Result<(), Error> {
        let mut held = Vec::new();
        for port in ports {
            held.push(crate::forward::listen(port.host)?);
        }
        Ok(())
    }

    /// Makes the ports of a function on a tap ports of the host's loopback as well;
    /// QEMU does so by itself for its user-mode network.
    ///
    /// # Errors
    /// One of them is taken.
    pub(crate) fn forward(&self, ports: &[Port]) -> Result<Vec<Forward>, Error> {
        let Self::Tap { guest, .. } = self else { return Ok(Vec::new()) };
        let start = |port: &Port| Forward::start(port.host, (*guest, port.guest).into());
        ports.iter().map(start).collect()
    }

    /// Sets the address of the host's end, once QEMU has made it.
    ///
    /// # Errors
    /// `ip` is not there, or the system refuses.
    pub fn up(&self) -> Result<(), Error> {
        let Self::Tap { interface, .. } = self else { return Ok(()) };
        let (_, host, prefix) = self.addresses();
        let cidr = format!("{host}/{prefix}");
        for arguments in [
            vec!["address", "replace", &cidr, "dev", interface],
            vec!["link", "set", interface, "up"],
        ] {
            let output = std::process::Command::new("ip")
                .args(&arguments)
                .output()
                .map_err(Error::file("run (Debian's package iproute2 has it)", "ip"))?;
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                return Err(Error::Invalid(format!(
                    "cannot set up the interface {interface}: ip {}: {}; `--network user` needs no rights",
                    arguments.join(" "),
                    errors.trim()
                )));
            }
        }
        Ok(())
    }
}

fn address(octets: [u8; 4]) -> String {
    std::net::Ipv4Addr::from(octets).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port() -> Port {
        Port { name: "nfs".into(), guest: 2049, host: 12049, disk: None }
    }

    fn text(network: &Network, polling: bool) -> String {
        network.arguments(&[port()], polling).join(&OsString::from(" ")).into_string().unwrap()
    }

    #[test]
    fn ports_are_on_the_loopback_of_a_user_network() {
        let network = Network::parse("user").unwrap();
        assert!(text(&network, true)
            .contains("-netdev user,id=net,hostfwd=tcp:127.0.0.1:12049-:2049 -device virtio-net-pci,netdev=net,romfile="));
        assert_eq!(network.reached(&port()), ("127.0.0.1".into(), 12049));
    }

    #[test]
    fn a_tap_has_addresses_and_vhost_where_there_is_one() {
        let Network::Tap { interface, guest, .. } = Network::parse("tap:f0:10.1.2.3").unwrap()
        else {
            panic!()
        };
        let tap = |vhost| Network::Tap { interface: interface.clone(), guest, vhost };
        assert!(text(&tap(true), true)
            .contains("tap,id=net,ifname=f0,script=no,downscript=no,vhost=on,poll-us=50 "));
        assert!(text(&tap(true), false).contains("vhost=on "));
        assert!(!text(&tap(false), true).contains("vhost"));
        assert_eq!(tap(false).addresses(), ("10.1.2.3".into(), "10.1.2.2".into(), 24));
        assert_eq!(tap(false).reached(&port()), ("10.1.2.3".into(), 2049));
    }

    #[test]
    fn other_words_are_none() {
        for word in
            ["", "tab", "user:x", "tap:a/b", "tap:x:1.2.3", "tap:x:1.2.3.1", "tap:x:1.2.3.4:5"]
        {
            let error = Network::parse(word).unwrap_err().to_string();
            assert!(error.contains("tap:INTERFACE:ADDRESS"), "{error}");
        }
    }
}
