//! `stasis doctor`: the abilities of this machine, the parts of it that a run takes, and the
//! packages to install. Where runs will need the software host, it is booted once. With
//! `--measure`: how precise results are here.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use stasis_block::units::format_size;
use stasis_emulated_host::{Control, Host, Mode, Requirements};
use stasis_experiment::{Engine, GuestSpec, MachineSpec};
use stasis_guest_image as guest_image;
use stasis_precision::Measured;
use stasis_qemu_vm::probe::{self, KvmState};
use stasis_runner::free_space::free_space;
use stasis_runner::self_check::{Answer, Keeper};
use stasis_runner::{program, software_host};
use stasis_terminal::progress::Steps;
use stasis_terminal::{answer, stop_on_signals};

/// Disk that a guest (0.6 GiB), the software host's kernel and its saved
/// machines (0.3 GiB each) take in the cache, with room for the build.
const DISK: u64 = 3 << 30;
/// Of the guest's files, which a run holds in memory.
const GUEST_FILES: u64 = 700 << 20;

/// Findings, and the conclusions from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The state of `/dev/kvm`.
    kvm: String,
    /// QEMU's version and path.
    qemu: Option<String>,
    /// Release of the software host's kernel in the cache.
    softkvm_kernel: Option<String>,
    /// True if the software host came up, now or before with this program, kernel
    /// and QEMU. `None` where nothing needs it, or it was not tried because of
    /// `problems`.
    soft_host_boots: Option<bool>,
    /// True if the default guest is in the cache.
    guest_built: bool,
    /// The Debian release that guests are made of.
    guest_suite: String,
    /// Bytes of memory to be had.
    memory_available: Option<u64>,
    /// Folder of guests and software hosts.
    cache: PathBuf,
    /// Bytes of disk to be had there.
    cache_available: Option<u64>,
    /// The engine that `--engine auto` takes; `None` if nothing can run.
    engine: Option<&'static str>,
    /// Why.
    reason: String,
    /// Obstacles to a run.
    problems: Vec<String>,
    /// Debian packages to install.
    install: Vec<&'static str>,
    /// Precision of results here, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

/// Arguments of `stasis doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 if experiments can run here, 1 if something is in the way, \
or if what was measured says that results are not to be trusted.

Examples:
  stasis doctor
  stasis doctor --measure --engine kvm"
)]
pub struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run two minutes of checks whose right result is known, and say what precision an experiment can count on here
    #[arg(long)]
    measure: bool,
    /// Engine to measure: kvm, softkvm, exact or auto, a run's own choice
    #[arg(
        long,
        value_name = "ENGINE",
        default_value = "auto",
        requires = "measure",
        hide_default_value = true
    )]
    engine: Engine,
}

/// Findings before any conclusion.
struct Findings {
    kvm: KvmState,
    /// The answer of a check of KVM, where one is kept.
    kvm_check: Option<Answer>,
    soft: Requirements,
    /// Outcome of the software host's boot, if tried.
    boot: Option<Result<(), String>>,
    guest_built: bool,
    guest_suite: String,
    guest_tools: Vec<(&'static str, &'static str)>,
    /// Why a guest could not be built with the tools, where it is not built.
    obstacle: Option<String>,
    cache: PathBuf,
    /// A place there that this user may not write to.
    not_writable: Option<PathBuf>,
    cache_available: Option<u64>,
}

