//! Profiles: what samples say, and that taking them changes nothing.

use std::collections::HashMap;

use stasis_results::waits::KeptWait;
use stasis_results::{GuestTimes, KeptIos, SlowIo, ToldCommands};

use crate::support::{guest_file, Bench};

/// Samples of each stack.
fn stacks(bench: &Bench, results: &str) -> HashMap<String, u64> {
    let text = String::from_utf8(bench.bytes(&format!("{results}/profile.folded"))).unwrap();
    let one = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), count.parse().unwrap())
    };
    text.lines().map(one).collect()
}

/// A run with samples is the run without, to the byte, and the samples are where its processors
/// were.
#[test]
#[ignore = "measures three runs: make slow-test"]
fn a_profile_takes_no_time_and_tells_where_it_went() {
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    let machine = ["run", "--quiet", "--ios=csv", "--engine=exact", "--vcpus=2", "--seed=7"];
    let drive = ["--drive=name=d,model=flash-tlc,medium=ram:64MiB", "--file", &file];
    let run = |results: &str, more: &[&str]| {
        let rest = ["--results", results, "--", "sh", "/root/debug.sh"];
        let words = [&machine[..], &drive[..], more, &rest[..]].concat();
        bench.finish(bench.command(&words)).expect(0);
    };
    run("alone", &[]);
    run("often", &["--profile=10us"]);
    run("seldom", &["--profile=99us"]);
    for (results, interval) in [("often", 10_000.0), ("seldom", 99_000.0)] {
        for file in ["ios.csv", "fio.json"] {
            let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
            assert!(
                bytes_of("alone") == bytes_of(results),
                "{file} differs with samples, {results}"
            );
        }
        let summary = bench.json(&format!("{results}/summary.json"));
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        // Each processor is either sampled or idle, and ran as long as the samples say.
        let (all, idle) =
            (number(&summary["profile"]["samples"]), number(&summary["profile"]["idle_samples"]));
        let whole = number(&summary["virtual_seconds"]) * 1e9 / interval * 2.0;
        assert!((all - whole).abs() <= 4.0, "{all} samples of {whole}");
        let ran: f64 = summary["processors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| number(&one["running_seconds"]))
            .sum();
        let sampled = (all - idle) * interval / 1e9;
        assert!((sampled / ran - 1.0).abs() < 0.1, "ran {ran} s, {sampled} s by the samples");
        let folded: u64 = stacks(&bench, results).values().sum();
        assert_eq!(folded as f64, all - idle);
    }
    let export = bench.command(&["export", "often", "--pprof", "often.pb.gz"]);
    let exported = bench.finish(export);
    let samples: u64 = stacks(&bench, "often").values().sum();
    exported.expect(0);
    let exported_samples = format!("often.pb.gz: {samples} samples");
    assert!(exported.stderr.contains(&exported_samples), "{exported_samples}: {}", exported.stderr);
    let export = bench.command(&["export", "often", "--perfetto", "often.perfetto-trace"]);
    let exported = bench.finish(export);
    exported.expect(0);
    assert!(exported.stderr.contains(&format!(", {samples} samples")), "{}", exported.stderr);
    let page = bench.text("often/report.html");
    assert!(page.contains("while a") || page.contains("or more (p99)"), "no view of late I/Os");
    // The kernel's stacks reach from the interrupted function to a system call's entry.
    let stacks = stacks(&bench, "often");
    let whole: u64 = stacks.values().sum();
    let samples_with = |word: &str| {
        stacks.iter().filter(|(stack, _)| stack.contains(word)).map(|(_, count)| count).sum::<u64>()
    };
    let in_calls = samples_with("entry_SYSCALL_64");
    assert!(in_calls * 20 > whole, "{in_calls} of {whole} samples in system calls");
    assert!(
        samples_with(";ext4_") > 0 && samples_with(";submit_bio") > 0 && samples_with("[fio]") > 0,
        "{stacks:?}"
    );
}

/// A program that only computes, and one that only asks the kernel.
#[test]
#[ignore = "measures two runs: make slow-test"]
fn shares_are_those_of_known_programs() {
    let bench = Bench::new();
    let share = |results: &str, script: &str, word: &str| {
        let words = ["run", "--quiet", "--engine=exact", "--profile=20us", "--results", results];
        bench.finish(bench.command(&[&words[..], &["--", "sh", "-c", script]].concat())).expect(0);
        let stacks = stacks(&bench, results);
        let whole: u64 = stacks.values().sum();
        let part: u64 =
            stacks.iter().filter(|(stack, _)| stack.contains(word)).map(|(_, count)| count).sum();
        (part as f64 / whole as f64, whole)
    };
    let loops = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let (computes, samples) = share("computes", loops, "[sh]");
    assert!(samples > 500 && computes > 0.9, "{computes} of {samples} in the program");
    let zeros = "dd if=/dev/zero of=/dev/null bs=1M count=500 2>/dev/null";
    let (reads, samples) = share("reads", zeros, "read_zero");
    assert!(samples > 500 && reads > 0.8, "{reads} of {samples} in read_zero");
}

/// A program with a hardware breakpoint of its own, by the kernel.
const OWN_BREAKPOINT: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile int stored;
static int drive;
static char *block;
static void write_some(void) { for (int i = 0; i < 20; i++) pwrite(drive, block, 4096, i * 4096L); }
int main(void) {
    struct perf_event_attr event;
    long count = 0;
    drive = open("/dev/nvme0n1", O_RDWR | O_DIRECT);
    block = aligned_alloc(4096, 4096);
    memset(block, 1, 4096);
    write_some();
    memset(&event, 0, sizeof event);
    event.type = PERF_TYPE_BREAKPOINT;
    event.size = sizeof event;
    event.bp_type = HW_BREAKPOINT_W;
    event.bp_addr = (unsigned long)&stored;
    event.bp_len = HW_BREAKPOINT_LEN_4;
    int watch = syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
    if (watch < 0) { perror("perf_event_open"); return 1; }
    for (int i = 0; i < 10; i++) { write_some(); stored = i; }
    read(watch, &count, 8);
    close(watch);
    write_some();
    printf("%ld stores\n", count);
    return 0;
}
"#;

/// The guest's own hardware breakpoints work, and those of `--guest-times` beside them.
#[test]
fn the_guest_has_its_debug_registers_beside_an_observer() {
    let bench = Bench::new();
    bench.compile("own", OWN_BREAKPOINT, &["-O1"]);
    for (results, more) in [("plain", &[][..]), ("told", &["--guest-times"][..])] {
        let words = ["run", "--quiet", "--engine=exact", "--file=own", "--ios=csv"];
        let results = format!("--results={results}");
        let rest = ["--drive=model=fixed:20us,medium=ram:64MiB", "--", "/root/own"];
        let words = [&words[..], &[&results], more, &rest].concat();
        let run = bench.finish(bench.command(&words));
        assert_eq!((run.status, run.stdout.trim()), (Some(0), "10 stores"), "{run:?}");
    }
    let same = bench.bytes("plain/ios.csv") == bench.bytes("told/ios.csv");
    assert!(same, "an observer beside the guest's own breakpoints changes the run");
}

/// Two functions that execute known numbers of instructions, of a program that keeps frame pointers; one
/// has a name as C++ has them.
const KNOWN: &str = r#"
#define LOOP(n) __asm__ volatile("mov %0, %%rcx\n1: dec %%rcx\njnz 1b" : : "i"(n) : "rcx", "cc")
void thrice(void) __asm__("_ZN5known6thriceEv");
__attribute__((noinline)) void thrice(void) { LOOP(300000); }
__attribute__((noinline)) void once(void) { LOOP(100000); }
__attribute__((noinline)) void work(void) { for (int i = 0; i < 500; i++) { thrice(); once(); } }
int main(void) { work(); return 0; }
"#;

#[test]
#[ignore = "measures a run: make slow-test"]
fn shares_are_those_of_the_instructions_of_a_programs_functions() {
    let bench = Bench::new();
    bench.compile("known", KNOWN, &["-O0"]);
    // A length that no loop's is a multiple of.
    let words = ["run", "--quiet", "--engine=exact", "--profile=7919ns", "--file", "known"];
    let rest = ["--results=known-results", "--", "/root/known"];
    bench.finish(bench.command(&[&words[..], &rest[..]].concat())).expect(0);
    let stacks = stacks(&bench, "known-results");
    let samples_in = |end: &str| -> u64 {
        let its = |stack: &str| stack.contains(";[known];") && stack.ends_with(end);
        stacks.iter().filter(|(stack, _)| its(stack)).map(|(_, count)| count).sum()
    };
    let [thrice, once] = [samples_in(";main;work;known::thrice"), samples_in(";main;work;once")]
        .map(|count| count as f64);
    // 400 million instructions, five a nanosecond.
    let all = thrice + once;
    assert!((all / (400e6 / 5.0 / 7919.0) - 1.0).abs() < 0.01, "{all} samples: {stacks:?}");
    let error = 3.0 * (0.75 * 0.25 / all).sqrt();
    assert!((thrice / all - 0.75).abs() < error, "{thrice} and {once} samples");
    println!("{thrice} and {once} samples: {} of 0.75", thrice / all);
}

/// The stacks of a program whose compiler was told to keep no frame pointers are whole, and so are those
/// of one of Debian's, through two libraries.
#[test]
#[ignore = "measures three runs: make slow-test"]
fn stacks_of_programs_without_frame_pointers_are_whole() {
    const CHAIN: &str = r#"
#include <stdlib.h>
#define BUSY(n) __asm__ volatile("mov %0, %%rcx\n1: dec %%rcx\njnz 1b" : : "i"(n) : "rcx", "cc", "rbp")
#define STEP(name, next, room) __attribute__((noinline)) long name(long n) { \
  volatile char place[room]; place[n % room] = 1; long got = next(n); return got + place[n % room]; }
__attribute__((noinline)) long leaf(long n) { BUSY(100000); return n; }
STEP(third, leaf, 40)
static int compare(const void *a, const void *b) { return third(*(long *)a) > third(*(long *)b); }
__attribute__((noinline)) long sorts(long n) { long all[] = {n, 3, 2, 1}; qsort(all, 4, sizeof n, compare); return all[0]; }
STEP(second, sorts, 3000)
STEP(first, second, 8)
int main(void) { long sum = 0; for (int i = 0; i < 300; i++) sum += first(i); return sum == 0; }
"#;
    let bench = Bench::new();
    bench.compile("chain", CHAIN, &["-O2", "-fomit-frame-pointer"]);
    let words = ["run", "--quiet", "--engine=exact", "--profile=7919ns", "--file", "chain"];
    let rest = ["--results=chain-results", "--", "/root/chain"];
    bench.finish(bench.command(&[&words[..], &rest[..]].concat())).expect(0);
    let whole = |results: &str, outer: &str, inner: &str| {
        let (mut whole, mut all) = (0, 0);
        for (stack, count) in stacks(&bench, results) {
            if !stack.contains(inner) {
                continue;
            }
            all += count;
            whole += if stack.contains(outer) { count } else { 0 };
            if !stack.contains(outer) {
                println!("{count} {stack}");
            }
        }
        println!("{results}: {whole} of {all} stacks are whole");
        (whole, all)
    };
    let (found, all) = whole("chain-results", ";_start;", ";leaf");
    assert!(all > 1000 && found == all, "{found} of {all}");
    let own =
        stacks(&bench, "chain-results").into_iter().filter(|(stack, _)| stack.ends_with(";leaf"));
    for (stack, _) in own {
        let calls: Vec<&str> = stack.split(';').collect();
        let main = calls.iter().position(|call| *call == "main").expect(&stack);
        assert_eq!(calls[main..main + 4], ["main", "first", "second", "sorts"], "{stack}");
        let end = calls.len() - 3;
        assert!(
            calls[end - 1] != "sorts" && calls[end..] == ["compare", "third", "leaf"],
            "{stack}"
        );
    }
    // The kernel's code for programs has such information as well.
    let clock = "#include <time.h>\nint main(void) { struct timespec now; \
                 for (int i = 0; i < 400000; i++) clock_gettime(CLOCK_MONOTONIC, &now); return 0; }";
    bench.compile("clock", clock, &["-O2", "-fomit-frame-pointer"]);
    let words = ["run", "--quiet", "--engine=exact", "--profile=7919ns", "--file", "clock"];
    let rest = ["--results=clock-results", "--", "/root/clock"];
    bench.finish(bench.command(&[&words[..], &rest[..]].concat())).expect(0);
    let (found, all) = whole("clock-results", ";_start;", ";[vdso]");
    assert!(all > 300 && found == all, "{found} of {all}");
    let query = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000) \
                 SELECT sum(length(hex(x))) FROM c ORDER BY 1;";
    let words = ["run", "--quiet", "--engine=exact", "--profile=7919ns", "--packages=sqlite3"];
    let rest = ["--results=sqlite", "--", "sqlite3", ":memory:", query];
    bench.finish(bench.command(&[&words[..], &rest[..]].concat())).expect(0);
    let (found, all) = whole("sqlite", ";__libc_start_main;", ";sqlite3_step;");
    assert!(all > 300 && found * 100 >= all * 99, "{found} of {all}");
}

