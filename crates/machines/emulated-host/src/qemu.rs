//! QEMU as a child: its command line, its start, its end.

use crate::fd::{free, narrow};
use crate::{Error, Host, Input, Kernel, Mode};
use stasis_qemu_vm::fd::pipe;
use stasis_qemu_vm::process::{with_path, Process, QEMU};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// The software host's kernel command line.
///
/// - `quiet`: each console byte is an exit of the emulated processor.
/// - `panic=-1`: a panic resets the machine at once, which ends QEMU.
/// - `mitigations=off`, `init_on_alloc=0`, `lsm=none`, `audit=0`,
///   `cgroup_disable=memory`: nothing to be protected from in here, and every
///   instruction is paid for.
/// - `tsc=reliable tsc_early_khz=1000000`: KVM rewrites its guests' TSC offsets
///   on each load where it finds the host's TSC unstable; and QEMU's TSC ticks
///   at 1 GHz (`cpu_get_tsc`, target/i386), which need not be measured.
/// - `nokaslr norandmaps`: each boot the same.
/// - `rcupdate.rcu_expedited=1 cryptomgr.notests`: a quicker boot.
/// - `nowatchdog`: no watchdog timer.
/// - `pci=off`: microvm has none.
/// - `kvm.*`: no work that a deterministic guest does not need: halt polling
///   burns instructions, huge page recovery wakes a thread.
/// - `STASIS_SOFTKVM=1` reaches `/init` in its environment.
const APPEND: &str = "console=ttyS0 quiet panic=-1 mitigations=off init_on_alloc=0 lsm=none audit=0 \
     cgroup_disable=memory tsc=reliable tsc_early_khz=1000000 nokaslr norandmaps no_timer_check \
     rcupdate.rcu_expedited=1 rcupdate.rcu_cpu_stall_suppress=1 cryptomgr.notests nowatchdog pci=off \
     transparent_hugepage=always kvm.halt_poll_ns=0 kvm.nx_huge_pages=0 rdinit=/init STASIS_SOFTKVM=1";

/// `maxcpus=1`: `/init` starts the second processor (`inside/processors.rs`); `noreplace-smp`: the code is
/// that for several from the beginning.
const ONE_FIRST: &str = " maxcpus=1 noreplace-smp";

/// The command line of a kernel of this release. Linux 6.12 divides by zero where a processor is started
/// late (`dl_server_apply_params`, seen with 6.12.117).
fn append(release: &str) -> String {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let is_older = (numbers.next(), numbers.next()) < (Some(6), Some(12));
    format!("{APPEND}{}", if is_older { ONE_FIRST } else { "" })
}

/// Port at which the event stream leaves: QEMU's debug console, at its usual port.
pub(crate) const EVENTS_PORT: u16 = 0xe9;
/// Port of a handshake: a second one beside it.
pub(crate) const HANDSHAKE_PORT: u16 = 0xea;
/// A write ends QEMU (hw/misc/debugexit.c), at its usual port.
pub(crate) const EXIT_PORT: u16 = 0x501;
/// The value that the inner side writes there, and the exit status that QEMU makes of it.
pub(crate) const EXIT_VALUE: u8 = 0x20;
const ENDED: i32 = (EXIT_VALUE as i32) << 1 | 1;
/// A write of 1 pauses the machine at that instruction
/// (docs/specs/pvpanic.rst), at its usual port.
pub(crate) const PAUSE_PORT: u16 = 0x505;

/// The purpose of a start.
pub(crate) enum Purpose<'a> {
    /// Boot this kernel with this initramfs, sharing memory with the file
    /// `ram`, until the machine pauses itself.
    Build { kernel: &'a Kernel, initramfs: &'a Path },
    /// Run this image (`stasis_bare`) at once, with the firmware beside it. With
    /// `save`: share memory with the file `ram` until the machine pauses itself, with
    /// nothing yet of what belongs to the run.
    Exact { job: &'a JobFiles, image: &'a Path, save: bool },
    /// Wait for a saved state, with a private copy of the file `ram`; with `shares`: with that file
    /// itself. `resume`: the snapshot from which the machine continues (ns), if it is one.
    Restore { job: &'a JobFiles, shares: bool, resume: Option<u64> },
    /// Run the image as far as the first part of the job, whose file it is: share memory with the file `ram`
    /// until the machine pauses itself.
    First { first: &'a Path, image: &'a Path },
    /// Wait for the state saved there, and do the job. With `save`: share memory with the file `ram` until
    /// the machine pauses itself, with nothing yet of what belongs to the run; else with a private copy.
    AfterFirst { job: &'a JobFiles, save: bool },
}

impl Purpose<'_> {
    /// Returns whether the machine is made to be saved, so that its memory is shared with the file.
    fn saves(&self) -> bool {
        matches!(
            self,
            Self::Build { .. }
                | Self::Exact { save: true, .. }
                | Self::Restore { shares: true, .. }
                | Self::First { .. }
                | Self::AfterFirst { save: true, .. }
        )
    }
}

