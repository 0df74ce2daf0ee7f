//! `stasis serve`: drives in real time on sockets.

mod actions;
mod ending;
mod kept;
mod metrics;
#[cfg(test)]
mod no_request_left;
mod nvme_tcp;
mod open_drive;
mod results;
mod vfio_user;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use stasis_config::Mistake;
use stasis_experiment::{distinct_serials, DriveSpec, Experiment, Polling};
use stasis_media::MediumSpec;
use stasis_program::here;
use stasis_program::runtime_folder::runtime_folder;
use stasis_results::units::{bytes, duration};
use stasis_serve::{check_served, confine, control, systemd, Poll, Server};
use stasis_terminal::answer;

use actions::Later;
use results::Results;

/// Arguments of `stasis serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each drive is a vhost-user-blk socket, NAME.sock in the folder of sockets. The guest's memory must be
shared with this program. QEMU:

  qemu-system-x86_64 -m 1G -machine q35,memory-backend=mem \\
    -object memory-backend-memfd,id=mem,size=1G,share=on \\
    -chardev socket,id=c0,path=/run/stasis/drive0.sock,reconnect=1 \\
    -device vhost-user-blk-pci,chardev=c0 ...

(reconnect-ms=1000 from QEMU 11 on.)

Cloud Hypervisor:

  cloud-hypervisor --memory size=1G,shared=on \\
    --disk vhost_user=true,socket=/run/stasis/drive0.sock ...

Examples:
  stasis serve experiment.toml
  stasis serve --drive model=null,medium=file:disk.img --sockets /tmp/drives
  stasis serve --drive model=fixed:100us,medium=ram:1GiB --poll always
  stasis serve --drive model=fixed:100us,medium=ram:1GiB --ublk
  stasis serve --drive model=fixed:100us,medium=ram:1GiB,zones.size=64MiB --nvme-tcp 127.0.0.1:4420
  stasis serve --drive model=fixed:100us,medium=ram:1GiB,placement=fdp:8 --vfio-user /tmp/d.sock
  stasis serve experiment.toml --replace
  stasis serve --drive model=fixed:100us,medium=ram:1GiB --results results
  echo '{\"do\": \"statistics\"}' | socat - /run/stasis/control.sock