/// The file system of the root is a module: its functions have names, and stacks reach through them.
#[test]
#[ignore = "measures a run: make slow-test"]
fn stacks_reach_through_modules() {
    let bench = Bench::new();
    let words = ["run", "--quiet", "--engine=exact", "--profile=3us", "--results=modules"];
    let rest = ["--", "sh", "-c", "ls -lR /usr/share/doc > /dev/null"];
    bench.finish(bench.command(&[&words[..], &rest].concat())).expect(0);
    let stacks = stacks(&bench, "modules");
    let through = |stack: &&String| {
        let place = stack.find(" [overlay];");
        place.is_some_and(|place| {
            let before = &stack[..place];
            before.contains(";[ls];") && before.contains(";do_syscall_64;")
        })
    };
    let samples: u64 = stacks.values().sum();
    let within: Vec<_> = stacks.keys().filter(through).collect();
    assert!(within.len() > 10, "{within:?} of {samples} samples");
    assert!(!stacks.keys().any(|stack| stack.contains("[module]")), "{stacks:?}");
}

/// A file system in a module gives its I/Os to the block layer: their stacks reach through it to the
/// program's first function, without a sample being taken.
#[test]
#[ignore = "measures a run: make slow-test"]
fn guest_times_reach_through_modules() {
    let bench = Bench::new();
    let words = ["run", "--quiet", "--engine=exact", "--guest-times", "--results=modules"];
    let drive = ["--drive=name=d,model=fixed:50us,medium=ram:512MiB", "--", "sh", "-c"];
    let script = "set -e; mkfs.xfs -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt; cd /mnt
        for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i bs=64k count=4 conv=fsync; done 2>/dev/null
        sleep 60";
    bench.finish(bench.command(&[&words[..], &drive, &[script]].concat())).expect(0);
    let times = GuestTimes::read(&bench.path("modules")).unwrap().expect("it was asked for");
    let check = |submitter: &str, begin: &str| {
        let its = |io: &&GuestTimes| io.submitter == submitter && io.stack.contains("[xfs]");
        let all: Vec<_> = times.values().filter(its).collect();
        let whole = all.iter().filter(|io| io.stack.contains(begin)).count();
        assert!(whole > 0 && whole == all.len(), "{submitter}: {whole} of {} are whole", all.len());
        assert!(all.iter().all(|io| io.stack.ends_with(";blk_mq_submit_bio")), "{submitter}");
        println!("{submitter}: {whole} whole stacks, one is {}", all[0].stack);
    };
    check("system-call", ";__libc_start_main;");
    check("system-call", ";entry_SYSCALL_64_after_hwframe;do_syscall_64;");
    check("kernel-thread", "ret_from_fork;kthread;");
}

