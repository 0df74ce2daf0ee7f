//! Failures: messages for the user, and codes for programs.

use std::error::Error;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde_json::{json, Value};
use stasis_experiment::ExperimentError;
use stasis_media::OpenError;
use stasis_qcow2::ImageError;
use stasis_results::{ResultsError, IOS_FILES, SUMMARY_FILE};

/// The kind of a failure. Its name does not change from one version to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The command line is wrong.
    Usage,
    /// A value of an experiment, a model or a load is wrong.
    Experiment,
    /// A file, a folder or something by its name is not there.
    NotFound,
    /// This user may not do that.
    Permission,
    /// Another program uses it.
    InUse,
    /// The run would write over an input, or over a file that Stasis has not written.
    WouldDestroy,
    /// A disk of the host is full.
    DiskFull,
    /// The host has too little memory.
    Memory,
    /// A program such as QEMU is not installed.
    MissingProgram,
    /// The engine cannot run here, or has failed.
    Engine,
    /// The guest cannot be built, or does not answer.
    Guest,
    /// The results cannot be read.
    Results,
    /// A disk image is damaged, or of a kind that is not supported.
    Image,
    /// There is no snapshot to begin at.
    NoSnapshot,
    /// The user stopped it.
    Stopped,
    /// Another failure.
    Failed,
}

impl Code {
    /// All of them, each with its meaning.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::Usage, "the command line is wrong"),
        (Self::Experiment, "a value of an experiment, a model or a load is wrong"),
        (Self::NotFound, "a file, a folder or something by its name is not there"),
        (Self::Permission, "this user may not do that"),
        (Self::InUse, "another program uses it"),
        (Self::WouldDestroy, "it would write over an input, or over a file of the user's"),
        (Self::DiskFull, "a disk of the host is full"),
        (Self::Memory, "the host has too little memory"),
        (Self::MissingProgram, "a program such as QEMU is not installed"),
        (Self::Engine, "the engine cannot run here, or has failed"),
        (Self::Guest, "the guest cannot be built, or does not answer"),
        (Self::Results, "the results cannot be read"),
        (Self::Image, "a disk image is damaged, or of a kind that is not supported"),
        (Self::NoSnapshot, "there is no snapshot to begin at"),
        (Self::Stopped, "the user stopped it"),
        (Self::Failed, "another failure"),
    ];

    /// The kind of an error: that of its cause which says most.
    pub fn of(error: &anyhow::Error) -> Self {
        let mut causes: Vec<_> = error.chain().filter_map(of_cause).collect();
        // A missing file says less than the place where it is missing.
        causes.sort_by_key(|code| matches!(code, Self::NotFound));
        causes.first().copied().unwrap_or(Self::Failed)
    }
}

/// A failure for a program.
pub fn document(code: Code, message: &str) -> Value {
    json!({ "code": code, "message": message })
}