Exit status: 0 once it was stopped (SIGTERM, SIGINT) and all is durable; 125 if something failed."
)]
pub struct Arguments {
    /// An experiment file, with drives and a [serve] table
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Folder of the sockets [default: /run/stasis, for others than root $XDG_RUNTIME_DIR/stasis, or
    /// /tmp/stasis-UID without a session]
    #[arg(long, value_name = "DIR")]
    pub sockets: Option<PathBuf>,
    /// How to look for work: always, adaptive or never [default: adaptive]
    #[arg(long, value_name = "WORD", value_parser = ["always", "adaptive", "never"])]
    pub poll: Option<String>,
    /// Polling threads [default: 1]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Socket of the control interface [default: control.sock among the others]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Where Prometheus finds metrics, such as 127.0.0.1:9464 [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Take the place of the server that runs with this control socket
    #[arg(long)]
    pub replace: bool,
    /// Make drives block devices of this host, /dev/ublkbN, instead of sockets: these, or all.
    /// NAME.ublk in the folder of sockets leads to each
    #[arg(long, value_name = "NAME,...", num_args = 0..=1, value_delimiter = ',', require_equals = true)]
    pub ublk: Option<Vec<String>>,
    /// Make drives NVMe/TCP targets instead of sockets: the first at this address, each further one
    /// at the next port. `4420` is that port of this host's loopback. Several addresses are paths to
    /// the same drives
    #[arg(long, value_name = "ADDRESS,...", conflicts_with = "ublk")]
    pub nvme_tcp: Option<String>,
    /// Make drives NVMe controllers of virtual machines by vfio-user instead of sockets of
    /// vhost-user-blk: the only one at this socket, or each at NAME.sock in this folder. Several
    /// paths are controllers of the same drives, for a guest each
    #[arg(long, value_name = "PATH,...", conflicts_with_all = ["ublk", "nvme_tcp"])]
    pub vfio_user: Option<PathBuf>,
    /// NVMe Qualified Names of the hosts that may connect to NVMe/TCP targets [default: all]
    #[arg(long, value_name = "NQN,...", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// A host that authenticates to NVMe/TCP targets by DH-HMAC-CHAP, and the file with its secret
    /// as `nvme gen-dhchap-key` prints it; on a second line the subsystem's, if the host wants that
    #[arg(long, value_name = "NQN=FILE")]
    pub host_secret: Vec<String>,
    /// Groups of Diffie-Hellman by which hosts authenticate, the preferred one first [default: each
    /// from ffdhe2048 to ffdhe8192, then null]
    #[arg(long, value_name = "GROUP,...", value_delimiter = ',')]
    pub dh_groups: Vec<String>,
    /// User to become once everything is open: a name, or UID:GID
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Leave open every file and system call
    #[arg(long)]
    pub unconfined: bool,
    /// Write ios.csv, each I/O with its times and so the error that it really had, and at the end
    /// summary.json and report.html, to this folder
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Do not say at the end what the drives did
    #[arg(long, short)]
    pub quiet: bool,
}

/// Words win over the file.
fn experiment(arguments: &Arguments) -> Result<(Experiment, PathBuf)> {
    let (mut experiment, base) =
        here::experiment(arguments.experiment.as_deref(), &arguments.drive)?;
    experiment.name_drives()?;
    let serve = &mut experiment.serve;
    if let Some(folder) = &arguments.sockets {
        serve.sockets = Some(folder.clone());
    }
    if let Some(word) = &arguments.poll {
        serve.poll = match word.as_str() {
            "always" => Polling::Always,
            "never" => Polling::Never,
            _ => Polling::Adaptive,
        };
    }
    serve.threads = arguments.threads.or(serve.threads);
    serve.control = arguments.control.clone().or(serve.control.take());
    serve.metrics = arguments.metrics.clone().or(serve.metrics.take());
    serve.nvme_tcp = arguments.nvme_tcp.clone().or(serve.nvme_tcp.take());
    if !arguments.hosts.is_empty() {
        serve.hosts.clone_from(&arguments.hosts);
    }
    for word in &arguments.host_secret {
        let (nqn, file) = nvme_tcp::host_secret(word)?;
        serve.host_secrets.insert(nqn, file);
    }
    if !arguments.dh_groups.is_empty() {
        serve.dh_groups.clone_from(&arguments.dh_groups);
    }
    serve.vfio_user = arguments.vfio_user.clone().or(serve.vfio_user.take());
    serve.user = arguments.user.clone().or(serve.user.take());
    serve.unconfined |= arguments.unconfined;
    match &arguments.ublk {
        Some(names) if names.is_empty() => {
            let names = experiment.drives.iter().filter_map(|drive| drive.name.clone());
            serve.ublk = names.collect();
        }
        Some(names) => serve.ublk.clone_from(names),
        None => {}
    }
    check(&experiment).map_err(|mistake| experiment.error(mistake.inside("serve")))?;
    check_faults(&experiment)?;
    if experiment.drives.is_empty() {
        bail!("there is no drive to serve: say --drive model=null,medium=ram:1GiB, or name an experiment file");
    }
    Ok((experiment, base))
}

/// Checks that served drives can have the faults.
fn check_faults(experiment: &Experiment) -> Result<()> {
    let names: Vec<_> =
        experiment.drives.iter().filter_map(|drive| drive.name.as_deref()).collect();
    let controller = experiment.serve.vfio_user.is_some();
    for (index, fault) in experiment.faults.iter().enumerate() {
        let known = match &fault.drive {
            None if names.len() == 1 => Ok(()),
            None => Err(Mistake::at("kind", "it names no drive, and there are several")),
            Some(name) if names.contains(&name.as_str()) => Ok(()),
            Some(name) => {
                let message = format!("there is no drive `{name}`: there is {}", names.join(", "));
                Err(Mistake::at("drive", message))
            }
        };
        let served = || {
            let fault = actions::served_fault(fault)?;
            check_served(&fault, controller).map_err(|message| Mistake::at("kind", message))
        };
        let checked = known.and_then(|()| served());
        checked.map_err(|mistake| experiment.error(mistake.inside(index).inside("fault")))?;
    }
    Ok(())
}

/// Checks the settings of a server.
fn check(experiment: &Experiment) -> Result<(), Mistake> {
    let serve = &experiment.serve;
    nvme_tcp::check(serve)?;
    vfio_user::check(serve)?;
    let known =
        |name: &String| experiment.drives.iter().any(|drive| drive.name.as_ref() == Some(name));
    if let Some(at) = serve.ublk.iter().position(|name| !known(name)) {
        let message = format!("ublk names the drive `{}`, which there is not", serve.ublk[at]);
        return Err(Mistake::at(at, message).inside("ublk"));
    }
    if let (false, Some(user)) = (serve.ublk.is_empty(), &serve.user) {
        let message =
            format!("ublk devices are made and removed by root: leave out the user {user}");
        return Err(Mistake::at("user", message));
    }
    let threads = serve.threads.unwrap_or(1);
    if !(1..=64).contains(&threads) {
        let message = format!("threads is {threads}, but must be 1 to 64");
        return Err(Mistake::at("threads", message));
    }
    Ok(())
}

/// `stasis serve`.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let mut given = systemd::sockets();
    let (experiment, base) = experiment(arguments)?;
    let serve = &experiment.serve;
    let folder = match &serve.sockets {
        Some(folder) => folder.clone(),
        None => runtime_folder("--sockets")?,
    };
    check_memory(&experiment)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder of sockets {}", folder.display()))?;
    let poll = match serve.poll {
        Polling::Always => Poll::Always,
        Polling::Adaptive => Poll::Adaptive,
        Polling::Never => Poll::Never,
    };
    let path = serve.control.clone().unwrap_or_else(|| folder.join("control.sock"));
    let mut handed_over = match arguments.replace {
        true => control::take_over(&path)?,
        false => Default::default(),
    };
    let control = match given.remove("control") {
        Some(listener) => listener,
        None => listen_for_control(&path, arguments.replace)?,
    };
    let mut socket = Socket(Some(path.clone()));
    let mut signals = stasis_terminal::signals()?;
    let results = arguments
        .results
        .as_deref()
        .map(|folder| Results::begin(folder, &stasis_runner::input::paths(&experiment, &base)))
        .transpose()?;
    let devices = vfio_user::Devices::of(&experiment)?;
    let is_nvme = serve.nvme_tcp.is_some() || devices.is_some();
    if is_nvme {
        let drives = experiment.drives.iter().enumerate();
        distinct_serials(drives.map(|(index, spec)| spec.serial_number(index)))
            .map_err(anyhow::Error::msg)?;
    }
    // Before they are out of reach.
    let secrets = nvme_tcp::secrets(serve, &base)?;
    if !serve.unconfined {
        let mut folders = reachable(&experiment, &base, &folder);
        folders.extend(arguments.results.clone());
        confine::landlock(&folders)?;
    }
    let server = Arc::new(Server::new(serve.threads.unwrap_or(1), poll)?);
    // Before any drive is opened or made: the address may be in use.
    if let Some(address) = &serve.metrics {
        let server = Arc::clone(&server);
        stasis_program::metrics::answer(address, move || metrics::text(&server.report()))
            .with_context(|| format!("cannot listen on {address}"))?;
    }
    let mut targets = nvme_tcp::Targets::listen(&experiment, secrets)?;
    let later = Later::new(
        base.clone(),
        folder.clone(),
        experiment.seed,
        results.as_ref().map(Results::writing),
    );
    for (index, spec) in experiment.drives.iter().enumerate() {
        let how = match is_nvme {
            true => open_drive::How::Nvme,
            false => open_drive::How::Plain,
        };
        let name = spec.name.as_deref().unwrap_or_default();
        open_drive::check(spec, how).map_err(|mistake| {
            let mistake = mistake.said_of(format_args!("drive {name}"));
            experiment.error(mistake.inside(index).inside("drive"))
        })?;
        let mut planned = open_drive::new(
            spec,
            how,
            index,
            experiment.seed,
            &base,
            &folder,
            open_drive::PATIENCE,
        )?;
        if let Some(targets) = &mut targets {
            targets.plug(&mut planned, index)?;
        }
        if let Some(devices) = &devices {
            devices.plug(&mut planned, index);
        }
        if serve.ublk.contains(&planned.new.name) {
            open_drive::as_ublk(&mut planned, spec, &folder);
        }
        let open_drive::Planned { new: mut drive, shown, .. } = planned;
        let name = &drive.name;
        drive.own = !given.contains_key(name);
        drive.listener = given.remove(name).or_else(|| handed_over.remove(name));
        if let Some(results) = &results {
            results.writing().add(&mut drive, shown);
        }
        let (name, path) = (drive.name.clone(), drive.path.clone());
        server.attach(drive)?;
        let place = match (&targets, &devices) {
            (Some(targets), _) => targets.place(index),
            (None, Some(devices)) => devices.place(&name),
            (None, None) => path.display().to_string(),
        };
        eprintln!("stasis serve: {name}: {} on {place}", spec.model.label());
        // Without a name it is of the only drive.
        let its = |drive: &Option<String>| drive.as_ref().is_none_or(|drive| *drive == name);
        for fault in experiment.faults.iter().filter(|fault| its(&fault.drive)) {
            let fault = actions::served_fault(fault).map_err(|error| anyhow!("{error}"))?;
            server.add_fault(&name, later.number(&name, fault)?)?;
        }
    }
    let later = Arc::new(later);
    control::serve(control, Arc::clone(&server), later.clone())?;
    results.as_ref().map_or(Ok(()), Results::begun)?;
    if let Some(user) = &serve.user {
        confine::become_user(user)?;
        results.as_ref().map_or(Ok(()), Results::check)?;
    }
    if !serve.unconfined {
        confine::calls()?;
    }
    systemd::ready();
    signals.read_exact(&mut [0]).context("cannot wait for signals")?;
    systemd::stopping();
    let ended = ending::end(&server, results.is_some(), &mut signals);
    if later.is_replaced() {
        // The socket is the other server's now.
        socket.0 = None;
    }
    drop(socket);
    let ending::Ended { report, inside, stopped } = ended?;
    if !arguments.quiet {
        report.iter().for_each(|drive| eprintln!("{}", summary(drive)));
    }
    let written = results.map_or(Ok(()), |results| results.finish(&report, &inside));
    answer::put("drives", &report.iter().map(summary).collect::<Vec<_>>())?;
    answer::put("results", &arguments.results)?;
    // Data that is not durable is worse than results that are not written down.
    stopped?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses drives in memory that this machine has not.
fn check_memory(experiment: &Experiment) -> Result<()> {
    let ram = |drive: &DriveSpec| match drive.medium {
        MediumSpec::Ram { size } => size,
        _ => 0,
    };
    let wanted = experiment.drives.iter().map(ram).fold(0, u64::saturating_add);
    let info = rustix::system::sysinfo();
    let there = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit));
    if wanted > there {
        bail!(
            "the drives in memory have {} together, and this machine has {}: make them smaller, or use files",
            bytes(wanted),
            bytes(there)
        );
    }
    Ok(())
}