/// The run is the run without, and each I/O's parts are its time from its system call to its thread, to
/// the nanosecond: of a flash drive with collection, and of one on virtio.
#[test]
#[ignore = "measures two runs: make slow-test"]
fn guest_times_change_nothing_and_are_the_whole() {
    let bench = Bench::new();
    let steady = r#"
engine  = "exact"
seed    = 7
command = ["sh", "/root/work.sh"]

[machine]
vcpus = 2

[guest]
files = ["work.sh"]

[[drive]]
name   = "flash"
model  = { base = "flash-tlc", precondition = "steady", buffer = "0" }
medium = { ram = "64MiB" }

[[drive]]
name      = "disk"
model     = "fixed:90us"
interface = "virtio-blk"
medium    = { ram = "64MiB" }
"#;
    std::fs::write(bench.path("steady.toml"), steady).unwrap();
    let work = "fio --name=w --filename=/dev/nvme0n1 --rw=randrw --bs=4k --direct=1 \\
 --ioengine=libaio --iodepth=4 --number_ios=2000 --name=r --filename=/dev/vda --rw=randread --bs=4k --direct=1 \\
 --ioengine=libaio --iodepth=4 --number_ios=300 --output=/results/fio.txt";
    std::fs::write(bench.path("work.sh"), work).unwrap();
    for (results, more) in [("plain", &[][..]), ("told", &["--guest-times", "--timeline"][..])] {
        let words = ["run", "--quiet", "steady.toml", "--ios=csv", "--results", results];
        bench.finish(bench.command(&[&words[..], more].concat())).expect(0);
    }
    for file in ["ios.csv", "fio.txt"] {
        let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(bytes_of("plain") == bytes_of("told"), "{file} differs with the guest's times");
    }
    let folder = bench.path("told");
    let mut commands = ToldCommands::read(&folder).unwrap().expect("it was asked for");
    let times = GuestTimes::read(&folder).unwrap().expect("it was asked for");
    let mut ios = KeptIos::open(&folder).unwrap();
    let (mut whole, mut all, mut collected, mut slept) = (0, 0, 0, 0);
    while let Some(io) = ios.next().transpose().unwrap() {
        let drive = ios.drives()[usize::from(io.drive)].clone();
        let command = commands.take(&drive, &io).map(|(_, command)| command);
        if io.boot {
            continue;
        }
        all += 1;
        let Some(guest) = times.get(&(drive, io.order)) else { continue };
        assert_eq!((guest.rung_ns, guest.delivered_ns), (io.submit, io.delivered), "{io:?}");
        let io = SlowIo { guest: Some(guest.clone()), ..SlowIo::told(&io, command.as_ref()) };
        let sum: u64 = io.parts_in_order().iter().map(|(_, time)| time).sum();
        assert_eq!(sum, guest.ended() - guest.begun_ns, "{io:?}");
        assert_eq!(sum, io.whole(), "{io:?}");
        whole += 1;
        slept += u64::from(guest.woken_ns.is_some() && guest.begun_ns < guest.rung_ns);
        collected += u64::from(io.parts.is_some_and(|parts| parts.gc + parts.buffer_gc > 0));
    }
    assert!(all > 900 && whole * 100 >= all * 99, "{whole} of {all} I/Os have their whole time");
    assert!(slept > 100, "{slept} of {all} threads slept");
    assert!(collected > 0, "no I/O waited for a collection");
    let why = bench.finish(bench.command(&["why", "told", "disk:100"]));
    why.expect(0);
    assert!(why.stdout.contains("\nOf fio (io_submit): "), "{}", why.stdout);
}

