//! Drives as NVMe/TCP targets: their addresses, and their subsystems.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use stasis_experiment::{Experiment, ServeSpec};
use stasis_nvme::fabrics::{DiscoveryEntry, MAX_NQN};
use stasis_nvme::{Config, Subsystem};
use stasis_nvme_auth::{Group, Secret, Secrets};
use stasis_runner::{controller, failure};
use stasis_serve::NvmeTcp;

use super::kept;
use super::open_drive::{queues, Planned};

/// Entries of a queue: those that Linux asks for.
const QUEUE_ENTRIES: u16 = 128;
/// Limit on the paths to a drive.
const MAX_PATHS: usize = 16;

/// Checks what a server of NVMe/TCP targets cannot have.
pub fn check(serve: &ServeSpec) -> Result<()> {
    if serve.nvme_tcp.is_none() {
        if !serve.hosts.is_empty() {
            bail!("`hosts` is of NVMe/TCP targets: say --nvme-tcp as well, or leave it out");
        }
        if !serve.host_secrets.is_empty() {
            bail!("`host-secrets` is of NVMe/TCP targets: say --nvme-tcp as well, or leave it out");
        }
        if !serve.dh_groups.is_empty() {
            bail!("`dh-groups` is of NVMe/TCP targets: say --nvme-tcp as well, or leave it out");
        }
        return Ok(());
    }
    if serve.host_secrets.is_empty() && !serve.dh_groups.is_empty() {
        bail!("`dh-groups` is of hosts that authenticate: give them secrets (`host-secrets`), or leave it out");
    }
    groups(serve)?;
    let with_secrets = serve.host_secrets.keys().map(|nqn| ("host-secrets", nqn));
    for (key, nqn) in serve.hosts.iter().map(|nqn| ("hosts", nqn)).chain(with_secrets) {
        if nqn.is_empty() || nqn.len() > MAX_NQN {
            bail!(
                "`{key}` names a host by {} bytes, but an NQN has 1 to {MAX_NQN}, so that it could never connect: {nqn}",
                nqn.len()
            );
        }
    }
    if !serve.ublk.is_empty() {
        bail!("a drive is an NVMe/TCP target or a ublk device: leave out one of nvme-tcp and ublk");
    }
    Ok(())
}

/// The host and the file that a word of `--host-secret` names.
pub fn host_secret(word: &str) -> Result<(String, PathBuf)> {
    match word.split_once('=') {
        Some((nqn, file)) if !nqn.is_empty() && !file.is_empty() => {
            Ok((nqn.into(), std::path::absolute(file)?))
        }
        // Not the word: it may be a secret.
        _ => bail!("--host-secret must be NQN=FILE, where FILE has the host's secret"),
    }
}

/// The groups of Diffie-Hellman.
fn groups(serve: &ServeSpec) -> Result<Vec<Group>> {
    if serve.dh_groups.is_empty() {
        return Ok(Group::ALL.to_vec());
    }
    let parse = |word: &String| word.parse::<Group>().map_err(anyhow::Error::msg);
    serve.dh_groups.iter().map(parse).collect::<Result<_>>().context("dh-groups")
}

/// Reads the secrets of hosts, whose files begin in `base`.
pub fn secrets(serve: &ServeSpec, base: &Path) -> Result<BTreeMap<String, Secrets>> {
    let read = |(nqn, file): (&String, &PathBuf)| {
        let path = base.join(file);
        let secrets = of_file(&path);
        let secrets = secrets.with_context(|| format!("the secret of {nqn} in {}", path.display()));
        Ok((nqn.clone(), secrets?))
    };
    serve.host_secrets.iter().map(read).collect()
}

/// The secrets in a file.
fn of_file(path: &Path) -> Result<Secrets> {
    let text = std::fs::read_to_string(path)?;
    if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        let of = path.display();
        let message = format!("others than its owner may read this secret: chmod 600 {of}");
        stasis_serve::log::warn(&of.to_string(), &message);
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let (host, subsystem) = match lines[..] {
        [host] => (host, None),
        [host, subsystem] => (host, Some(subsystem)),
        _ => bail!(
            "it has {} lines, but must have one with the host's secret, or a second one with the subsystem's",
            lines.len()
        ),
    };
    let host = Secret::parse(host).context("line 1")?;
    let subsystem = subsystem.map(Secret::parse).transpose().context("line 2")?;
    Ok(Secrets { host, subsystem })
}

/// The targets of a server.
pub struct Targets {
    hosts: Vec<String>,
    secrets: BTreeMap<String, Secrets>,
    groups: Vec<Group>,
    /// Those of each drive, one for each path.
    entries: Vec<Vec<DiscoveryEntry>>,
    listeners: Vec<Vec<TcpListener>>,
}

/// The address that a word means: `PORT`, `:PORT` or `IP:PORT`.
fn address(word: &str) -> Result<SocketAddr> {
    let port = word.strip_prefix(':').unwrap_or(word);
    if let Ok(port) = port.parse() {
        return Ok((IpAddr::from(Ipv4Addr::LOCALHOST), port).into());
    }
    word.parse().with_context(|| {
        format!("nvme-tcp is `{word}`, but must be an address such as 127.0.0.1:4420")
    })
}

