//! Faults inside a guest, by its agent, and faults of a network.

use super::support::Bench;

/// Each second of the run has one: a kill, a jump of the clock, a shortage of memory, and a drift,
/// by which 11 s of the guest's clock take 10 s of the run.
const INSIDE: &str = r#"
engine  = "exact"
command = ["sh", "-ec", '''
cp /bin/sleep /tmp/victim
/tmp/victim 100 || echo victim $?
a=$(date +%s); sleep 2; b=$(date +%s); echo jump $((b - a))
free() { awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
m=$(free); sleep 2; echo taken $((m - $(free)))
sleep 2; echo back $((m - $(free)))
perl -MSocket -e 'socket(S, PF_UNIX, SOCK_DGRAM, 0); bind(S, pack("S", AF_UNIX));
  send(S, "faster", 0, pack("S a*", AF_UNIX, "\0stasis-fault")); recv(S, $why, 4096, 0); die $why if $why'
sleep 11
echo line; sleep 100 || echo sleep $?''']

[[fault]]
kind    = "kill"
process = "victim"
at      = "1s"

[[fault]]
kind = "clock-jump"
by   = "1h"
at   = "2s"

[[fault]]
kind   = "memory-shortage"
memory = "200MiB"
begin  = "4s"
end    = "6s"

[[fault]]
kind = "clock-drift"
ppm  = 100_000
when = "asked"
name = "faster"

[[fault]]
kind      = "kill"
process   = "sleep"
at-output = "^line$"
within    = "10ms"

[[fault]]
kind    = "kill"
process = "nothing"
at      = "1s"
"#;

#[test]
fn faults_come_inside_a_guest() {
    let bench = Bench::new();
    std::fs::write(bench.path("inside.toml"), INSIDE).unwrap();
    for results in ["first", "second"] {
        let run = bench.run(&["inside.toml", "--results", results]);
        run.expect(0);
        let text = run.stdout;
        let words = |name: &str| -> i64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or(&text);
            line.trim().parse().unwrap_or_else(|_| panic!("{name}: {text}"))
        };
        // 128 and the number of SIGKILL.
        assert_eq!([words("victim "), words("sleep ")], [137, 137]);
        assert!((3602..=3603).contains(&words("jump ")), "{text}");
        assert!((195..=205).contains(&words("taken ")), "{text}");
        // The kernel may have given up caches meanwhile.
        assert!((-100..=5).contains(&words("back ")), "{text}");
    }
    let summary = bench.json("first/summary.json");
    let started = summary["boot_virtual_seconds"].as_f64().unwrap();
    let faults = summary["faults"].as_array().unwrap();
    let happened: Vec<_> = faults.iter().map(|fault| fault["happened"].as_u64().unwrap()).collect();
    assert_eq!(happened, [1, 1, 1, 1, 1, 0]);
    let at: Vec<_> = faults[..5]
        .iter()
        .map(|fault| fault["first_ns"].as_f64().unwrap() / 1e9 - started)
        .collect();
    for (at, expected) in at.iter().zip([1.0, 2.0, 4.0]) {
        assert!((0.0..0.001).contains(&(at - expected)), "{at} for {expected}");
    }
    // The guest has slept 11 s by its clock, which runs a tenth faster.
    let slept = at[4] - at[3];
    assert!((10.0..10.04).contains(&slept), "{slept} s");
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(read("first/faults.parquet") == read("second/faults.parquet"));
}

/// Each part of the run has a fault of the drive's controller, one command deep for the interrupt:
/// with more, the next command's interrupt announces both.
const CONTROLLER: &str = r#"
engine  = "exact"
command = ["sh", "-ec", '''
for part in lost-completion doubled-completion lost-interrupt stuck-queue controller-failure; do
  echo begin $part
  depth=4
  [ $part != lost-interrupt ] || depth=1
  fio --name=r --filename=/dev/nvme0n1 --rw=randread --direct=1 --ioengine=io_uring \
    --iodepth=$depth --number_ios=400 > /dev/null
  dmesg -c | grep nvme || true
done''']

[[drive]]
name   = "disk"
model  = "fixed:100us"
medium = { ram = "64MiB" }
"#;