/// A thread that waits for a lock whose holder waits for a read.
const HOLDER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int disk;
static void *block;
static void *hold(void *none) {
    printf("holder %ld\n", (long)syscall(SYS_gettid));
    pthread_mutex_lock(&lock);
    if (pread(disk, block, 4096, 0) != 4096) _exit(1);
    pthread_mutex_unlock(&lock);
    return none;
}
int main(void) {
    pthread_t thread;
    disk = open("/dev/nvme0n1", O_RDONLY | O_DIRECT);
    if (disk < 0 || posix_memalign(&block, 4096, 4096)) return 1;
    pthread_create(&thread, 0, hold, 0);
    usleep(1000);
    printf("waiter %d\n", getpid());
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, 0);
    return 0;
}
"#;

/// A wait has its call and whoever ended it, and leads to that one's own wait.
#[test]
fn who_waited_for_whom_is_told() {
    let bench = Bench::new();
    bench.compile("holder", HOLDER, &["-O1", "-pthread"]);
    let words =
        ["run", "--quiet", "--engine=exact", "--guest-times", "--results=r", "--file=holder"];
    let drive = ["--drive=model=fixed:5ms,medium=ram:64MiB", "--", "/root/holder"];
    let run = bench.finish(bench.command(&[&words[..], &drive[..]].concat()));
    run.expect(0);
    let pid = |name: &str| -> u64 {
        let line = run.stdout.lines().find_map(|line| line.strip_prefix(name));
        line.expect(&run.stdout).trim().parse().unwrap()
    };
    let (waiter, holder) = (pid("waiter"), pid("holder"));
    let waits = KeptWait::read(&bench.path("r")).unwrap().expect("they were asked for");
    let for_lock = |wait: &&KeptWait| wait.pid == waiter && wait.call() == Some("futex");
    let lock = waits.iter().find(for_lock).unwrap_or_else(|| panic!("{waits:#?}"));
    assert_eq!((lock.waker_pid, lock.process, &*lock.kind), (Some(holder), waiter, "sleep"));
    assert!((3_000_000..5_000_000).contains(&lock.length()), "{lock:?}");
    let for_drive = |wait: &&KeptWait| wait.pid == holder && wait.call() == Some("pread64");
    // It may leave its processor on its way as well.
    let read = waits.iter().filter(for_drive).max_by_key(|wait| wait.length());
    let read = read.unwrap_or_else(|| panic!("{waits:#?}"));
    assert!((4_900_000..5_100_000).contains(&read.length()), "{read:?}");
    assert_eq!((&*read.waker, read.waker_pid), ("interrupt", None));

    let subject = format!("pid:{waiter}@{}ns", lock.begun_ns + 1000);
    let why = bench.finish(bench.command(&["why", "r", &subject]));
    why.expect(0);
    let text = &why.stdout;
    for words in [
        format!("until holder ({holder}) woke it"),
        "which had waited itself until then".into(),
        "in pread64".into(),
        "until an interrupt woke it".into(),
    ] {
        assert!(text.contains(&words), "{words}: {text}");
    }
    let longest = bench.finish(bench.command(&["why", "r", "--waits", "2"]));
    longest.expect(0);
    assert!(
        longest.stdout.contains("in pread64") && longest.stdout.contains("in futex"),
        "{longest:?}"
    );
    let calls = bench.finish(bench.command(&["why", "r", "--calls", "1", "--in", "futex"]));
    calls.expect(0);
    let text = &calls.stdout;
    for words in [
        "system call",
        "pread64",
        &format!(" futex of holder ({waiter}) from "),
        "in one wait:",
        "which had waited itself until then",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let none = bench.finish(bench.command(&["why", "r", "--calls", "1", "--in", "fsync"]));
    none.expect(125).says(&["no call of fsync has waited; these have: ", "futex"]);
    let folded = bench.finish(bench.command(&["export", "r", "--off-cpu", "waits.folded"]));
    folded.expect(0);
    let folded = std::fs::read_to_string(bench.path("waits.folded")).unwrap();
    let times = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap());
    assert_eq!(times.sum::<u64>(), waits.iter().map(KeptWait::length).sum::<u64>());
    assert!(folded.contains("[holder];") && folded.contains("__x64_sys_futex"), "{folded}");
    let none = bench.finish(bench.command(&["why", "r", "pid:999999@0s"]));
    none.expect(125).says(&["no thread 999999 of a program waits from"]);
    let wrong = bench.finish(bench.command(&["why", "r", "pid:1"]));
    assert!(wrong.status == Some(2) && wrong.stderr.contains("pid:82@1.25ms"), "{wrong:?}");
}

