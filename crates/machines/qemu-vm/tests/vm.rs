//! The guest under stock QEMU. Needs QEMU, and a guest, which is built where it is
//! not yet there: `cargo test -p stasis-qemu-vm --test vm -- --ignored`.
//! `STASIS_TEST_CACHE` chooses another cache for the guest.

use stasis_guest_image::{build, default_cache, Guest, Recipe};
use stasis_qemu_vm::{
    Cache, Checker, Config, Device, Disks, Drive, Error, Job, Piece, Stream, Task, Vm,
};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The guest with this source's agent.
fn guest() -> Guest {
    guest_of(&Recipe::default())
}

fn guest_of(recipe: &Recipe) -> Guest {
    let mut command = Command::new(env!("CARGO"));
    // The whole workspace's features: with others the dependencies would be compiled again.
    command.args(["build", "--locked", "--workspace", "--example", "init"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success());
    // Beside this test's own: TARGET/PROFILE/deps/vm-HASH.
    let this = std::env::current_exe().unwrap();
    let agent = this.ancestors().nth(2).unwrap().join("examples/init");
    let cache = std::env::var_os("STASIS_TEST_CACHE").map(PathBuf::from);
    let cache = cache.or_else(default_cache).unwrap();
    build(recipe, &agent, &cache, &std::sync::atomic::AtomicBool::new(false), &mut |p| {
        eprintln!("{p:?}")
    })
    .unwrap()
}

fn job(script: &str) -> Job {
    Job::new(vec!["sh".into(), "-c".into(), script.into()])
}

fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, content).unwrap();
    archive.into_inner().unwrap()
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_guest_runs_command_after_command() {
    let mut disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(1 << 20).unwrap();
    disk.write_all(b"first").unwrap();
    let mut config = Config::new(guest());
    config.drives = vec![Drive::raw(disk.path(), Cache::Writeback)];
    let mut vm = Vm::start(&config).unwrap();
    let process = PathBuf::from(format!("/proc/{}", vm.process_id()));

    let (outcome, output) = vm.shell("head -c 5 /dev/vda; echo trouble >&2; exit 3").unwrap();
    assert_eq!((outcome.status, outcome.message.as_str()), (3, ""));
    assert_eq!(String::from_utf8_lossy(&output), "firsttrouble\n");

    // Input, environment and results; the drive's file changes between commands.
    disk.as_file().write_all_at(b"other", 0).unwrap();
    let mut more = job("head -c 5 /dev/vda; echo; cat /etc/given; echo $KEY >/results/key");
    more.environment.insert("KEY".into(), "value".into());
    more.has_input = true;
    let input = archive("etc/given", &[b'x'; 100_000]);
    let (mut output, mut results) = (Vec::new(), Vec::new());
    let outcome = vm
        .run(&more, &mut &input[..], &mut |piece| match piece {
            Piece::Output(Stream::Output, bytes) => output.extend_from_slice(bytes),
            Piece::Output(Stream::Error, bytes) => panic!("{}", String::from_utf8_lossy(bytes)),
            Piece::Results(bytes) => results.extend_from_slice(bytes),
        })
        .unwrap();
    assert_eq!((outcome.status, outcome.message.as_str()), (0, ""));
    assert_eq!(&output[..6], b"other\n");
    assert_eq!(output.len(), 100_006);
    let mut archive = tar::Archive::new(&results[..]);
    let entry = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!((entry.path().unwrap().to_str(), entry.size()), (Some("key"), 6));

    // A time limit, a command that cannot start, and processes and mounts that are left.
    let mut endless = job("echo begun; sleep 1000");
    endless.limit_ms = 300;
    let mut output = Vec::new();
    let outcome = vm.run(&endless, &mut std::io::empty(), &mut |piece| {
        if let Piece::Output(_, bytes) = piece {
            output.extend_from_slice(bytes);
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.status, output.as_slice()), (124, &b"begun\n"[..]));
    assert!(outcome.message.contains("longer than 300 ms"), "{}", outcome.message);
    let missing = Job::new(vec!["no-such-program".into()]);
    let outcome = vm.run(&missing, &mut std::io::empty(), &mut |_| {}).unwrap();
    assert_eq!(outcome.status, 127);
    assert!(outcome.message.contains("command not found"), "{}", outcome.message);
    let script =
        "mke2fs -q /dev/vda && mount /dev/vda /mnt && touch /mnt/here; cd /mnt; sleep 999 &";
    assert_eq!(vm.shell(script).unwrap().0.status, 0);
    let (outcome, output) =
        vm.shell("pgrep -x sleep; findmnt /mnt; debugfs -R ls /dev/vda").unwrap();
    let output = String::from_utf8_lossy(&output).into_owned();
    assert!(outcome.status == 0 && output.contains("here"), "{output}");
    assert!(
        !output.contains("/dev/vda /mnt") && !output.starts_with(|c: char| c.is_ascii_digit()),
        "{output}"
    );

    vm.stop().unwrap();
    assert!(!process.exists());
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn what_goes_wrong_is_told() {
    let mut config = Config::new(guest());
    config.drives = vec![Drive::raw("/no/such/file", Cache::Writeback)];
    let error = Vm::start(&config).unwrap_err().to_string();
    assert!(error.contains("/no/such/file"), "{error}");

    config.drives.clear();
    let mut other = config.clone();
    other.kernel_arguments = "rdinit=/none root=/dev/nothing".into();
    let error = Vm::start(&other).unwrap_err().to_string();
    assert!(error.contains("panic"), "{error}");

    other.kernel_arguments.clear();
    other.boot_limit = Duration::from_millis(300);
    assert!(matches!(Vm::start(&other), Err(Error::Boot { .. })));

    let mut vm = Vm::start(&config).unwrap();
    let error = vm.shell("echo c >/proc/sysrq-trigger").unwrap_err().to_string();
    assert!(error.contains("sysrq triggered crash"), "{error}");
    let mut vm = Vm::start(&config).unwrap();
    let stop = config.stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(vm.shell("sleep 1000"), Err(Error::Stopped)));
}

/// A disk by its contents.
struct Contents(Vec<u8>);

impl Disks for Contents {
    fn devices(&self) -> Vec<Device> {
        vec![Device::virtio(0, self.0.len() as u64)]
    }

    fn read(&mut self, _: usize, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        into.copy_from_slice(&self.0[offset as usize..offset as usize + into.len()]);
        Ok(())
    }
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn states_are_checked_one_after_the_other() {
    // The check changes its disk, as a journal's replay does, and must not see that
    // or anything else of an earlier state.
    let script = "read -r line </dev/vda; echo \"$line\" $(cat /run/given) $WHICH
        printf 'changed\\n' >/dev/vda; sync
        case $line in
            crash*) echo c >/proc/sysrq-trigger;;
            hang*) sleep 1000;;
            stay*) mke2fs -qF /dev/vda; mount /dev/vda /mnt; exec >&- 2>&-; exit 9;;
            hold*) mkswap /dev/vda >/dev/null; swapon /dev/vda;;
        esac";
    let task = Task {
        command: vec!["sh".into(), "-c".into(), script.into()],
        limit: Duration::from_secs(2),
        files: Default::default(),
    };
    let mut checker = Checker::new(Config::new(guest()), task);
    for (index, (line, status, starts)) in [
        ("one", Some(0), 1),
        ("two", Some(0), 1),
        ("stay", Some(9), 1),
        ("one", Some(0), 1),
        ("hang", Some(124), 1),
        // Left of its machine: nothing. It is started again, and for the crash twice.
        ("two", Some(0), 2),
        ("crash", None, 3),
        ("one", Some(0), 4),
        // Something that the kernel keeps of a disk ends the machine as well.
        ("hold", Some(0), 4),
        ("one", Some(0), 5),
    ]
    .into_iter()
    .enumerate()
    {
        let mut disk = Contents(format!("{line}\n").into_bytes());
        disk.0.resize(1 << 20, 0);
        let files = [("run/given", format!("file {index}").into_bytes())];
        let files = files.each_ref().map(|(path, content)| (*path, content.as_slice()));
        let finding = checker.check(&mut disk, &files, &[("WHICH", index.to_string())]).unwrap();
        assert_eq!((finding.status, checker.starts()), (status, starts), "{line}: {finding:?}");
        if status.is_some() {
            let expected = format!("{line} file {index} {index}\n");
            assert!(finding.output.starts_with(&expected), "{finding:?}");
        }
    }
    assert_eq!(checker.boots(), if kvm_is_missing() { 1 } else { checker.starts() });
}