#[test]
#[ignore = "waits for the kernel's time-outs, in 5 runs' time: make slow-test"]
fn controllers_fail_and_the_kernel_finds_out() {
    let bench = Bench::new();
    let kinds = [
        "lost-completion",
        "doubled-completion",
        "lost-interrupt",
        "stuck-queue",
        "controller-failure",
    ];
    let mut text = CONTROLLER.to_owned();
    for kind in kinds {
        text += &format!("[[fault]]\nkind = '{kind}'\nat-output = '^begin {kind}'\ntimes = 1\n");
    }
    std::fs::write(bench.path("controller.toml"), text).unwrap();
    for results in ["first", "second"] {
        let run = bench.run(&["controller.toml", "--ios=parquet", "--results", results]);
        run.expect(0);
        let parts: Vec<&str> = run.stdout.split("begin ").skip(1).collect();
        for (part, (kind, message)) in parts.iter().zip(kinds.into_iter().zip([
            "timeout, reset controller",
            "completed on queue 1",
            "completion polled",
            "timeout, reset controller",
            "controller is down; will reset: CSTS=0x3",
        ])) {
            assert!(part.starts_with(kind) && part.contains(message), "{kind}: {}", run.stdout);
        }
    }
    let summary = bench.json("first/summary.json");
    let happened = summary["faults"].as_array().unwrap().iter();
    assert!(happened.into_iter().all(|fault| fault["happened"] == 1), "{summary}");
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(read("first/faults.parquet") == read("second/faults.parquet"));
    assert!(read("first/ios.csv") == read("second/ios.csv"));
}

/// Three machines send each other a datagram every 100 ms, 40 times, and count those that come. They
/// have the addresses from a file in which each finds its own name.
const PARTED: &str = r#"
engine  = "exact"
command = ["perl", "-MIO::Socket::INET", "-e", '''
open F, "/root/peers";
%at = map { split } <F>;
$me = $at{"{{machine.me}}"};
@others = grep { $_ ne $me } split / /, $ENV{STASIS_MACHINES};
$s = IO::Socket::INET->new(Proto => "udp", LocalPort => 5000, Blocking => 0);
$to{$_} = sockaddr_in(5000, inet_aton($at{$_})) for @others;
$| = 1;
for (1 .. 40) {
  print "now\n" if $_ == 26 && $me eq "a";
  $s->send($me, 0, $to{$_}) for @others;
  select undef, undef, undef, 0.1;
  $n{$from}++ while defined $s->recv($from, 9);
}
print join(" ", map { $n{$_} } sort @others), "\n"''']

[guest]
templates = ["peers"]

[[machine]]
name      = "a"
variables = { me = "I" }
[[machine]]
name      = "b"
variables = { me = "I" }
[[machine]]
name      = "c"
variables = { me = "I" }

[[network]]

[[fault]]
kind      = "pause"
machine   = "c"
at-packet = "net0:7"
end       = "1us"

[[fault]]
kind     = "partition"
machines = ["a"]
peers    = ["b"]
begin    = "1s"
end      = "2s"

[[fault]]
kind      = "partition"
machines  = ["b"]
peers     = ["c"]
at-output = "^now$"
end       = "500ms"

[[fault]]
kind     = "slow-network"
machines = ["c"]
one-way  = true
begin    = "3s"
delay    = "250ms"

[[fault]]                  # when the line is written
kind      = "pause"
machine   = "a"
at-output = "^now$"
end       = "1us"

[[fault]]                  # inside a guest, by what another does
kind      = "clock-jump"
machine   = "b"
by        = "1h"
at-output = "^now$"
"#;

/// A packet of a capture.
struct Packet {
    at: u64,
    arrives: bool,
    /// Last bytes of the Ethernet addresses: the ports.
    from: u8,
    to: u8,
}

/// The frames from one machine to another in a file, with their times (pcapng, section 4.3).
fn packets(file: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut packets) = (0, Vec::new());
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        let frame = &file[at + 28..];
        // Not those to all.
        if kind == 6 && frame[0] & 1 == 0 {
            packets.push(Packet {
                at: u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)),
                arrives: word(at + length - 12) == 1,
                from: frame[11],
                to: frame[5],
            });
        }
        at += length;
    }
    packets
}

