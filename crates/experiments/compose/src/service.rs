//! A service of a Compose file as a machine.

use std::collections::BTreeMap;

use toml::Value as Toml;

use crate::parts::{array, own_keys, Content, Entries, Findings, Volume};
use crate::words;
use crate::yaml::{Node, Value};
use crate::Surroundings;

/// Keys that make no difference in a machine of its own.
const WITHOUT_DIFFERENCE: [&str; 14] = [
    "annotations",
    "attach",
    "cap_add",
    "cgroup",
    "cgroup_parent",
    "expose",
    "isolation",
    "label_file",
    "labels",
    "logging",
    "privileged",
    "pull_policy",
    "shm_size",
    "storage_opt",
];

/// Keys that are left out, and what that means.
const LEFT_OUT: [(&str, &str); 25] = [
    ("blkio_config", "limits of a drive are in x-stasis of its volume"),
    ("cap_drop", "root has all rights in its machine"),
    ("container_name", "the machine has the service's name"),
    ("cpu_count", "processors are `vcpus` in x-stasis"),
    ("cpu_shares", "a machine has its processors alone"),
    ("cpus", "processors are `vcpus` in x-stasis"),
    ("cpuset", "a machine has its processors alone"),
    ("develop", "nothing is built"),
    ("dns", "names are those of the machines"),
    ("dns_opt", "names are those of the machines"),
    ("dns_search", "names are those of the machines"),
    ("hostname", "the machine has the service's name"),
    ("init", "the guest's own first process reaps"),
    ("mem_limit", "memory is `memory` in x-stasis"),
    ("mem_reservation", "memory is `memory` in x-stasis"),
    ("memswap_limit", "a machine has no swap"),
    ("pids_limit", "there is no limit"),
    ("ports", "ports are reached from machines of the network only"),
    ("restart", "a command that ends is not started again"),
    ("security_opt", "there are no such limits"),
    ("stdin_open", "the standard input is empty"),
    ("stop_grace_period", "a machine ends at once"),
    ("stop_signal", "a machine ends at once"),
    ("tty", "the output is no terminal"),
    ("ulimits", "limits are those of the guest's first process"),
];

/// The parts that a service shares with others.
pub(crate) struct Shared<'a> {
    pub(crate) volumes: &'a BTreeMap<String, Volume>,
    pub(crate) configs: &'a BTreeMap<String, Content>,
    pub(crate) secrets: &'a BTreeMap<String, Content>,
    pub(crate) surroundings: &'a dyn Surroundings,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
}

/// A service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) replicas: Option<u32>,
    /// Keys of the machine that x-stasis has.
    pub(crate) own: Entries,
    pub(crate) command: Vec<String>,
    pub(crate) container: Entries,
    pub(crate) environment: BTreeMap<String, String>,
    /// Folders on volumes by their names, or None for memory.
    pub(crate) mounts: Vec<(String, Option<String>, usize)>,
    files: Vec<String>,
    texts: BTreeMap<String, String>,
    /// Networks, None where it does not say.
    pub(crate) networks: Option<Vec<(String, usize)>>,
    /// Services before it, with the condition and the line.
    pub(crate) depends: Vec<(String, &'static str, usize)>,
    pub(crate) has_no_health: bool,
    pub(crate) profiles: Vec<String>,
}

impl Service {
    pub(crate) fn read(name: &str, node: &Node, shared: &Shared<'_>, found: &mut Findings) -> Self {
        let mut service = Self { name: name.into(), line: node.line, ..Self::default() };
        if node.entries().is_empty() {
            found.mistake(
                node.line,
                format!("service {name} is {} and should be a map", node.kind()),
            );
        }
        for (key, value) in node.entries() {
            if !value.is_null() || matches!(key.as_str(), "entrypoint" | "command") {
                service.key(key, value, shared, found);
            }
        }
        if node.get("image").is_none() {
            let text = match node.get("build") {
                Some(_) => "`build`: Stasis builds no images: build it, and name it by `image`",
                None => "it has no `image`",
            };
            found.mistake(node.line, format!("service {name}: {text}"));
        } else if let Some(build) = node.get("build") {
            found.note(
                build.line,
                format!("service {name}: `build`: nothing is built, the image is taken as it is"),
            );
        }
        service
    }

