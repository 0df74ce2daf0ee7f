//! Guests on disk images: qemu-img as the second opinion, flushes counted,
//! orders asked for write by write, and a host without room.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{cut_image, example, guest_file, Bench};

/// Runs a program of the host's and returns its output.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}{error}");
    text
}

pub fn create(bench: &Bench, path: &str, size: &str) {
    bench.finish(bench.command(&["image", "create", path, size])).expect(0);
}

/// Checks the image with qemu-img, and that its disk has the digest that the
/// guest saw.
pub fn qemu_agrees(bench: &Bench, image: &str, digest: &str) {
    let (image, raw) = (bench.path(image), bench.path("raw"));
    let [image, raw] = [&image, &raw].map(|path| path.to_str().unwrap());
    said("qemu-img", &["check", image]);
    said("qemu-img", &["convert", "-O", "raw", image, raw]);
    assert_eq!(said("md5sum", &[raw]).split(' ').next(), Some(digest.trim()), "{image}");
    said("qemu-img", &["compare", "-F", "raw", image, raw]);
    std::fs::remove_file(raw).unwrap();
}

/// A counter of a drive's image.
pub fn counter(summary: &Value, drive: usize, name: &str) -> u64 {
    let counters = &summary["drives"][drive]["inside"]["image"];
    counters[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counters}"))
}

#[test]
fn qemu_img_reads_what_a_guest_wrote_in_each_way() {
    let bench = Bench::new();
    let ways = ["flush", "barrier", "ordered"];
    let mut words = vec!["--engine=exact".to_owned(), "--results=r".to_owned()];
    for way in ways {
        let image = format!("{way}.qcow2");
        create(&bench, &image, "16MiB");
        words.push(format!(
            "--drive=model=850-pro,interface=virtio-blk,medium=qcow2:{image},durability={way}"
        ));
    }
    words.extend([format!("--file={}", guest_file("images.sh")), "--".into()]);
    words.extend(["sh", "/root/images.sh", "vda", "vdb", "vdc"].map(str::to_owned));
    bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);

    let summary = bench.json("r/summary.json");
    for (drive, way) in ways.into_iter().enumerate() {
        let disk = ["vda", "vdb", "vdc"][drive];
        qemu_agrees(&bench, &format!("{way}.qcow2"), &bench.text(&format!("r/{disk}.md5")));
        assert_eq!(bench.text("r/vda.files"), bench.text(&format!("r/{disk}.files")));
        let count = |name| counter(&summary, drive, name);
        let guest = count("guest_flushes");
        // Twenty files with an fsync each, which ext4 makes two flushes.
        assert!(guest >= 40, "{guest}");
        assert_eq!(summary["drives"][drive]["flush"]["count"].as_u64(), Some(guest));
        let (host, barriers, lag) =
            (count("host_flushes"), count("host_barriers"), count("lag_flushes"));
        println!(
            "{way}: {guest} of the guest, {host} of the host, {barriers} barriers, {lag} late"
        );
        match way {
            "flush" => assert!(host > guest && barriers == 0 && lag == 0),
            "barrier" => assert!(host <= guest && barriers > 0 && lag == 0),
            _ => assert!(host == lag && barriers >= guest && lag < guest / 4),
        }
    }
}

