//! Measures a subject in every way, one after another, on the machine it runs on: without a
//! guest, with the guest by trap and interrupt, with the guest by polling.

mod bench;
mod figures;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use stasis_guest_image::{Guest, Recipe};
use stasis_qemu_vm::process::Process;
use stasis_qemu_vm::{readiness, Accelerator, Vm};
use stasis_runner::failure;
use stasis_storage_function::network::Network;
use stasis_storage_function::{pin, scripts, Definition, Instance, Polling};

use super::measured::Measured;
use super::shell::{here, inside};
use super::subject::Subject;
use super::{blocks, files};

pub use bench::Sizes;
use bench::{Bench, PORT, THREADS, TRIES};

/// Time limit of the guest's boot, which takes some 20 s where it is emulated.
const BOOT: Duration = Duration::from_secs(120);
/// The drive of all measurements.
const DEVICE: &str = "/dev/ram0";

/// Arguments of a measurement.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the guest's files
    pub guest: PathBuf,
    /// Subject to measure
    #[arg(long)]
    pub subject: Subject,
    /// Little of everything
    #[arg(long)]
    pub quick: bool,
}

/// Prints [`Measured`] as JSON on a separate line.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let file = |name: &str| arguments.guest.join(name);
    let guest = Guest {
        vmlinux: file("vmlinux"),
        initramfs: file("initramfs.cpio"),
        root: file("root.ext4"),
        in_place: None,
        images: Vec::new(),
        recipe: Recipe::default(),
        kernel_release: String::new(),
        date: 0,
        left_out: 0,
        digest: String::new(),
    };
    let measured = all(&guest, &Sizes::of(arguments.quick), arguments.subject)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(ExitCode::SUCCESS)
}

/// Measures a subject here, in every way.
pub fn all(guest: &Guest, sizes: &Sizes, subject: Subject) -> Result<Measured> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        bail!("the guest and the server need a processor each; there is one");
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    // This program's own file may be out of reach by its name.
    let program = folder.path().join("stasis");
    std::fs::copy("/proc/self/exe", &program).context("cannot copy this program")?;
    let last = processors - 1;
    let mut bench = Bench {
        guest,
        sizes,
        subject,
        folder: folder.path().to_owned(),
        program,
        cpus: [last - 1, last],
        measured: Measured { processors, ..Measured::default() },
    };
    let made = here(
        "test -b /dev/ram0 || modprobe brd rd_nr=1 rd_size=131072; blockdev --getsize64 /dev/ram0",
    );
    let size: u64 = made?.trim().parse().context("the size of /dev/ram0")?;
    if size < 100 << 20 {
        bail!("/dev/ram0 is smaller than 100 MiB: `rmmod brd` first");
    }
    bench.run("the host itself", Bench::bare);
    bench.run("trap and interrupt", Bench::trap);
    bench.run("polling", Bench::polled);
    Ok(bench.measured)
}