/// A socket's name, which goes with the server, however that ends.
struct Socket(Option<PathBuf>);

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Listens for control. The server that was replaced has left its socket.
fn listen_for_control(path: &Path, replace: bool) -> Result<std::os::unix::net::UnixListener> {
    if replace {
        let _ = std::fs::remove_file(path);
    }
    Ok(stasis_serve::listen(path)?)
}

/// The folders that the server needs of the file system.
fn reachable(experiment: &Experiment, base: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if let Some(folder) = experiment.serve.control.as_deref().and_then(Path::parent) {
        folders.push(folder.to_owned());
    }
    let here = |path: &Path| match path.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => path.to_owned(),
    };
    folders.push(here(base));
    let places = experiment.serve.vfio_user.as_deref().into_iter().flat_map(vfio_user::places);
    folders.extend(places.map(vfio_user::Devices::folder));
    if !experiment.serve.ublk.is_empty() {
        // Folder of ublk devices.
        folders.push("/dev".into());
    }
    for drive in &experiment.drives {
        match &drive.medium {
            MediumSpec::File { path, .. }
            | MediumSpec::Qcow2 { path, .. }
            | MediumSpec::Ordered { path, .. } => {
                folders.extend(base.join(path).parent().map(here));
            }
            MediumSpec::Device { path, .. } => {
                folders.push(base.join(path));
                folders.extend(stasis_runner::keep::devices_folder());
            }
            MediumSpec::Ram { .. } => {}
        }
    }
    folders
}

