//! Parts of a Compose file beside its services: networks, volumes, configurations and secrets.

use std::collections::BTreeMap;

use crate::yaml::Node;

/// The findings while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) notes: Vec<String>,
    pub(crate) mistakes: Vec<String>,
}

impl Findings {
    pub(crate) fn note(&mut self, line: usize, text: impl AsRef<str>) {
        self.notes.push(format!("line {line}: {}", text.as_ref()));
    }

    pub(crate) fn mistake(&mut self, line: usize, text: impl AsRef<str>) {
        self.mistakes.push(format!("line {line}: {}", text.as_ref()));
    }

    /// The value, or a mistake at a line.
    pub(crate) fn take<T>(
        &mut self,
        line: usize,
        about: &str,
        found: Result<T, String>,
    ) -> Option<T> {
        found.map_err(|why| self.mistake(line, format!("{about}: {why}"))).ok()
    }

    /// The text of a value; a mistake if it is none.
    pub(crate) fn text(&mut self, about: &str, node: &Node) -> Option<String> {
        let text = node.text().map(str::to_owned);
        if text.is_none() {
            self.mistake(node.line, format!("{about} is {} and should be a text", node.kind()));
        }
        text
    }

    /// Returns whether a value says yes.
    pub(crate) fn truth(&mut self, about: &str, node: &Node) -> bool {
        match node.text() {
            Some("true" | "yes" | "on") => true,
            Some("false" | "no" | "off") => false,
            _ => {
                self.mistake(node.line, format!("{about} is neither true nor false"));
                false
            }
        }
    }
}

/// A list of texts.
pub(crate) fn array(texts: impl IntoIterator<Item = String>) -> toml::Value {
    toml::Value::Array(texts.into_iter().map(toml::Value::from).collect())
}

/// Entries of TOML, in order.
pub(crate) type Entries = Vec<(String, toml::Value)>;

/// The keys of an `x-stasis` block, but for those of `taken`, which the rest of the file says.
pub(crate) fn own_keys(
    node: Option<&Node>,
    about: &str,
    taken: &[&str],
    found: &mut Findings,
) -> Entries {
    let mut entries = Vec::new();
    for (key, value) in node.map(Node::entries).unwrap_or_default() {
        if taken.contains(&key.as_str()) {
            found.mistake(
                value.line,
                format!("{about}: x-stasis: `{key}` is what the file says elsewhere"),
            );
        } else if let Some(value) = found.take(value.line, about, value.to_toml()) {
            entries.push((key.clone(), value));
        }
    }
    entries
}

/// A volume that has a name.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) line: usize,
    /// Keys of its drive; None where it is in memory.
    pub(crate) drive: Option<Entries>,
}

pub(crate) fn volumes(node: Option<&Node>, found: &mut Findings) -> BTreeMap<String, Volume> {
    let mut volumes = BTreeMap::new();
    for (name, node) in node.map(Node::entries).unwrap_or_default() {
        let about = format!("volume {name}");
        for (key, value) in node.entries() {
            match key.as_str() {
                "name" | "labels" => {}
                "driver" if value.text() == Some("local") => {}
                "external" if !found.truth(&about, value) => {}
                "x-stasis" => {}
                "external" => {
                    found.note(value.line, format!("{about}: what is in it outside is not taken"))
                }
                "driver" | "driver_opts" => {
                    found.mistake(
                        value.line,
                        format!("{about}: `{key}`: a volume is a drive or memory"),
                    );
                }
                key if key.starts_with("x-") => {}
                key => found.mistake(value.line, format!("{about}: there is no key `{key}`")),
            }
        }
        let own = node.get("x-stasis");
        let given = own_keys(own, &about, &[], found);
        let drive = own.and_then(|own| own.get("drive")).map(|drive| {
            let mut entries = vec![("name".to_owned(), toml::Value::from(name.as_str()))];
            let keys = own_keys(Some(drive), &about, &["name"], found);
            if keys.iter().all(|(key, _)| key != "model") {
                found.mistake(drive.line, format!("{about}: the drive has no `model`"));
            }
            let has_medium = keys.iter().any(|(key, _)| key == "medium");
            let size = keys.iter().find(|(key, _)| key == "size").map(|(_, size)| size.clone());
            entries.extend(keys.into_iter().filter(|(key, _)| key != "size"));
            if !has_medium {
                let size = size.unwrap_or_else(|| "1GiB".into());
                let medium = toml::Table::from_iter([("ram".to_owned(), size)]);
                entries.push(("medium".into(), toml::Value::Table(medium)));
            }
            entries
        });
        if let Some((key, _)) = given.iter().find(|(key, _)| key != "drive") {
            found.mistake(
                node.line,
                format!("{about}: x-stasis has no key `{key}`: it has `drive`"),
            );
        }
        volumes.insert(name.clone(), Volume { line: node.line, drive });
    }
    volumes
}

