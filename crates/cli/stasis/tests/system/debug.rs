//! gdb at a run: what it sees, and that its stops change nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{guest_file, Bench, Finished};

/// `stasis debug`, or `stasis run`, of two processors on a flash drive.
fn words<'a>(first: &[&'a str], results: &'a str, script: &'a str) -> Vec<&'a str> {
    let machine = ["--quiet", "--ios=csv", "--engine=exact", "--vcpus=2", "--seed=7"];
    let drive = "--drive=name=d,model=flash-tlc,medium=ram:64MiB";
    let rest = ["--results", results, drive, "--file", script, "--", "sh", "/root/debug.sh"];
    [first, &machine, &rest].concat()
}

/// Runs under gdb, which executes `script`.
fn under_gdb(bench: &Bench, first: &[&str], results: &str, script: &str) -> (Finished, String) {
    let file = guest_file("debug.sh");
    let path = bench.path(&format!("{results}.gdb"));
    std::fs::write(&path, format!("set pagination off\n{script}")).unwrap();
    let mut command = bench.command(&words(&[&["debug", "--gdb"], first].concat(), results, &file));
    let gdb = std::fs::File::open(&path).unwrap();
    // gdb reads its commands from the standard input, as from a user.
    let run = bench.finish({
        command.stdin(Stdio::from(gdb));
        command
    });
    // Answers of `monitor` are on its standard error.
    let output = format!("{}{}", run.stdout, run.stderr);
    (run, output)
}