/// The files of a [`crate::Job`].
pub(crate) struct JobFiles {
    pub machine: PathBuf,
    pub later: PathBuf,
    pub first: PathBuf,
}

/// The arguments that make the machine: those that a saved state depends on.
pub(crate) fn machine(host: &Host) -> Vec<OsString> {
    let timing: &[&str] = match host.mode {
        // `sleep=off`: idle time is skipped instead of waited for.
        Mode::Exact => {
            &["-accel", "tcg,thread=single", "-smp", "1", "-icount", "shift=0,sleep=off"]
        }
        Mode::Fast => &["-accel", "tcg,thread=multi", "-smp", "2"],
    };
    let exact = host.mode == Mode::Exact;
    let common = [
        "-machine",
        if exact {
            "microvm,memory-backend=ram,ioapic2=off,pic=off,pit=off,rtc=off"
        } else {
            // With a second I/O APIC, interrupts of the first virtio-mmio slots
            // are lost (QEMU 7.2 with Linux 6.1).
            "microvm,memory-backend=ram,ioapic2=off"
        },
        // The machine's other firmware, SeaBIOS, drives virtio disks from memory at the top, where
        // the initramfs lies as well: from QEMU 10 on a machine of 2 GiB resets before its kernel
        // has begun. This one has no disk drivers.
        "-bios",
        if exact { "firmware" } else { "qboot.rom" },
        // RDRAND and RDSEED would be the one source of chance. QEMU 7.2 does not intercept XSETBV:
        // KVM would not learn that a guest switched AVX on, report a wrong size of its state, and
        // take AVX away at the next exit.
        "-cpu",
        "EPYC,+svm,+npt,-rdrand,-rdseed,-erms,-xsave,-avx,-avx2,-fma,-f16c",
        "-seed",
        "1",
        "-rtc",
        "base=2026-01-01,clock=vm",
        "-nodefaults",
        "-nographic",
        "-no-reboot",
        "-no-user-config",
        "-action",
        "panic=pause",
        "-device",
        "pvpanic,ioport=0x505",
        "-device",
        "isa-debug-exit,iobase=0x501,iosize=1",
        "-device",
        "isa-debugcon,iobase=0xe9,chardev=events",
        "-device",
        "isa-debugcon,iobase=0xea,chardev=handshake",
        "-serial",
        "chardev:log",
        "-device",
        "isa-serial,index=1,chardev=stop",
    ];
    let mut arguments: Vec<OsString> = timing.iter().chain(&common).map(OsString::from).collect();
    arguments.push("-m".into());
    arguments.push(format!("{}M", host.megabytes()).into());
    // All slots always, so that one saved machine serves any number of drives.
    for index in 0..Host::DRIVES {
        arguments.push("-device".into());
        let device = format!(
            "virtio-blk-device,bus=virtio-mmio-bus.{index},drive=drive{index},serial=stasis-{index}"
        );
        arguments.push(device.into());
    }
    arguments
}