/// The kind of one error alone, if its type says one.
fn of_cause(cause: &(dyn Error + 'static)) -> Option<Code> {
    use stasis_emulated_host::Error as Host;
    use stasis_guest_image::BuildError;
    use stasis_qemu_vm::Error as Machine;
    if let Some(error) = cause.downcast_ref::<ResultsError>() {
        return Some(match error {
            ResultsError::Folder { source, .. } | ResultsError::Write { source, .. } => {
                of_kind(source.kind()).unwrap_or(Code::Failed)
            }
            ResultsError::InUse { .. } => Code::InUse,
            ResultsError::Foreign { .. } | ResultsError::IsInput { .. } => Code::WouldDestroy,
            ResultsError::Read { path, .. } if is_nowhere(path) => Code::NotFound,
            _ => Code::Results,
        });
    }
    if let Some(error) = cause.downcast_ref::<ExperimentError>() {
        return Some(match error {
            ExperimentError::Read { source, .. } => {
                of_kind(source.kind()).unwrap_or(Code::Experiment)
            }
            _ => Code::Experiment,
        });
    }
    if let Some(error) = cause.downcast_ref::<Host>() {
        return Some(match error {
            Host::QemuMissing | Host::ToolMissing { .. } => Code::MissingProgram,
            Host::Memory { .. } => Code::Memory,
            Host::Io { source, .. } | Host::System { source, .. } => {
                of_kind(source.kind()).unwrap_or(Code::Engine)
            }
            Host::NoSnapshot | Host::NoneLeft(_) => Code::NoSnapshot,
            Host::NoRoom { .. } => Code::DiskFull,
            Host::Stopped => Code::Stopped,
            _ => Code::Engine,
        });
    }
    if let Some(error) = cause.downcast_ref::<BuildError>() {
        return Some(match error {
            BuildError::MissingTool { .. } => Code::MissingProgram,
            BuildError::BadName { .. } | BuildError::PackagesAndRoot { .. } => Code::Experiment,
            BuildError::NoSuchGuest { .. } => Code::NotFound,
            BuildError::Busy { .. } => Code::InUse,
            BuildError::Stopped => Code::Stopped,
            BuildError::File { source, .. } => of_kind(source.kind()).unwrap_or(Code::Guest),
            _ => Code::Guest,
        });
    }
    if let Some(error) = cause.downcast_ref::<Machine>() {
        return Some(match error {
            Machine::QemuMissing => Code::MissingProgram,
            Machine::Kvm(_) | Machine::Monitor(_) => Code::Engine,
            Machine::Stopped => Code::Stopped,
            _ => Code::Guest,
        });
    }
    if let Some(error) = cause.downcast_ref::<OpenError>() {
        return Some(of_medium(error));
    }
    if let Some(error) = cause.downcast_ref::<ImageError>() {
        return Some(match error {
            ImageError::Open(error) => of_medium(error),
            ImageError::Value(_) => Code::Experiment,
            _ => Code::Image,
        });
    }
    if cause.is::<stasis_models::SpecError>() || cause.is::<stasis_media::SpecError>() {
        return Some(Code::Experiment);
    }
    if cause.is::<stasis_models::calibrate::CalibrateError>()
        || cause.is::<stasis_models::BuildError>()
    {
        return Some(Code::Experiment);
    }
    if cause.is::<stasis_block::units::UnitError>() {
        return Some(Code::Experiment);
    }
    if cause.is::<crate::stopped::Stopped>() {
        return Some(Code::Stopped);
    }
    of_kind(cause.downcast_ref::<std::io::Error>()?.kind())
}

/// Returns whether results have a name that nothing has, neither file nor folder; a folder that has none
/// is something else.
fn is_nowhere(results: &Path) -> bool {
    let is_file = IOS_FILES.iter().chain([&SUMMARY_FILE]).any(|name| results.ends_with(name));
    let folder = if is_file { results.parent() } else { Some(results) };
    folder.is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.exists())
}

fn of_medium(error: &OpenError) -> Code {
    match error {
        OpenError::Missing(_)
        | OpenError::NotFound(_)
        | OpenError::MissingFolder(_)
        | OpenError::MissingDevice(_) => Code::NotFound,
        OpenError::Permission(_) | OpenError::ReadOnly(_) => Code::Permission,
        OpenError::Locked(_) | OpenError::Busy(_) => Code::InUse,
        OpenError::Os { source, .. } => of_kind(source.kind()).unwrap_or(Code::Failed),
        _ => Code::Experiment,
    }
}

/// The system's answers that say where to look.
fn of_kind(kind: ErrorKind) -> Option<Code> {
    Some(match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Code::Permission,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::DiskFull,
        ErrorKind::OutOfMemory => Code::Memory,
        ErrorKind::AddrInUse | ErrorKind::ResourceBusy => Code::InUse,
        _ => return None,
    })
}