#[test]
fn a_run_under_a_debugger_is_the_run_without() {
    assert!(Command::new("gdb").arg("--version").output().is_ok(), "no gdb: make setup");
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    // It keeps its boot for those below; that a run with snapshots is the run without is for `snapshots`.
    let alone = bench.finish(bench.command(&words(&["run", "--snapshots=1h"], "alone", &file)));
    alone.expect(0);

    // A breakpoint in the kernel at each I/O, a watchpoint, and a thousand steps.
    let script = "\
info threads
x/2i $rip
p $rax
x/s $rsi
python
for thread in gdb.selected_inferior().threads():
    if thread.ptid[1] == 10000002:
        thread.switch()
        gdb.execute('backtrace')
end
thread 1
stepi 1000
monitor time
info symbol $rip
break submit_bio
commands
silent
printf \"bio at %#lx\\n\", $rip
continue
end
watch *(unsigned long *)&jiffies
commands
silent
printf \"tick\\n\"
continue
end
continue
";
    let (run, output) = under_gdb(&bench, &["--at-output", "^mounted$"], "stopped", script);
    run.expect(0);
    assert!(output.contains("CPU 0") && output.contains("CPU 1"), "{output}");
    assert!(output.contains("ns since the commands have begun"), "{output}");
    // The run stands in the program that has written the line, at its system call (write is number 1).
    for words in [", runs: sh, ", "syscall", "$1 = 1", "\"mounted\\n\""] {
        assert!(output.contains(words), "{words}: {output}");
    }
    // The guest's tasks are threads, and the kernel's own tables say who has called whom.
    for words in ["(kthreadd, 2, sleeps, the kernel's)", " in kthreadd (", " in ret_from_fork ("] {
        assert!(output.contains(words), "{words}: {output}");
    }
    let symbols = output.lines().find_map(|line| line.strip_prefix("Reading symbols from "));
    let symbols = symbols.expect(&output).trim_end_matches("...").to_owned();
    let (hits, ticks) = (output.matches("bio at 0xff").count(), output.matches("tick").count());
    assert!(hits >= 40 && ticks >= 2, "{hits} breakpoints, {ticks} ticks: {output}");
    for file in ["ios.csv", "times.txt"] {
        let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(bytes_of("alone") == bytes_of("stopped"), "{file} differs under gdb");
    }

    // The run of results at an I/O's number, and a debugger that goes away without a word.
    let script = bench.path("left.gdb");
    std::fs::write(
        &script,
        "monitor drives\nmonitor events\nmonitor queues\nmonitor commands\nmonitor ftl d 0\n\
         monitor cache d\nmonitor power-cut d\nmonitor ftl d\nmonitor cache e\n\
         monitor ftl d 999999999\ndisconnect\n",
    )
    .unwrap();
    let mut again = bench.command(&["debug", "--gdb", "alone", "--at-io=d:50", "--results=left"]);
    again.stdin(std::fs::File::open(&script).unwrap());
    let run = bench.finish(again);
    let output = format!("{}{}", run.stdout, run.stderr);
    run.expect(0).says(&["gdb has gone"]);
    assert!(output.contains("d: next event"), "{output}");
    assert!(
        output.contains("d: queue 1: ") && output.contains("completions to 1: head"),
        "{output}"
    );
    for words in [
        "unit 0, ",
        "write buffer",
        "no later flush has covered",
        "a word is missing, or is too much: monitor ftl DRIVE LBA",
        "there is no such drive: monitor cache DRIVE; there is d",
        "the drive's first namespace has ",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    let same = bench.bytes("alone/ios.csv") == bench.bytes("left/ios.csv");
    assert!(same, "a debugger that has gone left another run");

    // The moment as a file, by gdb as a second opinion: the kernel's own data, and the place of the processors.
    let words = ["debug", "alone", "--at-io=d:50", "--dump=moment.elf", "--results=dumped"];
    let dumped = bench.finish(bench.command(&words));
    dumped.expect(0);
    assert!(dumped.stdout.contains("moment.elf: 1024 MiB of memory, 2 processors"), "{dumped:?}");
    let core = bench.path("moment.elf");
    let headers = Command::new("readelf").args(["-lnW"]).arg(&core).output().unwrap();
    let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
    for words in ["type is CORE", "VMCOREINFO", "NT_PRSTATUS", "0xffff888000000000"] {
        assert!(headers.contains(words), "{words}: {headers}");
    }
    let banner = "x/s (char *)&linux_banner";
    let gdb = Command::new("gdb")
        .args(["-batch", "-q", "-ex", "info threads", "-ex", banner])
        .args([Path::new(&symbols), &core])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&gdb.stdout).into_owned();
    assert!(output.contains("Linux version ") && output.contains("LWP 2"), "{output}");

    // The moment of a function's call; `kill` ends the run.
    let script = bench.path("killed.gdb");
    std::fs::write(&script, "bt 2\nset $rax = 5\np $rax\np $cr3 != 0\nkill\n").unwrap();
    let function = "--at-function=__x64_sys_execve";
    let mut killed = bench.command(&["debug", "--gdb", function, "--results=killed", "--", "true"]);
    killed.stdin(std::fs::File::open(&script).unwrap());
    let run = bench.finish(killed);
    let output = format!("{}{}", run.stdout, run.stderr);
    run.expect(130);
    assert!(output.contains("__x64_sys_execve") && output.contains("do_syscall_64"), "{output}");
    assert!(output.contains("$1 = 5") && output.contains("$2 = 1"), "{output}");
    assert_eq!(bench.json("killed/summary.json")["ending"], "cancelled");
}

/// Code that looks at itself, and uses all that breakpoints were once made of: INT3, debug exceptions, INT n.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
volatile int traps;
void trap(int s) { traps++; }
__attribute__((noinline)) int called(int x) { __asm__ volatile("" ::: "memory"); return x * 3 + 1; }
__attribute__((noinline)) int other(int x) { __asm__ volatile("" ::: "memory"); return x * 5 + 1; }
static unsigned sum(void) {
    unsigned s = 0;
    for (const unsigned char *p = (const unsigned char *)called; p < (const unsigned char *)other + 16; p++)
        s = s * 31 + *p;
    return s;
}
int main(void) {
    struct timespec t;
    int n = 0;
    signal(SIGTRAP, trap);
    printf("code %u\n", sum());
    for (int i = 0; i < 5; i++) { usleep(300); n += called(i) + other(i); }
    for (int i = 0; i < 3; i++) __asm__ volatile("int3");
    for (int i = 0; i < 500; i++) {
        long r;
        __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
    }
    if (!fork()) { called(1); _exit(0); }
    wait(0);
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%d traps, %d, code %u, at %ld\n", traps, n, sum(), t.tv_nsec);
    setpgid(0, 0);
    return 0;
}
"#;

