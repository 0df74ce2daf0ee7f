//! Cost of a guest's exit inside the software host, in instructions (exact mode) and in wall-clock
//! time: the figures behind the processor that `qemu.rs` asks for.
//!
//! ```text
//! RUSTFLAGS="-C target-feature=+crt-static" cargo run --release \
//!   --target x86_64-unknown-linux-gnu -p stasis-emulated-host --example exits -- CACHE exact|fast
//! ```

mod common;

use kvm_bindings::{kvm_regs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit};
use stasis_emulated_host::inside::Inside;
use stasis_emulated_host::{run, Control, Host, Job, Mode};
use stasis_run_events::{EventSink, RunEvent};
use std::time::Instant;

use common::clock;

fn main() {
    common::main(inner, outer);
}

fn inner(inside: &mut Inside, _job: Vec<u8>) {
    let kvm = Kvm::new().unwrap();
    let machine = kvm.create_vm().unwrap();
    // Aligned by mmap, as vec! of this size is not.
    let memory = vec![0u8; 3 << 12];
    let start = (memory.as_ptr() as usize).next_multiple_of(1 << 12);
    let program = [0xe6, 0x80, 0xeb, 0xfc]; // out 0x80, al; jmp -4
                                            // SAFETY: within `memory`.
    unsafe { (start as *mut u8).copy_from_nonoverlapping(program.as_ptr(), program.len()) };
    let region = kvm_userspace_memory_region {
        guest_phys_addr: 0x1000,
        memory_size: 0x1000,
        userspace_addr: start as u64,
        ..Default::default()
    };
    // SAFETY: `memory` outlives the machine's last run.
    unsafe { machine.set_user_memory_region(region) }.unwrap();
    let mut processor = machine.create_vcpu(0).unwrap();
    let mut special = processor.get_sregs().unwrap();
    special.cs.base = 0;
    special.cs.selector = 0;
    processor.set_sregs(&special).unwrap();
    processor.set_regs(&kvm_regs { rip: 0x1000, rflags: 2, ..Default::default() }).unwrap();
    let mut costs = Vec::new();
    const EXITS: usize = 20_000;
    for round in 0..2 {
        costs.clear();
        for _ in 0..EXITS {
            let before = clock();
            assert!(matches!(processor.run().unwrap(), VcpuExit::IoOut(0x80, _)));
            costs.push(clock() - before);
        }
        let text = format!("round {round} done\n");
        inside.events().event(RunEvent::Output(text.into_bytes())).unwrap();
    }
    costs.sort_unstable();
    let at = |share: f64| costs[(share * (EXITS - 1) as f64) as usize];
    let text = format!(
        "{EXITS} exits to user space: min {} p50 {} p99 {} p99.9 {} max {} ticks\n",
        at(0.0),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    inside.events().event(RunEvent::Output(text.into_bytes())).unwrap();
    inside.events().event(RunEvent::Failed("done".into())).unwrap();
}

struct Printer(Instant);

impl EventSink for Printer {
    fn event(&mut self, event: RunEvent) -> std::io::Result<()> {
        if let RunEvent::Output(bytes) = event {
            print!("{:7.3} {}", self.0.elapsed().as_secs_f64(), String::from_utf8_lossy(&bytes));
        }
        Ok(())
    }
}

fn outer() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(cache), Some(mode)) = (arguments.next(), arguments.next()) else {
        return Err("CACHE exact|fast".into());
    };
    let host = Host {
        mode: if mode == "fast" { Mode::Fast } else { Mode::Exact },
        memory: 1 << 30,
        inputs: Vec::new(),
        drives: Vec::new(),
        executable: std::env::current_exe()?,
        cache: cache.into(),
        snapshot: true,
        log: None,
    };
    let mut events = Printer(Instant::now());
    run(&host, &Job::default(), &mut events, &Control::default(), &mut |_, _| {})?;
    Ok(())
}
