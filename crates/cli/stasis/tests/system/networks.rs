//! Machines on a network: the shipped example, twice.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::images::Small;
use crate::support::Bench;

/// The packets of each interface of a file, as blocks of 4-byte words: the interface's number, and
/// whether the frame came in (pcapng, section 4.3).
fn packets(file: &[u8]) -> BTreeMap<(u32, bool), u64> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut counts) = (0, BTreeMap::new());
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        assert_eq!(
            word(at + length - 4) as usize,
            length,
            "a block begins and ends with its length"
        );
        if kind == 6 {
            // The flags are the last option but the end.
            let inbound = word(at + length - 12) == 1;
            *counts.entry((word(at + 8), inbound)).or_default() += 1;
        }
        at += length;
    }
    counts
}

#[test]
fn machines_on_a_network_repeat_to_the_byte() {
    let bench = Bench::new();
    let example = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../examples/cluster.toml"
    ))
    .unwrap();
    std::fs::write(bench.path("cluster.toml"), example).unwrap();
    let runs = ["r1", "r2"].map(|results| {
        let run = bench.run(&["cluster.toml", "--seed=7", "--timeline", "--results", results]);
        run.expect(0);
        let mut lines: Vec<String> = run.stdout.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    });
    assert_eq!(runs[0], runs[1]);
    let slowest = |line: &str, name: &str| -> u64 {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], format!("[{name}]"), "{line}");
        words[words.len() - 2].parse().unwrap()
    };
    // A packet takes the delay twice, and the programs some us; a lost one is repeated after 200 ms.
    let near = slowest(&runs[0][1], "near");
    assert!((100..400).contains(&near), "{near}");
    let far = slowest(&runs[0][0], "far");
    assert!(far > 4_000, "{far}");

    let kept = |name: &str| std::fs::read(bench.path(name)).unwrap();
    for name in ["lan.pcapng", "timeline.parquet"] {
        assert!(kept(&format!("r1/{name}")) == kept(&format!("r2/{name}")), "{name}");
    }
    let summary = bench.json("r1/summary.json");
    assert_eq!(summary["warnings"], Value::Null);
    let links = summary["networks"][0]["links"].as_array().unwrap();
    let number = |link: &Value, key: &str| link[key].as_u64().unwrap();
    let ports = ["server", "near", "far"];
    let packets = packets(&kept("r1/lan.pcapng"));
    let mut arrived = [0; 3];
    for link in links {
        assert_eq!(number(link, "max_error_ns"), 0, "{link}");
        let fates = ["arrived", "lost", "queue_full", "no_buffer"];
        let all: u64 = fates.iter().map(|fate| number(link, fate)).sum();
        assert!(all <= number(link, "frames"), "those under way at the end are left: {link}");
        let is_far = link["from"] == "far" || link["to"] == "far";
        // 84 bytes of the shortest frame at 1.25 bytes/ns, and the delay without its jitter.
        let least = 67 + if is_far { 1_900_000 } else { 50_000 };
        assert!(number(link, "shortest_ns") >= least, "{link}");
        let to = ports.iter().position(|name| link["to"] == *name).unwrap();
        arrived[to] += number(link, "arrived");
    }
    let lost: u64 = links.iter().map(|link| number(link, "lost")).sum();
    assert!(lost > 0, "some of the far machine's frames");
    for (port, arrived) in (0..).zip(arrived) {
        assert_eq!(packets[&(port, true)], arrived, "{}", ports[port as usize]);
    }
    let page = bench.text("r1/report.html");
    assert!(page.contains("Network lan"));
}

/// A run whose frames fill its disk ends before there is no room for the ends of its files.
#[test]
#[ignore = "boots two machines, and mounts a small disk: make slow-test"]
fn a_host_without_room_for_results_keeps_what_was_found() {
    let bench = Bench::new();
    let path = bench.path("small");
    let Some(small) = Small::mount(&path, "24m") else {
        return println!("not tried: a small file system cannot be mounted");
    };
    let text = r#"
[[machine]]
name    = "from"
command = ["bash", "-c", "sleep 0.1; echo ready; head -c 20M /dev/zero > /dev/tcp/to/7"]
[[machine]]
name    = "to"
wait    = false
command = ["perl", "-MIO::Socket::INET", "-e", '$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9) or die; $c = $s->accept; 1 while sysread $c, $b, 65536']
[[network]]
"#;
    std::fs::write(bench.path("fill.toml"), text).unwrap();
    let run = bench.run(&["fill.toml", "--engine=exact", "--results=small/r"]);
    run.expect(125);
    run.says(&["cannot keep the run's results", "small/r", "--results"]);
    let frames = packets(&bench.bytes("small/r/net0.pcapng"));
    assert!(frames.values().sum::<u64>() > 1000, "{frames:?}");
    let rows = bench.bytes("small/r/cluster.parquet");
    assert!(rows.starts_with(b"PAR1") && rows.ends_with(b"PAR1"));
    drop(small);
}

