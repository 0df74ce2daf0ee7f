//! Drives as NVMe/TCP targets: their addresses, and their subsystems.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use stasis_config::Mistake;
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
pub fn check(serve: &ServeSpec) -> Result<(), Mistake> {
    if serve.nvme_tcp.is_none() {
        let of_targets = [
            ("hosts", serve.hosts.is_empty()),
            ("host-secrets", serve.host_secrets.is_empty()),
            ("dh-groups", serve.dh_groups.is_empty()),
        ];
        return match of_targets.into_iter().find(|(_, none)| !none) {
            None => Ok(()),
            Some((key, _)) => Err(Mistake::at(
                key,
                format!("`{key}` is of NVMe/TCP targets: say --nvme-tcp as well, or leave it out"),
            )),
        };
    }
    if serve.host_secrets.is_empty() && !serve.dh_groups.is_empty() {
        let message = "`dh-groups` is of hosts that authenticate: give them secrets (`host-secrets`), or leave it out";
        return Err(Mistake::at("dh-groups", message));
    }
    groups(serve).map_err(|error| Mistake::at("dh-groups", failure::told(&error)))?;
    let with_secrets = serve.host_secrets.keys().map(|nqn| ("host-secrets", nqn));
    for (key, nqn) in serve.hosts.iter().map(|nqn| ("hosts", nqn)).chain(with_secrets) {
        if nqn.is_empty() || nqn.len() > MAX_NQN {
            let message = format!(
                "`{key}` names a host by {} bytes, but an NQN has 1 to {MAX_NQN}, so that it could never connect: {nqn}",
                nqn.len()
            );
            return Err(Mistake::at(key, message));
        }
    }
    if !serve.ublk.is_empty() {
        let message =
            "a drive is an NVMe/TCP target or a ublk device: leave out one of nvme-tcp and ublk";
        return Err(Mistake::at("ublk", message));
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
        let shown = path.display();
        let message = format!("others than its owner may read this secret: chmod 600 {shown}");
        stasis_serve::log::warn(&shown.to_string(), &message);
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
    /// Discovery entries of each drive, one for each path.
    entries: Vec<Vec<DiscoveryEntry>>,
    listeners: Vec<Vec<TcpListener>>,
}

/// The addresses of each drive, one for each path: the first drive is at the addresses that are
/// given, and each further one at the next ports. Port 0 is any that is free.
fn places(paths: &[SocketAddr], drives: usize) -> Result<Vec<Vec<SocketAddr>>> {
    let mut taken = BTreeSet::new();
    let mut place = |first: &SocketAddr, index: usize| {
        let mut at = *first;
        if first.port() == 0 {
            return Ok(at);
        }
        let port = u16::try_from(index).ok().and_then(|n| first.port().checked_add(n));
        at.set_port(port.context("there are more drives than ports from there on")?);
        match taken.insert(at) {
            true => Ok(at),
            false if drives == 1 => bail!("nvme-tcp has {at} twice: each path to a drive has an address of its own"),
            false => bail!(
                "nvme-tcp means {at} twice, as each further drive is at the next port: leave room for {drives} ports behind each address"
            ),
        }
    };
    let mut of_drive = |index| paths.iter().map(|first| place(first, index)).collect();
    (0..drives).map(&mut of_drive).collect()
}

/// Why an address cannot be listened on, and the way out.
fn cannot_listen(at: SocketAddr, error: std::io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => ": another program has this port; choose another, or stop it",
        ErrorKind::AddrNotAvailable => ": this machine has no such address (see `ip address`)",
        ErrorKind::PermissionDenied => ": ports below 1024 are root's; choose another",
        _ => "",
    };
    anyhow!("cannot listen on {at} for NVMe/TCP: {error}{advice}")
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
        let places = places(&paths, experiment.drives.len())?;
        let (mut listeners, mut entries) = (Vec::new(), Vec::new());
        for (index, (spec, places)) in experiment.drives.iter().zip(places).enumerate() {
            let config = Config { serial: spec.serial_number(index), ..Config::default() };
            let (mut of_drive, mut its_entries) = (Vec::new(), Vec::new());
            for (path, at) in (1..).zip(places) {
                let listener = TcpListener::bind(at).map_err(|error| cannot_listen(at, error))?;
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
        if planned.spec.metadata.is_some_and(|metadata| !metadata.extended) {
            bail!(
                "drive {}: over NVMe/TCP metadata goes behind the data, as a fabric has no place for it \
                 apart (NVMe over Fabrics 1.1 section 2.4): give `extended = true`",
                planned.new.name
            );
        }
        let (mut spec, before) = (planned.spec.clone(), planned.before.take());
        let (name, serial) = (planned.new.name.clone(), spec.serial_number(index));
        planned.new.nvme_tcp = Some(NvmeTcp {
            listeners,
            hosts: self.hosts.clone(),
            secrets: self.secrets.clone(),
            groups: self.groups.clone(),
            discovery: self.entries.concat(),
            subsystem: Box::new(move |capacity, discard_zeroes| {
                let queues = queues(&spec);
                controller::check_room(&spec, capacity).map_err(|error| failure::told(&error))?;
                controller::fit_pairs(&mut spec, capacity);
                let made = controller::config(&spec, serial, queues, capacity, discard_zeroes);
                let config =
                    Config { queue_entries: QUEUE_ENTRIES, interrupt_coalescing: false, ..made };
                kept::restore(config, before, &spec, &name, Subsystem::with_state)
                    .map_err(|error| failure::told(&error))
            }),
        });
        Ok(())
    }

    /// Returns the command by which a host connects to a drive.
    pub fn place(&self, index: usize) -> String {
        let connect = |entry: &DiscoveryEntry| {
            let (ip, port) = (entry.address.ip(), entry.address.port());
            let at = if ip.is_unspecified() { "ADDRESS".into() } else { ip.to_string() };
            format!("nvme connect -t tcp -a {at} -s {port} -n {}", entry.nqn)
        };
        let entries = &self.entries[index];
        let lines: Vec<_> = entries.iter().map(connect).collect();
        let any = entries.iter().any(|entry| entry.address.ip().is_unspecified());
        let note = if any { "; ADDRESS is this computer's, as the host reaches it" } else { "" };
        format!("NVMe/TCP; connect by: {}{note}", lines.join("; another path: "))
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
    fn each_drive_has_an_address_of_its_own_on_each_path() {
        let addresses = |words: &[&str], drives| {
            let paths: Vec<_> = words.iter().map(|word| address(word).unwrap()).collect();
            places(&paths, drives).map_err(|error| error.to_string())
        };
        let all = addresses(&["4420", "0.0.0.0:5420", "10.0.0.1:0"], 2).unwrap();
        let shown: Vec<_> = all.iter().flatten().map(SocketAddr::to_string).collect();
        let first = ["127.0.0.1:4420", "0.0.0.0:5420", "10.0.0.1:0"];
        assert_eq!(shown[..3], first);
        assert_eq!(shown[3..], ["127.0.0.1:4421", "0.0.0.0:5421", "10.0.0.1:0"]);
        let twice = addresses(&["4420", ":4420"], 1).unwrap_err();
        assert!(twice.contains("127.0.0.1:4420 twice"), "{twice}");
        let met = addresses(&["4420", "4421"], 2).unwrap_err();
        assert!(met.contains("127.0.0.1:4421") && met.contains("2 ports"), "{met}");
        assert!(addresses(&["4420", "4422"], 2).is_ok());
        assert!(addresses(&["65535"], 2).unwrap_err().contains("more drives than ports"));
    }

    #[test]
    fn a_host_is_told_an_address_that_it_reaches() {
        let entry = |address: &str| DiscoveryEntry {
            nqn: "nqn.x".into(),
            path: 1,
            address: address.parse().unwrap(),
        };
        let targets = Targets {
            hosts: Vec::new(),
            secrets: BTreeMap::new(),
            groups: Vec::new(),
            entries: vec![vec![entry("127.0.0.1:1")], vec![entry("0.0.0.0:2"), entry("[::]:3")]],
            listeners: Vec::new(),
        };
        let near = "NVMe/TCP; connect by: nvme connect -t tcp -a 127.0.0.1 -s 1 -n nqn.x";
        assert_eq!(targets.place(0), near);
        let far = targets.place(1);
        assert!(far.contains("-a ADDRESS -s 2 -n nqn.x; another path"), "{far}");
        assert!(far.contains("-a ADDRESS -s 3 -n nqn.x; ADDRESS is this computer's"), "{far}");
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
