//! A whole round trip, to try and to measure: this program runs itself inside
//! the software host, which probes KVM, echoes its job, checksums an input,
//! writes to a passed drive, and reports its clock.
//!
//! ```text
//! RUSTFLAGS="-C target-feature=+crt-static" cargo run --release \
//!   --target x86_64-unknown-linux-gnu -p stasis-emulated-host --example roundtrip -- \
//!   CACHE exact|fast MEMORY-MIB JOB [INPUT] [DRIVE]
//! ```

mod common;

use stasis_emulated_host::inside::Inside;
use stasis_emulated_host::{run, Control, Host, Input, Job, Mode, PassedDrive};
use stasis_qemu_vm::probe;
use stasis_run_events::{EventSink, RunEvent};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::clock;

fn main() {
    common::main(inner, outer);
}

fn inner(inside: &mut Inside, job: Vec<u8>) {
    let say = |inside: &mut Inside, text: String| {
        inside.events().event(RunEvent::Output(text.into_bytes())).unwrap();
    };
    say(inside, format!("started at {}\n", clock()));
    let job = String::from_utf8_lossy(&job).into_owned();
    say(inside, format!("job: {job}\n"));
    if job == "panic" {
        panic!("asked to");
    }
    if job == "exit" {
        return;
    }
    let before = clock();
    say(inside, format!("kvm: {:?}\n", probe::probe()));
    say(inside, format!("probe took {} ns\n", clock() - before));
    if let Some(length) = inside.input_length("data") {
        let before = clock();
        let mut data = vec![0u8; length as usize];
        data.chunks_mut(4096).for_each(|page| page[0] = 1);
        let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let huge = smaps.lines().find(|line| line.starts_with("AnonHugePages")).unwrap_or_default();
        say(inside, format!("touched in {} ns, {huge}\n", clock() - before));
        let before = clock();
        inside.read_input("data", 0, &mut data).unwrap();
        let after = clock();
        say(inside, format!("read {length} bytes in {} ns\n", after - before));
        // Wrapping sum of words: cheap enough to run in an emulator.
        let sum = data.chunks_exact(8).fold(0u64, |sum, word| {
            sum.rotate_left(1) ^ u64::from_le_bytes(word.try_into().unwrap())
        });
        say(inside, format!("sum {sum:016x} in {} ns\n", clock() - after));
        let mut middle = vec![0u8; 5001];
        inside.read_input("data", length / 2 - 7, &mut middle).unwrap();
        assert_eq!(middle, data[length as usize / 2 - 7..][..5001]);
        let past = inside.read_input("data", length, &mut [0]).unwrap_err();
        say(inside, format!("past the end: {past}\n"));
    }
    if let Some(path) = inside.drive_path(0) {
        let before = clock();
        let mut drive = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        drive.write_all(format!("written: {job}\n").as_bytes()).unwrap();
        drive.sync_all().unwrap();
        say(inside, format!("{} written in {} ns\n", path.display(), clock() - before));
    }
    for (job_name, size, count) in [("flood", 1000, 64), ("bulk", 64 << 10, 100)] {
        if job == job_name {
            let before = clock();
            for _ in 0..count {
                inside.events().event(RunEvent::Results(vec![b'x'; size])).unwrap();
            }
            say(inside, format!("{count} x {size} bytes in {} ns\n", clock() - before));
        }
    }
    if job == "wait" {
        let flag = inside.stop_flag();
        while !flag.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        say(inside, format!("stopped: {:?}\n", inside.stop_reason()));
    }
    if job == "hang" {
        loop {
            std::thread::park();
        }
    }
    say(inside, format!("ended at {}\n", clock()));
    inside.events().event(RunEvent::Failed("no outcome: this is an example".into())).unwrap();
}

struct Printer(Instant);

impl EventSink for Printer {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        print!("{:7.3} ", self.0.elapsed().as_secs_f64());
        match event {
            RunEvent::Results(bytes) => {
                assert!(bytes.iter().all(|byte| *byte == b'x'));
                println!("results: {} bytes", bytes.len());
                Ok(())
            }
            RunEvent::Output(bytes) => std::io::stdout().write_all(&bytes),
            other => writeln!(std::io::stdout(), "{other:?}"),
        }
    }
}

fn outer() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next();
    let (Some(cache), Some(mode), Some(memory), Some(job)) = (next(), next(), next(), next())
    else {
        return Err("CACHE exact|fast MEMORY-MIB JOB [INPUT] [DRIVE]".into());
    };
    let given = |path: Option<String>| path.filter(|path| !path.is_empty()).map(PathBuf::from);
    let host = Host {
        mode: if mode == "fast" { Mode::Fast } else { Mode::Exact },
        memory: memory.parse::<u64>()? << 20,
        inputs: given(next())
            .map(|path| Input { name: "data".into(), path, late: false, first_only: false })
            .into_iter()
            .collect(),
        drives: given(next())
            .map(|path| PassedDrive { path, read_only: false })
            .into_iter()
            .collect(),
        executable: std::env::current_exe()?,
        cache: cache.into(),
        snapshot: std::env::var_os("NO_SNAPSHOT").is_none(),
        log: None,
    };
    let start = Instant::now();
    println!("outside, kvm: {:?} after {:?}", probe::probe(), start.elapsed());
    println!("{:?}", stasis_emulated_host::requirements(&host));
    let start = Instant::now();
    let control =
        Control { deadline: Some(Instant::now() + Duration::from_secs(20)), ..Control::default() };
    let mut progress = |step: &str, _| println!("{:7.3} {step}", start.elapsed().as_secs_f64());
    run(&host, &Job::new(job.as_bytes()), &mut Printer(start), &control, &mut progress)?;
    println!("{:7.3} end", start.elapsed().as_secs_f64());
    Ok(())
}