/// Others' programs, in a guest, find in the file what the machines sent and got.
#[test]
#[ignore = "builds a guest with tcpdump and tshark: make slow-test"]
fn clusters_packets_are_read_by_tcpdump_and_wireshark() {
    let bench = Bench::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/cluster.toml");
    bench.run(&[example, "--engine=exact", "--results", "r"]).expect(0);
    let ours = packets(&bench.bytes("r/lan.pcapng"));
    let script = "cd /root; tcpdump -nr lan.pcapng 2> /dev/null | wc -l; \
        tshark -r lan.pcapng -T fields -e frame.interface_name 2> /dev/null | sort | uniq -c; \
        tshark -r lan.pcapng -Y 'tcp.port == 7 && tcp.len == 100' -T fields \
            -e frame.time_relative 2> /dev/null | wc -l";
    let run = bench.run(&[
        "--engine=exact",
        "--packages=tcpdump,tshark",
        "--file=r/lan.pcapng",
        "--results=read",
        "--",
        "sh",
        "-c",
        script,
    ]);
    run.expect(0);
    let counts: Vec<Vec<&str>> =
        run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let total: u64 = ours.values().sum();
    let packets_of = |port| (ours[&(port, true)] + ours[&(port, false)]).to_string();
    let [server, near, far] = [0, 1, 2].map(packets_of);
    assert_eq!(counts[0], [&total.to_string()]);
    assert_eq!(counts[1..4], [[&far, "far"], [&near, "near"], [&server, "server"]]);
    // 100 questions and answers of two clients, each as it is sent and as it arrives.
    let data: u64 = counts[4][0].parse().unwrap();
    assert!(data >= 2 * 2 * 200 - 20, "{data}");
}

/// Two machines, booted anew the first two times and kept from the second on.
#[test]
fn a_cluster_that_is_kept_runs_as_one_that_boots() {
    let bench = Bench::new();
    let text = r#"
command = ["sh", "-c", "date +%N; dd if=/dev/urandom of=/dev/nvme0n1 bs=4k count=9 oflag=direct status=none"]
[[machine]]
name  = "node"
count = 2
drive = [{ model = "samsung-980-pro", medium = "ram:64MiB" }]
[[network]]
"#;
    std::fs::write(bench.path("two.toml"), text).unwrap();
    let outputs = ["k1", "k2", "k3"].map(|results| {
        let run = bench.run(&["two.toml", "--engine=exact", "--results", results]);
        run.expect(0);
        run.stdout
    });
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
    for name in ["ios.csv", "net0.pcapng"] {
        let kept = |results: &str| std::fs::read(bench.path(&format!("{results}/{name}"))).unwrap();
        assert_eq!(kept("k1"), kept("k3"), "{name}");
    }
}

/// Two machines that tell the longest of 60 steps of 100 ms; one of them pauses meanwhile.
const PAUSE: &str = r#"
command = ["perl", "-e", '''
sub now { my $b = pack "x16"; syscall 228, 1, $b; my ($s, $n) = unpack "qq", $b; $s + $n / 1e9 }
$t = now();
for (1 .. 60) { select undef, undef, undef, 0.1; $n = now(); $g = $n - $t if $n - $t > $g; $t = $n }
printf "%.0f\n", 1000 * $g''']

[[machine]]
name = "a"
[[machine]]
name = "b"

[[network]]
name = "lan"

[[fault]]
kind    = "pause"
machine = "a"
begin   = "1s"
end     = "4s"
"#;