impl Bench<'_> {
    /// Does a part, and notes its failure. A virtual machine that ends by itself or
    /// hangs, as some do where the processor that runs it is emulated, is started again.
    fn run(&mut self, title: &str, part: fn(&mut Self) -> Result<()>) {
        for tries_after in (0..TRIES).rev() {
            let begun = Instant::now();
            let Err(error) = part(self) else {
                eprintln!("{title}: measured in {:.0} s", begun.elapsed().as_secs_f64());
                return;
            };
            eprintln!("{title}: {}", failure::told(&error));
            let ended = error.chain().filter_map(|cause| cause.downcast_ref()).any(|cause| {
                use stasis_qemu_vm::Error::{Boot, Ended, Silent};
                matches!(cause, Ended { .. } | Boot { .. } | Silent { .. })
            });
            if !ended || tries_after == 0 {
                self.measured.failed.push(format!("{title}: {}", failure::told(&error)));
                return;
            }
            self.measured.again.push(title.into());
        }
    }

    fn bare(&mut self) -> Result<()> {
        match self.subject {
            Subject::Drive => self.measured.bare = self.bare_drive(DEVICE)?,
            Subject::Network => self.bare_network()?,
            Subject::FileServer => {
                here(&files::start(DEVICE))?;
                here(files::DROP)?;
                let read = here(&files::read("127.0.0.1", THREADS, self.sizes.reads));
                here(files::STOP)?;
                self.measured.bare.reads = Some(blocks::parse(&read?)?.iops);
            }
        }
        Ok(())
    }

    fn bare_network(&mut self) -> Result<()> {
        // Another network namespace stands for the other machine.
        here("ip netns del far 2>/dev/null; modprobe veth; ip netns add far && ip link add near type veth peer name far netns far \
              && ip address add 10.78.0.1/24 dev near && ip link set near up \
              && ip -n far address add 10.78.0.2/24 dev far && ip -n far link set far up && ip -n far link set lo up")?;
        let program = self.program.display().to_string();
        here(&format!(
            "ip netns exec far {program} controller-part serve {PORT} </dev/null >/dev/null 2>&1 &"
        ))?;
        let network = self.network("10.78.0.2");
        here("ip netns pids far | xargs -r kill; ip netns del far")?;
        let network = network?;
        let bare = &mut self.measured.bare;
        (bare.ping_us, bare.requests) = (network.ping_us, network.requests);
        (bare.send, bare.receive) = (network.send, network.receive);
        Ok(())
    }

    /// The guest as QEMU makes it by default: virtio-blk on a thread of QEMU's,
    /// notifications and interrupts, processors that halt.
    fn trap(&mut self) -> Result<()> {
        let instance = self.instance(Polling::Never, Vec::new())?;
        let mut config = instance.config(self.guest.clone());
        for word in [
            "-object",
            "iothread,id=thread,poll-max-ns=0",
            "-blockdev",
            "host_device,node-name=disk,filename=/dev/ram0,cache.direct=on,aio=native",
            "-device",
            "virtio-blk-pci,drive=disk,iothread=thread",
        ] {
            config.arguments.push(word.into());
        }
        let mut vm = self.boot(&instance, &config)?;
        if self.subject != Subject::Drive {
            return self.reached(&mut vm, "/dev/vda", true);
        }
        self.measured.trap = self.drive(&mut vm, "/dev/vda", "initial", false)?;
        Ok(())
    }

    /// The guest as `stasis function run --poll always` makes it.
    fn polled(&mut self) -> Result<()> {
        let sockets = ["same", "own"].map(|name| self.folder.join(format!("{name}.sock")));
        // A client needs the server's processor, too.
        let alone = self.subject == Subject::Drive;
        let _server = self.serve(if alone { "always" } else { "adaptive" })?;
        let instance = self.instance(Polling::Always, sockets.to_vec())?;
        let config = instance.config(self.guest.clone());
        let mut vm = self.boot(&instance, &config)?;
        if !alone {
            return self.reached(&mut vm, "/dev/vda", false);
        }
        self.measured.polled = self.drive(&mut vm, "/dev/vda", "optimized", true)?;
        self.measured.own =
            self.drive(&mut vm, "/dev/vdb", "optimized, the server's memory", true)?;
        Ok(())
    }

    /// A server of the drive that all use, and of one in its own memory.
    fn serve(&self, poll: &str) -> Result<Process> {
        let mut command = Command::new("taskset");
        command
            .args(["-c", &self.cpus[1].to_string()])
            .arg(&self.program)
            .args(["serve", "--unconfined", "--poll", poll, "--sockets"])
            .arg(&self.folder)
            .args(["--drive", "name=same,model=null,medium=device:/dev/ram0"])
            .args(["--drive", "name=own,model=null,medium=ram:64MiB"]);
        Ok(readiness::start(command, "serve", &self.folder, Duration::from_secs(60))?)
    }

    fn instance(&self, polling: Polling, sockets: Vec<PathBuf>) -> Result<Instance> {
        let mut definition = Definition::parse(super::guest::GUEST, "the guest's definition")?;
        definition.drives = sockets.iter().map(|_| String::new()).collect();
        // Long enough for a guest that is emulated twice.
        definition.health.deadline = Duration::from_secs(120);
        let vhost = Path::new("/dev/vhost-net").exists() || here("modprobe vhost_net").is_ok();
        here("modprobe tun")?;
        Ok(Instance {
            name: "bench".into(),
            definition,
            base: PathBuf::new(),
            sockets,
            accelerator: Accelerator::Kvm,
            polling,
            network: Network::Tap { interface: "bench0".into(), guest: [10, 77, 0, 2], vhost },
            processors: self.cpus.to_vec(),
            huge_pages: false,
            folder: self.folder.clone(),
        })
    }

    fn boot(&self, instance: &Instance, config: &stasis_qemu_vm::Config) -> Result<Vm> {
        let mut config = config.clone();
        config.boot_limit = BOOT;
        let mut vm = Vm::start(&config).context("the guest does not start")?;
        pin::pin(&mut vm, &instance.processors)?;
        inside(&mut vm, &scripts::network(instance))?;
        instance.network.up()?;
        Ok(vm)
    }
}
