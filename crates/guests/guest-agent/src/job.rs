//! Steps of a job that every way of work shares: what differs between jobs, what comes before the
//! command, and the results.

use std::fs::File;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use stasis_channel::{Client, Job, Start, Transport};

use crate::bfq_tracer::BfqTracer;
use crate::user::User;
use crate::wait::Announcements;
use crate::{bfq, kernel, results, udev, volumes, AgentError};

/// Number of looks, 1 ms apart, after which a guest looks every 10 ms whether its command may begin.
const MANY_LOOKS: u32 = 1000;

/// Use of udevd beside the command. Under stock QEMU job follows job, each for a moment on a drive
/// that is named to it, and to start udevd would take longer than some.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Udev {
    Starts,
    Absent,
}

/// Applies the settings that can differ between jobs: the name, the drives.
pub(crate) fn surroundings<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    announcements: &Announcements,
    udev: Udev,
) -> Result<(), AgentError> {
    kernel::set_hostname(&job.hostname)?;
    job.drives.iter().try_for_each(|name| announcements.wait_for(name))?;
    if udev == Udev::Starts && !udev::start(job.root.as_ref())? {
        client.log("udevd has not looked at all drives yet; /dev/disk may lack some")?;
    }
    // NVMe's generic devices have no blocks.
    let has_blocks = |name: &&String| !name.starts_with("ng");
    let drives: Vec<String> = job.drives.iter().filter(has_blocks).cloned().collect();
    for name in &drives {
        if !job.scheduler.is_empty() {
            kernel::set_scheduler(name, &job.scheduler)?;
        }
    }
    if job.log_level > 0 {
        kernel::set_log_level(job.log_level)?;
    }
    if job.coordinate {
        let tracer = BfqTracer::start()?;
        client.help_page(tracer.physical_address()?)?;
        bfq::tend(tracer, if job.idles { &[] } else { &drives })?;
    }
    Ok(())
}

/// Everything between the command's arrival and its start. `tools`: the folder of programs for volumes.
pub(crate) fn begin<T: Transport>(
    client: &mut Client<T>,
    job: &Job,
    tools: Option<&File>,
) -> Result<(), AgentError> {
    if let Some(container) = &job.container {
        volumes::mount_all(&container.volumes, tools)?;
    }
    if job.has_input {
        tar_input(client)?;
    }
    if let Some(container) = &job.container {
        // A user that there is not is told where the command begins.
        if let Ok(user) = User::find(&container.user) {
            chown("/results", Some(user.number), Some(user.group))
                .map_err(|e| AgentError::new("give to the command's user", "/results", e))?;
        }
    }
    if job.called {
        // The agent of a kernel without symbols asks now and then.
        if let Some(call) = kernel::call()? {
            client.callable(call)?;
        }
    }
    if job.together {
        // Between two looks the guest has nothing to do: its time is skipped. One that waits for another's
        // health looks more seldom after a while.
        let mut looks = 0;
        loop {
            match client.ready()? {
                Start::Now => break,
                Start::Later => {
                    looks += 1;
                    let pause = if looks < MANY_LOOKS { 1 } else { 10 };
                    std::thread::sleep(Duration::from_millis(pause));
                }
                Start::Never(reason) => return Err(AgentError::Never { reason }),
            }
        }
    }
    Ok(())
}

pub(crate) fn send_results<T: Transport>(client: &mut Client<T>) -> Result<(), AgentError> {
    if let Err(error) = results::send(client, Path::new("/results")) {
        client.log(&error.to_string())?;
    }
    Ok(())
}

fn tar_input<T: Transport>(client: &mut Client<T>) -> Result<(), AgentError> {
    let unpacked = stasis_guest_root::unpack(client.input(), Path::new("/"));
    unpacked.map_err(|e| AgentError::new("unpack the input at", "/", e))
}