#[test]
fn a_paused_machine_stands_still_and_the_others_go_on() {
    let bench = Bench::new();
    std::fs::write(bench.path("pause.toml"), PAUSE).unwrap();
    let runs = ["p1", "p2"].map(|results| {
        let run = bench.run(&["pause.toml", "--results", results]);
        run.expect(0);
        let mut lines: Vec<String> = run.stdout.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    });
    assert_eq!(runs[0], runs[1]);
    let longest = |line: &str, name: &str| -> u64 {
        line.strip_prefix(&format!("[{name}] ")).unwrap().parse().unwrap()
    };
    // In milliseconds: the pause, and what was left of a step.
    assert!((3_000..3_110).contains(&longest(&runs[0][0], "a")), "{:?}", runs[0]);
    assert!((100..110).contains(&longest(&runs[0][1], "b")), "{:?}", runs[0]);
    let faults = bench.json("p1/summary.json")["faults"].clone();
    assert_eq!((&faults[0]["target"], &faults[0]["happened"]), (&"a".into(), &1.into()));
}

/// A machine that writes 64 pages to each of its drives and flushes them, and then more and more
/// without a flush, until its power is cut; and one that tells the longest of 40 steps of 100 ms.
const CUTS: &str = r#"
[[machine]]
name = "cut"
command = ["sh", "-ec", '''
left() { dd if=$1 bs=4096 skip=$2 count=$3 status=none | tr -d '\0' | wc -c; }
case $STASIS_BOOT in
1)  head -c 4M /dev/zero | tr '\0' x > /run/pages
    for drive in nvme0n1 vda; do
        dd if=/run/pages of=/dev/$drive bs=4096 count=64 oflag=direct conv=fsync status=none
    done
    for drive in nvme0n1 vda; do
        dd if=/run/pages of=/dev/$drive bs=4096 count=900 seek=64 oflag=direct status=none &
    done; sleep 100;;
2)  sleep 100;;
3)  for drive in nvme0n1 vda; do
        [ $(left /dev/$drive 0 64) = 262144 ]; echo $(left /dev/$drive 64 1000) 
    done;;
esac''']
[[machine.drive]]
name   = "nvme"
model  = "fixed:100us"
medium = "ram:8MiB"
[[machine.drive]]
name      = "virtio"
model     = "fixed:100us"
medium    = "ram:8MiB"
interface = "virtio-blk"

[[machine]]
name = "other"
command = ["perl", "-e", '''
sub now { my $b = pack "x16"; syscall 228, 1, $b; my ($s, $n) = unpack "qq", $b; $s + $n / 1e9 }
$t = now();
for (1 .. 40) { select undef, undef, undef, 0.1; $n = now(); $g = $n - $t if $n - $t > $g; $t = $n }
printf "%.0f\n", 1000 * $g''']

[[network]]
name = "lan"

[[fault]]
kind    = "power-cut"
machine = "cut"
at      = "60ms"
within  = "40ms"
restart = "100ms"

[[fault]]                  # while it boots, or sleeps
kind    = "power-cut"
machine = "cut"
at      = "1s"
restart = "100ms"
"#;

#[test]
fn a_machine_whose_power_is_cut_comes_back_with_what_it_flushed() {
    let bench = Bench::new();
    std::fs::write(bench.path("cuts.toml"), CUTS).unwrap();
    let run = |results: &str, seed: &str| {
        let run = bench.run(&["cuts.toml", "--results", results, "--seed", seed]);
        run.expect(0);
        let lines = |name: &str| -> Vec<u64> {
            let prefix = format!("[{name}] ");
            let own = run.stdout.lines().filter_map(|line| line.strip_prefix(&prefix));
            own.map(|line| line.parse().unwrap()).collect()
        };
        let (cut, other) = (lines("cut"), lines("other"));
        assert_eq!(cut.len(), 2, "{}", run.stdout);
        assert!((100..110).contains(&other[0]), "the other goes on: {other:?}");
        cut
    };
    let first = run("c1", "1");
    assert_eq!(first, run("c2", "1"));
    let kept = |name: &str| std::fs::read(bench.path(name)).unwrap();
    for name in ["ios.csv", "faults.parquet", "lan.pcapng", "cluster.parquet"] {
        assert_eq!(kept(&format!("c1/{name}")), kept(&format!("c2/{name}")), "{name}");
    }
    // Acknowledged data that was not flushed is there, or not.
    let others: Vec<_> = (2..4).map(|seed: u32| run("c3", &seed.to_string())).collect();
    let written = bench.json("c3/summary.json")["drives"][0]["io"]["write"]["bytes"].clone();
    let all: Vec<_> = others.iter().chain([&first]).flatten().collect();
    assert!(all.iter().any(|kept| **kept == 0), "{all:?} of {written}");
    assert!(all.iter().any(|kept| **kept > 0), "{all:?} of {written}");
    let faults = bench.json("c1/summary.json")["faults"].clone();
    assert_eq!([&faults[0]["happened"], &faults[1]["happened"]], [1, 1]);
}

