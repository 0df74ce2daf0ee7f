//! Boots a kernel and shows its messages: `boot VMLINUX INITRAMFS [VCPUS]`.
use stasis_machine::{run, Command, Config, MachineConfig, Speed};
use stasis_run_events::{EventSink, RunEvent};

struct Terminal(std::time::Instant);
impl EventSink for Terminal {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        let t = self.0.elapsed().as_secs_f64();
        match event {
            RunEvent::Console(b) | RunEvent::Output(b) | RunEvent::ErrorOutput(b) => {
                print!("[{t:.2}] {}", String::from_utf8_lossy(&b))
            }
            RunEvent::Progress(v) => println!("[{t:.2}] virtual {:.3} s", v as f64 / 1e9),
            RunEvent::Ios(v) => println!("[{t:.2}] {} ios, first {:?}", v.len(), v.first()),
            other => println!("[{t:.2}] {other:?}"),
        }
        Ok(())
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let vmlinux = std::fs::read(&args[1]).unwrap();
    let initramfs = std::fs::read(&args[2]).unwrap();
    let job = stasis_channel::Job::new(vec!["true".into()]);
    let machine = MachineConfig {
        name: String::new(),
        vcpus: args.get(3).map_or(1, |n| n.parse().unwrap()),
        memory: 512 << 20,
        command_line: args.get(4).map_or("", |s| s),
        job: job.without_command(),
        command: Box::new(move || {
            Ok(Command { job: job.clone(), input: Box::new(std::io::empty()) })
        }),
        drives: vec![],
        ports: vec![],
        root: None,
        seed: 1,
        random: false,
        comes_back: false,
        boots_again: false,
        beginning: stasis_machine::Beginning::Boot,
        rewind: None,
        waited: true,
        pauses: Vec::new(),
        failures: Vec::new(),
        dependencies: Vec::new(),
        orders: Vec::new(),
    };
    let config = Config {
        machines: vec![machine],
        shared: vec![],
        has_faults: false,
        triggers: vec![],
        networks: vec![],
        speed: Speed::Times(5.0),
        vmlinux: &vmlinux,
        initramfs: &initramfs,
        root_length: 0,
        fill_root: &mut |_| Ok(()),
        keyboard: None,
        outside: None,
        begin: None,
        debug: None,
        profile: None,
        programs: None,
        snapshots: None,
        change: None,
        quantum: 20_000,
        threads: 1,
        virtual_limit: None,
        timeline: None,
        stop: Default::default(),
    };
    match run(config, &mut Terminal(std::time::Instant::now())) {
        Ok(outcome) => println!("{outcome:#?}"),
        Err(error) => println!("error: {error}"),
    }
}
