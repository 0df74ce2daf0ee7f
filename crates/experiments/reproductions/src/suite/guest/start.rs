//! Starts of applications from the modelled disk, with cold caches.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};

use super::disk::TestDisk;
use super::plan::{Application, MeasurementPlan};

/// Mount point of the applications' file system.
const ROOT: &str = "/tmp/suite-root";
/// Interval between two looks for the graphical server's socket.
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for the start of the graphical server, alone on the disk.
const MAX_SERVER: Duration = Duration::from_secs(300);

/// Starts applications in the file system on the disk.
pub struct Starter {
    limit: Duration,
}

impl Starter {
    /// Mounts the file system, and starts the graphical server where one is needed.
    pub fn new(plan: &MeasurementPlan, disk: &TestDisk) -> Result<Self> {
        std::fs::create_dir_all(ROOT)?;
        // A file system that is never written needs no journal, and is the same for the next boot.
        run(Command::new("mount").args(["-o", "ro,noatime"]).arg(disk.partition(1)).arg(ROOT))?;
        for folder in ["dev", "proc", "sys"] {
            let to = format!("{ROOT}/{folder}");
            run(Command::new("mount").args(["--rbind", &format!("/{folder}"), &to]))?;
        }
        for folder in ["tmp", "run", "root", "var/tmp"] {
            let to = format!("{ROOT}/{folder}");
            run(Command::new("mount").args(["-t", "tmpfs", "none", &to]))?;
        }
        if plan.graphical {
            serve()?;
        }
        let starter = Self { limit: Duration::from_millis(plan.limit_ms) };
        // Each application starts once without being measured: the graphical server then has all
        // that it keeps for ever, and a failing command is reported at once.
        let mut started: Vec<&Application> = Vec::new();
        for application in plan.phases.iter().flat_map(|phase| &phase.applications) {
            if !started.contains(&application) {
                starter.start(application)?;
                started.push(application);
            }
        }
        Ok(starter)
    }

    /// Seconds from the call to the end of the application's command; none if it
    /// took longer than the limit.
    pub fn start(&self, application: &Application) -> Result<Option<f64>> {
        drop_caches()?;
        let mut command = Command::new("chroot");
        command.arg(ROOT).args(&application.command);
        command.env("DISPLAY", ":0").env("HOME", "/root").env("XDG_RUNTIME_DIR", "/run");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let begun = Instant::now();
        let mut child = command.spawn().context("cannot start an application")?;
        let group = Pid::from_child(&child);
        let (end, ended) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let status = child.wait();
            // Nobody listens after the limit.
            let _ = end.send((status, Instant::now()));
        });
        let result = match ended.recv_timeout(self.limit) {
            Ok((status, at)) => {
                let status = status?;
                if !status.success() {
                    let (code, signal) = (status.code(), status.signal());
                    bail!("{} failed: status {code:?}, signal {signal:?}", application.name);
                }
                Some((at - begun).as_secs_f64())
            }
            Err(_) => {
                // The process may have ended meanwhile.
                let _ = kill_process_group(group, Signal::KILL);
                None
            }
        };
        if waiter.join().is_err() {
            bail!("{}: nobody waited for it", application.name);
        }
        Ok(result)
    }
}

/// Starts the graphical server, from the disk as well.
fn serve() -> Result<()> {
    let mut server = Command::new("chroot");
    server.args([ROOT, "Xvfb", ":0", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]);
    // The server does not restart after its last client, and has no software renderer.
    server.args(["-noreset", "-extension", "GLX"]);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = server.spawn().context("cannot start Xvfb")?;
    let socket = format!("{ROOT}/tmp/.X11-unix/X0");
    let begun = Instant::now();
    while !Path::new(&socket).exists() {
        if let Some(status) = server.try_wait()? {
            bail!("Xvfb ended: {status}");
        }
        if begun.elapsed() > MAX_SERVER {
            bail!("Xvfb has not started within {} s", MAX_SERVER.as_secs());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Empties the guest's page cache and its caches of names.
pub fn drop_caches() -> Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("cannot empty the caches")
}

/// Runs a program that must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}