#[test]
fn a_reset_loses_nothing_that_a_drive_was_given_and_a_panic_says_why() {
    let bench = Bench::new();
    let text = r#"
virtual-limit = "20s"
command = ["sh", "-c", '''
if [ $STASIS_BOOT = 1 ]; then
    dd if=/dev/zero bs=4096 count=64 status=none | tr '\0' x | dd of=/dev/nvme0n1 oflag=direct bs=4096 iflag=fullblock status=none
    echo written; sleep 1000
fi
date +%s; tr -d '\0' < /dev/nvme0n1 | wc -c''']
[[drive]]
model  = "fixed:100us"
medium = "ram:8MiB"
[[fault]]
kind = "KIND"
at   = "5s"
restart = "2s"
"#;
    for kind in ["reset", "hang", "panic"] {
        std::fs::write(bench.path("fails.toml"), text.replace("KIND", kind)).unwrap();
        let run = bench.run(&["fails.toml", "--results", kind]);
        run.expect(0);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!((lines[0], lines[2]), ("written", "262144"), "{kind}: {lines:?}");
        // Two seconds off, and a boot: its clock has gone on.
        let second: u64 = lines[1].parse().unwrap();
        assert!((7..9).contains(&(second % 100)), "{kind}: {second}");
    }
}

/// A machine that fails three times, by each kind of trigger, and one that asks for the last.
const TRIGGERS: &str = r#"[[machine]]
name = "a"
command = ["sh", "-c", '''
echo boot $STASIS_BOOT
[ $STASIS_BOOT = 1 ] && dd if=/dev/zero of=/dev/nvme0n1 bs=4096 count=200 oflag=direct status=none
[ $STASIS_BOOT = 2 ] && { sleep 0.2; echo "now ready"; sleep 10; }
[ $STASIS_BOOT = 3 ] && sleep 100
echo done''']
[[machine.drive]]
name = "disk"
model = "fixed:100us"
medium = "ram:8MiB"

[[machine]]
name = "b"
command = ["sh", "-c", '''
stasis-fault nothing; echo $?
sleep 3
su nobody -s /bin/sh -c "stasis-fault cut-a"; echo asked $?
stasis-fault slow; echo slow $?
''']
[[network]]
name = "lan"
[[fault]]
kind = "power-cut"
machine = "a"
at-io = "disk:120"
restart = "100ms"
[[fault]]
kind = "reset"
machine = "a"
at-output = "^now r[a-e]+dy$"
output-of = "a"
restart = "100ms"
[[fault]]
kind = "power-cut"
name = "cut-a"
machine = "a"
when = "asked"
restart = "100ms"
[[fault]]
kind = "slow"
name = "slow"
drive = "disk"
factor = 3
when = "asked"
"#;

