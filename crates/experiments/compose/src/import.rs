//! The whole of a Compose file: from its text to an experiment's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use toml::Value as Toml;

use crate::interpolate::Variables;
use crate::parts::{
    array, contents, networks, own_keys, volumes, Entries, Findings, Network, Volume,
};
use crate::service::{Service, Shared};
use crate::words;
use crate::yaml::{self, Node};
use crate::{ComposeError, Imported, Surroundings, MAX_FILE};

/// The network of services that name none.
const DEFAULT: &str = "default";

/// Makes an experiment of the text of a Compose file.
///
/// # Errors
/// All that it cannot be one for.
pub fn import(text: &str, surroundings: &dyn Surroundings) -> Result<Imported, ComposeError> {
    let one = |mistake: String| ComposeError { mistakes: vec![mistake] };
    if text.len() > MAX_FILE {
        return Err(one(format!("it has more than {MAX_FILE} bytes")));
    }
    let mut root = yaml::read(text).map_err(one)?;
    let own = match surroundings.file(".env").map_err(|why| one(format!(".env: {why}")))? {
        Some(text) => words::variables(&text).map_err(|why| one(format!(".env: {why}")))?,
        None => Vec::new(),
    };
    let own: BTreeMap<String, String> = own.into_iter().collect();
    let variable = |name: &str| surroundings.variable(name).or_else(|| own.get(name).cloned());
    let mut variables = Variables { value: &variable, notes: Vec::new() };
    variables.fill(&mut root).map_err(one)?;
    let mut found = Findings { notes: variables.notes, mistakes: Vec::new() };
    let experiment = whole(&root, surroundings, &variable, &mut found);
    match found.mistakes.is_empty() {
        true => Ok(Imported { experiment, notes: found.notes }),
        false => Err(ComposeError { mistakes: found.mistakes }),
    }
}

fn whole(
    root: &Node,
    surroundings: &dyn Surroundings,
    variable: &dyn Fn(&str) -> Option<String>,
    found: &mut Findings,
) -> String {
    for (key, node) in root.entries() {
        match key.as_str() {
            "version" | "name" | "services" | "networks" | "volumes" | "configs" | "secrets" => {}
            key if key.starts_with("x-") => {}
            key => found.mistake(node.line, format!("`{key}` cannot be taken")),
        }
    }
    let volumes = volumes(root.get("volumes"), found);
    let networks = networks(root.get("networks"), found);
    let configs = contents(root.get("configs"), "config", variable, found);
    let secrets = contents(root.get("secrets"), "secret", variable, found);
    let shared =
        Shared { volumes: &volumes, configs: &configs, secrets: &secrets, surroundings, variable };
    let all = root.get("services").map(Node::entries).unwrap_or_default();
    let mut services: Vec<Service> =
        all.iter().map(|(name, node)| Service::read(name, node, &shared, found)).collect();
    if services.is_empty() {
        found.mistake(root.line, "there is no service");
    }
    services.retain(|service| {
        if !service.profiles.is_empty() {
            let profiles = service.profiles.join(", ");
            let text =
                format!("service {} is left out: it is of the profiles {profiles}", service.name);
            found.note(service.line, text);
        }
        service.profiles.is_empty()
    });
    check_volumes(&services, &volumes, found);
    let mut text = String::from("# Made of a Compose file.\n");
    let top = own_keys(root.get("x-stasis"), "x-stasis", &["machine", "network"], found);
    write_entries(&mut text, &top);
    let awaited: BTreeSet<&str> =
        services.iter().flat_map(|one| &one.depends).map(|(name, ..)| name.as_str()).collect();
    let mut lasting = Vec::new();
    for service in &services {
        let is_awaited = awaited.contains(service.name.as_str());
        let says = service.own.iter().any(|(key, _)| key == "wait");
        if !is_awaited && !says {
            lasting.extend(service.machines());
        }
        write_machine(&mut text, service, (is_awaited && !says, &services), &volumes, found);
    }
    write_networks(&mut text, &services, &networks, found);
    if !lasting.is_empty() && top.iter().all(|(key, _)| key != "virtual-limit") {
        found.note(
            root.line,
            format!(
                "the run lasts until the commands of {} have ended: `wait` in x-stasis of a service says otherwise, \
                 `virtual-limit` in that of the file ends it",
                lasting.join(", ")
            ),
        );
    }
    text
}

