//! The channel over a virtio port, in stock machines: the same requests and
//! answers as in the mailbox, as frames, and job after job.
//!
//! A port is a stream of bytes (Virtual I/O Device 1.2, section 5.3), so a
//! request is its header and payload, and so is an answer; nothing is between
//! them. After a job the agent greets again for the next one, and a job without
//! a command is the end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use stasis_channel::{
    Client, Job, RootDevice, Transport, HEADER_SIZE, MAILBOX_SIZE, PORT_NAME, ROOT_SERIAL,
};

use crate::children::kill_the_rest;
use crate::job::{begin, send_results, surroundings, Udev};
use crate::kernel::modules;
use crate::wait::Announcements;
use crate::{checked, command, device, kernel, network, nodes, root, AgentError};

/// Sets the guest up once and runs jobs until the last.
pub(crate) fn serve() -> Result<(), AgentError> {
    root::mount_kernel_files()?;
    let announcements = Announcements::listen()?;
    kernel::load_list(modules(), "order")?;
    kernel::load_drives(modules(), &device::vendors())?;
    kernel::load_list(modules(), "order-port")?;
    let port = Port::find(&announcements)?;
    let root = root_device(&announcements)?;
    let root = root.as_ref();
    let asked = kernel::Asked::find()?;
    let folder = std::env::var("STASIS_IMAGE").ok();
    let tools = root::enter(&announcements, root, folder.as_deref())?;
    asked.load()?;
    nodes::make()?;
    network::loopback_up()?;
    let mut client = Client::new(port);
    loop {
        let job = client.hello()?;
        if job.command.is_empty() {
            break;
        }
        kernel::set_clock(job.realtime_ns)?;
        if job.seed != 0 {
            kernel::seed_random(job.seed)?;
        }
        let prepared = surroundings(&mut client, &job, &announcements, Udev::Absent)
            .and_then(|()| checked::prepare(&job.checked))
            .and_then(|()| begin(&mut client, &job, tools.as_ref()));
        match prepared {
            Ok(()) => command::run(&mut client, &job)?,
            Err(error) => client.not_started(126, &error.to_string())?,
        }
        if !job.keep_processes {
            tidy(&mut client, root, &job)?;
        }
        if job.send_results {
            send_results(&mut client)?;
        }
    }
    let _ = kill_the_rest();
    root::unmount_drives(root);
    Ok(())
}

/// Returns the device of a root that is not in memory; the kernel's command line names the kind of
/// file system in `STASIS_ROOT`.
fn root_device(announcements: &Announcements) -> Result<Option<RootDevice>, AgentError> {
    let Ok(file_system) = std::env::var("STASIS_ROOT") else { return Ok(None) };
    let subject = format!("the drive {ROOT_SERIAL}");
    let look = || named(Path::new("/sys/block"), "serial", ROOT_SERIAL);
    let found = look().map_or_else(|| announcements.wait_until("", &subject, look), Ok)?;
    Ok(Some(RootDevice { device: found.to_string_lossy().into_owned(), file_system }))
}

/// Ends what a job has left behind and reports the processes that it could not end.
fn tidy(client: &mut Client<Port>, root: Option<&RootDevice>, job: &Job) -> Result<(), AgentError> {
    let survivors = kill_the_rest();
    if !survivors.is_empty() {
        client.log(&format!("processes of the command do not end: {}", survivors.join(", ")))?;
    }
    for place in root::unmount_drives(root) {
        client.log(&format!("{} cannot be unmounted", place.display()))?;
    }
    if !job.checked.is_empty() {
        for message in checked::let_go(&job.checked) {
            client.log(&message)?;
        }
    }
    Ok(())
}

/// The port, and the mailbox that its frames are made in.
struct Port {
    file: File,
    mailbox: Vec<u8>,
}

impl Port {
    /// Opens the port that bears the channel's name.
    fn find(announcements: &Announcements) -> Result<Self, AgentError> {
        let subject = format!("the port {PORT_NAME}");
        let look = || {
            let name = named(Path::new("/sys/class/virtio-ports"), "name", PORT_NAME)?;
            OpenOptions::new().read(true).write(true).open(Path::new("/dev").join(name)).ok()
        };
        // The name comes from the host after the port, and is not announced.
        let file = match look() {
            Some(file) => file,
            None => announcements.wait_until("", &subject, look)?,
        };
        Ok(Self { file, mailbox: vec![0; MAILBOX_SIZE] })
    }

    fn exchange(&mut self) -> io::Result<()> {
        let length = HEADER_SIZE + payload_length(&self.mailbox);
        let request = self.mailbox.get(..length).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.write_all(request)?;
        self.file.read_exact(&mut self.mailbox[..HEADER_SIZE])?;
        let length = HEADER_SIZE + payload_length(&self.mailbox);
        let answer = self.mailbox.get_mut(HEADER_SIZE..length).ok_or(io::ErrorKind::InvalidData)?;
        self.file.read_exact(answer)
    }
}

impl Transport for Port {
    fn mailbox(&mut self) -> &mut [u8] {
        &mut self.mailbox
    }

    fn ring(&mut self) {
        if self.exchange().is_err() {
            // The host is gone: as if it had refused.
            self.mailbox[..4].copy_from_slice(&u32::MAX.to_le_bytes());
            self.mailbox[4..HEADER_SIZE].fill(0);
        }
    }
}

fn payload_length(mailbox: &[u8]) -> usize {
    u32::from_le_bytes([mailbox[4], mailbox[5], mailbox[6], mailbox[7]]) as usize
}

/// The entry of `class` whose file `file` contains `wanted`.
fn named(class: &Path, file: &str, wanted: &str) -> Option<std::ffi::OsString> {
    let entries = fs::read_dir(class).ok()?;
    let fits = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join(file)).is_ok_and(|text| text.trim() == wanted)
    };
    entries.filter_map(Result::ok).find(fits).map(|entry| entry.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_its_name() {
        let class = tempfile::tempdir().unwrap();
        for (entry, name) in [("vport1p1", "other\n"), ("vport2p1", "stasis.channel\n")] {
            fs::create_dir(class.path().join(entry)).unwrap();
            fs::write(class.path().join(entry).join("name"), name).unwrap();
        }
        fs::create_dir(class.path().join("vport3p1")).unwrap();
        assert_eq!(named(class.path(), "name", PORT_NAME).unwrap(), "vport2p1");
        assert_eq!(named(class.path(), "name", "third"), None);
    }
}
