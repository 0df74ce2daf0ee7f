//! A host with KVM where there is none: stock QEMU emulates a processor with AMD-V,
//! and stock Debian on it is the controller of the experiment.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use stasis_guest_image::Guest;
use stasis_qemu_vm::{Accelerator, Backend, Cache, Config, Drive, Job, Piece, Stream, Vm};

use super::measured::Measured;
use super::subject::Subject;

/// Memory of the software host (bytes).
pub const MEMORY: u64 = 3 << 30;
/// Time limit of the whole measurement.
const MAX_TIME: Duration = Duration::from_secs(3600);

/// Measures a subject in a software host with the same system as the guest's.
pub fn measure(
    guest: &Guest,
    quick: bool,
    subject: Subject,
    stop: &Arc<AtomicBool>,
) -> Result<Measured> {
    let folder = tempfile::Builder::new().prefix("stasis-controller-").tempdir_in("/var/tmp");
    let folder = folder.context("cannot make a temporary folder in /var/tmp")?;
    let image = folder.path().join("guest.ext4");
    make_image(guest, folder.path(), &image)?;
    let mut config = Config::new(guest.clone());
    config.accelerator = Accelerator::Emulation;
    config.vcpus = 2;
    config.memory = MEMORY;
    config.kernel_arguments =
        "tsc=reliable nowatchdog rcupdate.rcu_cpu_stall_suppress=1 kvm.halt_poll_ns=0".into();
    // QEMU takes the last of several.
    config.arguments = ["-cpu", "EPYC,+svm,+npt"].map(Into::into).to_vec();
    config.drives = vec![Drive::new(Backend::Raw {
        path: image,
        cache: Cache::Unsafe,
        read_only: true,
        locking: true,
    })];
    config.stop = Arc::clone(stop);
    let mut vm = Vm::start(&config).context("the software host does not start")?;
    let quick = if quick { "--quick" } else { "" };
    let script = format!(
        "set -e\nmount -o ro,noload /dev/vda /opt\nmodprobe kvm-amd\nip link set lo up\n\
         exec /proc/1/exe controller-part measure /opt --subject {} {quick}",
        subject.name()
    );
    let mut job = Job::new(vec!["sh".into(), "-c".into(), script]);
    job.send_results = false;
    job.limit_ms = MAX_TIME.as_millis() as u64;
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let outcome = vm.run(&job, &mut std::io::empty(), &mut |piece| match piece {
        Piece::Output(Stream::Output, bytes) => output.extend_from_slice(bytes),
        Piece::Output(_, bytes) => {
            eprint!("{}", String::from_utf8_lossy(bytes));
            errors.extend_from_slice(bytes);
        }
        Piece::Results(_) => {}
    })?;
    if outcome.status != 0 {
        let errors = String::from_utf8_lossy(&errors).into_owned();
        bail!("the measurement ended with status {}: {} {errors}", outcome.status, outcome.message);
    }
    let text = String::from_utf8_lossy(&output).into_owned();
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    let line = line.context("nothing was measured")?;
    let mut measured: Measured =
        serde_json::from_slice(line.as_bytes()).context("what was measured cannot be read")?;
    measured.emulated = true;
    measured.place = "a software host: QEMU's TCG emulates a processor with AMD-V".into();
    Ok(measured)
}

/// The guest's files as a file system for the software host.
fn make_image(guest: &Guest, folder: &Path, image: &Path) -> Result<()> {
    let tree = folder.join("tree");
    std::fs::create_dir(&tree).context("cannot make a folder")?;
    let mut size = 64 << 20;
    for (from, name) in [
        (&guest.vmlinux, "vmlinux"),
        (&guest.initramfs, "initramfs.cpio"),
        (&guest.root, "root.ext4"),
    ] {
        let length = std::fs::metadata(from)
            .with_context(|| format!("cannot find {}", from.display()))?
            .len();
        size += length + length / 50;
        // A hard link where it is the same file system, else a copy.
        if std::fs::hard_link(from, tree.join(name)).is_err() {
            std::fs::copy(from, tree.join(name))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    let output = Command::new("mke2fs")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"])
        .arg(&tree)
        .arg(image)
        .arg(format!("{}M", size >> 20))
        .output()
        .context("cannot start mke2fs (Debian's package e2fsprogs has it)")?;
    if !output.status.success() {
        bail!("mke2fs failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    std::fs::remove_dir_all(&tree).context("cannot remove a folder")
}
