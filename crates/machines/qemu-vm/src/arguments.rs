//! QEMU's command line for a [`Config`].

use crate::process::with_path;
use crate::{Accelerator, Backend, Cache, Config, Drive};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;

use stasis_guest_root::image_folder;

/// Limit on the memory below the 4 GiB border: q35's own limit, from which on the rest lies above
/// (hw/i386/pc_q35.c). Smaller machines have all of it there.
const MAX_LOW: u64 = 2 << 30;

/// Smallest limit on the processors of an emulated machine. For one processor QEMU's TCG translates
/// locked instructions as plain ones (`tcg_cpu_init_cflags`, accel/tcg/tcg-accel-ops-mttcg.c, up to
/// 10.0 at least), and Linux's full memory barrier is one (`lock addl`): the virtqueue's checks for
/// notifications then race with the thread that does the I/O, and one of some 10,000,000 I/Os waits
/// forever.
const MIN_EMULATED: u32 = 2;

/// The kernel's command line, in every machine.
///
/// - `norandmaps nokaslr`: under emulation code that has moved is translated
///   again, which makes the start of a program six times as slow.
/// - `mitigations=off`, `init_on_alloc=0`, `lsm=none`, `audit=0`: nothing to be
///   protected from in here.
/// - `no_timer_check`: on a busy host an emulated timer can be too late for the
///   kernel's check of it, which then panics.
/// - `panic=-1`: a panic ends QEMU at once (`-no-reboot`).
/// - `rcupdate.rcu_expedited=1 cryptomgr.notests`: a quicker boot.
/// - `STASIS_PORT=1` reaches the agent in its environment.
const APPEND: &str = "console=ttyS0 quiet panic=-1 mitigations=off init_on_alloc=0 lsm=none \
     audit=0 nokaslr norandmaps no_timer_check rcupdate.rcu_expedited=1 cryptomgr.notests STASIS_PORT=1";

/// With all memory below 4 GiB, where every device reaches it: the root above makes the kernel
/// set 64 MiB apart for copies, and a small guest had no room left to unpack the agent.
const NO_BOUNCE_BUFFERS: &str = "swiotlb=noforce ";

/// Descriptors that QEMU inherits, and files that it writes.
pub(crate) struct Ends<'a> {
    pub port: RawFd,
    pub monitor: RawFd,
    pub console: &'a Path,
    /// Kind of file system and NBD server of a root that is read where it lies.
    pub root: Option<(&'static str, RawFd)>,
    /// Memory of a machine that is kept, or restored.
    pub kept: Option<KeptMemory<'a>>,
}

/// The file of a kept machine's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptMemory<'a> {
    pub path: &'a Path,
    /// The machine is restored, and what it changes is its own; otherwise it is to be kept.
    pub restored: bool,
}

