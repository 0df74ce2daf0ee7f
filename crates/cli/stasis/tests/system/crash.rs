//! The power of a traced run is cut: an ext4 file system on a disk image.

use std::io::{BufRead, BufReader};

use rustix::process::{kill_process, Pid, Signal};

use crate::support::Bench;

#[path = "../../../../results/report/tests/browser/mod.rs"]
#[allow(dead_code)] // only what a user sees
mod browser;

const RUN: &str = "set -eu
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
mount /dev/vda /mnt
sync
echo ready
for number in 1 2 3 4 5 6 7 8; do
  echo \"line $number\" >>/mnt/log
  head -c 9000 /dev/urandom >/mnt/file$((number % 3))
  sync /mnt/log
  echo \"durable $number\"
done
";

const CHECK: &str = "set -eu
grep -q ^ready \"$STASIS_OUTPUT_LINES\" || exit 0
mount /dev/vda /mnt
durable=$(grep -c ^durable \"$STASIS_OUTPUT_LINES\" || true)
found=$(cat /mnt/log 2>/dev/null | wc -l)
echo \"$durable durable, $found found\"
[ \"$found\" -ge \"$durable\" ]
umount /mnt
fsck.ext4 -fn /dev/vda
";

#[test]
fn ext4_on_an_image_survives_power_cuts_and_injected_faults_are_found() {
    let bench = Bench::new();
    let image = bench.path("disk.qcow2");
    let create = bench.command(&["image", "create", image.to_str().unwrap(), "32MiB"]);
    bench.finish(create).expect(0);
    let before = bench.bytes("disk.qcow2");
    std::fs::write(bench.path("run.sh"), RUN).unwrap();
    std::fs::write(bench.path("check.sh"), CHECK).unwrap();
    std::fs::write(
        bench.path("crash.toml"),
        "engine = 'exact'\ncommand = ['sh', '/root/run.sh']\ncheck = 'sh /root/check.sh'\nresults = 'r'\n\
         [guest]\nfiles = ['run.sh', 'check.sh']\n\
         [[drive]]\nname = 'disk'\nmodel = 'fixed:100us'\nbarrier = '5us'\ninterface = 'virtio-blk'\n\
         medium = { qcow2 = 'disk.qcow2', durability = 'barrier' }\n",
    )
    .unwrap();
    let test = |more: &[&str]| {
        bench.finish(bench.command(&[&["crash-test", "crash.toml"], more].concat()))
    };

    test(&["--states", "200", "--check-every", "25", "--junit", "well.xml"]).expect(0);
    let tests = bench.text("well.xml");
    assert!(tests.contains(" failures=\"0\" errors=\"0\""), "{tests}");
    assert!(tests.contains("name=\"broken\">\n<system-out>"), "{tests}");
    let report = bench.json("r/crash-test.json");
    assert_eq!(report["cuts"], 200);
    assert!(report["distinct"].as_u64() > Some(30), "{report}");
    assert!(report["checked"].as_u64() > Some(3), "{report}");
    assert!(bench.bytes("disk.qcow2") == before, "the experiment's own image is left alone");

    // A drive that lies, and the command line that repeats what was found.
    test(&[
        "--inject",
        "early-acknowledgement",
        "--states",
        "200",
        "--check",
        "true",
        "--results",
        "p",
        "--junit",
        "lost.xml",
    ])
    .expect(1);
    let tests = bench.text("lost.xml");
    assert!(tests.contains("name=\"durable data lost, drive disk: "), "{tests}");
    assert!(tests.contains("to repeat it:\nstasis crash-test crash.toml --trace p"), "{tests}");
    let report = bench.json("p/crash-test.json");
    assert!(report["command_line"].as_str().unwrap().contains("--inject early-acknowledgement"));
    let page = bench.text("p/crash-test.html");
    for word in [
        "durable data lost",
        "With an injected fault, early-acknowledgement: flushes",
        "crash-test crash.toml --trace p",
    ] {
        assert!(page.contains(word), "{word}");
    }
    // The changes that each state lacks, the promise that is broken, and what lies there: of an image, too.
    let lost = report["groups"].as_array().unwrap().iter().find(|group| group["kind"] == "lost");
    let example = lost.unwrap()["example"].as_u64().unwrap() as usize;
    let (finding, evidence) =
        (&report["findings"][example], &report["findings"][example]["evidence"]);
    assert!(evidence["missing"].as_u64() >= Some(1), "{evidence}");
    assert!(evidence["losses"][0]["why"].is_string(), "{evidence}");
    let promised = evidence["promise"]["promised"].as_u64();
    assert!(promised.is_some() && promised <= finding["at"].as_u64(), "{evidence}");
    let all = report["findings"].as_array().unwrap().iter();
    let all = all.filter_map(|finding| finding["evidence"]["losses"].as_array()).flatten();
    let held: Vec<_> = all.filter_map(|loss| loss["holders"][0]["what"].as_str()).collect();
    assert!(held.iter().any(|content| content.starts_with("journal, block ")), "{held:?}");
    let shown = evidence["losses"][0]["holders"][0]["what"].as_str().unwrap_or_default();
    assert!(!shown.is_empty(), "{evidence}");
    // The byte that the finding names is one of the guest's disk, and the change one of the image.
    let byte = evidence["about"][0]["offset"].as_u64().unwrap();
    assert!(
        finding["what"].as_str().unwrap().starts_with(&format!("byte {byte:#x}: ")),
        "{finding}"
    );
    let place = evidence["about"][0]["holders"][0]["what"].as_str().unwrap_or_default();
    assert!(page.contains(&format!("byte {byte:#x} lies in: {place}")), "{evidence}");
    for word in ["The lost write was promised by", "what lies there", shown] {
        assert!(page.contains(word), "{word}");
    }
    // The timeline, and a plot of each cause, are drawn by the script as they stand there.
    if let Some(browser) = browser::Browser::installed() {
        browser.laid_out(&bench.path("p/crash-test.html"));
        let observed = browser.used(&bench.path("p/crash-test.html"));
        assert_eq!(observed["errors"], serde_json::json!([]), "{observed:#}");
        assert_eq!((&observed["live"], &observed["wide"]), (&observed["figures"], &false.into()));
        assert!(observed["figures"].as_u64() >= Some(2), "{}", observed["figures"]);
        for figure in observed["again"].as_array().unwrap() {
            let far = figure[1].as_f64();
            assert!(far.is_some_and(|far| far < 0.21), "drawn by the script, {figure} is another");
        }
    }

    let finding = &report["findings"][0];
    let state = finding["state"].to_string();
    assert!(report["repeat"][0].as_str().unwrap().contains(&format!("--state {state}")));
    // Without QEMU there are the findings all the same, and why nothing is named.
    let text = bench.text("crash.toml").replace("check = ", "#");
    std::fs::write(bench.path("oracle.toml"), text).unwrap();
    let mut alone = bench.command(&["crash-test", "oracle.toml", "--trace", "p", "--results", "o"]);
    alone.env("PATH", "/nonexistent");
    bench.finish(alone).expect(1);
    let report = bench.json("o/crash-test.json");
    let why = report["findings"][0]["evidence"]["not_named"].as_str().unwrap_or_default();
    assert!(why.contains("no guest runs that could name them"), "{}", report["findings"][0]);

    let own = |more: &[&str]| {
        bench.finish(bench.command(&[&["crash-test", "oracle.toml"], more].concat()))
    };
    own(&["--trace", "p", "--state", &state, "--results", "q", "--keep-disk"]).expect(1);
    let again = bench.json("q/crash-test.json");
    assert_eq!(&again["findings"][0], finding);
    assert_eq!(again["disks"][0], format!("q/disk.state-{state}.img"));
    assert_eq!(bench.bytes(&format!("q/disk.state-{state}.img")).len(), 32 << 20);
    // One state alone, which a check inspects. State 0 is the end. A raw disk, though the drive has an
    // image: ext4's magic number is there.
    let one = test(&["--trace", "r", "--state", "0", "--json", "--keep-disk", "--results", "k"]);
    one.expect(0);
    let kept = bench.bytes("k/disk.state-0.img");
    assert_eq!((kept.len(), &kept[1024 + 56..1024 + 58]), (32 << 20, &[0x53, 0xef][..]));
    let none = own(&["--trace", "r", "--states", "1", "--keep-disk", "--results", "n"]);
    none.expect(0);
    assert!(none.stderr.contains("nothing was found, so no disk is kept"), "{}", none.stderr);
}

#[test]
fn a_run_ends_with_a_power_cut_and_a_check() {
    let bench = Bench::new();
    let run = bench.run(&[
        "--engine=exact",
        "--results=r",
        "--drive=model=fixed:100us,medium=ram:16MiB,name=d,interface=virtio-blk",
        "--power-cut=io:3",
        "--check=head -c 4 /dev/vda; echo; wc -l <$STASIS_OUTPUT_LINES",
        "--",
        "sh",
        "-c",
        "printf kept | dd of=/dev/vda conv=sync,fsync status=none; echo first; \
         printf lost | dd of=/dev/vda conv=sync,fsync status=none; echo second",
    ]);
    run.expect(0);
    assert!(run.stderr.contains("the power was cut"), "{}", run.stderr);
    let disk = bench.bytes("r/d.after-cut.img");
    assert_eq!(disk.len(), 16 << 20);
    assert!(&disk[..4] == b"kept" || &disk[..4] == b"lost", "flushed before the cut");
}

const GOES_ON: &str = "set -eu
echo mq-deadline >/sys/block/nvme0n1/queue/scheduler
pointer=$(blkzone report --count 1 /dev/nvme0n1 | sed -n 's/.*wptr 0x\\([0-9a-f]*\\).*/\\1/p')
echo \"$((0x$pointer / 8)) blocks\"
head -c 4096 /dev/zero | tr '\\0' Y | dd of=/dev/nvme0n1 bs=4096 seek=$((0x$pointer / 8)) oflag=direct conv=notrunc,fsync status=none
dd if=/dev/nvme0n1 bs=4096 count=1 status=none | tr -d Z | wc -c
";

#[test]
fn a_run_on_a_zoned_disk_that_a_power_cut_left_goes_on() {
    let bench = Bench::new();
    let drive = |medium: &str| {
        let text = "--drive=model=fixed:30us,name=z,block-size=4096,zone-size=8MiB,medium=";
        format!("{text}{medium}")
    };
    let first = bench.run(&[
        "--engine=exact",
        "--results=r",
        &drive("ram:32MiB"),
        // Three blocks that are written, each with a flush.
        "--power-cut=io:6",
        "--",
        "sh",
        "-c",
        "echo mq-deadline >/sys/block/nvme0n1/queue/scheduler; \
         head -c 4096 /dev/zero | tr '\\0' Z >/root/block; \
         for number in 0 1 2 3 4; do \
           dd if=/root/block of=/dev/nvme0n1 bs=4096 count=1 seek=$number oflag=direct \
             conv=notrunc,fsync status=none; \
         done",
    ]);
    first.expect(0);
    let second = bench.run(&[
        "--engine=exact",
        "--results=s",
        &drive("file:r/z.after-cut.img"),
        "--",
        "sh",
        "-c",
        GOES_ON,
    ]);
    second.expect(0);
    assert_eq!(second.stdout, "3 blocks\n0\n", "{}", second.stderr);
}

const ZONED: &str = "set -eu
echo mq-deadline >/sys/block/nvme0n1/queue/scheduler
head -c 4096 /dev/zero | tr '\\0' Z >/root/block
for number in 0 1 2 3 4 5 6 7; do
  dd if=/root/block of=/dev/nvme0n1 bs=4096 count=1 seek=$number oflag=direct conv=notrunc status=none
  echo \"wrote $number\"
done
echo kept | dd of=/dev/nvme1n2 bs=512 conv=sync,fsync oflag=direct status=none
echo flushed
";

/// Prints the drives' properties, and fails where a zone has a hole or its pointer is elsewhere
/// than its data ends.
const ZONED_CHECK: &str = "set -eu
of() { cat /sys/block/$1/queue/$2; }
echo \"$(of nvme0n1 zoned) $(of nvme0n1 logical_block_size) $(of nvme0n1 chunk_sectors)\"
echo \"$(of nvme1n1 logical_block_size) $(cat /sys/block/nvme1n1/size) $(cat /sys/block/nvme1n2/size)\"
[ \"$(cat /sys/block/nvme1n2/device/serial | tr -d ' ')\" = SECOND ]
[ \"$(readlink /dev/vdc)\" = nvme1n2 ]
data=0 ended=0
for number in 0 1 2 3 4 5 6 7; do
  bytes=$(dd if=/dev/nvme0n1 bs=4096 skip=$number count=1 status=none | tr -d '\\0' | wc -c)
  case $bytes$ended in 40960) data=$((data + 1));; 00|01) ended=1;; *) echo hole or torn; exit 1;; esac
done
pointer=$(blkzone report --count 1 /dev/nvme0n1 | sed -n 's/.*wptr 0x\\([0-9a-f]*\\).*/\\1/p')
[ $((0x$pointer / 8)) = $data ] || { echo \"pointer $pointer, $data blocks\"; exit 1; }
! blkzone report /dev/nvme0n1 | grep -q 'zcond: *[23]' || { echo open; exit 1; }
if grep -q ^flushed \"$STASIS_OUTPUT_LINES\"; then
  [ \"$(head -c 4 /dev/nvme1n2)\" = kept ]
fi
[ \"${1:-}\" != lost ] || [ $data -ge $(grep -c ^wrote \"$STASIS_OUTPUT_LINES\") ]
";

#[test]
fn a_check_finds_the_drives_that_were_cut() {
    let bench = Bench::new();
    std::fs::write(bench.path("run.sh"), ZONED).unwrap();
    std::fs::write(bench.path("check.sh"), ZONED_CHECK).unwrap();
    std::fs::write(
        bench.path("zoned.toml"),
        "engine = 'exact'\ncommand = ['sh', '/root/run.sh']\ncheck = 'sh /root/check.sh'\nresults = 'r'\n\
         [guest]\nfiles = ['run.sh', 'check.sh']\n\
         [[drive]]\nmodel = 'fixed:30us'\nmedium = { ram = '32MiB' }\nblock-size = 4096\nzones = { size = '8MiB' }\n\
         [[drive]]\nmodel = 'fixed:30us'\nmedium = { ram = '8MiB' }\nnamespaces = 2\nserial = 'SECOND'\n",
    )
    .unwrap();
    let test = |more: &[&str]| {
        bench.finish(bench.command(&[&["crash-test", "zoned.toml", "--checkers=1"], more].concat()))
    };
    test(&["--states", "14"]).expect(0);
    let report = bench.json("r/crash-test.json");
    assert!(report["checked"].as_u64() >= Some(10), "{report}");
    // Each line of the command has its time, and its least state is always there.
    assert!(report["fixed"].as_u64() >= Some(8), "{report}");

    // A promise that nobody kept is found with each seed, and found again by a separate guest.
    let lost = ["--trace", "r", "--check", "sh /root/check.sh lost", "--results", "l"];
    test(&[&lost[..], &["--states", "1", "--check-every", "16", "--seed", "7"]].concat()).expect(1);
    let report = bench.json("l/crash-test.json");
    let findings = report["findings"].as_array().unwrap();
    assert!(!findings.is_empty() && findings.iter().all(|one| one["repeats"] == true), "{report}");

    // A check that fails on undamaged disks proves nothing about power cuts.
    for (check, limit, words) in [
        ("nonesuch", "9s", "not found in the guest"),
        ("sleep 9", "1s", "took more than 1s"),
        ("false", "9s", "before the command began"),
    ] {
        let more = ["--trace", "r", "--check", check, "--check-limit", limit, "--results", "c"];
        let refused = test(&more);
        refused.expect(125);
        assert!(refused.stderr.contains(words), "{check}: {}", refused.stderr);
    }
    let none = test(&["--trace", "r", "--states", "0"]);
    assert!(none.stderr.contains("--states"), "{}", none.stderr);
}

/// The commands of `docs/reference/power-cuts.md` on atomic writes.
#[test]
#[ignore = "takes minutes: make slow-test"]
fn atomic_writes_are_torn_only_by_a_drive_that_lies() {
    let bench = Bench::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/crash/atomic.toml");
    let test = |results: &str, more: &[&str]| {
        let words = ["crash-test", example, "--engine", "exact", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat()))
    };
    let honest = test("honest", &["--states", "60", "--check-every", "3"]);
    honest.expect(0);
    assert!(honest.stdout.contains("atomic unit 16KiB"), "{honest:#?}");
    assert!(bench.json("honest/crash-test.json")["checked"].as_u64() > Some(10));
    let more = ["--states", "100", "--check-every", "2", "--inject", "split-writes"];
    let lying = test("lying", &more);
    lying.expect(1);
    assert!(lying.stdout.contains("is torn: it has parts of steps"), "{lying:#?}");
}

/// Ctrl-C ends a crash test with 130 whatever it is doing: 125 would be a version to skip for `git
/// bisect`.
#[test]
fn ctrl_c_is_no_failure_in_any_phase() {
    let bench = Bench::new();
    std::fs::write(
        bench.path("crash.toml"),
        "engine = 'exact'\nresults = 'r'\ncommand = ['sh', '-c', '''for number in 1 2 3; do
           dd if=/dev/zero of=/dev/vda bs=4k count=1 oflag=direct status=none; echo $number
         done; [ ! -e /root/endless ] || while :; do :; done''']\n\
         [[drive]]\nmodel = 'fixed:100us'\ninterface = 'virtio-blk'\nmedium = { ram = '16MiB' }\n",
    )
    .unwrap();
    let endless = "while :; do :; done";
    // In a guest that has seen another state the check fails, in a new one it does not end.
    let repeated = format!(
        "seen=$(ls /run/seen 2>/dev/null); touch /run/seen; [ $STASIS_LINE_COUNT = 1 ] || exit 0; \
         [ -z \"$seen\" ] || exit 1; {endless}"
    );
    let one = format!("[ $STASIS_LINE_COUNT != 1 ] || {endless}");
    std::fs::write(bench.path("endless"), "").unwrap();
    let text = bench.text("crash.toml") + "[guest]\nfiles = ['endless']\n";
    std::fs::write(bench.path("endless.toml"), text).unwrap();
    bench.finish(bench.command(&["crash-test", "crash.toml", "--states=1"])).expect(0);
    let traced = ["crash.toml", "--trace=r", "--states=1", "--checkers=1", "--check"];
    for (phase, words) in [
        ("booting", vec!["endless.toml"]),
        ("of virtual time", vec!["endless.toml"]),
        ("checking what nothing is lost of", [&traced[..], &[endless]].concat()),
        ("power cuts", [&traced[..], &[&one]].concat()),
        ("findings repeated", [&traced[..], &[&repeated]].concat()),
    ] {
        let mut command = bench.command(&[&["crash-test", "--results=s"], &words[..]].concat());
        command.env("STASIS_PROGRESS_INTERVAL", "0.1").stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(phase)));
        assert!(line.is_some(), "{phase} never came");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{phase}: {rest:?}");
        bench.nothing_left();
    }
}
