//! Flash SSDs in a guest: as exact as their simulation, as one in RAID, larger
//! than memory, and with times that change while the guest runs.

use crate::support::{guest_file, ios, rows, Bench};

const DRIVE: &str = r#"
[[drive]]
name   = "steady"
medium = "ram:32MiB"
[drive.model]
kind              = "flash"
link              = "PCIe 5.0 x2"
channels          = 2
luns              = 1
planes            = 1
pages             = 32
page_size         = "4KiB"
cells             = "LLLLLuLLu(LLuu)*"
over_provisioning = 0.15
buffer            = "64KiB"
precondition      = "steady"
gc                = { blocking = "channel" }
"#;

/// 1 TB, to the byte.
const LARGE: u64 = 1_000_000_000_000;

#[test]
fn flash_drives_in_a_guest_are_their_simulation() {
    let bench = Bench::new();
    bench.image("large.img", LARGE);
    let raid = |name: &str| {
        format!("[[drive]]\nname = \"{name}\"\nmodel = \"flash-tlc\"\nmedium = \"ram:32MiB\"\n")
    };
    let large = "[[drive]]\nname = \"large\"\nblock-size = \"4096\"\nmedium = \"file:large.img\"\n\
                 model = { base = \"flash-tlc\", buffer = \"0\", mapping_unit = \"16KiB\", precondition = \"none\" }\n";
    let experiment = [DRIVE, &raid("left"), &raid("right"), large].concat();
    std::fs::write(bench.path("flash.toml"), experiment).unwrap();
    std::fs::write(bench.path("steady.toml"), DRIVE).unwrap();
    let run = bench.run(&[
        "flash.toml",
        "--engine=exact",
        "--seed=5",
        "--results=r",
        "--file",
        &guest_file("flash.sh"),
        "--",
        "sh",
        "/root/flash.sh",
    ]);
    run.expect(0);

    assert_eq!(bench.text("r/link.txt"), "32.0 GT/s PCIe\n2\n");
    assert_eq!(bench.text("r/size.txt").trim(), LARGE.to_string());
    assert_eq!(bench.text("r/places.txt"), "at 0\nat 123456789\nat 244140624\n");
    use std::os::unix::fs::MetadataExt;
    let blocks = std::fs::metadata(bench.path("large.img")).unwrap().blocks();
    assert!(blocks < 8192, "{blocks} blocks of 512 bytes: the file has no holes");
    assert!(bench.text("r/smart.txt").contains("available_spare"));

    // 20 reads before and 20 after the vendor command, which sets 900 us.
    let reads: Vec<u64> = ios(&bench, "r/ios.csv", "large", "read").collect();
    let (before, after) = reads.split_at(reads.len() - 20);
    assert!(after.iter().all(|ns| (900_000..1_100_000).contains(ns)), "{after:?}");
    assert!(before.iter().rev().take(20).all(|ns| *ns < 200_000), "{before:?}");

    let summary = bench.json("r/summary.json");
    let inside = &summary["drives"][0]["inside"];
    assert!(inside.to_string().contains("write_amplification"), "{summary:#}");

    let sim = bench.command(&[
        "sim",
        "steady.toml",
        "--trace=r/ios.csv",
        "--exact-times",
        "--trace-drive=steady",
        "--size=32MiB",
        "--seed=5",
        "--results=s",
        "--ios=csv",
    ]);
    bench.finish(sim).expect(0);
    // Without their numbers: those of I/Os that never completed are missing in the run.
    let rows_of = |file, drive| -> Vec<String> {
        let rows = rows(&bench, file, drive).into_values();
        rows.filter_map(|row| Some(row.rsplit_once(',')?.0.to_owned())).collect()
    };
    let (run, sim) = (rows_of("r/ios.csv", "steady"), rows_of("s/ios.csv", "drive0"));
    assert!(run.len() >= 1200, "{}", run.len());
    assert_eq!(run, sim, "targets in the guest and in the simulation differ");
}
