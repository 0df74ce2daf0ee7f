//! Linux's zoned block layer and its tools, and an Open-Channel drive by
//! passthrough.

use crate::support::{guest_file, job, Bench};

#[test]
fn linux_uses_zones_and_hosts_place_their_data() {
    let bench = Bench::new();
    let run = bench.run(&[
        "--engine=exact",
        "--results=r",
        "--file",
        &guest_file("zoned.sh"),
        "--drive=model=fixed:10us,medium=ram:256MiB,zone-size=8MiB,zone-capacity=6MiB,\
         max-open-zones=6,max-active-zones=12",
        "--drive=model=fixed:10us,medium=ram:4MiB,block-size=4096,ocssd=2x2x4x64",
        "--",
        "sh",
        "/root/zoned.sh",
    ]);
    run.expect(0);
    let text = |name: &str| bench.text(&format!("r/{name}.txt"));
    // Sectors of 512 bytes: zones of 8 MiB, 6 MiB of each.
    let expect = |name: &str, words: &[&str]| {
        let text = text(name);
        for word in words {
            assert!(text.contains(word), "{name}: no {word:?} in {text}");
        }
    };
    assert_eq!(text("queue"), "host-managed\n6\n12\n");
    expect("report", &["start: 0x00007c000, len 0x004000, cap 0x003000, wptr 0x000000"]);
    assert_eq!(text("report").matches("zcond: 1(em)").count(), 32);
    expect("id-ns", &["mar     : 0xb\n", "mor     : 0x5\n", "zsze:0x4000"]);
    expect("zns", &["nr_zones: 32\n", "Cap: 0x3000     State: 0x10 Type: 0x2"]);
    assert_eq!(text("refused"), "1 1\n1\n", "zones behind and ahead, a chunk's sector again");
    expect("written", &["wptr 0x000200", "zcond: 2(oi)"]);
    let appended: String = ["4000", "4008", "4018"]
        .map(|lba| format!("Success appended data to LBA {lba}\n"))
        .concat();
    assert_eq!(text("append"), appended);
    expect("finished", &["zcond:14(fu)"]);
    expect("opened", &["wptr 0x000000", "zcond: 3(oe)"]);
    assert_eq!(text("reset").matches("wptr 0x000000 reset:0 non-seq:0, zcond: 1(em)").count(), 32);
    let report = bench.json("r/zbd.json");
    for direction in ["write", "read"] {
        let job = job(&report, direction);
        assert_eq!((&job[direction]["total_ios"], &job["error"]), (&40.into(), &0.into()));
    }
    assert_eq!(text("zonefs"), "31\n262144\n", "a file for each zone, as long as its data");
    expect("truncated", &["wptr 0x000000", "zcond: 1(em)"]);

    // Bits of group, unit, chunk and sector; how many of each.
    let geometry = bench.bytes("r/geometry.bin");
    assert_eq!((geometry[0], &geometry[8..12]), (2, &[1, 1, 2, 6][..]));
    assert_eq!(geometry[64..76], [2, 0, 2, 0, 4, 0, 0, 0, 64, 0, 0, 0]);
    expect("again", &["0x62f2"]);
    // States and write pointers of the first two chunks: free, closed or open.
    let chunks = |name: &str| {
        let raw = bench.bytes(&format!("r/{name}.bin"));
        [0, 32].map(|at| (raw[at], raw[at + 24]))
    };
    assert_eq!(chunks("written"), [(1, 0), (4, 1)]);
    assert_eq!(chunks("closed"), [(4, 1), (2, 64)]);
    assert_eq!(chunks("reset"), [(4, 1), (1, 0)]);

    let drives = bench.json("r/summary.json")["drives"].clone();
    assert!(drives[0]["discard"]["count"].as_u64().unwrap() >= 3, "resets");
    assert_eq!(drives[1]["discard"]["count"], 1, "a chunk's reset");
    assert_eq!(drives[1]["copy"]["count"], 1);
}