/// More breakpoints than a processor has registers for, of the kernel and of a program that does not run
/// yet: each stops the run, and at the end all of the guest's memory is what it is without.
#[test]
#[ignore = "reads all of a guest's memory twice, minutes: make slow-test"]
fn breakpoints_are_in_no_memory() {
    let bench = Bench::new();
    bench.compile("looks", PROGRAM, &["-O1", "-g", "-no-pie"]);
    let under = |moment: &str, results: &str, script: &str| {
        let path = bench.path(&format!("{results}.gdb"));
        std::fs::write(&path, format!("set pagination off\nset remotetimeout 600\n{script}"))
            .unwrap();
        let words = ["debug", "--gdb", "--quiet", "--file=looks", "--ios=csv", moment];
        let drive = "--drive=model=fixed:20us,medium=ram:64MiB";
        let work = "dd if=/dev/zero of=/dev/nvme0n1 bs=4k count=8 oflag=direct 2>/dev/null; \
                    for i in 1 2; do /root/looks; done";
        let rest = [&format!("--results={results}"), drive, "--", "sh", "-c", work];
        let mut command = bench.command(&[&words[..], &rest[..]].concat());
        command.stdin(Stdio::from(std::fs::File::open(&path).unwrap()));
        let run = bench.finish(command);
        assert_eq!(run.status, Some(0), "{run:?}");
        format!("{}{}", run.stdout, run.stderr)
    };
    let lines = |output: &str, word: &str| -> Vec<String> {
        let lines = output.lines().filter(|line| line.contains(word));
        lines.map(|line| line.trim_start_matches("(gdb) ").to_owned()).collect()
    };
    let end = "monitor memory\ncontinue\n";
    let alone = under("--at-function=__x64_sys_setpgid", "alone", end);
    let functions = ["vfs_statx", "do_filp_open", "wake_up_new_task", "submit_bio", "do_exit"];
    let mut script = "add-symbol-file looks\nset breakpoint always-inserted on\n".to_owned();
    for function in functions.iter().chain(&["called", "other"]) {
        script += &format!(
            "break {function}\ncommands\nsilent\nprintf \"hit {function}\\n\"\ncontinue\nend\n"
        );
    }
    script += "hbreak __x64_sys_setpgid\ncontinue\nmonitor breakpoints\n";
    let stopped = under("--at=0s", "stopped", &format!("{script}{end}delete\ncontinue\n"));
    for (function, least) in
        functions.iter().map(|function| (*function, 1)).chain([("called", 6), ("other", 5)])
    {
        let hits = stopped.matches(&format!("hit {function}\n")).count();
        assert!(hits >= least, "{function}: {hits} times\n{stopped}");
    }
    assert_eq!(lines(&stopped, "the kernel's").len(), functions.len() + 1, "{stopped}");
    for word in ["digest", "traps, "] {
        let [one, other] = [lines(&alone, word), lines(&stopped, word)];
        assert!(!one.is_empty() && one[0] == other[0], "{one:?} and {other:?}\n{stopped}");
    }
    assert!(alone.contains("3 traps, "), "{alone}");
    let bytes_of = |results: &str| bench.bytes(&format!("{results}/ios.csv"));
    assert!(bytes_of("alone") == bytes_of("stopped"), "ios.csv differs under breakpoints");
}

