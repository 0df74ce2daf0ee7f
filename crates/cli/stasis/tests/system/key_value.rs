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
    let told = |name: &str, status: u32, word: &str| {
        let text = text(name);
        let ends = text.contains(&format!("status {status}\n"));
        assert!(ends && text.contains(word), "{name}: {text}");
    };
    // There is no block device.
    assert_eq!(text("devices"), "ng0n1\nnvme0\n");
    // Invalid I/O Command Set: its structure is that of pairs.
    told("sets", 1, "0x602c");
    // Keys of 16 bytes, values of a fourth of a segment of 1 MiB, a thousand keys.
    assert_eq!(text("format").split_whitespace().collect::<Vec<_>>(), ["16", "262144", "1000"]);
    told("missing", 1, "0x6087");
    told("store", 0, "");
    told("there", 0, "");
    told("retrieve", 0, "0x000003e8");
    assert_eq!(text("same"), "same\n");
    told("exists", 1, "0x6089");
    told("other", 0, "");
    // Two keys: "k", then "key", each behind its length and up to whole dwords.
    assert_eq!(text("list"), " 02 00 00 00 01 00 6b 00 03 00 6b 65 79 00 00 00\n");
    assert_eq!(text("overwritten"), "0 failed\nlast\nfirst\n");
    told("delete", 0, "");
    told("gone", 1, "0x6087");
    // The drive's own copies are among its I/Os.
    for operation in ["copy", "discard"] {
        let count = ios(&bench, "r/ios.csv", "drive0", operation).count();
        assert!(count > 1, "{count} of {operation}");
    }
}