/// All arguments. `root` is the size of the root file system's image in bytes.
pub(crate) fn arguments(config: &Config, kvm: bool, root: u64, ends: &Ends<'_>) -> Vec<OsString> {
    let counts = config.accelerator == Accelerator::Instructions;
    let memory = config.memory.next_multiple_of(2 << 20);
    let low = memory.min(MAX_LOW);
    let mut arguments = Vec::new();
    let mut add = |option: &str, value: OsString| {
        arguments.push(OsString::from(option));
        arguments.push(value);
    };
    for option in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        add(option, OsString::new());
    }
    add("-display", "none".into());
    add("-machine", format!("q35,max-ram-below-4g={low}").into());
    if kvm {
        add("-accel", "kvm".into());
        add("-cpu", "host".into());
    } else {
        let threads = if counts { "single" } else { "multi" };
        add("-accel", format!("tcg,thread={threads}").into());
        add("-cpu", "max".into());
    }
    if counts {
        // An idle guest waits for the host's clock: a disk's answer comes at its time.
        add("-icount", "shift=0,align=off,sleep=on".into());
    }
    let most = config.vcpus.max(1) + config.spare_vcpus;
    let most = if kvm { most } else { most.max(MIN_EMULATED) };
    add("-smp", format!("{},maxcpus={most}", config.vcpus).into());
    // The root file system's image is memory of a second node without
    // processors: the host's page cache, shared by all machines, read-only.
    add("-m", format!("{}M", (memory + root) >> 20).into());
    let kind = match (config.huge_pages, config.shared_memory) {
        (true, _) => "memfd,share=on,hugetlb=on,hugetlbsize=2M,prealloc=on",
        (_, true) => "memfd,share=on",
        _ => "ram",
    };
    match ends.kept {
        None => add("-object", format!("memory-backend-{kind},id=ram,size={memory}").into()),
        Some(KeptMemory { path, restored }) => {
            let share = on(!restored);
            let options =
                format!("memory-backend-file,id=ram,size={memory},share={share},mem-path=");
            add("-object", with_path(&options, path));
            if restored {
                add("-incoming", "defer".into());
            }
        }
    }
    // Shared memory is no part of a machine that is kept.
    let share = on(ends.kept.is_some());
    let options =
        format!("memory-backend-file,id=root,readonly=on,share={share},size={root},mem-path=");
    add("-object", with_path(&options, &config.guest.root));
    add("-numa", format!("node,memdev=ram,cpus=0-{}", most - 1).into());
    add("-numa", "node,memdev=root".into());
    // The first 4 GiB but for `low` are devices' and holes.
    let place = (4 << 30) + (memory - low);
    let of_root = match ends.root {
        Some((kind, _)) => format!("STASIS_ROOT={kind} "),
        // A stock machine has the guest of one.
        None if !config.guest.images.is_empty() => format!("STASIS_IMAGE={} ", image_folder(0)),
        None => String::new(),
    };
    let bounce = if memory > low { "" } else { NO_BOUNCE_BUFFERS };
    let append =
        format!("{APPEND} {bounce}memmap={root}!{place} {of_root}{}", config.kernel_arguments);
    add("-append", append.into());
    add("-kernel", config.guest.vmlinux.clone().into());
    add("-initrd", config.guest.initramfs.clone().into());
    add("-chardev", with_path("file,id=console,path=", ends.console));
    add("-serial", "chardev:console".into());
    add("-chardev", format!("socket,id=monitor,fd={}", ends.monitor).into());
    add("-mon", "chardev=monitor,mode=control".into());
    add("-device", "virtio-serial-pci".into());
    add("-chardev", format!("socket,id=port,fd={}", ends.port).into());
    let name = stasis_channel::PORT_NAME;
    add("-device", format!("virtserialport,chardev=port,name={name}").into());
    for controller in &config.controllers {
        add("-device", controller.into());
    }
    for (index, drive) in config.drives.iter().enumerate() {
        self::drive(index, drive, &mut add);
    }
    arguments.retain(|argument| !argument.is_empty());
    arguments.extend(config.arguments.iter().cloned());
    if let Some((_, server)) = ends.root {
        // Behind all drives, whose names must not depend on it.
        let serial = stasis_channel::ROOT_SERIAL;
        for argument in [
            "-blockdev".into(),
            format!("driver=nbd,node-name=root,read-only=on,server.type=fd,server.str={server}"),
            "-device".into(),
            format!("virtio-blk-pci,drive=root,serial={serial}"),
        ] {
            arguments.push(argument.into());
        }
    }
    arguments
}

fn drive(index: usize, drive: &Drive, add: &mut impl FnMut(&str, OsString)) {
    let node = format!("drive{index}");
    let mut device = drive.device.as_deref().unwrap_or("virtio-blk-pci").to_owned();
    match &drive.backend {
        Backend::Raw { path, cache, read_only, locking } => {
            let kind = file_kind(path);
            let read_only = on(*read_only);
            let lock = if *locking { "auto" } else { "off" };
            let options = format!(
                "driver=raw,node-name={node},read-only={read_only},{},discard=unmap,file.driver={kind},\
                 file.locking={lock},file.filename=",
                cached(*cache)
            );
            add("-blockdev", with_path(&options, path));
        }
        Backend::Qcow2 { path, cache } => {
            let kind = file_kind(path);
            let cached = cached(*cache);
            let options = format!(
                "driver=qcow2,node-name={node},{cached},discard=unmap,file.driver={kind},file.filename="
            );
            add("-blockdev", with_path(&options, path));
        }
        Backend::VhostUser { socket } => {
            if drive.device.is_none() {
                device = "vhost-user-blk-pci".into();
            }
            add("-chardev", with_path(&format!("socket,id={node},path="), socket));
        }
        Backend::Other(text) => add("-blockdev", format!("{text},node-name={node}").into()),
    }
    let source = if device.starts_with("vhost-user") { "chardev" } else { "drive" };
    let mut text = format!("{device},{source}={node}");
    // A namespace has its controller's.
    if source == "drive" && device != "nvme-ns" {
        let own = format!("stasis-{index}");
        let serial = drive.serial.as_ref().unwrap_or(&own).replace(',', ",,");
        text += &format!(",serial={serial}");
    }
    if drive.own_thread {
        add("-object", format!("iothread,id=thread{index}").into());
        text += &format!(",iothread=thread{index}");
    }
    if !drive.options.is_empty() {
        text += &format!(",{}", drive.options);
    }
    add("-device", text.into());
}