/// All arguments but those of [`machine`].
fn start(host: &Host, purpose: &Purpose, log: &Path, fds: [RawFd; 4]) -> Vec<OsString> {
    let [events, stop, qmp, handshake] = fds;
    let mut arguments = Vec::new();
    if matches!(purpose, Purpose::Exact { .. } | Purpose::First { .. }) {
        // Paused until `Machine::go`.
        arguments.push("-S".into());
    }
    let mut add = |option: &str, value: OsString| {
        arguments.push(OsString::from(option));
        arguments.push(value);
    };
    let exact = host.mode == Mode::Exact;
    let backend = match purpose {
        Purpose::Exact { save: false, .. } => "memory-backend-ram,id=ram",
        _ => "memory-backend-file,id=ram,mem-path=ram",
    };
    let share = if purpose.saves() { "on" } else { "off" };
    let size = host.megabytes();
    // `reserve=off`: most of it is never touched.
    add("-object", format!("{backend},size={size}M,share={share},reserve=off").into());
    add("-chardev", format!("file,id=events,path=/proc/self/fd/{events}").into());
    add("-chardev", with_path("file,id=log,append=on,path=", log));
    add("-chardev", format!("socket,id=stop,fd={stop}").into());
    add("-chardev", format!("socket,id=qmp,fd={qmp}").into());
    add("-chardev", format!("socket,id=handshake,fd={handshake}").into());
    add("-mon", "chardev=qmp,mode=control".into());
    // Slots without a drive; where the machine is made before its drives are known, all of them.
    let has_none = matches!(purpose, Purpose::Build { .. } | Purpose::First { .. });
    for index in if has_none { 0 } else { host.drives.len() }..Host::DRIVES {
        add("-drive", format!("if=none,id=drive{index},driver=null-co,size=1M").into());
    }
    match purpose {
        Purpose::Build { kernel, initramfs } => {
            add("-kernel", kernel.image.clone().into());
            add("-initrd", initramfs.into());
            add("-append", append(&kernel.release).into());
        }
        Purpose::Exact { job, image, save } => {
            program(image, &mut add);
            item(crate::items::JOB_ITEM, &job.machine, &mut add);
            early(host, &mut add);
            match save {
                true => to_be_saved(&mut add),
                false => late(host, job, &mut add),
            }
        }
        Purpose::First { first, image } => {
            program(image, &mut add);
            item(crate::items::FIRST_ITEM, first, &mut add);
            inputs(host, |_| true, &mut add);
        }
        Purpose::AfterFirst { job, save } => {
            add("-incoming", "defer".into());
            add("-global", MODERN.into());
            item(crate::items::JOB_ITEM, &job.machine, &mut add);
            inputs(host, |file| !file.first_only, &mut add);
            counted_drives(host, &mut add);
            match save {
                true => to_be_saved(&mut add),
                false => late(host, job, &mut add),
            }
        }
        Purpose::Restore { job, resume, .. } => {
            add("-incoming", "defer".into());
            if let Some(at) = resume {
                let item = crate::items::RESUME_ITEM;
                add("-fw_cfg", format!("name={item},string={at}").into());
            }
            if exact {
                add("-global", MODERN.into());
                drives(host, &mut add);
            } else {
                item(crate::items::JOB_ITEM, &job.machine, &mut add);
                early(host, &mut add);
            }
            late(host, job, &mut add);
        }
    }
    arguments
}

fn item(name: &str, path: &Path, add: &mut impl FnMut(&str, OsString)) {
    add("-fw_cfg", with_path(&format!("name={name},file="), &absolute(path)));
}

fn input(input: &Input, add: &mut impl FnMut(&str, OsString)) {
    item(&format!("{}{}", crate::items::INPUT_PREFIX, input.name), &input.path, add);
}

/// Adds the items that are looked up later only: the part of the run that is not its machine.
fn late(host: &Host, job: &JobFiles, add: &mut impl FnMut(&str, OsString)) {
    item(crate::items::LATER_ITEM, &job.later, add);
    host.inputs.iter().filter(|file| file.late).for_each(|file| input(file, add));
}

/// The modern interface of the drives (VIRTIO 1.2, 4.2.2).
const MODERN: &str = "virtio-mmio.force-legacy=off";

/// Adds the program on the bare machine.
fn program(image: &Path, add: &mut impl FnMut(&str, OsString)) {
    add("-global", MODERN.into());
    let mut loader = with_path("loader,file=", image);
    loader.push(format!(",addr={:#x},force-raw=on", stasis_bare::IMAGE));
    add("-device", loader);
}

/// Has the machine pause where it would look for what belongs to the run.
fn to_be_saved(add: &mut impl FnMut(&str, OsString)) {
    add("-fw_cfg", format!("name={},string=1", crate::items::SAVE_ITEM).into());
}

/// Adds the inputs of the machine, and its drives.
fn early(host: &Host, add: &mut impl FnMut(&str, OsString)) {
    inputs(host, |_| true, add);
    counted_drives(host, add);
}

/// Adds the inputs of the machine that are `wanted`.
fn inputs(host: &Host, wanted: impl Fn(&Input) -> bool, add: &mut impl FnMut(&str, OsString)) {
    host.inputs.iter().filter(|file| !file.late && wanted(file)).for_each(|file| input(file, add));
}

/// Adds the drives, and their number.
fn counted_drives(host: &Host, add: &mut impl FnMut(&str, OsString)) {
    drives(host, add);
    let count = host.drives.len();
    add("-fw_cfg", format!("name={},string={count}", crate::items::DRIVES_ITEM).into());
}