/// A network that has a name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    /// Keys of its table beside name and machines.
    pub(crate) entries: Entries,
}

pub(crate) fn networks(node: Option<&Node>, found: &mut Findings) -> BTreeMap<String, Network> {
    let mut networks = BTreeMap::new();
    for (name, node) in node.map(Node::entries).unwrap_or_default() {
        let about = format!("network {name}");
        let mut network = Network::default();
        for (key, value) in node.entries() {
            match key.as_str() {
                "name" | "labels" | "internal" | "attachable" => {}
                "driver" if matches!(value.text(), Some("bridge" | "overlay" | "default")) => {}
                "external" => {
                    if found.truth(&about, value) {
                        found.note(
                            value.line,
                            format!("{about}: who else is on it outside is not there"),
                        );
                    }
                }
                "driver_opts" | "enable_ipv4" => {
                    found.note(value.line, format!("{about}: `{key}` has no effect"));
                }
                "enable_ipv6" => {
                    if found.truth(&about, value) {
                        found.mistake(
                            value.line,
                            format!("{about}: machines have IPv4 addresses only"),
                        );
                    }
                }
                "ipam" => ipam(value, &about, &mut network, found),
                "x-stasis" => {
                    network.entries.extend(own_keys(
                        Some(value),
                        &about,
                        &["name", "machines"],
                        found,
                    ));
                }
                key if key.starts_with("x-") => {}
                "driver" => found.mistake(
                    value.line,
                    format!("{about}: its driver is none of bridge and overlay"),
                ),
                key => found.mistake(value.line, format!("{about}: there is no key `{key}`")),
            }
        }
        networks.insert(name.clone(), network);
    }
    networks
}

fn ipam(node: &Node, about: &str, network: &mut Network, found: &mut Findings) {
    for (key, value) in node.entries() {
        match (key.as_str(), &value.value) {
            ("driver", _) if value.text() == Some("default") => {}
            ("config", crate::yaml::Value::List(list)) if list.len() == 1 => {
                for (key, value) in list[0].entries() {
                    match key.as_str() {
                        "subnet" => {
                            let subnet = found.text(about, value).unwrap_or_default();
                            network.entries.push(("subnet".into(), subnet.into()));
                        }
                        // No machine needs one.
                        "gateway" => {}
                        key => found
                            .mistake(value.line, format!("{about}: ipam: `{key}` cannot be taken")),
                    }
                }
            }
            (key, _) => {
                found.mistake(value.line, format!("{about}: ipam: `{key}` cannot be taken"))
            }
        }
    }
}

/// The content of a configuration or a secret.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// In a file.
    File(String),
    Text(String),
}

/// Configurations or secrets, by their names; `kind` names them in a message.
pub(crate) fn contents(
    node: Option<&Node>,
    kind: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    found: &mut Findings,
) -> BTreeMap<String, Content> {
    let mut contents = BTreeMap::new();
    for (name, node) in node.map(Node::entries).unwrap_or_default() {
        let about = format!("{kind} {name}");
        let mut content = None;
        for (key, value) in node.entries() {
            match key.as_str() {
                "name" | "labels" => {}
                "file" => content = found.text(&about, value).map(Content::File),
                "content" => content = found.text(&about, value).map(Content::Text),
                "environment" => {
                    let named = found.text(&about, value).unwrap_or_default();
                    content = variable(&named).map(Content::Text);
                    if content.is_none() {
                        found.mistake(
                            value.line,
                            format!("{about}: the variable {named} has no value"),
                        );
                    }
                }
                key if key.starts_with("x-") => {}
                key => found.mistake(value.line, format!("{about}: `{key}` cannot be taken")),
            }
        }
        match content {
            Some(content) => drop(contents.insert(name.clone(), content)),
            None => found.mistake(node.line, format!("{about} has neither a file nor a content")),
        }
    }
    contents
}