/// A drive is of one machine.
fn check_volumes(services: &[Service], volumes: &BTreeMap<String, Volume>, found: &mut Findings) {
    for (name, volume) in volumes {
        let mounts = |service: &Service| {
            service.mounts.iter().filter(|(_, on, _)| on.as_ref() == Some(name)).count()
                * service.machines().len()
        };
        let users: Vec<_> = services.iter().filter(|service| mounts(service) > 0).collect();
        if users.iter().map(|service| mounts(service)).sum::<usize>() > 1 {
            let names: Vec<_> = users.iter().flat_map(|service| service.machines()).collect();
            let text = format!(
                "volume {name}: {} have it, and machines share no files",
                names.join(" and ")
            );
            found.mistake(volume.line, text);
        } else if volume.drive.is_none() && !users.is_empty() {
            let text = format!(
                "volume {name} is in memory: `x-stasis: {{drive: {{model: MODEL}}}}` in it has it on a drive"
            );
            found.note(volume.line, text);
        }
    }
}

fn write_machine(
    text: &mut String,
    service: &Service,
    (is_awaited, services): (bool, &[Service]),
    volumes: &BTreeMap<String, Volume>,
    found: &mut Findings,
) {
    let mut entries = vec![("name".to_owned(), Toml::from(service.name.as_str()))];
    if let Some(count) = service.replicas {
        entries.push(("count".into(), i64::from(count).into()));
        found.note(
            service.line,
            format!(
                "service {}: its machines are {}: no name stands for all of them",
                service.name,
                service.machines().join(", ")
            ),
        );
    }
    if is_awaited {
        entries.push(("wait".into(), false.into()));
    }
    if !service.command.is_empty() {
        entries.push(("command".into(), array(service.command.iter().cloned())));
    }
    entries.extend(service.own.clone());
    let mut depends = toml::Table::new();
    for (name, state, line) in &service.depends {
        let Some(other) = services.iter().find(|other| other.name == *name) else {
            found.mistake(
                *line,
                format!("service {}: depends_on: there is no service {name}", service.name),
            );
            continue;
        };
        if other.has_no_health && *state == "healthy" {
            let text = format!("service {}: depends_on: {name} has no health check", service.name);
            found.mistake(*line, text);
        }
        depends.extend(other.machines().into_iter().map(|machine| (machine, Toml::from(*state))));
    }
    let mut container = service.container(depends);
    // Those without a drive are in memory.
    for (key, value) in &mut container {
        if let ("volumes", Toml::Table(table)) = (key.as_str(), value) {
            for (_, on) in table.iter_mut() {
                let drive = on
                    .as_str()
                    .and_then(|name| volumes.get(name))
                    .is_some_and(|one| one.drive.is_some());
                if !drive {
                    *on = "memory".into();
                }
            }
        }
    }
    text.push_str("\n[[machine]]\n");
    write_entries(text, &entries);
    for (_, on, _) in &service.mounts {
        if let Some(drive) = on.as_ref().and_then(|name| volumes.get(name)?.drive.as_ref()) {
            text.push_str("\n[[machine.drive]]\n");
            write_entries(text, drive);
        }
    }
    text.push_str("\n[machine.container]\n");
    write_entries(text, &container);
}

fn write_networks(
    text: &mut String,
    services: &[Service],
    networks: &BTreeMap<String, Network>,
    found: &mut Findings,
) {
    let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for service in services {
        match &service.networks {
            None => members.entry(DEFAULT).or_default().extend(service.machines()),
            Some(names) => {
                for (name, line) in names {
                    if name != DEFAULT && !networks.contains_key(name) {
                        found.mistake(
                            *line,
                            format!("service {}: there is no network {name}", service.name),
                        );
                    }
                    members.entry(name).or_default().extend(service.machines());
                }
            }
        }
    }
    for (name, machines) in members {
        let mut entries =
            vec![("name".to_owned(), Toml::from(name)), ("machines".into(), array(machines))];
        entries
            .extend(networks.get(name).map(|network| network.entries.clone()).unwrap_or_default());
        text.push_str("\n[[network]]\n");
        write_entries(text, &entries);
    }
}

fn write_entries(text: &mut String, entries: &Entries) {
    let is_bare = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    for (key, value) in entries {
        let key = if is_bare(key) { key.clone() } else { Toml::from(key.as_str()).to_string() };
        // A String takes all that is written to it.
        let _ = writeln!(text, "{key} = {value}");
    }
}
