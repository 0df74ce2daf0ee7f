//! The command: one function from its words to its end, and the state of others.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use serde_json::json;
use stasis_block::units::{format_duration, parse_size};
use stasis_program::function::{FunctionCommand, PlaceArguments, RunArguments};
use stasis_qemu_vm::probe::{probe, KvmState};
use stasis_qemu_vm::Accelerator;
use stasis_storage_function::instance::huge_pages_free;
use stasis_storage_function::network::Network;
use stasis_storage_function::status::{self, LockedFolder, State, Status};
use stasis_storage_function::supervisor::{supervise, Event};
use stasis_storage_function::{pin, shipped, Instance, Polling};
use stasis_terminal::{answer, ensure_guest, stop_on_signals};

use crate::serving;

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