/// Two processes of one program that write to the same address, one after the other and at once.
const WRITERS: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
volatile long counter;
__attribute__((noinline)) void begin(void) { __asm__ volatile("" ::: "memory"); }
int main(int n, char **words) {
    begin();
    counter = n;
    if (!fork()) { for (int i = 0; i < 4; i++) { counter = 100 + i; usleep(200); } _exit(0); }
    for (int i = 0; i < 3; i++) { counter = 10 * n + i; usleep(300); }
    wait(0);
    if (!vfork()) { counter = 77; _exit(0); }
    return 0;
}
"#;

/// A watchpoint is of the process in which it was set: not of its child, nor of a later one at the same
/// addresses, which may have its page tables. And before: a backtrace goes through a module.
#[test]
fn a_watchpoint_is_of_its_process() {
    let bench = Bench::new();
    bench.compile("writers", WRITERS, &["-O1", "-g", "-no-pie"]);
    let script = "\
set pagination off
kernel-modules virtio_blk
break virtio_queue_rq
break virtio_queue_rqs
continue
backtrace
delete
add-symbol-file writers
tbreak begin
continue
finish
program-symbols
watch counter
commands
silent
printf \"stored %d\\n\", counter
continue
end
monitor tasks
continue
";
    std::fs::write(bench.path("writers.gdb"), script).unwrap();
    let drive = "--drive=model=null,medium=ram:64MiB,interface=virtio-blk";
    let words = ["debug", "--gdb", "--quiet", "--file=writers", "--results=r", drive, "--"];
    let read = "dd if=/dev/vda of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null";
    let work = format!("{read}; /root/writers; /root/writers x; /root/writers x y");
    let work = ["sh", "-c", &work];
    let mut command = bench.command(&[&words[..], &work[..]].concat());
    command.stdin(Stdio::from(std::fs::File::open(bench.path("writers.gdb")).unwrap()));
    let run = bench.finish(command);
    let output = format!("{}{}", run.stdout, run.stderr);
    run.expect(0);
    let stored: Vec<&str> = output
        .lines()
        .filter_map(|line| line.trim_start_matches("(gdb) ").strip_prefix("stored "))
        .collect();
    assert_eq!(stored, ["1", "10", "11", "12", "77"], "{output}");
    assert!(output.contains(": writers, ") && output.contains("/root/writers at 0x0"), "{output}");
    // From a function of a module through the kernel to where the program or the thread has entered it.
    let frames = output.lines().map(|line| line.trim_start_matches("(gdb) "));
    let frames: Vec<&str> = frames.take_while(|line| !line.starts_with("add ")).collect();
    let frame =
        |word: &str| frames.iter().position(|line| line.starts_with('#') && line.contains(word));
    let (module, kernel) = (frame("virtio_queue_rq"), frame("blk_mq_"));
    let begin = frame("entry_SYSCALL_64").or(frame("ret_from_fork"));
    assert!(module.is_some() && module < kernel && kernel < begin, "{output}");
}