#[test]
fn faults_come_at_an_io_a_line_or_when_a_guest_asks() {
    let bench = Bench::new();
    std::fs::write(bench.path("triggers.toml"), TRIGGERS).unwrap();
    let run = |results: &str| {
        let run = bench.run(&["triggers.toml", "--engine=exact", "--results", results]);
        run.expect(0);
        let why = "stasis-fault: there is no fault `nothing` to ask for; there are: cut-a, slow";
        assert!(run.stderr.contains(why), "{}", run.stderr);
        run.stdout
    };
    let output = run("t1");
    let lines_of = |name: &str| {
        let prefix = format!("[{name}] ");
        output.lines().filter_map(|line| line.strip_prefix(&prefix)).collect::<Vec<_>>()
    };
    assert_eq!(lines_of("a"), ["boot 1", "boot 2", "now ready", "boot 3", "boot 4", "done"]);
    assert_eq!(lines_of("b"), ["1", "asked 0", "slow 0"]);
    assert_eq!(output, run("t2"));
    for name in ["ios.csv", "faults.parquet", "lan.pcapng"] {
        let kept = |results: &str| std::fs::read(bench.path(&format!("{results}/{name}"))).unwrap();
        assert_eq!(kept("t1"), kept("t2"), "{name}");
    }
    let summary = bench.json("t1/summary.json");
    let happened = |at: usize| summary["faults"][at]["happened"].as_u64().unwrap();
    assert_eq!([0, 1, 2].map(happened), [1; 3]);
    assert!(happened(3) > 0);
    // dd writes one page after the other: the power failed as the next one was given.
    let ios = std::fs::read_to_string(bench.path("t1/ios.csv")).unwrap();
    let rows: Vec<Vec<&str>> = ios.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let (order, delivered) = (column("order"), column("delivered_ns"));
    let row_of = |number: &str| rows.iter().find(|row| row[order] == number);
    let before: u64 = row_of("119").unwrap()[delivered].parse().unwrap();
    assert!(row_of("120").is_none(), "it was in flight");
    let cut = summary["faults"][0]["first_ns"].as_u64().unwrap();
    assert!((before..before + 50_000).contains(&cut), "{before} {cut}");
}

/// A server that keeps what it is told in memory, and a client that looks whether it is there before and
/// after a reset.
const RESIDENT: &str = r#"history = true
virtual-limit = "30s"
[[machine]]
name = "server"
wait = false
command = ["perl", "-MIO::Socket::INET", "-e", '''
$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9, ReuseAddr => 1) or die;
while ($c = $s->accept) { while (<$c>) {
    ($what, $n) = split; $there{$n} = 1 if $what eq "put";
    syswrite $c, $what eq "put" ? "done\n" : $there{$n} ? "$n\n" : "none\n" } }''']

[[machine]]
name = "client"
command = ["sh", "-c", '''
ask() { su nobody -s /bin/sh -c "stasis-client lines server:7 $*"; echo status $?; }
ask "--until none 'get 0'"
ask "--outcomes /tmp/outcomes --repeat 3 --ok done 'put {}' --check 'get {}'"
stasis-fault again
ask "--outcomes /tmp/outcomes --check 'get {}'"
''']
[[network]]
name = "lan"
[[fault]]
kind = "reset"
name = "again"
machine = "server"
when = "asked"
restart = "100ms"
"#;

#[test]
fn clients_of_a_guest_say_what_is_lost_and_write_a_history() {
    let bench = Bench::new();
    std::fs::write(bench.path("resident.toml"), RESIDENT).unwrap();
    let run = bench.run(&["resident.toml", "--engine=exact", "--results", "resident"]);
    run.expect(0);
    let lines: Vec<_> =
        run.stdout.lines().filter_map(|line| line.strip_prefix("[client] ")).collect();
    let expected = [
        "status 0",
        "3 of 3 acknowledged, none lost",
        "status 0",
        "3 of 3 acknowledged, 3 lost: 1, 2, 3",
        "status 3",
    ];
    assert_eq!(lines, expected);
    let history = std::fs::read_to_string(bench.path("resident/history.jsonl")).unwrap();
    let types: Vec<serde_json::Value> = history
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].clone())
        .collect();
    assert_eq!(types, ["invoke", "ok", "invoke", "ok", "invoke", "ok"]);
}

/// A machine that writes without a flush and then asks for its own power cut, four times.
const AGAIN: &str = r#"command = ["sh", "-ec", '''
if [ $STASIS_BOOT -le 4 ]; then
    head -c 256K /dev/zero | tr '\0' x |
        dd of=/dev/nvme0n1 bs=4096 seek=$((STASIS_BOOT * 64)) oflag=direct iflag=fullblock status=none
    stasis-fault power-cut; sleep 100
fi
for boot in 1 2 3 4; do
    dd if=/dev/nvme0n1 bs=4096 skip=$((boot * 64)) count=64 status=none | tr -d '\0' | wc -c