/// Returns whether guests are emulated here.
fn kvm_is_missing() -> bool {
    stasis_qemu_vm::probe::probe() != stasis_qemu_vm::probe::KvmState::Usable
}

/// A disk of an NVMe controller or a virtio drive, whose first byte the check prints and changes.
struct OneByte {
    nvme: bool,
    byte: u8,
}

impl Disks for OneByte {
    fn devices(&self) -> Vec<Device> {
        let mut device = Device::virtio(0, 1 << 20);
        if self.nvme {
            device.nvme = true;
            device.disks[0].name = "nvme0n1".into();
        }
        vec![device]
    }

    fn read(&mut self, _: usize, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        into.fill(0);
        if offset == 0 {
            into[0] = self.byte;
        }
        Ok(())
    }
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_fresh_machine_has_seen_nothing_though_its_boot_is_kept() {
    // No check finds changes of an earlier one to the guest, its file system or its kernel.
    let script = "head -c 1 /dev/$DISK; ls /run/left 2>/dev/null; cat /proc/sys/kernel/hostname
        cut -d. -f1 /proc/uptime >/run/left; echo left >/proc/sys/kernel/hostname
        printf x >/dev/$DISK; sync";
    let task = Task {
        command: vec!["sh".into(), "-c".into(), script.into()],
        limit: Duration::from_secs(9),
        files: Default::default(),
    };
    for (nvme, disk) in [(false, "vda"), (true, "nvme0n1")] {
        let first = Checker::new(Config::new(guest()), task.clone());
        let mut outputs = Vec::new();
        for byte in b"abc" {
            let mut checker = first.another();
            let mut disks = OneByte { nvme, byte: *byte };
            let found = checker.check(&mut disks, &[], &[("DISK", disk.into())]).unwrap();
            assert_eq!(found.status, Some(0), "{found:?}");
            let rest = found.output.strip_prefix(char::from(*byte)).unwrap_or_default();
            outputs.push(rest.to_owned());
        }
        assert!(
            outputs[0].lines().count() == 1 && outputs[0] == outputs[1] && outputs[1] == outputs[2],
            "{outputs:?}"
        );
        let boots = if nvme || !kvm_is_missing() { 3 } else { 1 };
        assert_eq!(first.boots(), boots, "{disk}");
    }
}

/// This machine's shell and its libraries, and more in holes than fits a guest's memory.
fn large_root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let script = "mkdir bin etc; for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
            mkdir -p .${file%/*} && cp -L $file .$file
        done
        echo first >etc/one; echo second >etc/two; truncate -s 3G etc/holes";
    let mut command = Command::new("sh");
    assert!(command.args(["-ec", script]).current_dir(root.path()).status().unwrap().success());
    root
}

#[test]
#[ignore = "boots a guest: make system-test"]
fn a_root_is_read_where_it_lies_and_must_not_change() {
    let root = large_root();
    let word = root.path().to_str().unwrap().to_owned();
    let guest = guest_of(&Recipe { root: Some(word), ..Recipe::default() });
    assert!(guest.in_place.is_some());
    let script = "read -r one </etc/one; read -r of_disk </dev/vda; echo $one $of_disk
        while read -r device place rest; do [ $place != /mnt ] || echo mounted $device; done </proc/mounts
        [ -d /lib/modules/*/kernel ] && echo more >>/etc/one && echo done";
    let task = Task {
        command: vec!["sh".into(), "-c".into(), script.into()],
        limit: Duration::from_secs(9),
        files: Default::default(),
    };
    let mut checker = Checker::new(Config::new(guest.clone()), task);
    for line in ["this", "that"] {
        let mut disk = Contents(format!("{line}\n").into_bytes());
        disk.0.resize(1 << 20, 0);
        let found = checker.check(&mut disk, &[], &[]).unwrap();
        assert_eq!((found.status, found.output), (Some(0), format!("first {line}\ndone\n")));
    }
    assert_eq!((checker.starts(), checker.boots()), (1, 1));
    // A guest's report on its disks is worth nothing if its root changed meanwhile.
    let mut vm = Vm::start(&Config::new(guest)).unwrap();
    std::fs::write(root.path().join("etc/two"), "changed").unwrap();
    let error = vm.shell("read -r two </etc/two; echo $two").unwrap_err();
    assert!(matches!(error, Error::Root { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("etc/two") && text.contains("changed since"), "{text}");
}