/// QEMU's driver for the file.
fn file_kind(path: &Path) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let device = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_block_device());
    if device {
        "host_device"
    } else {
        "file"
    }
}

fn cached(cache: Cache) -> String {
    let (direct, lazy) = match cache {
        Cache::Writeback => (false, false),
        Cache::None => (true, false),
        Cache::Unsafe => (false, true),
    };
    format!("cache.direct={},cache.no-flush={}", on(direct), on(lazy))
}

fn on(value: bool) -> &'static str {
    if value {
        "on"
    } else {
        "off"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_guest_image::Guest;

    fn text(config: &Config) -> String {
        let root = config.guest.in_place.is_some().then_some(("xfs", 9));
        let console = Path::new("/tmp/a,b");
        let ends = Ends { port: 7, monitor: 8, console, root, kept: None };
        let all = arguments(config, false, 300 << 20, &ends);
        all.join(&OsString::from(" ")).into_string().unwrap()
    }

    fn config() -> Config {
        Config::new(Guest {
            vmlinux: "/g/vmlinux".into(),
            initramfs: "/g/initramfs".into(),
            root: "/g/root".into(),
            ..Guest::default()
        })
    }

    #[test]
    fn the_root_lies_behind_the_memory() {
        let mut config = config();
        assert!(text(&config).contains("memmap=314572800!4294967296 "));
        assert!(text(&config).contains("max-ram-below-4g=536870912 "));
        config.memory = 5 << 30;
        assert!(text(&config).contains("max-ram-below-4g=2147483648 "));
        assert!(text(&config).contains(&format!("memmap=314572800!{} ", 7u64 << 30)));
        assert!(text(&config).contains("-m 5420M "));
    }

    #[test]
    fn a_root_that_is_read_where_it_lies_is_behind_all_drives() {
        let mut config = config();
        assert!(!text(&config).contains("STASIS_ROOT"));
        config.guest.in_place = Some(stasis_guest_image::InPlace::Files);
        config.arguments = vec!["-device".into(), "virtio-blk-pci,drive=more".into()];
        let text = text(&config);
        assert!(text.contains(" STASIS_ROOT=xfs "), "{text}");
        let last =
            "-device virtio-blk-pci,drive=more -blockdev driver=nbd,node-name=root,read-only=on,\
            server.type=fd,server.str=9 -device virtio-blk-pci,drive=root,serial=stasis-root";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn there_may_be_room_for_more_processors() {
        let mut config = config();
        assert!(text(&config).contains("-smp 1,maxcpus=2 "), "locked instructions are atomic");
        config.spare_vcpus = 2;
        assert!(text(&config).contains("-smp 1,maxcpus=3 "));
        assert!(text(&config).contains("memdev=ram,cpus=0-2 "));
    }

    #[test]
    fn instructions_can_be_the_clock() {
        let mut config = config();
        assert!(
            text(&config).contains("-accel tcg,thread=multi ") && !text(&config).contains("icount")
        );
        config.accelerator = Accelerator::Instructions;
        assert!(text(&config).contains("-accel tcg,thread=single "));
        assert!(text(&config).contains("-icount shift=0,align=off,sleep=on "));
    }

    #[test]
    fn memory_can_be_of_huge_pages() {
        let mut config = config();
        assert!(text(&config).contains("memory-backend-ram,id=ram"));
        config.huge_pages = true;
        assert!(text(&config).contains("memory-backend-memfd,share=on,hugetlb=on,hugetlbsize=2M"));
    }

    #[test]
    fn drives_have_their_backends_and_devices() {
        let mut config = config();
        config.drives = vec![
            Drive::raw("/d,1", Cache::Unsafe),
            Drive::new(Backend::VhostUser { socket: "/s".into() }),
            Drive {
                own_thread: true,
                options: "num-queues=2".into(),
                device: Some("nvme".into()),
                ..Drive::new(Backend::Other("driver=null-co,size=1M".into()))
            },
        ];
        let text = text(&config);
        for part in [
            "cache.direct=off,cache.no-flush=on,discard=unmap,file.driver=file,file.locking=auto,file.filename=/d,,1",
            "-device virtio-blk-pci,drive=drive0,serial=stasis-0",
            "-chardev socket,id=drive1,path=/s -device vhost-user-blk-pci,chardev=drive1",
            "-blockdev driver=null-co,size=1M,node-name=drive2",
            "nvme,drive=drive2,serial=stasis-2,iothread=thread2,num-queues=2",
            "file,id=console,path=/tmp/a,,b",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