    fn key(&mut self, key: &str, node: &Node, shared: &Shared<'_>, found: &mut Findings) {
        let about = format!("service {}: {key}", self.name);
        match key {
            "build" => {}
            "image" => self.put("image", found.text(&about, node)),
            "user" => self.put("user", found.text(&about, node)),
            "working_dir" => self.put("working-directory", found.text(&about, node)),
            "command" => {
                if node.is_null() {
                    return;
                }
                self.command = self.words(&about, node, found).unwrap_or_default();
                if self.command.is_empty() {
                    found.mistake(
                        node.line,
                        format!(
                            "{about}: an empty command in place of the image's cannot be taken"
                        ),
                    );
                }
            }
            "entrypoint" => {
                if node.is_null() {
                    return;
                }
                let words = self.words(&about, node, found).unwrap_or_default();
                self.container.push(("entrypoint".into(), array(words)));
            }
            "environment" => self.environment(&about, node, shared, found),
            "env_file" => self.env_files(&about, node, shared, found),
            "volumes" => {
                for entry in list(node) {
                    self.volume(&about, entry, shared, found);
                }
            }
            "tmpfs" => {
                for entry in list(node) {
                    let path = found.text(&about, entry).unwrap_or_default();
                    let path = path.split(':').next().unwrap_or_default().to_owned();
                    self.mounts.push((path, None, entry.line));
                }
            }
            "networks" => self.networks = Some(networks(&about, node, &self.name, found)),
            "depends_on" => self.depends_on(&about, node, found),
            "links" => {
                for entry in list(node) {
                    let text = found.text(&about, entry).unwrap_or_default();
                    match text.split_once(':') {
                        Some((service, alias)) if service != alias => {
                            found.mistake(
                                entry.line,
                                format!("{about}: a machine has no other name, as `{alias}`"),
                            );
                        }
                        _ => {
                            let service = text.split(':').next().unwrap_or_default().to_owned();
                            self.depends.push((service, "started", entry.line));
                        }
                    }
                }
            }
            "healthcheck" => self.healthcheck(&about, node, found),
            "configs" => self.contents(&about, node, (shared.configs, "/"), found),
            "secrets" => self.contents(&about, node, (shared.secrets, "/run/secrets/"), found),
            "deploy" => self.deploy(&about, node, found),
            "scale" => self.replicas(&about, node, found),
            "profiles" => {
                self.profiles = list(node).filter_map(|entry| found.text(&about, entry)).collect();
            }
            "platform" => {
                let platform = found.text(&about, node).unwrap_or_default();
                if !matches!(platform.as_str(), "linux" | "linux/amd64") {
                    found.mistake(
                        node.line,
                        format!("{about}: machines are of linux/amd64, not of {platform}"),
                    );
                }
            }
            "network_mode" if node.text() == Some("bridge") => {}
            "read_only" => {
                if found.truth(&about, node) {
                    found.note(
                        node.line,
                        format!("{about}: the root can be written, and forgets it"),
                    );
                }
            }
            "x-stasis" => {
                let taken = ["name", "count", "command", "container"];
                self.own.extend(own_keys(Some(node), &about, &taken, found));
            }
            key if key.starts_with("x-") || WITHOUT_DIFFERENCE.contains(&key) => {}
            key => match LEFT_OUT.iter().find(|(name, _)| *name == key) {
                // It says what is so.
                Some(("restart", _)) if node.text() == Some("no") => {}
                Some(("hostname" | "container_name", _)) if node.text() == Some(&*self.name) => {}
                Some((_, why)) => found.note(node.line, format!("{about} is left out: {why}")),
                None => found.mistake(node.line, format!("{about}: this key cannot be taken")),
            },
        }
    }

    fn put(&mut self, key: &str, text: Option<String>) {
        self.container.extend(text.map(|text| (key.to_owned(), Toml::from(text))));
    }

    fn words(&self, about: &str, node: &Node, found: &mut Findings) -> Option<Vec<String>> {
        match &node.value {
            Value::Text(text, _) => found.take(node.line, about, words::split(text)),
            Value::List(list) => {
                Some(list.iter().map(|word| found.text(about, word).unwrap_or_default()).collect())
            }
            Value::Map(_) => {
                found
                    .mistake(node.line, format!("{about} is a map and should be a text or a list"));
                None
            }
        }
    }

