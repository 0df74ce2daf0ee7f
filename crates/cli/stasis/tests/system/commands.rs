//! One guest, two drives, and the commands beyond read and write, as nvme-cli
//! and Linux's driver give them.

use crate::support::{guest_file, job, Bench};

#[test]
fn commands_beyond_read_and_write_do_what_the_specification_says() {
    let bench = Bench::new();
    let run = bench.run(&[
        "--engine=exact",
        "--results=r",
        "--file",
        &guest_file("commands.sh"),
        "--drive=model=fixed:100us,medium=ram:64MiB,namespaces=2",
        "--drive=model=fixed:100us,medium=ram:64MiB,queues=4,placement=fdp:4x1MiB",
        "--",
        "sh",
        "/root/commands.sh",
    ]);
    run.expect(0);
    let text = |name: &str| bench.text(&format!("r/{name}.txt"));
    // The command's words, and its status.
    let expect = |name: &str, status: u32, words: &[&str]| {
        let text = text(name);
        assert!(text.contains(&format!("status {status}\n")), "{name}: {text}");
        for word in words {
            assert!(text.contains(word), "{name}: no {word:?} in {text}");
        }
    };

    expect(
        "id-ctrl",
        0,
        &[
            "nn        : 128\n",
            "oacs      : 0x31e\n",
            "oncs      : 0x1df\n",
            "sgls      : 0xf0001\n",
        ],
    );
    expect("id-ns", 0, &["nsze    : 0x10000\n", "mssrl   : 4096\n", "lbaf  1 : ms:0   lbads:12"]);
    expect("list-ns", 0, &["[   0]:0x1", "[   1]:0x2"]);
    assert_eq!(text("apart"), "same\nsame\n");
    expect("copy", 0, &["same"]);
    expect("overlap", 1, &["0x6187"]);
    expect("equal", 0, &[]);
    expect("different", 1, &["0x6285"]);
    expect("verify", 0, &[]);
    expect("uncorrectable", 0, &[]);
    expect("unreadable", 1, &["0x2281"]);
    expect("unverified", 1, &["0x2281"]);
    expect("readable", 0, &[]);
    expect("sgl", 0, &["same"]);
    expect("format", 0, &["empty", "there"]);
    assert_eq!(text("sector"), "4096\n");
    expect("full", 1, &["0x6115"]);
    expect("delete-ns", 0, &["gone"]);
    assert_eq!(text("capacity").matches("67108864\n").count(), 1, "{}", text("capacity"));
    assert_eq!(text("capacity").matches("33554432\n").count(), 1, "{}", text("capacity"));
    expect("create-ns", 0, &["created nsid:2"]);
    expect("create-more", 0, &["created nsid:3"]);
    for name in ["attach-ns", "attach-more", "delete-more"] {
        expect(name, 0, &[]);
    }
    expect("detach-ns", 0, &["gone"]);
    assert_eq!(text("created"), "16777216\n4096\n8388608\n512\nwritten\nkept\nrunning\nverified\n");
    // The model has no such command, and reports that.
    expect("vendor", 1, &["0x6001"]);
    expect("smart-log", 0, &["available_spare\t\t\t\t: 100%", "media_errors\t\t\t\t: 0"]);
    expect("error-log", 0, &["0x6001", "0x2281"]);
    expect("abort", 0, &["result: 0x00000001"]);

    expect("fdp-configs", 0, &["FDP Attributes: 0x80", "Reclaim Unit Nominal Size: 1048576"]);
    expect("fdp-stats", 0, &["(HBMW): 8192"]);
    expect("fdp-usage", 0, &["Handle 0 Attributes: 0x1", "Handle 3 Attributes: 0x1"]);
    for (name, full) in [("fdp-status", 2), ("fdp-updated", 3)] {
        expect(name, 0, &["Placement Identifier 3"]);
        assert_eq!(text(name).matches("(RUAMW): 2048").count(), full, "{name}");
    }

    // A read that waits for its interrupt waits for 3 units of 100 us more.
    let reads = [("interrupts", "plain"), ("interrupts", "coalesced"), ("polled", "polled")];
    let reads = reads.map(|(file, name)| {
        let report = bench.json(&format!("r/{file}.json"));
        job(&report, name)["read"]["clat_ns"]["mean"].as_f64().unwrap()
    });
    let [plain, coalesced, polled] = reads;
    assert!((coalesced - plain - 300_000.0).abs() < 1_000.0, "{reads:?}");
    assert!((polled - plain).abs() < 10_000.0, "{reads:?}");
    assert_eq!(text("poll"), "1\n0\n", "a polled queue, and no interrupts of it");

    // A refused request has a row, with the status that the guest got; a comparison that failed,
    // too.
    let ios = bench.text("r/ios.csv");
    let rows = |status: &str, code: &str| {
        let fits = |row: &&str| {
            let fields: Vec<_> = row.split(',').collect();
            (fields[9], fields[15]) == (status, code)
        };
        ios.lines().filter(fits).map(|row| row.split(',').nth(2).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(rows("refused", "0x281"), ["read", "verify"]);
    assert_eq!(rows("refused", "0x187"), ["copy"]);
    assert_eq!(rows("error", "0x285"), ["read"]);

    let drives = bench.json("r/summary.json")["drives"].clone();
    assert!(drives[0]["refused"].as_u64().unwrap() >= 3);
    assert_eq!(drives[0]["copy"]["count"], 2);
    assert_eq!(drives[0]["verify"]["count"], 1);
}