/// `stasis doctor`.
pub fn main(arguments: &DoctorArguments) -> Result<ExitCode> {
    let stop = arguments.measure.then(stop_on_signals).transpose()?;
    let mut report = examine(gather()?);
    if let (Some(stop), true) = (stop, report.problems.is_empty()) {
        let engine = stasis_runner::engine::choose(arguments.engine)?;
        report.measured = Some(stasis_precision::measure(engine, &stop)?);
    }
    match arguments.json {
        true => answer::document(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        false => answer::text(&report.text())?,
    }
    let usable = report.measured.as_ref().is_none_or(|measured| measured.verdict.is_usable());
    let good = report.problems.is_empty() && usable;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn gather() -> Result<Findings> {
    let cache = software_host::cache().context(software_host::NO_CACHE)?;
    let recipe = stasis_runner::guest::recipe(&GuestSpec::default());
    let host = Host {
        mode: Mode::Exact,
        memory: needed_memory(),
        inputs: Vec::new(),
        drives: Vec::new(),
        executable: program::for_guests()?,
        cache: cache.clone(),
        snapshot: true,
        log: None,
    };
    let kvm = probe::probe();
    let soft = stasis_emulated_host::requirements(&host);
    let needed = kvm != KvmState::Usable && soft.qemu.is_some();
    let not_writable = guest_image::not_writable(&cache);
    // Without memory or tools another problem is reported.
    let can = soft.install.is_empty() && enough(soft.available_memory) && not_writable.is_none();
    let boot = (needed && can).then(|| {
        let mut steps = Steps::new();
        let mut progress = |step: &str, fraction: Option<f64>| steps.step(step, fraction);
        stasis_emulated_host::boot(&host, &Control::default(), &mut progress)
    });
    let guest_built =
        guest_image::default_cache().is_some_and(|cache| guest_image::is_built(&recipe, &cache));
    Ok(Findings {
        kvm_check: Keeper::here().and_then(|keeper| keeper.kept()),
        kvm,
        soft,
        boot: boot.map(|result| result.map_err(|error| error.to_string())),
        guest_built,
        obstacle: if guest_built { None } else { guest_image::obstacle() },
        guest_suite: recipe.suite,
        guest_tools: guest_image::missing_tools(),
        cache_available: free_space(&cache),
        not_writable,
        cache,
    })
}

/// Memory that a run of the default guest takes in the software host.
fn needed_memory() -> u64 {
    MachineSpec::default().memory + GUEST_FILES + software_host::OVERHEAD
}

/// Returns whether so much memory is enough; true if unknown.
fn enough(available: Option<u64>) -> bool {
    available.is_none_or(|available| available >= needed_memory())
}

/// Draws the conclusions from `found`.
fn examine(found: Findings) -> Report {
    let mut problems = Vec::new();
    let mut install = BTreeSet::new();
    let kvm_works = found.kvm == KvmState::Usable;
    let (engine, reason) = match (&found.kvm, &found.soft.qemu) {
        (KvmState::Usable, qemu) => match &found.kvm_check {
            None => (Some("kvm"), "KVM runs 64-bit guests; the first run checks it".to_owned()),
            Some(Answer { usable: true, text }) => {
                (Some("kvm"), format!("KVM runs 64-bit guests; its check: {text}"))
            }
            Some(Answer { usable: false, text }) => {
                if qemu.is_none() {
                    install.extend(&found.soft.install);
                }
                (Some("exact"), format!("KVM failed its check: {text}"))
            }
        },
        (state, Some(_)) => {
            let why = format!("{state}; the software host needs none, and runs repeat in it");
            (Some("exact"), why)
        }
        (state, None) => {
            problems.push("neither KVM nor QEMU can run a guest".to_owned());
            (None, format!("{state}, and QEMU for the software host is missing"))
        }
    };
    if !kvm_works {
        install.extend(&found.soft.install);
    }
    if !found.guest_built && !found.guest_tools.is_empty() {
        let tools: Vec<_> = found.guest_tools.iter().map(|(tool, _)| *tool).collect();
        problems
            .push(format!("the guest is not built, and to build it takes {}", tools.join(", ")));
        install.extend(found.guest_tools.iter().map(|(_, package)| package));
    }
    if let Some(obstacle) = found.obstacle.as_ref().filter(|_| !found.guest_built) {
        problems.push(format!("the guest is not built, and to build it takes {obstacle}"));
    }
    if let Some(Err(error)) = &found.boot {
        problems.push(format!("a boot of the software host failed: {error}"));
    }
    if !enough(found.soft.available_memory) {
        let needed = format_size(needed_memory().next_multiple_of(1 << 20));
        problems.push(format!("a guest of the default size needs {needed} of memory"));
    }
    if let Some(path) = &found.not_writable {
        problems.push(not_writable(path, &found.cache));
    }
    if !found.guest_built && found.cache_available.is_some_and(|available| available < DISK) {
        problems.push(format!(
            "guests and software hosts need {} in {}; set XDG_CACHE_HOME to a folder with room",
            format_size(DISK),
            found.cache.display()
        ));
    }
    Report {
        kvm: found.kvm.to_string(),
        qemu: found.soft.qemu.map(|(path, version)| format!("{version}, {}", path.display())),
        softkvm_kernel: found.soft.kernel,
        soft_host_boots: found.boot.map(|result| result.is_ok()),
        guest_built: found.guest_built,
        guest_suite: found.guest_suite,
        memory_available: found.soft.available_memory,
        cache: found.cache,
        cache_available: found.cache_available,
        engine,
        reason,
        problems,
        install: install.into_iter().collect(),
        measured: None,
    }
}

/// A problem with a place in the cache that this user may not write to, as root has made it, say.
fn not_writable(path: &Path, cache: &Path) -> String {
    let owner = std::fs::metadata(path).map_or(0, |there| there.uid());
    let user = rustix::process::geteuid().as_raw();
    let (place, user) = match path.starts_with(cache) {
        true => (cache, user),
        // Not this user's at all.
        false => {
            return format!(
            "runs write to {}, which is in a folder of user {owner}, {}; set XDG_CACHE_HOME to a \
                 folder of yours",
            cache.display(),
            path.display()
        )
        }
    };
    format!(
        "runs write to {}, which is of user {owner}, not of yours ({user}): sudo chown -R {user} {}",
        path.display(),
        place.display()
    )
}

impl Report {
    fn text(&self) -> String {
        let size = |bytes: Option<u64>| match bytes {
            Some(bytes) => format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64),
            None => "unknown".into(),
        };
        let or = |text: &Option<String>, other: &str| text.clone().unwrap_or_else(|| other.into());
        let guest = match self.guest_built {
            true => format!("ready (Debian {})", self.guest_suite),
            false => format!(
                "not built (Debian {}): the first run does it, or `stasis guest build`",
                self.guest_suite
            ),
        };
        let rows = [
            ("KVM", self.kvm.clone()),
            ("QEMU", or(&self.qemu, "not installed")),
            (
                "software host",
                match self.soft_host_boots {
                    Some(true) => "boots".into(),
                    Some(false) => "does not boot".into(),
                    None => "not tried".into(),
                },
            ),
            (
                "softkvm",
                match &self.softkvm_kernel {
                    Some(release) => format!("kernel {release}"),
                    None => {
                        "no kernel yet: the first run with --engine softkvm downloads one".into()
                    }
                },
            ),
            ("guest", guest),
            ("memory", format!("{} available", size(self.memory_available))),
            ("cache", format!("{}, {} free", self.cache.display(), size(self.cache_available))),
            ("engine", format!("auto is {}: {}", self.engine.unwrap_or("none"), self.reason)),
        ];
        let mut text = String::new();
        // Writing to a String cannot fail.
        for (name, value) in rows {
            let _ = writeln!(text, "{name:<14} {value}");
        }
        for problem in &self.problems {
            let _ = writeln!(text, "{:<14} {problem}", "problem");
        }
        if !self.install.is_empty() {
            let _ = writeln!(
                text,
                "{:<14} sudo apt-get install {}",
                "to install",
                self.install.join(" ")
            );
        }
        if self.problems.is_empty() {
            text.push_str("Experiments can run here.\n");
        }
        if let Some(measured) = &self.measured {
            text.push_str(&measured.text());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Findings {
        Findings {
            kvm: KvmState::NoDevice,
            kvm_check: None,
            soft: Requirements {
                qemu: Some(("/usr/bin/qemu-system-x86_64".into(), "7.2.18".into())),
                kernel: None,
                snapshot: false,
                available_memory: Some(8 << 30),
                install: Vec::new(),
            },
            boot: Some(Ok(())),
            guest_built: false,
            guest_suite: "bookworm".into(),
            guest_tools: Vec::new(),
            obstacle: None,
            cache: "/home/u/.cache/stasis".into(),
            not_writable: None,
            cache_available: Some(20 << 30),
        }
    }

    #[test]
    fn without_kvm_auto_is_exact() {
        let report = examine(found());
        assert_eq!((report.engine, report.problems.len()), (Some("exact"), 0));
        assert!(report.text().contains("auto is exact: there is no /dev/kvm"));
    }

    #[test]
    fn a_software_host_that_does_not_boot_is_a_problem() {
        let mut found = found();
        found.soft.kernel = Some("6.12.1".into());
        found.boot = Some(Err("the software host ended unexpectedly (stopped)".into()));
        let report = examine(found);
        assert_eq!((report.soft_host_boots, report.problems.len()), (Some(false), 1));
        let text = report.text();
        assert!(text.contains("does not boot"), "{text}");
        assert!(text.contains("ended unexpectedly") && !text.contains("can run here"), "{text}");
    }

    #[test]
    fn with_kvm_nothing_else_is_asked_for() {
        let mut found = found();
        found.kvm = KvmState::Usable;
        found.soft.qemu = None;
        found.soft.install = vec!["qemu-system-x86"];
        let report = examine(found);
        assert_eq!((report.engine, report.install.len()), (Some("kvm"), 0));
        assert!(report.problems.is_empty());
    }

    #[test]
    fn kvm_that_failed_its_check_is_not_auto() {
        let mut found = found();
        found.kvm = KvmState::Usable;
        found.kvm_check = Some(Answer { usable: false, text: "clocks went back".into() });
        let report = examine(found);
        assert_eq!(report.engine, Some("exact"));
        assert!(report.text().contains("auto is exact: KVM failed its check: clocks went back"));
    }

    #[test]
    fn what_is_missing_is_a_problem_with_its_package() {
        let mut found = found();
        found.soft.qemu = None;
        found.soft.install = vec!["qemu-system-x86"];
        found.guest_tools = vec![("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs")];
        found.soft.available_memory = Some(1 << 30);
        found.cache_available = Some(1 << 30);
        let report = examine(found);
        assert_eq!((report.engine, report.problems.len()), (None, 4));
        let text = report.text();
        assert!(text.contains("apt-get install e2fsprogs mmdebstrap qemu-system-x86"), "{text}");
        assert!(!text.contains("can run here"));
    }

    #[test]
    fn a_guest_that_cannot_be_built_is_a_problem() {
        let mut found = found();
        found.obstacle = Some("namespaces of users, which are denied here".into());
        let report = examine(found);
        assert_eq!(report.problems.len(), 1);
        let text = report.text();
        assert!(text.contains("namespaces of users") && !text.contains("can run here"), "{text}");
    }

    #[test]
    fn a_cache_of_another_user_is_a_problem_with_its_remedy() {
        let mut found = found();
        found.guest_built = true;
        found.not_writable = Some("/home/u/.cache/stasis/guest".into());
        let text = examine(found).text();
        assert!(text.contains("sudo chown -R ") && !text.contains("can run here"), "{text}");
        let other = not_writable(Path::new("/home"), Path::new("/home/u/.cache/stasis"));
        assert!(other.contains("XDG_CACHE_HOME") && !other.contains("chown"), "{other}");
    }

    #[test]
    fn a_built_guest_needs_no_tools() {
        let mut found = found();
        found.obstacle = Some("namespaces".into());
        found.guest_built = true;
        found.guest_tools = vec![("mmdebstrap", "mmdebstrap")];
        found.cache_available = Some(1 << 20);
        assert!(examine(found).problems.is_empty());
    }
}