#[test]
fn zones_of_a_file_are_there_in_the_next_run() {
    let bench = Bench::new();
    let zoned = "--drive=model=fixed:10us,medium=file:zoned.img,size=32MiB,zone-size=4MiB";
    let run = |results: &str, drive: &str, script: &str| {
        let results = format!("--results={results}");
        bench.run(&["--engine=exact", "--quiet", &results, drive, "--", "sh", "-ec", script])
    };
    // The first zone is written in part, the second finished, the third written and reset.
    let first = "d=/dev/nvme0n1; seq 1 100000 | head -c 262144 >/tmp/data
        dd if=/tmp/data of=$d bs=64k oflag=direct status=none
        dd if=/tmp/data of=$d bs=64k seek=64 count=1 oflag=direct status=none
        nvme zns finish-zone $d --start-lba=8192 >/dev/null
        dd if=/tmp/data of=$d bs=64k seek=128 count=1 oflag=direct status=none
        blkzone reset --offset 16384 --count 1 $d
        blkzone report --count 4 $d >/results/report.txt";
    run("one", zoned, first).expect(0);
    let report = bench.text("one/report.txt");
    assert!(report.contains("wptr 0x000200") && report.contains("zcond: 2(oi)"), "{report}");
    // Data and pointers are there; the first zone goes on where it ended, and nowhere else.
    let second = "d=/dev/nvme0n1; blkzone report --count 4 $d >/results/report.txt
        seq 1 100000 | head -c 262144 >/tmp/data
        dd if=$d bs=64k count=4 iflag=direct status=none | cmp - /tmp/data
        dd if=$d bs=64k skip=64 count=1 iflag=direct status=none | cmp -n 65536 - /tmp/data
        dd if=$d bs=64k skip=128 count=1 iflag=direct status=none | cmp -n 65536 - /dev/zero
        ! dd if=/tmp/data of=$d bs=64k count=1 oflag=direct status=none 2>/dev/null
        dd if=/tmp/data of=$d bs=64k seek=4 count=1 oflag=direct status=none
        blkzone report --count 1 $d >/results/later.txt";
    run("two", zoned, second).expect(0);
    let report = bench.text("two/report.txt");
    let zones: Vec<_> = report.lines().collect();
    for (zone, says) in zones.iter().zip([
        ["start: 0x000000000", "wptr 0x000200", "zcond: 4(cl)"],
        ["start: 0x000002000", "", "zcond:14(fu)"],
        ["start: 0x000004000", "wptr 0x000000", "zcond: 1(em)"],
        ["start: 0x000006000", "wptr 0x000000", "zcond: 1(em)"],
    ]) {
        assert!(says.iter().all(|says| zone.contains(says)), "{says:?} in {zone}");
    }
    assert!(bench.text("two/later.txt").contains("wptr 0x000280"), "it went on");
    // Another kind of drive does not take it, and leaves it as it was.
    let before = (bench.bytes("zoned.img"), bench.text("zoned.img.state"));
    for plain in ["", ",interface=virtio-blk", ",zone-size=8MiB"] {
        let drive = format!("--drive=model=fixed:10us,medium=file:zoned.img{plain}");
        run("three", &drive, "true").expect(125).says(&["zoned.img.state", "zones", "state=new"]);
    }
    assert!((bench.bytes("zoned.img"), bench.text("zoned.img.state")) == before);
}

/// A machine writes 32 blocks to the first zone and flushes, then 400 to the second and 30 more to the
/// first without a flush, until its power is cut. It reports where its zones end then, goes on
/// there, and fails to write before.
const CUT: &str = r#"
command = ["sh", "-ec", '''
d=/dev/nvme0n1
write() { dd if=/run/pages of=$d bs=4096 count=$1 seek=$2 oflag=direct $3 status=none; }
seq 1 1000000 | head -c 2M >/run/pages
if [ $STASIS_BOOT = 1 ]; then
    write 32 0 conv=fsync
    echo flushed
    write 400 1024; write 30 32
    echo written; sleep 100
fi
blkzone report --count 2 $d
end=$((0x$(blkzone report --count 1 $d | sed 's/.*wptr 0x\([0-9a-f]*\).*/\1/') / 8))
dd if=$d bs=4096 count=32 iflag=direct status=none | cmp -n 131072 - /run/pages
! write 1 $((end - 1)) 2>/dev/null
write 1 $end
echo goes on at $end''']
[[drive]]
model  = "fixed:100us"
medium = "ram:16MiB"
zones  = { size = "4MiB" }
[[fault]]
kind      = "power-cut"
at-output = "LINE"
within    = "20ms"
restart   = "100ms"
"#;

#[test]
#[ignore = "boots a guest six times: make slow-test"]
fn zones_end_where_a_power_cut_has_left_them() {
    let bench = Bench::new();
    let run = |line: &str, seed: &str| {
        std::fs::write(bench.path("cut.toml"), CUT.replace("LINE", line)).unwrap();
        let run = bench.run(&["cut.toml", "--engine=exact", "--results=r", "--seed", seed]);
        run.expect(0);
        let lines: Vec<String> = run.stdout.lines().map(str::to_owned).collect();
        let [.., first, second, last] = &lines[..] else { panic!("{lines:?}") };
        assert!(first.contains("zcond: 4(cl)"), "no zone is open: {lines:?}");
        let end: u64 = last.strip_prefix("goes on at ").unwrap().parse().unwrap();
        assert!((32..=62).contains(&end), "{lines:?}");
        let second = second.split("wptr 0x").nth(1).and_then(|rest| rest.split(' ').next());
        (end, u64::from_str_radix(second.unwrap(), 16).unwrap() / 8)
    };
    // The second zone is written after some 40 ms.
    let ends =
        [("flushed", "1"), ("flushed", "2"), ("written", "1"), ("written", "2"), ("written", "3")]
            .map(|(line, seed)| run(line, seed));
    assert_eq!(run("flushed", "1"), ends[0], "the same seed");
    assert!(ends[..2].iter().all(|(_, second)| *second < 250), "{ends:?}");
    assert!(ends.iter().any(|(_, second)| *second == 0), "all of it can be lost: {ends:?}");
    assert!(ends.iter().any(|(_, second)| *second > 0), "or be there: {ends:?}");
}