/// Adds the files and devices of the drives.
fn drives(host: &Host, add: &mut impl FnMut(&str, OsString)) {
    for (index, drive) in host.drives.iter().enumerate() {
        let read_only = if drive.read_only { "on" } else { "off" };
        // Without room QEMU would stop, and wait for a command to continue.
        let options = format!(
            "if=none,id=drive{index},format=raw,cache=writeback,discard=unmap,\
             werror=report,rerror=report,read-only={read_only},file="
        );
        add("-drive", with_path(&options, &absolute(&drive.path)));
    }
}

/// QEMU runs in another folder than the program.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A running QEMU; dropping it kills it.
pub(crate) struct Qemu {
    process: Process,
    /// The inner side's event stream.
    pub events: File,
    /// A byte written here asks the inner side to stop.
    pub stop: UnixStream,
    /// Read to end a handshake; see `packet.rs`.
    pub handshake: UnixStream,
    /// The folder of its memory.
    folder: PathBuf,
}

impl Qemu {
    /// Starts QEMU in `folder`, which holds the file `ram`.
    pub(crate) fn start(
        host: &Host,
        purpose: &Purpose,
        folder: &Path,
        log_path: &Path,
    ) -> Result<(Self, UnixStream), Error> {
        let (events, events_end) = pipe().map_err(Error::system("make a pipe"))?;
        let (stop, stop_end) = UnixStream::pair().map_err(Error::system("make a socket"))?;
        let (qmp, qmp_end) = UnixStream::pair().map_err(Error::system("make a socket"))?;
        let (handshake, handshake_end) = narrow().map_err(Error::system("make a socket"))?;
        let ends: [OwnedFd; 4] =
            [events_end, stop_end.into(), qmp_end.into(), handshake_end.into()];
        let fds = [0, 1, 2, 3].map(|index: usize| ends[index].as_raw_fd());
        let mut command = Command::new(QEMU);
        command
            .args(machine(host))
            .args(start(host, purpose, &absolute(log_path), fds))
            .current_dir(folder);
        let inherited = [0, 1, 2, 3].map(|index: usize| ends[index].as_fd());
        let process =
            Process::start(command, &inherited, log_path).map_err(|source| {
                match source.kind() {
                    std::io::ErrorKind::NotFound => Error::QemuMissing,
                    _ => Error::System { action: "start qemu-system-x86_64", source },
                }
            })?;
        let folder = folder.to_owned();
        Ok((Self { process, events: events.into(), stop, handshake, folder }, qmp))
    }

    /// Takes the process's end, after its descriptors have closed.
    pub(crate) fn died(&mut self) -> Error {
        let mut status = self.process.wait().map_or_else(|error| error.to_string(), describe);
        if status.ends_with(BUS) {
            // mmap(2): a page of a mapped file that the disk did not take or give.
            status += &format!(
                ", as there was no room for its memory or an error of the disk: {} has {} MiB free",
                self.folder.display(),
                free(&self.folder).unwrap_or_default() >> 20
            );
        }
        Error::Died { status, detail: self.detail() }
    }

    /// QEMU's memory (proc(5), /proc/pid/mem): a parent may read and write its child's.
    pub(crate) fn memory(&self) -> std::io::Result<File> {
        File::options().read(true).write(true).open(format!("/proc/{}/mem", self.process.id()))
    }

    /// The end of the log, for a message.
    pub(crate) fn detail(&mut self) -> String {
        self.process.detail()
    }
}

/// End of the description of a QEMU that SIGBUS has killed.
const BUS: &str = "signal 7";

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => "its kernel stopped the machine".into(),
        // The value that the inner side writes to the exit port, doubled,
        // plus 1 (hw/misc/debugexit.c).
        (Some(ENDED), _) => "the job ended without an outcome".into(),
        (Some(code), _) => format!("QEMU's status {code}"),
        (_, Some(signal)) => format!("QEMU was killed by signal {signal}"),
        _ => "no status".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/host.rs` boots the machine in the QEMU that is installed.
    #[test]
    fn the_firmware_knows_no_disks() {
        let arguments = machine(&crate::host::tests::host(0));
        assert!(arguments.windows(2).any(|pair| pair == ["-bios", "qboot.rom"]), "{arguments:?}");
    }

    #[test]
    fn kernels_that_can_begin_with_one_processor() {
        for (release, is_one) in [
            ("6.1.0-56-cloud-amd64", true),
            ("5.10.0-30-cloud-amd64", true),
            ("6.12.117+deb13-cloud-amd64", false),
            ("7.3.4+deb13-cloud-amd64", false),
            ("10.0.1", false),
        ] {
            assert_eq!(append(release).contains("maxcpus=1"), is_one, "{release}");
        }
    }
}