done''']
[[drive]]
model  = "fixed:100us"
medium = "ram:8MiB"
[[fault]]
kind    = "power-cut"
leaves  = "least"
when    = "asked"
restart = "100ms"
"#;

#[test]
fn a_cut_that_is_asked_for_takes_what_is_not_flushed_each_time() {
    let bench = Bench::new();
    std::fs::write(bench.path("again.toml"), AGAIN).unwrap();
    let run = bench.run(&["again.toml", "--engine=exact", "--results", "again"]);
    run.expect(0);
    let sizes: Vec<u64> = run.stdout.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(sizes, [0; 4], "nothing is left that can be lost");
    assert_eq!(bench.json("again/summary.json")["faults"][0]["happened"], 4);
}

/// QEMU without a machine, which makes connections to 10.0.0.250 ones to this machine's own
/// address; ended with the test.
struct World(std::process::Child);

impl World {
    fn beside(socket: &std::path::Path) -> Self {
        let cable = format!("stream,id=c,server=on,addr.type=unix,addr.path={}", socket.display());
        let world = "user,id=w,net=10.0.0.0/24,host=10.0.0.250,dns=10.0.0.251";
        let mut qemu = std::process::Command::new("qemu-system-x86_64");
        qemu.args(["-M", "none", "-nodefaults", "-display", "none", "-netdev", &cable]);
        qemu.args(["-netdev", world, "-netdev", "hubport,id=a,hubid=0,netdev=c"]);
        qemu.args(["-netdev", "hubport,id=b,hubid=0,netdev=w"]);
        let world = Self(qemu.spawn().unwrap());
        let begun = std::time::Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed().as_secs() < 60, "QEMU does not listen");
            std::thread::yield_now();
        }
        world
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A guest reads what a server outside has, over a port that leads there.
#[test]
fn a_network_leads_outside() {
    use std::io::Write;
    const LETTER: &str = "a letter from outside\n";
    let bench = Bench::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let script = format!("for i in 1 2 3; do cat < /dev/tcp/10.0.0.250/{port}; done; sleep 1");
    let experiment = format!(
        "command = ['bash', '-ec', '{script}']\n[[machine]]\nname = 'client'\n\
         [[network]]\noutside = [{{ socket = 'cable.sock' }}]\n\
         link = [{{ from = 'outside', delay = '30ms' }}]\n"
    );
    std::fs::write(bench.path("e.toml"), experiment).unwrap();

    let nobody = bench.run(&["e.toml", "--engine=softkvm"]);
    assert_eq!(nobody.status, Some(125), "{nobody:?}");
    nobody.says(&["no program answers at the socket", "cable.sock", "start one first"]);
    let world = World::beside(&bench.path("cable.sock"));
    let exact = bench.run(&["e.toml", "--engine=exact"]);
    assert_eq!(exact.status, Some(125), "{exact:?}");
    exact.says(&["network net0 leads outside", "--engine kvm or softkvm"]);

    let letters = std::thread::spawn(move || {
        (0..3).for_each(|_| server.accept().unwrap().0.write_all(LETTER.as_bytes()).unwrap());
    });
    let run = bench.run(&["e.toml", "--engine=softkvm", "--results", "results"]);
    run.expect(0);
    letters.join().unwrap();
    drop(world);
    assert_eq!(run.stdout, format!("[client] {LETTER}").repeat(3));
    let summary = bench.json("results/summary.json");
    let links = summary["networks"][0]["links"].as_array().unwrap();
    let came = links.iter().find(|link| link["from"] == "outside").unwrap();
    assert!(came["arrived"].as_u64() >= Some(9), "three connections: {came}");
    assert!(came["shortest_ns"].as_u64() >= Some(30_000_000), "{came}");
    let outgoing = links.iter().find(|link| link["to"] == "outside").unwrap();
    assert_eq!(outgoing["arrived"], outgoing["frames"], "{outgoing}");
    // Three connections of 30 ms, twice each, and a second of sleep, as long by the wall clock.
    let seconds = summary["virtual_seconds"].as_f64().unwrap();
    assert!((1.18..run.wall.as_secs_f64()).contains(&seconds), "{seconds} s in {:?}", run.wall);
    let interfaces = packets(&bench.bytes("results/net0.pcapng"));
    assert_eq!(interfaces[&(0, true)], came["arrived"].as_u64().unwrap());
    assert_eq!(interfaces[&(1, true)], outgoing["arrived"].as_u64().unwrap());
}