impl Targets {
    /// Listens at the addresses of all drives, if they are to be NVMe/TCP targets.
    /// `secrets`: of the hosts that authenticate.
    pub fn listen(
        experiment: &Experiment,
        secrets: BTreeMap<String, Secrets>,
    ) -> Result<Option<Self>> {
        let serve = &experiment.serve;
        let Some(words) = &serve.nvme_tcp else { return Ok(None) };
        let paths = words.split(',').map(address).collect::<Result<Vec<_>>>()?;
        if paths.len() > MAX_PATHS {
            bail!(
                "nvme-tcp has {} addresses, but a drive has at most {MAX_PATHS} paths",
                paths.len()
            );
        }
        let (mut listeners, mut entries) = (Vec::new(), Vec::new());
        for (index, spec) in experiment.drives.iter().enumerate() {
            let config = Config { serial: spec.serial_number(index), ..Config::default() };
            let (mut of_drive, mut its_entries) = (Vec::new(), Vec::new());
            for (path, first) in (1..).zip(&paths) {
                let mut at = *first;
                if first.port() != 0 {
                    let port = u16::try_from(index).ok().and_then(|n| first.port().checked_add(n));
                    at.set_port(port.context("there are more drives than ports from there on")?);
                }
                let listener = TcpListener::bind(at)
                    .with_context(|| format!("cannot listen on {at} for NVMe/TCP"))?;
                let address = listener.local_addr()?;
                its_entries.push(DiscoveryEntry { nqn: config.nqn(), path, address });
                of_drive.push(listener);
            }
            entries.push(its_entries);
            listeners.push(of_drive);
        }
        let (hosts, groups) = (serve.hosts.clone(), groups(serve)?);
        Ok(Some(Self { hosts, secrets, groups, entries, listeners }))
    }

    /// Makes a drive the target that listens for it.
    pub fn plug(&mut self, planned: &mut Planned, index: usize) -> Result<()> {
        let listeners = self.listeners.get_mut(index).map(std::mem::take);
        let listeners = listeners.context("the drive has no address")?;
        planned.shown.interface = "nvme-tcp".into();
        let (spec, before) = (planned.spec.clone(), planned.before.take());
        let (name, serial) = (planned.new.name.clone(), spec.serial_number(index));
        planned.new.nvme_tcp = Some(NvmeTcp {
            listeners,
            hosts: self.hosts.clone(),
            secrets: self.secrets.clone(),
            groups: self.groups.clone(),
            discovery: self.entries.concat(),
            subsystem: Box::new(move |capacity, discard_zeroes| {
                let queues = queues(&spec);
                let made = controller::config(&spec, serial, queues, capacity, discard_zeroes);
                let config =
                    Config { queue_entries: QUEUE_ENTRIES, interrupt_coalescing: false, ..made };
                kept::restore(config, before, &spec, &name, Subsystem::with_state)
                    .map_err(|error| failure::told(&error))
            }),
        });
        Ok(())
    }

    /// How a host connects to a drive.
    pub fn place(&self, index: usize) -> String {
        let connect = |entry: &DiscoveryEntry| {
            let (ip, port) = (entry.address.ip(), entry.address.port());
            format!("nvme connect -t tcp -a {ip} -s {port} -n {}", entry.nqn)
        };
        let lines: Vec<_> = self.entries[index].iter().map(connect).collect();
        format!("NVMe/TCP; connect by: {}", lines.join("; another path: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_and_their_faults_named_without_them() {
        const SECRET: &str = "DHHC-1:00:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQHMnzFi:";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            of_file(&path).map_err(|error| format!("{error:#}"))
        };
        assert!(read(&format!("{SECRET}\n")).unwrap().subsystem.is_none());
        assert!(read(&format!("{SECRET}\n\n{SECRET}")).unwrap().subsystem.is_some());
        assert!(read("").unwrap_err().contains("it has 0 lines"));
        let cut = read(&format!("{SECRET}\n{}", SECRET.replace("AQHM", "AQHN"))).unwrap_err();
        assert!(cut.contains("line 2") && cut.contains("checksum"), "{cut}");
        let word = host_secret(SECRET).unwrap_err().to_string();
        assert!(!word.contains("AQEB"), "{word}");
        assert_eq!(host_secret("nqn.x:y=/a=b").unwrap(), ("nqn.x:y".into(), "/a=b".into()));
        let serve = ServeSpec { dh_groups: vec!["ffdhe1024".into()], ..ServeSpec::default() };
        assert!(format!("{:#}", groups(&serve).unwrap_err()).contains("ffdhe2048"));
    }

    #[test]
    fn a_port_alone_is_the_loopback_s() {
        for word in ["4420", ":4420", "127.0.0.1:4420"] {
            assert_eq!(address(word).unwrap().to_string(), "127.0.0.1:4420");
        }
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:9").unwrap().to_string(), "[::1]:9");
        for wrong in ["", "localhost", "4420x", "1.2.3.4", "99999"] {
            assert!(address(wrong).unwrap_err().to_string().contains("127.0.0.1:4420"), "{wrong}");
        }
    }
}