/// A drive's report, in a line.
fn summary(drive: &stasis_serve::DriveReport) -> String {
    let counts = &drive.counts;
    let mut line = format!(
        "stasis serve: {}: {} reads, {} writes, {} flushes, {} failed; {} connections, {} faults",
        drive.name,
        counts.reads,
        counts.writes,
        counts.flushes,
        counts.failed,
        counts.connections,
        counts.faults,
    );
    if counts.trapped > 0 {
        line += &format!("; {} accesses to registers trapped", counts.trapped);
    }
    for (name, times) in [("read", drive.read), ("write", drive.write)] {
        if times.count > 0 {
            line += &format!(
                "; {name} {} mean, {} p99",
                duration(times.mean_ns),
                duration(times.p99_ns as f64)
            );
        }
    }
    if let Some(way) = drive.way_ns {
        line += &format!("; the way to the host {} at least", duration(way as f64));
    }
    if let (Some(error), Some(bias)) = (drive.timing_error, drive.timing_bias_ns) {
        let direction = if bias < 0.0 { "before" } else { "after" };
        line += &format!(
            "; {} {direction} the model's time on average, {} p99, {} p99.9, {} at most",
            duration(bias.abs()),
            duration(error.p99_ns as f64),
            duration(error.p999_ns as f64),
            duration(error.max_ns as f64)
        );
    }
    line
}