#[test]
fn a_network_is_parted_and_slow_between_those_who_are_named() {
    let bench = Bench::new();
    std::fs::write(bench.path("parted.toml"), PARTED).unwrap();
    let peers = "{{machine.me}} {{machine.name}}\na {{machine.a.address}}\n\
                 b {{machine.b.address}}\nc {{machine.c.address}}\n";
    std::fs::write(bench.path("peers"), peers).unwrap();
    let runs = ["first", "second"].map(|results| {
        let run = bench.run(&["parted.toml", "--results", results]);
        run.expect(0);
        run.stdout
    });
    assert_eq!(runs[0], runs[1]);
    let counts = |name: &str| -> Vec<u32> {
        let own = format!("[{name}] ");
        let mut lines = runs[0].lines().filter_map(|line| line.strip_prefix(&own));
        lines.next_back().unwrap().split(' ').map(|count| count.parse().unwrap()).collect()
    };
    let [a, b, c] = ["a", "b", "c"].map(counts);
    // Ten of 40 are lost in a second, five in half of one, and two or three come too late.
    let near = |count: u32, expected: u32| count.abs_diff(expected) <= 1;
    assert!(near(a[0], 30) && near(a[1], 37), "{a:?}");
    assert!(near(b[0], 30) && near(b[1], 32), "{b:?}");
    assert!(near(c[0], 40) && near(c[1], 35), "{c:?}");
    let summary = bench.json("first/summary.json");
    // The eighth frame is one of the first rounds of datagrams.
    let paused = summary["faults"][0]["first_ns"].as_f64().unwrap() / 1e9;
    let paused = paused - summary["boot_virtual_seconds"].as_f64().unwrap();
    assert!((0.0..0.2).contains(&paused), "{paused} s");
    let happened = |at: usize| summary["faults"][at + 1]["happened"].as_u64().unwrap();
    // The datagrams, and what the guests' IPv6 says to find its neighbours.
    let some = |at: usize, least: u64| (least..=least + 20).contains(&happened(at));
    assert!(some(0, 18) && some(1, 8) && some(2, 18), "{:?}", [0, 1, 2].map(happened));
    let links = summary["networks"][0]["links"].as_array().unwrap();
    let longest = |from: &str, to: &str| {
        let link = links.iter().find(|link| link["from"] == from && link["to"] == to).unwrap();
        (link["longest_ns"].as_u64().unwrap(), link["max_error_ns"].as_u64().unwrap())
    };
    assert_eq!(longest("c", "a"), (250_050_000, 0));
    assert_eq!(longest("a", "c"), (50_000, 0));
    let read = |results: &str, name: &str| std::fs::read(bench.path(results).join(name)).unwrap();
    // The agent that is elsewhere is called: it acts when its processor can.
    let first = |at: usize| summary["faults"][at]["first_ns"].as_u64().unwrap();
    let (written, jumped) = (first(4), first(5));
    assert!((written..written + 200_000).contains(&jumped), "{written} {jumped}");
    // Machines are ahead of each other by the delay at most: what is sent later is lost.
    let parted = written + 50_000..written + 500_000_000;
    let count_of = |file: &[u8], arrives: bool, times: &std::ops::Range<u64>| {
        let between = |one: &Packet| [one.from, one.to] == [1, 2] || [one.from, one.to] == [2, 1];
        let there = |one: &Packet| one.arrives == arrives && times.contains(&one.at);
        packets(file).into_iter().filter(|one| between(one) && there(one)).count()
    };
    let file = read("first", "net0.pcapng");
    assert!(count_of(&file, false, &parted) >= 8, "they send");
    assert_eq!(
        count_of(&file, true, &(parted.start + 50_000..parted.end)),
        0,
        "and nothing arrives"
    );
    for name in ["faults.parquet", "net0.pcapng"] {
        assert!(read("first", name) == read("second", name), "{name}");
    }
}

/// A drive with room for 2 MiB, and one that is pulled out under a reader and put back.
const LEFT: &str = r#"
engine  = "exact"
command = ["sh", "-c", '''
to() { dd if=/tmp/data of=/dev/nvme$1n1 bs=64k seek=$2 oflag=direct 2>&1 | grep -o "No space.*" || echo written; }
head -c 1M /dev/urandom > /tmp/data
to 0 0; to 0 16; to 0 32; to 0 0; blkdiscard -o 1M -l 1M /dev/nvme0n1; to 0 32
to 1 0; (dd if=/dev/nvme1n1 of=/tmp/read bs=64k iflag=direct 2>&1 | grep -o "Input/output error") &
sleep 0.1; stasis-fault pull; wait; ls /dev/nvme1n1 2> /dev/null || echo gone
until [ -e /dev/nvme1n1 ]; do sleep 0.01; done
cmp -n 1M /tmp/data /dev/nvme1n1 && echo back
to 0 48''']

[[drive]]
name   = "full"
model  = "fixed:100us"
medium = "ram:8MiB"

[[drive]]
name   = "slot"
model  = "fixed:10ms"
medium = "ram:8MiB"

[[fault]]
kind  = "full"
drive = "full"
space = "2MiB"

[[fault]]
kind  = "gone"
drive = "slot"
name  = "pull"
when  = "asked"
begin = "5ms"
end   = "2s"
"#;

#[test]
#[ignore = "boots a guest twice: make slow-test"]
fn a_drive_has_no_room_and_another_is_pulled_out_of_its_slot() {
    let bench = Bench::new();
    std::fs::write(bench.path("left.toml"), LEFT).unwrap();
    for results in ["first", "second"] {
        let run = bench.run(&["left.toml", "--results", results]);
        run.expect(0);
        let none = "No space left on device";
        let expected = ["written", "written", none, "written", "written", "written"];
        let pulled = ["Input/output error", "gone", "back", none];
        let all: Vec<_> = expected.iter().chain(&pulled).copied().collect();
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), all);
    }
    let faults = bench.json("first/summary.json")["faults"].clone();
    assert!(faults[0]["happened"].as_u64().unwrap() >= 2, "{faults}");
    assert_eq!(faults[1]["happened"], 1);
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(read("first/faults.parquet") == read("second/faults.parquet"));
}