/// gdb sees the same going back as going forward, and the run stays the run.
#[test]
#[ignore = "repeats a run some forty times: make slow-test"]
fn going_back_is_the_run_again() {
    let bench = Bench::new();
    let file = guest_file("debug.sh");
    bench.finish(bench.command(&words(&["run"], "alone", &file))).expect(0);
    // Each place is an instruction's address and a time. From the first instruction of an
    // interrupt's handler back over the interrupt and the HLT before it, and from the one after a
    // store to the drive's doorbell back over that.
    let script = "\
python
import re
def place():
    time = gdb.execute('monitor time', to_string=True).split()[0]
    return int(gdb.parse_and_eval('$rip')), int(time)
def said(word):
    return gdb.execute(word, to_string=True)
def walk(what, steps):
    places = [place()]
    for _ in range(steps):
        said('reverse-stepi')
        places.append(place())
    assert all(a[1] >= b[1] for a, b in zip(places, places[1:])), places
    for there in reversed(places[:-1]):
        said('stepi')
        assert place() == there, (what, place(), there)
    print('WALKED', what, len(set(places)))
said('break asm_common_interrupt')
said('continue')
walk('interrupt', 6)
said('delete')
said('break nvme_queue_rq')
said('continue')
said('delete')
for _ in range(1000):
    text = said('x/i $rip')
    store = re.search(r'mov +%\\w+,\\(%(r\\w+)\\)$', text.strip())
    doorbell = store and int(gdb.parse_and_eval('(unsigned long)$' + store.group(1))) >> 40 == 0xffffc9
    said('stepi')
    if doorbell:
        break
assert doorbell
walk('doorbell', 4)
said('watch *(unsigned long *)&jiffies')
value = lambda: int(gdb.parse_and_eval('*(unsigned long *)&jiffies'))
said('continue')
said('continue')
last = (value(), place())
for back in range(1, 3):
    said('reverse-continue')
    assert value() == last[0] - back, (value(), last)
said('stepi')
assert value() == last[0] - 1
said('continue')
assert (value(), place()) == last, (value(), place(), last)
said('delete')
said('reverse-continue')
began = place()
said('reverse-stepi')
assert place() == began, (place(), began)
print('BACK')
end
continue
";
    let (run, output) = under_gdb(&bench, &["--at-output", "^mounted$"], "back", script);
    run.expect(0);
    for word in ["WALKED interrupt 7", "WALKED doorbell 5", "BACK"] {
        assert!(output.contains(word), "{output}");
    }
    assert_eq!(output.matches("No more reverse-execution history").count(), 2, "{output}");
    for file in ["ios.csv", "times.txt"] {
        let bytes_of = |results: &str| bench.bytes(&format!("{results}/{file}"));
        assert!(bytes_of("alone") == bytes_of("back"), "{file} differs after going back");
    }

    // The writes to a file are kept in memory, so that a run goes back, and the file stays.
    std::fs::write(bench.path("once.gdb"), "reverse-stepi\nbt 1\ndetach\n").unwrap();
    let drive = "--drive=name=d,model=fixed:1us,medium=file:once.img,size=64MiB";
    let all = ["debug", "--gdb", "--quiet", "--at-function=submit_bio", "--results=once", drive];
    let mut once = bench.command(&[&all[..], &["--", "mkfs.ext4", "-q", "/dev/nvme0n1"]].concat());
    once.stdin(std::fs::File::open(bench.path("once.gdb")).unwrap());
    let run = bench.finish(once);
    let output = format!("{}{}", run.stdout, run.stderr);
    run.expect(0);
    assert!(
        output.contains("file:once.img stays as it is") && output.contains("submit_bio"),
        "{output}"
    );
    assert!(!output.contains("cannot go back"), "{output}");
}

#[test]
fn what_cannot_be_debugged_is_told() {
    let bench = Bench::new();
    let drive = "--drive=model=fixed:1us,medium=ram:64MiB";
    for (words, message) in [
        (&["--engine=softkvm"][..], "a debugger needs the engine exact"),
        (
            &["--at-io", "other:1", drive][..],
            "there is no drive other in this run; there is drive0",
        ),
        (&["--at-function", "no_such_function"][..], "kernel has no no_such_function"),
        (&["--at-function", "start_kernel"][..], "start_kernel is a part of the kernel's start"),
        (&["--at", "soon"][..], "--at: "),
        (&["--at-output", "("][..], "--at-output"),
        (&["--power-cut", "1s"][..], "--power-cut ends the run"),
        (&["no-such-folder"][..], "no-such-folder"),
    ] {
        let all = [&["debug", "--quiet", "--results=r"], words, &["--", "true"]].concat();
        bench.finish(bench.command(&all)).expect(125).says(&[message]);
    }
    let all = ["debug", "--quiet", "--results=r", "--at=1h", "--", "true"];
    bench.finish(bench.command(&all)).expect(0).says(&["the moment has not come"]);
}