    fn environment(&mut self, about: &str, node: &Node, shared: &Shared<'_>, found: &mut Findings) {
        let mut pairs = Vec::new();
        match &node.value {
            Value::List(list) => {
                for entry in list {
                    let text = found.text(about, entry).unwrap_or_default();
                    match text.split_once('=') {
                        Some((name, value)) => {
                            pairs.push((name.to_owned(), Some(value.to_owned())))
                        }
                        None => pairs.push((text, None)),
                    }
                }
            }
            _ => {
                for (name, value) in node.entries() {
                    if !is_plain(value) {
                        found.mistake(
                            value.line,
                            format!("{about}: {name}: engines write this number in another way: put it in quotes"),
                        );
                    }
                    pairs.push((name.clone(), value.text().map(str::to_owned)));
                }
            }
        }
        for (name, value) in pairs {
            // One without a value is the user's own, if it is there.
            let value = value.or_else(|| (shared.variable)(&name));
            match value {
                Some(value) => drop(self.environment.insert(name, value)),
                None => {
                    found.note(node.line, format!("{about}: {name} has no value, and is not there"))
                }
            }
        }
    }

    fn env_files(&mut self, about: &str, node: &Node, shared: &Shared<'_>, found: &mut Findings) {
        for entry in list(node) {
            let (path, is_needed) = match entry.get("path") {
                Some(path) => {
                    let needed = entry.get("required").is_none_or(|it| found.truth(about, it));
                    (found.text(about, path), needed)
                }
                None => (found.text(about, entry), true),
            };
            let Some(path) = path else { continue };
            let path = path.trim_start_matches("./");
            match shared.surroundings.file(path) {
                Ok(Some(text)) => {
                    let read = found.take(
                        entry.line,
                        &format!("{about}: {path}"),
                        words::variables(&text),
                    );
                    for (name, value) in read.unwrap_or_default() {
                        if value.contains('$') {
                            let text = format!(
                                "{about}: {path}: {name} has a `$`, whose value is not put in"
                            );
                            found.note(entry.line, text);
                        }
                        // Those of `environment` come before.
                        self.environment.entry(name).or_insert(value);
                    }
                }
                Ok(None) if !is_needed => {}
                Ok(None) => found.mistake(entry.line, format!("{about}: there is no file {path}")),
                Err(why) => found.mistake(entry.line, format!("{about}: {path}: {why}")),
            }
        }
    }

    fn volume(&mut self, about: &str, entry: &Node, shared: &Shared<'_>, found: &mut Findings) {
        let line = entry.line;
        let (source, target, is_read_only) = match &entry.value {
            Value::Map(map) => {
                let kind = entry.get("type").and_then(Node::text).unwrap_or("volume").to_owned();
                let mut text = |key: &str| entry.get(key).and_then(|node| found.text(about, node));
                let (source, target) = (text("source"), text("target").unwrap_or_default());
                let is_read_only =
                    entry.get("read_only").is_some_and(|node| found.truth(about, node));
                for (key, value) in map {
                    match key.as_str() {
                        "type" | "source" | "target" | "read_only" | "consistency" | "bind"
                        | "tmpfs" => {}
                        "volume" if value.entries().iter().all(|(key, _)| key == "labels") => {}
                        key => {
                            found.mistake(value.line, format!("{about}: `{key}` cannot be taken"))
                        }
                    }
                }
                match kind.as_str() {
                    "tmpfs" => (None, target, false),
                    "volume" | "bind" => (source, target, is_read_only),
                    kind => {
                        found.mistake(
                            line,
                            format!("{about}: a mount of the type {kind} cannot be taken"),
                        );
                        return;
                    }
                }
            }
            _ => {
                let text = found.text(about, entry).unwrap_or_default();
                let parts: Vec<&str> = text.split(':').collect();
                let is_read_only = |mode: &str| mode.split(',').any(|word| word == "ro");
                match parts[..] {
                    [target] => (None, target.to_owned(), false),
                    [source, target] => (Some(source.to_owned()), target.to_owned(), false),
                    [source, target, mode] => {
                        (Some(source.to_owned()), target.to_owned(), is_read_only(mode))
                    }
                    _ => {
                        found.mistake(line, format!("{about}: {text} is no SOURCE:TARGET"));
                        return;
                    }
                }
            }
        };
        if !target.starts_with('/') {
            found.mistake(line, format!("{about}: {target:?} does not begin with /"));
            return;
        }
        match source {
            None => self.mounts.push((target, None, line)),
            Some(source) if source.starts_with(['.', '/', '~']) => {
                if source.ends_with(".sock") {
                    found.mistake(line, format!("{about}: the socket {source} cannot be taken"));
                    return;
                }
                if !is_read_only {
                    let text = format!("{about}: {source} is copied: what the service writes to {target} stays in its machine");
                    found.note(line, text);
                }
                self.files.push(format!("{source}:{target}"));
            }
            Some(name) if shared.volumes.contains_key(&name) => {
                if is_read_only {
                    found.note(line, format!("{about}: {name} can be written"));
                }
                self.mounts.push((target, Some(name), line));
            }
            Some(name) => found.mistake(line, format!("{about}: there is no volume {name}")),
        }
    }

