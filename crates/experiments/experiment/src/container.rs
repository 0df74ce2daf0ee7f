//! The container that a machine's command runs as: what differs from its image.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::clock::Nanos;
use stasis_block::units;
use stasis_config::Mistake;

/// Value of a volume that is no drive.
pub(crate) const MEMORY: &str = "memory";

/// The container of a machine's command. What it leaves out is as the image says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ContainerSpec {
    /// Container image of this machine; by default that of `[guest]`.
    pub image: Option<String>,
    /// Program and first arguments in place of the image's entry point; an empty list is none. The image's own
    /// command goes with its entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Variables of the command's environment beside the image's, or in their place.
    pub environment: BTreeMap<String, String>,
    /// The command's user in place of the image's: `NAME`, `NUMBER`, `NAME:GROUP`, by the image's
    /// /etc/passwd and /etc/group.
    pub user: Option<String>,
    /// Folder in which the command starts, in place of the image's.
    pub working_directory: Option<String>,
    /// Folders whose files are on a drive of the machine's, by its name, or in `memory`.
    pub volumes: BTreeMap<String, String>,
    /// Files and folders for this machine alone: "SOURCE:DESTINATION".
    pub files: Vec<String>,
    /// Texts of files for this machine alone, by the files' paths.
    pub texts: BTreeMap<String, String>,
    /// Check of the command's health in place of the image's.
    pub health: Option<HealthSpec>,
    /// Machines whose commands are in a state before this one's begins: `started`, `healthy` or `completed`.
    pub depends_on: BTreeMap<String, Condition>,
}

/// A check of a command's health.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HealthSpec {
    /// Program and arguments, which end with 0 if the command is healthy; by default the image's.
    pub test: Vec<String>,
    /// Time from the start, and from the end of a check, to the next; by default 30 s.
    #[serde(with = "units::duration_option")]
    pub interval: Option<Nanos>,
    /// Time after which a check has failed; by default 30 s.
    #[serde(with = "units::duration_option")]
    pub timeout: Option<Nanos>,
    /// Number of failures one after the other that make it unhealthy; by default 3.
    pub retries: Option<u32>,
    /// Time from the start within which failures do not count; by default none.
    #[serde(with = "units::duration_option")]
    pub start_period: Option<Nanos>,
    /// The interval within that time; by default 5 s.
    #[serde(with = "units::duration_option")]
    pub start_interval: Option<Nanos>,
}

/// The state of a machine's command that another machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It has begun.
    Started,
    /// The check of its health has succeeded.
    Healthy,
    /// It has ended with status 0.
    Completed,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Started => "started",
            Self::Healthy => "healthy",
            Self::Completed => "completed",
        })
    }
}

/// Returns whether a word for an image is a path.
fn is_path(word: &str) -> bool {
    ["./", "../"].iter().any(|begin| word.starts_with(begin))
}

/// Has the relative path of an image begin in the experiment file's `folder`.
pub(crate) fn anchor(image: Option<&mut String>, folder: &Path) {
    if let Some(word) = image.filter(|word| is_path(word)) {
        if let Some(text) = Path::new(".").join(folder).join(&*word).to_str() {
            *word = text.to_owned();
        }
    }
}

impl ContainerSpec {
    /// Volumes that are on drives: the folder, and the drive's name.
    pub fn drives(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.volumes.iter().map(|(path, on)| (path.as_str(), on.as_str()));
        all.filter(|(_, on)| *on != MEMORY)
    }

    /// Checks it apart from its machine.
    pub(crate) fn check(&self) -> Result<(), Mistake> {
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let text = format!("environment: {name:?} is no variable with a value");
                return Err(Mistake::at(&**name, text).inside("environment"));
            }
        }
        for path in self.volumes.keys().chain(self.texts.keys()) {
            let names = path.split('/').skip(1);
            let whole =
                path.starts_with('/') && path.len() > 1 && names.clone().all(|name| name != "..");
            if !whole || path.contains('\0') {
                let key = if self.volumes.contains_key(path) { "volumes" } else { "texts" };
                let text = format!("{key}: {path:?} is no path of a folder or file from / on");
                return Err(Mistake::at(&**path, text).inside(key));
            }
        }
        if self.entrypoint.iter().flatten().any(|word| word.contains('\0')) {
            return Err(Mistake::at("entrypoint", "entrypoint: a word has a zero byte"));
        }
        if let Some(folder) = self.working_directory.as_ref().filter(|path| !path.starts_with('/'))
        {
            let text = format!("working-directory: {folder:?} does not begin with /");
            return Err(Mistake::at("working-directory", text));
        }
        Ok(())
    }
}