#[test]
fn a_program_asks_for_durable_or_ordered_writes() {
    let bench = Bench::new();
    let program = example("durable");
    let mut words = vec!["--engine=exact".to_owned(), "--results=r".to_owned()];
    for (image, interface) in [("a", "virtio-blk"), ("b", "virtio-blk"), ("c", "nvme")] {
        create(&bench, &format!("{image}.qcow2"), "16MiB");
        words.push(format!(
            "--drive=model=850-pro,interface={interface},medium=qcow2:{image}.qcow2,durability=ordered"
        ));
    }
    let script = "/root/durable ordered /dev/vda 50; /root/durable priority /dev/vdb 50; \
                  /root/durable dsync /dev/nvme0n1 50";
    words.extend([format!("--file={program}"), "--".into(), "sh".into(), "-ec".into()]);
    words.push(script.into());
    let run = bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    run.expect(0);

    let summary = bench.json("r/summary.json");
    let count = |drive, name| counter(&summary, drive, name);
    assert_eq!((count(0, "guest_flushes"), count(0, "guest_durable")), (50, 0));
    assert_eq!(count(0, "host_flushes"), count(0, "lag_flushes"), "nobody waits for a flush");
    for drive in [1, 2] {
        assert_eq!(count(drive, "host_flushes") - count(drive, "lag_flushes"), 50, "{drive}");
    }
    // Behind a write with FUA to the device itself Linux 6.1 flushes as well, which
    // is an order here.
    assert_eq!([1, 2].map(|drive| count(drive, "guest_flushes")), [0, 50]);
    // As the program saw it: a flush of the 850 PRO takes 2.9 ms.
    let times: Vec<u64> = run.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times[0] < 500 && times[1] > 2_900 && times[2] > 2_900, "{times:?}");
}

/// A small file system in memory, gone at the end. Mounting takes a right that
/// not everyone has.
pub struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    pub fn mount(path: &'a Path, size: &str) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let size = format!("size={size}");
        let arguments = ["-t", "tmpfs", "-o", &size, "none", path.to_str().unwrap()];
        Command::new("mount").args(arguments).status().unwrap().success().then_some(Self(path))
    }

    fn grow(&self) {
        said("mount", &["-o", "remount,size=64m", self.0.to_str().unwrap()]);
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
#[ignore = "takes a minute and a half: make slow-test"]
fn a_host_without_room_is_an_error_to_the_guest_until_there_is_room() {
    for way in ["flush", "barrier", "ordered"] {
        let bench = Bench::new();
        let path = bench.path("small");
        let Some(small) = Small::mount(&path, "6m") else {
            return println!("not tried: a small file system cannot be mounted");
        };
        create(&bench, "small/disk.qcow2", "16MiB");
        let drive = format!(
            "--drive=model=850-pro,interface=virtio-blk,medium=qcow2:small/disk.qcow2,durability={way}"
        );
        let script = format!("--file={}", guest_file("no_room.sh"));
        let mut run = bench.start(&[
            "--engine=exact",
            "--wall-limit=200s",
            "--results=r",
            &drive,
            &script,
            "--",
            "sh",
            "-e",
            "/root/no_room.sh",
        ]);
        let full = run.line();
        let at = full.as_deref().and_then(|line| line.strip_prefix("full at "));
        let at: Option<u64> = at.and_then(|at| at.parse().ok());
        if at.is_none() {
            panic!("{full:?} {:#?}", run.finish());
        }
        assert!((20..96).contains(&at.unwrap()), "{at:?}");
        small.grow();
        let finished = run.finish();
        finished.expect(0);
        assert!(finished.stdout.contains("room again"), "{finished:#?}");
        qemu_agrees(&bench, "small/disk.qcow2", &bench.text("r/vda.md5"));
        drop(small);
    }
}

#[test]
#[ignore = "boots a guest four times: make slow-test"]
fn an_image_starts_again_after_a_power_cut() {
    let bench = Bench::new();
    let text = cut_image("", "echo kept; umount /mnt; fsck.ext4 -fn $d >&2");
    std::fs::write(bench.path("image.toml"), text).unwrap();
    let run = |seed: &str| {
        let image = bench.path("disk.qcow2").to_str().unwrap().to_owned();
        said("qemu-img", &["create", "-q", "-f", "qcow2", &image, "64M"]);
        let results = format!("r{seed}");
        let run =
            bench.run(&["image.toml", "--engine=exact", "--seed", seed, "--results", &results]);
        assert_eq!(run.expect(0).stdout, "synced\nkept\n", "seed {seed}");
        let check = Command::new("qemu-img").arg("check").arg(image).output();
        let code = check.expect("qemu-img is installed").status.code();
        assert!(matches!(code, Some(0 | 3)), "sound but for leaks: {code:?}");
        bench.bytes(&format!("{results}/ios.csv"))
    };
    let first = run("1");
    assert_eq!(run("1"), first);
    run("2");
}
