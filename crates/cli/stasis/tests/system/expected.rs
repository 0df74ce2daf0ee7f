//! The files and settings that scripts expect of a Linux guest exist, and cost the experiment
//! nothing.

use std::process::Command;

use crate::support::{guest_file, Bench};

#[test]
fn what_scripts_expect_is_there() {
    let bench = Bench::new();
    let image = bench.image("there.img", 64 << 20);
    let made = Command::new("/usr/sbin/mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-U", "57a51500-0000-4000-8000-00000000abcd"])
        .arg(&image)
        .status();
    assert!(made.unwrap().success());
    let run = bench.run(&[
        "--engine=exact",
        "--quiet",
        "--results=r",
        "--file",
        &guest_file("expected.sh"),
        "--drive=model=fixed:100us,medium=file:there.img",
        "--drive=model=fixed:100us,medium=ram:64MiB,serial=NUMBER1",
        "--drive=model=fixed:100us,medium=ram:64MiB,interface=virtio-blk,serial=NUMBER2",
        "--",
        "bash",
        "/root/expected.sh",
    ]);
    run.expect(0);
    let expected = [
        "descriptors: one two three four ",
        "id: /dev/nvme1n1",
        "uuid: /dev/nvme0n1",
        "virtio: /dev/vda",
        "config: CONFIG_BLK_DEV_NVME=y",
        "mtab: /results",
        "folders: 6",
        "locked: 1777 1777 1777 ",
        "column: a-b",
        "hexdump: 4241",
        "partition: /dev/nvme1n1p1",
        "future: 0",
        "archive: ",
        "made: /dev/nvme1n1p1",
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected, "{}", run.stderr);
    let summary = bench.json("r/summary.json");
    let drives = summary["drives"].as_array().unwrap();
    let written = drives.iter().find(|drive| drive["interface"] == "virtio-blk").unwrap();
    assert_eq!(written["write"]["count"], 4, "{written}");
    assert_eq!(written["read"]["count"].as_u64().unwrap_or(0), 0, "udevd has read: {written}");
}