/// A volume that grows under its file system, and goes away and comes back.
const VOLUME: &str = r#"
engine  = "exact"
command = ["sh", "-ec", '''
until_is() { until [ "$(cat /sys/block/nvme0n1/size 2> /dev/null)" = "$1" ]; do sleep 0.1; done; }
mkfs.ext4 -q /dev/nvme0n1
mount /dev/nvme0n1 /mnt
cat /sys/block/nvme0n1/size
head -c 10M /dev/zero > /mnt/fits
head -c 10M /dev/zero > /mnt/not 2> /dev/null || echo full
rm /mnt/not
stasis-fault grow
until_is 65536
resize2fs /dev/nvme0n1 > /dev/null 2>&1
head -c 10M /dev/zero > /mnt/more && echo grown
umount /mnt
e2fsck -fn /dev/nvme0n1 > /dev/null 2>&1 && echo clean
stasis-fault leave
until [ ! -e /dev/nvme0n1 ]; do sleep 0.1; done; echo gone
until [ -e /dev/nvme0n1 ]; do sleep 0.1; done
mount /dev/nvme0n1 /mnt
ls /mnt; cat /sys/block/nvme0n1/size
umount /mnt
until_is 32768; echo shrunk
''']

[[drive]]
name   = "volume"
model  = "fixed:100us"
medium = "ram:64MiB"

[[drive.namespace]]
size = "16MiB"

[[fault]]
kind  = "namespace-resized"
size  = "32MiB"
name  = "grow"
when  = "asked"
begin = "5ms"
end   = "10s"

[[fault]]
kind  = "namespace-detached"
name  = "leave"
when  = "asked"
begin = "5ms"
end   = "2s"
"#;

#[test]
fn a_volume_grows_under_its_file_system_goes_and_comes_back() {
    let bench = Bench::new();
    std::fs::write(bench.path("volume.toml"), VOLUME).unwrap();
    let run = bench.run(&["volume.toml", "--results", "out"]);
    run.expect(0);
    let expected = [
        "32768",
        "full",
        "grown",
        "clean",
        "gone",
        "fits",
        "lost+found",
        "more",
        "65536",
        "shrunk",
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    let faults = bench.json("out/summary.json")["faults"].clone();
    assert!(faults.as_array().unwrap().iter().all(|fault| fault["happened"] == 1), "{faults}");
}

/// A reader of a drive with two paths, which are lost one after the other.
const PATHS: &str = r#"
engine  = "exact"
command = ["sh", "-c", '''
state() { cat /sys/class/nvme-subsystem/nvme-subsys0/nvme*/nvme*/ana_state | sort | uniq -c | tr -s " "; }
cat /sys/class/nvme-subsystem/nvme-subsys0/nvme*/state; state
for i in $(seq 200); do
    dd if=/dev/nvme0n1 of=/dev/null bs=4k skip=$i count=1 iflag=direct 2> /tmp/log || echo lost $i
    case $i in 60|100|140|180) state ;; esac
    sleep 0.02
done; ls /dev/nvme*n1
''']

[[drive]]
name        = "paths"
model       = "fixed:100us"
medium      = "ram:8MiB"
controllers = 2

[[drive]]
name   = "other"
model  = "fixed:100us"
medium = "ram:8MiB"

[[fault]]
kind       = "gone"
drive      = "paths"
controller = 1
begin      = "1s"
end        = "1.8s"

[[fault]]
kind       = "path-inaccessible"
drive      = "paths"
controller = 2
begin      = "2s"
end        = "2.6s"

[[fault]]
kind       = "path-non-optimized"
drive      = "paths"
controller = 1
begin      = "2.7s"
end        = "3.2s"
"#;

#[test]
#[ignore = "boots a guest twice: make slow-test"]
fn linux_takes_the_path_that_is_left() {
    let bench = Bench::new();
    std::fs::write(bench.path("paths.toml"), PATHS).unwrap();
    for results in ["first", "second"] {
        let run = bench.run(&["paths.toml", "--results", results]);
        run.expect(0);
        println!("{}", run.stdout);
        let expected = [
            "live",
            "live",
            " 2 optimized",
            " 1 optimized",
            " 1 inaccessible",
            " 1 optimized",
            " 1 non-optimized",
            " 1 optimized",
            " 2 optimized",
            "/dev/nvme0n1",
            "/dev/nvme1n1",
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    }
    let faults = bench.json("first/summary.json")["faults"].clone();
    assert!(faults.as_array().unwrap().iter().all(|fault| fault["happened"] == 1), "{faults}");
    let read = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(read("first/faults.parquet") == read("second/faults.parquet"));
    assert!(read("first/ios.csv") == read("second/ios.csv"));
}
