//! `stasis function`: storage functions in separate virtual machines.

pub mod serving;

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use serde_json::json;
use stasis_block::units::{format_duration, parse_size};
use stasis_qemu_vm::probe::{probe, KvmState};
use stasis_qemu_vm::Accelerator;
use stasis_storage_function::instance::huge_pages_free;
use stasis_storage_function::network::Network;
use stasis_storage_function::status::{self, LockedFolder, State, Status};
use stasis_storage_function::supervisor::{supervise, Event};
use stasis_storage_function::{pin, shipped, Instance, Polling};
use stasis_terminal::{answer, ensure_guest, stop_on_signals};

use super::runtime_folder::runtime_folder;

/// Commands of `stasis function`.
#[derive(Debug, clap::Subcommand)]
pub enum FunctionCommand {
    /// Start a function and watch it until it is stopped
    Run(Box<RunArguments>),
    /// List the functions that come with the program, and those that run
    #[command(after_help = "Example:
  stasis function list")]
    List {
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Say how a function is
    #[command(after_help = "Examples:
  stasis function status nfs
  stasis function status nfs --json

Exit status: 0 if it is well, 1 if not, 125 if there is none.")]
    Status {
        /// Its name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// End a function in order
    #[command(after_help = "Example:
  stasis function stop nfs")]
    Stop {
        /// Its name
        name: String,
        #[command(flatten)]
        place: PlaceArguments,
    },
    /// Begin a function of your own: writes an explained definition to DIR/function.toml
    #[command(after_help = "Example:
  stasis function new mine && stasis function run ./mine --drive model=null,medium=ram:64MiB")]
    New {
        /// The folder; made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Where functions are known.
#[derive(Debug, clap::Args)]
pub struct PlaceArguments {
    /// Folder of running functions [default: `functions` in the default of `stasis serve --sockets`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl PlaceArguments {
    fn folder(&self) -> Result<PathBuf> {
        match &self.state {
            Some(folder) => Ok(folder.clone()),
            None => Ok(runtime_folder("--state")?.join("functions")),
        }
    }
}

/// Arguments of `stasis function run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "FUNCTION is a name that `stasis function list` lists, or a definition's file or folder. Its drives, in the
order of its definition, are those of EXPERIMENT.toml and --drive, which a `stasis serve` of its own serves, or
the sockets of one that runs already (--socket).

A function whose machine ends, or whose health check fails or is not answered in time, is ended and started again, after
half a second at first and half a minute at most. What its drives acknowledged is with the server.

Examples:
  stasis function run nfs --drive model=null,medium=file:disk.img
  stasis function run smb --socket /run/stasis/drive0.sock --port smb=445
  stasis function run compress storage.toml --set size=100G
  stasis function run ./mine --drive model=null,medium=ram:1GiB --network tap:stasis0:10.77.0.2
  nfs-ls 'nfs://127.0.0.1/?version=4&nfsport=12049'

Exit status: 0 once it was stopped (SIGTERM, SIGINT, `stasis function stop`), 125 if it cannot run."
)]
pub struct RunArguments {
    /// The function
    #[arg(value_name = "FUNCTION")]
    pub function: String,
    /// An experiment file with its drives
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    /// Add a drive: what it is like and where its bytes live
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub drive: Vec<String>,
    /// Take a drive from the vhost-user-blk socket of a server that runs
    #[arg(long, value_name = "PATH", conflicts_with_all = ["experiment", "drive"])]
    pub socket: Vec<PathBuf>,
    /// Name of this instance [default: the function's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Change a setting of the definition
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Put a port of the definition elsewhere on the host
    #[arg(long, value_name = "NAME=PORT")]
    pub port: Vec<String>,
    /// Processors [default: the definition's]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory [default: the definition's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Bind its threads to these processors, the vCPUs first, such as 2,4-6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// How guest and server wait: always, adaptive or never [default: always with KVM and
    /// processors to spare, else adaptive]
    #[arg(long, value_name = "WORD", value_parser = ["always", "adaptive", "never"])]
    pub poll: Option<String>,
    /// user, or tap[:INTERFACE:ADDRESS] [default: tap with KVM, vhost-net and root, else user]
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// Way to run its instructions: best, kvm or emulation
    #[arg(long, value_name = "WORD", default_value = "best", value_parser = ["best", "kvm", "emulation"])]
    pub accelerator: String,
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// `stasis function`.
pub fn main(command: &FunctionCommand) -> Result<ExitCode> {
    match command {
        FunctionCommand::Run(arguments) => start(arguments),
        FunctionCommand::List { place } => list(place),
        FunctionCommand::Status { name, json, place } => show(name, *json, place),
        FunctionCommand::Stop { name, place } => {
            if !status::stop(&place.folder()?, name)? {
                let message = format!("no function {name} runs (`stasis function list`)");
                return Err(io::Error::new(ErrorKind::NotFound, message).into());
            }
            Ok(ExitCode::SUCCESS)
        }
        FunctionCommand::New { folder } => {
            let path = shipped::new(folder)?;
            answer::put("file", &path)?;
            answer::text(&format!("{}\n", path.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn start(arguments: &RunArguments) -> Result<ExitCode> {
    let (instance, polls) = instance(arguments)?;
    let locked = LockedFolder::take(&arguments.place.folder()?, &instance.name)?;
    let mut instance = Instance { folder: locked.folder().to_owned(), ..instance };
    instance.network.check_ports(&instance.definition.ports)?;
    let stop = stop_on_signals()?;
    let mut server = None;
    if arguments.socket.is_empty() {
        let started =
            serving::start(arguments, &instance.definition.drives, &instance.folder, polls, &stop)?;
        instance.sockets.clone_from(&started.sockets);
        server = Some(started);
    }
    instance.check()?;
    // Minutes where it is not kept: errors of a drive are reported before.
    let guest = ensure_guest(&instance.definition.recipe(), &stop)?;
    let mut known = Status {
        name: instance.name.clone(),
        about: instance.definition.about.clone(),
        process: std::process::id(),
        huge_pages: instance.huge_pages,
        ports: ports(&instance),
        ..Status::default()
    };
    let ended = supervise(&instance, &guest, &stop, &mut |event| {
        update_status(&instance, &mut known, event);
        if let Err(error) = locked.write(&known) {
            eprintln!("stasis function: {}: {error}", instance.name);
        }
    });
    drop(server);
    known.state = State::Stopped;
    known.machine = 0;
    locked.write(&known)?;
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// The instance to run. Words win over the definition.
fn instance(arguments: &RunArguments) -> Result<(Instance, Polling)> {
    let found = shipped::find(&arguments.function)?;
    let mut definition = found.definition;
    for word in &arguments.settings {
        let (key, value) = word.split_once('=').with_context(|| {
            format!("--set {word}: say a setting and its value, such as size=1G")
        })?;
        let known = definition.settings.keys().cloned().collect::<Vec<_>>().join(", ");
        let Some(slot) = definition.settings.get_mut(key) else {
            bail!("--set {word}: {} has no setting {key}; it has: {known}", arguments.function);
        };
        value.clone_into(slot);
    }
    for word in &arguments.port {
        let wrong = || format!("--port {word}: say a port's name and a number, such as nfs=2049");
        let (name, number) = word.split_once('=').with_context(wrong)?;
        let known =
            definition.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>().join(", ");
        let Some(port) = definition.ports.iter_mut().find(|port| port.name == name) else {
            bail!("--port {word}: {} has no port {name}; it has: {known}", arguments.function);
        };
        port.host = number.parse().ok().filter(|number| *number > 0).with_context(wrong)?;
    }
    definition.vcpus = arguments.vcpus.unwrap_or(definition.vcpus);
    if !(1..=64).contains(&definition.vcpus) {
        bail!("--vcpus {}: 1 to 64", definition.vcpus);
    }
    if let Some(word) = &arguments.memory {
        definition.memory = parse_size(word).with_context(|| format!("--memory {word}"))?;
    }
    let (accelerator, kvm) = match arguments.accelerator.as_str() {
        "emulation" => (Accelerator::Emulation, false),
        "kvm" => (Accelerator::Kvm, true),
        _ => (Accelerator::Best, probe() == KvmState::Usable),
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // A processor for each vCPU that never halts, one for the server, one for all else.
    let spare = kvm && processors >= definition.vcpus as usize + 2;
    let polling = match arguments.poll.as_deref() {
        Some("always") => Polling::Always,
        Some("never") => Polling::Never,
        Some(_) => Polling::Adaptive,
        None if spare => Polling::Always,
        None => Polling::Adaptive,
    };
    let bound = match &arguments.cpus {
        Some(word) => pin::parse(word)?,
        None if spare => (processors - definition.vcpus as usize..processors).collect(),
        None => Vec::new(),
    };
    let network = match &arguments.network {
        Some(word) => Network::parse(word)?,
        None => Network::best(kvm),
    };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let instance = Instance {
        name: arguments.name.clone().unwrap_or(found.name),
        huge_pages: huge_pages_free(&meminfo, definition.memory),
        definition,
        base: found.base,
        sockets: arguments.socket.clone(),
        accelerator,
        polling,
        network,
        processors: bound,
        folder: PathBuf::new(),
    };
    if !arguments.socket.is_empty() {
        instance.check()?;
    }
    Ok((instance, polling))
}

fn ports(instance: &Instance) -> Vec<(String, String)> {
    let reached = |port| {
        let (address, number) = instance.network.reached(port);
        format!("{address}:{number}")
    };
    instance.definition.ports.iter().map(|port| (port.name.clone(), reached(port))).collect()
}

/// Updates the status by an event, and prints the event.
fn update_status(instance: &Instance, known: &mut Status, event: &Event) {
    let text = match event {
        Event::Starting => {
            known.state = State::Starting;
            known.report.clear();
            return;
        }
        Event::Well { machine, kvm, took } => {
            known.state = State::Well;
            known.machine = *machine;
            known.kvm = *kvm;
            stasis_serve::systemd::ready();
            let ports: Vec<_> =
                known.ports.iter().map(|(name, at)| format!("{name} at {at}")).collect();
            let by = if *kvm { "KVM" } else { "emulation" };
            format!("well after {:.1} s, by {by}; {}", took.as_secs_f64(), ports.join(", "))
        }
        Event::Report(text) => {
            known.report.clone_from(text);
            return;
        }
        Event::Disk(path) => {
            known.disks.push(path.clone());
            format!("its disk is {}", path.display())
        }
        Event::Failed { reason, pause, restarts } => {
            known.state = State::Waiting;
            known.machine = 0;
            known.restarts = *restarts;
            known.last_failure.clone_from(reason);
            let pause = format_duration(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
            format!("failed ({reason}); started again in {pause}")
        }
        Event::Stopped => "stopped".into(),
    };
    eprintln!("stasis function: {}: {text}", instance.name);
}

fn list(place: &PlaceArguments) -> Result<ExitCode> {
    let mut text = String::from("functions that come with the program:\n");
    for (name, definition) in shipped::all()? {
        answer::push("shipped", &json!({ "name": name, "about": definition.about }))?;
        text += &format!("  {name:<10} {}\n", definition.about);
    }
    let running = status::list(&place.folder()?);
    if !running.is_empty() {
        text += "started here:\n";
    }
    answer::put("running", &running)?;
    for one in running {
        let state = word(one.state);
        let ports: Vec<_> = one.ports.iter().map(|(name, at)| format!("{name} {at}")).collect();
        text += &format!(
            "  {:<10} {state:<8} {} restarts  {}\n",
            one.name,
            one.restarts,
            ports.join(", ")
        );
    }
    answer::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn word(state: State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Well => "well",
        State::Waiting => "waiting",
        State::Stopped => "stopped",
    }
}

fn show(name: &str, json: bool, place: &PlaceArguments) -> Result<ExitCode> {
    let Some(one) = status::of(&place.folder()?, name) else {
        let message = format!("no function {name} was started here (`stasis function list`)");
        return Err(io::Error::new(ErrorKind::NotFound, message).into());
    };
    if json {
        answer::document(&format!("{}\n", serde_json::to_string_pretty(&one)?))?;
    } else {
        let mut text = format!("{}: {} ({})\n", one.name, word(one.state), one.about);
        text += &format!("restarts: {}\n", one.restarts);
        if !one.last_failure.is_empty() {
            text += &format!("last failure: {}\n", one.last_failure);
        }
        for (name, at) in &one.ports {
            text += &format!("port {name}: {at}\n");
        }
        for disk in &one.disks {
            text += &format!("disk: {}\n", disk.display());
        }
        if !one.report.is_empty() {
            text += &format!("report: {}\n", one.report);
        }
        answer::text(&text)?;
    }
    Ok(if one.state == State::Well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