    fn depends_on(&mut self, about: &str, node: &Node, found: &mut Findings) {
        if let Value::List(list) = &node.value {
            for entry in list {
                let name = found.text(about, entry).unwrap_or_default();
                self.depends.push((name, "started", entry.line));
            }
            return;
        }
        for (name, value) in node.entries() {
            let condition =
                value.get("condition").and_then(Node::text).unwrap_or("service_started");
            let state = match condition {
                "service_started" => "started",
                "service_healthy" => "healthy",
                "service_completed_successfully" => "completed",
                other => {
                    found.mistake(value.line, format!("{about}: there is no condition {other}"));
                    continue;
                }
            };
            for (key, value) in value.entries() {
                match key.as_str() {
                    "condition" | "required" => {}
                    "restart" => {
                        found.note(value.line, format!("{about}: `restart` has no effect"))
                    }
                    key => found.mistake(value.line, format!("{about}: there is no key `{key}`")),
                }
            }
            self.depends.push((name.clone(), state, value.line));
        }
    }

    fn healthcheck(&mut self, about: &str, node: &Node, found: &mut Findings) {
        let mut health = toml::Table::new();
        for (key, value) in node.entries() {
            let about = format!("{about}: {key}");
            match key.as_str() {
                "disable" => self.has_no_health |= found.truth(&about, value),
                "test" => match &value.value {
                    Value::List(list) => {
                        let words: Vec<_> = list
                            .iter()
                            .map(|word| found.text(&about, word).unwrap_or_default())
                            .collect();
                        let test: Vec<&str> = match words
                            .iter()
                            .map(String::as_str)
                            .collect::<Vec<_>>()[..]
                        {
                            ["NONE"] => {
                                self.has_no_health = true;
                                continue;
                            }
                            ["CMD", ref words @ ..] if !words.is_empty() => words.to_vec(),
                            ["CMD-SHELL", line] => vec!["/bin/sh", "-c", line],
                            _ => {
                                found.mistake(value.line, format!("{about}: it begins neither with CMD and words nor with CMD-SHELL and a line"));
                                continue;
                            }
                        };
                        health.insert("test".into(), array(test.into_iter().map(str::to_owned)));
                    }
                    _ => {
                        let line = found.text(&about, value).unwrap_or_default();
                        let test = ["/bin/sh", "-c", &line].map(Toml::from).to_vec();
                        health.insert("test".into(), Toml::Array(test));
                    }
                },
                "interval" | "timeout" | "start_period" | "start_interval" => {
                    let text = found.text(&about, value).unwrap_or_default();
                    let time = found.take(value.line, &about, words::time(&text));
                    health.extend(time.map(|time| (key.replace('_', "-"), Toml::from(time))));
                }
                "retries" => match value.text().and_then(|text| text.parse::<u32>().ok()) {
                    Some(number) => drop(health.insert("retries".into(), i64::from(number).into())),
                    None => found.mistake(value.line, format!("{about} is no number")),
                },
                key if key.starts_with("x-") => {}
                _ => found.mistake(value.line, format!("{about}: there is no such key")),
            }
        }
        if !self.has_no_health && !health.is_empty() {
            self.container.push(("health".into(), Toml::Table(health)));
        }
    }

    fn contents(
        &mut self,
        about: &str,
        node: &Node,
        (all, folder): (&BTreeMap<String, Content>, &str),
        found: &mut Findings,
    ) {
        for entry in list(node) {
            let source = entry.get("source").unwrap_or(entry);
            let Some(name) = found.text(about, source) else { continue };
            let target = entry.get("target").and_then(|node| found.text(about, node));
            let target = target.unwrap_or_else(|| name.clone());
            let target = if target.starts_with('/') { target } else { format!("{folder}{target}") };
            for (key, value) in entry.entries() {
                match key.as_str() {
                    "source" | "target" => {}
                    // Engines without a swarm leave these out as well.
                    "uid" | "gid" | "mode" => {
                        found.note(value.line, format!("{about}: `{key}` has no effect"))
                    }
                    key => found.mistake(value.line, format!("{about}: there is no key `{key}`")),
                }
            }
            match all.get(&name) {
                Some(Content::File(path)) => self.files.push(format!("{path}:{target}")),
                Some(Content::Text(text)) => drop(self.texts.insert(target, text.clone())),
                None => found.mistake(entry.line, format!("{about}: there is no {name}")),
            }
        }
    }

