//! A drive of pairs, by nvme-cli and the generic device that Linux has for it.

use crate::support::{guest_file, ios, Bench};

#[test]
#[ignore = "boots a guest for a minute: make slow-test"]
fn key_values_are_stored_by_a_stock_guest() {
    let bench = Bench::new();
    let run = bench.run(&[
        "--engine=exact",
        "--results=r",
        "--ios=csv",
        "--file",
        &guest_file("key_value.sh"),
        "--drive=model=fixed:100us,medium=ram:16MiB,key-value.max-keys=1000",
        "--",
        "sh",
        "/root/key_value.sh",
    ]);
    run.expect(0);
    let text = |name: &str| bench.text(&format!("r/{name}.txt"));
    let expect = |name: &str, status: u32, word: &str| {
        let text = text(name);
        let ends = text.contains(&format!("status {status}\n"));
        assert!(ends && text.contains(word), "{name}: {text}");
    };
    // There is no block device.
    assert_eq!(text("devices"), "ng0n1\nnvme0\n");
    // Invalid I/O Command Set: its structure is that of pairs.
    expect("sets", 1, "0x602c");
    // Keys of 16 bytes, values of a fourth of a segment of 1 MiB, a thousand keys.
    assert_eq!(text("format").split_whitespace().collect::<Vec<_>>(), ["16", "262144", "1000"]);
    expect("missing", 1, "0x6087");
    expect("store", 0, "");
    expect("there", 0, "");
    expect("retrieve", 0, "0x000003e8");
    assert_eq!(text("same"), "same\n");
    expect("exists", 1, "0x6089");
    expect("other", 0, "");
    // Two keys: "k", then "key", each behind its length and up to whole dwords.
    assert_eq!(text("list"), " 02 00 00 00 01 00 6b 00 03 00 6b 65 79 00 00 00\n");
    assert_eq!(text("overwritten"), "0 failed\nlast\nfirst\n");
    expect("delete", 0, "");
    expect("gone", 1, "0x6087");
    // The drive's own copies are among its I/Os.
    for operation in ["copy", "discard"] {
        let count = ios(&bench, "r/ios.csv", "drive0", operation).count();
        assert!(count > 1, "{count} of {operation}");
    }
}

/// A pair of one run is there in the next, with the flash that it lies on.
#[test]
#[ignore = "boots a guest twice: make slow-test"]
fn key_values_outlive_a_run() {
    let bench = Bench::new();
    let experiment = r#"
engine  = "exact"
command = ["sh", "-c", """
cd /results
K="--namespace-id=1 --cdw2=0x79656b --cdw11=3"
nvme io-passthru /dev/ng0n1 --opcode=0x02 $K --cdw10=4096 --data-len=4096 --read --raw-binary > got
echo $? > found
printf 'first value' > value
nvme io-passthru /dev/ng0n1 --opcode=0x01 $K --cdw10=11 --data-len=11 --write --input-file=value
"""]

[[drive]]
model     = { kind = "flash", channels = 2, luns = 2, planes = 1, pages = 32, state = "ssd.state" }
medium    = { file = "pairs.img", size = "124MiB" }
key-value = { max-keys = 1000 }
"#;
    std::fs::write(bench.path("run.toml"), experiment).unwrap();
    for (results, status) in [("first", "1\n"), ("next", "0\n")] {
        bench.run(&["run.toml", &format!("--results={results}")]).expect(0);
        assert_eq!(bench.text(&format!("{results}/found")), status);
    }
    assert!(bench.text("next/got").starts_with("first value\0"));
}

#[test]
#[ignore = "boots a guest for a minute: make slow-test"]
fn key_values_stand_beside_blocks_and_zones_on_one_controller() {
    let bench = Bench::new();
    let experiment = r#"
engine  = "exact"
command = ["sh", "-c", """
set -e
cd /results
ls /dev | grep -E '^n(g|vme)0n?' > devices
cat /sys/block/nvme0n1/queue/zoned /sys/block/nvme0n2/queue/zoned > zoned
cat /sys/block/nvme0n1/size /sys/block/nvme0n2/size > sizes
mkfs.ext4 -q /dev/nvme0n1
blkzone report /dev/nvme0n2 | wc -l > zones
echo value > value
nvme io-passthru /dev/ng0n3 --namespace-id=3 --opcode=0x01 --cdw2=0x6b --cdw11=1 --cdw10=6 --data-len=6 \
  --write --input-file=value
nvme io-passthru /dev/ng0n3 --namespace-id=3 --opcode=0x02 --cdw2=0x6b --cdw11=1 --cdw10=4096 \
  --data-len=4096 --read --raw-binary | head -c 6 > stored
nvme fdp status /dev/nvme0n1 > fdp
"""]

[[drive]]
model     = "fixed:100us"
medium    = { ram = "64MiB" }
placement = "fdp:4x1MiB"

[[drive.namespace]]
size       = "32MiB"
block-size = 4096

[[drive.namespace]]
zones = { size = "2MiB" }

[[drive.namespace]]
key-value = {}
"#;
    std::fs::write(bench.path("e.toml"), experiment).unwrap();
    bench.run(&["e.toml", "--results=r"]).expect(0);
    let text = |name: &str| bench.text(&format!("r/{name}"));
    assert_eq!(text("devices"), "ng0n1\nng0n2\nng0n3\nnvme0\nnvme0n1\nnvme0n2\n");
    assert_eq!(text("zoned"), "none\nhost-managed\n");
    assert_eq!(text("sizes"), "65536\n32768\n");
    assert_eq!((text("zones").trim(), text("stored").as_str()), ("8", "value\n"));
    assert!(text("fdp").contains("Placement Identifier 3"), "{}", text("fdp"));
}