/// The error with its causes, each once. Many errors of the crates name their cause in
/// their own text, as one that is printed alone has to; the chain of causes has it again.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {0}: {source}; choose another", source = .1)]
    struct Opening(&'static str, #[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the drive is not ready")]
    struct Silent(#[source] Opening);

    fn error() -> Opening {
        Opening("x.img", io::Error::from_raw_os_error(2))
    }

    #[test]
    fn a_cause_is_told_once() {
        const OPENING: &str =
            "cannot open x.img: No such file or directory (os error 2); choose another";
        assert_eq!(told(&error().into()), OPENING);
        let above = Err::<(), _>(error()).context("drive a").context("the run");
        assert_eq!(told(&above.unwrap_err()), format!("the run: drive a: {OPENING}"));
        assert_eq!(told(&Silent(error()).into()), format!("the drive is not ready: {OPENING}"));
        assert_eq!(told(&anyhow::anyhow!("alone")), "alone");
    }

    #[test]
    fn codes_are_distinct_and_documented() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/json.md");
        let page = fs::read_to_string(page).unwrap();
        for (code, meaning) in Code::ALL {
            let name = serde_json::to_value(code).unwrap();
            let row = format!("| `{}` | {meaning} |", name.as_str().unwrap());
            assert!(page.contains(&row), "docs/reference/json.md lacks: {row}");
            assert_eq!(Code::ALL.iter().filter(|(other, _)| *other == code).count(), 1);
        }
    }

    #[test]
    fn an_error_has_the_code_of_the_cause_that_says_most() {
        let full = || io::Error::from_raw_os_error(28);
        let path = || std::path::PathBuf::from("r");
        let wrapped = |error: anyhow::Error| error.context("the run").context("drive a");
        for (error, code) in [
            (ResultsError::Write { path: path(), source: full() }.into(), Code::DiskFull),
            (ResultsError::InUse { path: path() }.into(), Code::InUse),
            (ResultsError::Foreign { path: path() }.into(), Code::WouldDestroy),
            (
                ResultsError::Read { path: path(), source: io::ErrorKind::NotFound.into() }.into(),
                Code::NotFound,
            ),
            (
                ResultsError::Read {
                    path: path().join("summary.json"),
                    source: io::ErrorKind::NotFound.into(),
                }
                .into(),
                Code::NotFound,
            ),
            (
                ResultsError::Read {
                    path: std::env::temp_dir().join("summary.json"),
                    source: io::ErrorKind::NotFound.into(),
                }
                .into(),
                Code::Results,
            ),
            (stasis_emulated_host::Error::QemuMissing.into(), Code::MissingProgram),
            (stasis_emulated_host::Error::Memory { needed: 2, available: 1 }.into(), Code::Memory),
            (stasis_emulated_host::Error::NoSnapshot.into(), Code::NoSnapshot),
            (stasis_media::OpenError::Locked(path()).into(), Code::InUse),
            (stasis_qcow2::ImageError::NotQcow2(path()).into(), Code::Image),
            (stasis_experiment::ExperimentError::Value("x".into()).into(), Code::Experiment),
            (crate::stopped::Stopped.into(), Code::Stopped),
            (io::Error::from(io::ErrorKind::PermissionDenied).into(), Code::Permission),
            (error().into(), Code::NotFound),
            (anyhow::anyhow!("alone"), Code::Failed),
        ] {
            let text = format!("{error:?}");
            assert_eq!(Code::of(&wrapped(error)), code, "{text}");
        }
    }

    #[test]
    fn nobody_tells_errors_another_way() {
        fn look(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    look(&path, found);
                } else if !path.ends_with("failure.rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
                    if program.contains("error:#}") && !path.ends_with("tests.rs") {
                        found.push(path.display().to_string());
                    }
                }
            }
        }
        let mut found = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for wing in fs::read_dir(crates).unwrap() {
            for entry in fs::read_dir(wing.unwrap().path()).unwrap() {
                look(&entry.unwrap().path().join("src"), &mut found);
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }
}