    fn deploy(&mut self, about: &str, node: &Node, found: &mut Findings) {
        for (key, value) in node.entries() {
            match key.as_str() {
                "replicas" => self.replicas(about, value, found),
                "labels" | "endpoint_mode" | "update_config" | "rollback_config" => {}
                "mode" if value.text() == Some("replicated") => {}
                "resources" => found.note(
                    value.line,
                    format!(
                        "{about}: `resources` is left out: `vcpus` and `memory` are in x-stasis"
                    ),
                ),
                "restart_policy" | "placement" => {
                    found.note(value.line, format!("{about}: `{key}` has no effect"));
                }
                key => found.mistake(value.line, format!("{about}: `{key}` cannot be taken")),
            }
        }
    }

    fn replicas(&mut self, about: &str, node: &Node, found: &mut Findings) {
        match node
            .text()
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|count| (1..=32).contains(count))
        {
            Some(count) => self.replicas = Some(count).filter(|count| *count > 1),
            None => found.mistake(node.line, format!("{about}: replicas are 1 to 32")),
        }
    }

    /// Names of its machines.
    pub(crate) fn machines(&self) -> Vec<String> {
        match self.replicas {
            None => vec![self.name.clone()],
            Some(count) => (1..=count).map(|number| format!("{}{number}", self.name)).collect(),
        }
    }

    /// Keys of its container, whose drives are `drives` by their volumes.
    pub(crate) fn container(&self, depends: toml::Table) -> Entries {
        let mut entries = self.container.clone();
        let texts = |map: &BTreeMap<String, String>| {
            let pair =
                |(name, value): (&String, &String)| (name.clone(), Toml::from(value.as_str()));
            Toml::Table(map.iter().map(pair).collect())
        };
        if !self.environment.is_empty() {
            entries.push(("environment".into(), texts(&self.environment)));
        }
        if !self.mounts.is_empty() {
            let mount = |(path, volume, _): &(String, Option<String>, usize)| {
                (path.clone(), Toml::from(volume.as_deref().unwrap_or("memory")))
            };
            entries.push(("volumes".into(), Toml::Table(self.mounts.iter().map(mount).collect())));
        }
        if !self.files.is_empty() {
            entries.push(("files".into(), array(self.files.iter().cloned())));
        }
        if !self.texts.is_empty() {
            entries.push(("texts".into(), texts(&self.texts)));
        }
        if !depends.is_empty() {
            entries.push(("depends-on".into(), Toml::Table(depends)));
        }
        entries
    }
}

/// The elements of a list, or the value itself.
fn list(node: &Node) -> impl Iterator<Item = &Node> {
    match &node.value {
        Value::List(list) => list.iter(),
        _ => std::slice::from_ref(node).iter(),
    }
}

/// Returns whether engines write a value as it stands there: a number without quotes is read first.
fn is_plain(node: &Node) -> bool {
    let Value::Text(text, true) = &node.value else { return true };
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let reads_as = |text: &str| {
        let whole = text.parse::<i64>().map(|number| number.to_string());
        whole.or_else(|_| text.parse::<f64>().map(|number| number.to_string())).ok()
    };
    let other_base = ["0x", "0o", "0b"].iter().any(|begin| text.to_lowercase().starts_with(begin));
    !(is_number && (other_base || reads_as(text).is_some_and(|number| number != *text)))
}

fn networks(about: &str, node: &Node, service: &str, found: &mut Findings) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    if let Value::List(entries) = &node.value {
        for entry in entries {
            names.extend(found.text(about, entry).map(|name| (name, entry.line)));
        }
    }
    for (name, value) in node.entries() {
        for (key, value) in value.entries() {
            match key.as_str() {
                "priority" | "gw_priority" => {}
                "aliases" if list(value).all(|alias| alias.text() == Some(service)) => {}
                "aliases" => found.mistake(
                    value.line,
                    format!("{about}: a machine has no other names (aliases)"),
                ),
                key => found.mistake(value.line, format!("{about}: `{key}` cannot be taken")),
            }
        }
        names.push((name.clone(), value.line));
    }
    names
}