#[test]
fn a_flush_of_the_kernel_leads_to_the_call_that_waited_for_it() {
    let bench = Bench::new();
    let commits = "mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /mnt
        for n in 1 2 3; do dd if=/dev/zero of=/mnt/$n bs=4k count=1 conv=fsync 2>/dev/null; done; echo over";
    let words = ["run", "--quiet", "--engine=exact", "--guest-times", "--results=f", "--ios=csv"];
    let drive =
        ["--drive=name=d,model=samsung-980-pro,medium=ram:64MiB", "--", "sh", "-c", commits];
    bench.finish(bench.command(&[&words[..], &drive[..]].concat())).expect(0);
    let rows = bench.text("f/ios.csv");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    let place = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let (operation, order) = (place("operation"), place("order"));
    let mut commits = 0;
    for row in rows.iter().filter(|row| row[operation] == "flush") {
        let why = bench.finish(bench.command(&["why", "f", &format!("d:{}", row[order])]));
        why.expect(0);
        let text = &why.stdout;
        // jbd2's commit has a flush before it, which a worker of the block layer issues.
        if text.contains("It is the flush that the block layer does before order") {
            assert!(text.contains("For dd (") && text.contains("), in fsync from"), "{text}");
            assert!(text.contains("jbd2/nvme0n1-8 woke it"), "{text}");
            commits += 1;
        }
    }
    assert!(commits >= 3, "{commits} of {rows:?}");
}

#[test]
fn what_cannot_be_sampled_is_told() {
    let bench = Bench::new();
    for (words, message) in [
        (&["run", "--profile=0s"][..], "--profile: 0s is no interval"),
        (&["run", "--profile=often"][..], "--profile: "),
        (&["run", "--profile=1us", "--engine=softkvm"][..], "a profile needs the engine exact"),
        (&["debug", "--profile=1us"][..], "--profile is for `stasis run`"),
        (&["run", "--guest-times", "--engine=softkvm"][..], "--guest-times needs the engine exact"),
        (&["debug", "--guest-times"][..], "--guest-times is for `stasis run`"),
    ] {
        let all = [words, &["--quiet", "--results=r", "--", "true"]].concat();
        bench.finish(bench.command(&all)).expect(125).says(&[message]);
    }
}
