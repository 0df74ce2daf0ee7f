//! From a definition to a machine.

use std::ffi::OsString;
use std::path::PathBuf;

use stasis_guest_image::Guest;
use stasis_qemu_vm::process::{reconnect, version, with_path};
use stasis_qemu_vm::{Accelerator, Config};

use crate::network::Network;
use crate::{Definition, Error};

/// Bytes of a huge page.
const HUGE_PAGE: u64 = 2 << 20;

/// Extent to which the guest looks for work instead of waiting for interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Polling {
    /// Its processors never halt (`idle=poll`): no exit to wake one up, at the price
    /// of as many of the host's.
    Always,
    /// The processors look for a while before they halt (the kernel's haltpoll).
    #[default]
    Adaptive,
    /// The processors halt; each completion is an interrupt.
    Never,
}

/// A function as it is to run.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Name of this instance.
    pub name: String,
    /// Definition of the function.
    pub definition: Definition,
    /// Folder that the definition's paths are relative to.
    pub base: PathBuf,
    /// The vhost-user socket of each drive, in the definition's order.
    pub sockets: Vec<PathBuf>,
    /// Accelerator that runs its instructions.
    pub accelerator: Accelerator,
    /// Its way of waiting.
    pub polling: Polling,
    /// Its network.
    pub network: Network,
    /// Processors of the host for its threads; empty: any.
    pub processors: Vec<usize>,
    /// True if its memory is of huge pages.
    pub huge_pages: bool,
    /// Its folder: status, and disks that it makes.
    pub folder: PathBuf,
}

impl Instance {
    /// Checks that the user's settings go together.
    ///
    /// # Errors
    /// The settings do not go together; the error names settings that do.
    pub fn check(&self) -> Result<(), Error> {
        if !crate::definition::is_name(&self.name) {
            return Err(Error::Invalid(format!(
                "`{}` cannot be a function's name: letters, digits, `-`, `_` and `.`",
                self.name
            )));
        }
        let (given, needed) = (self.sockets.len(), self.definition.drives.len());
        if given != needed {
            return Err(Error::Invalid(format!(
                "{} has {needed} drives ({}), but {given} are given: one --drive or --socket for each, in this order",
                self.name,
                self.definition.drives.join(", ")
            )));
        }
        Ok(())
    }

    /// The machine.
    pub fn config(&self, guest: Guest) -> Config {
        let mut config = Config::new(guest);
        config.accelerator = self.accelerator;
        config.vcpus = self.definition.vcpus;
        // virtio_blk makes a queue for each possible processor at most, polled ones included.
        config.spare_vcpus = self.polled_queues();
        config.memory = self.definition.memory;
        config.shared_memory = true;
        config.huge_pages = self.huge_pages;
        config.kernel_arguments = self.kernel_arguments();
        config.arguments = self.arguments();
        config.timeout = self.definition.health.deadline;
        config
    }

    /// Queues of a drive that the guest polls: one, for I/O that asks for it
    /// (io_uring's IOPOLL; since Linux 5.19 RWF_HIPRI of a synchronous call does not).
    fn polled_queues(&self) -> u32 {
        u32::from(self.polling != Polling::Never)
    }

    fn kernel_arguments(&self) -> String {
        let mut words = Vec::new();
        match self.polling {
            Polling::Always => words.push("idle=poll".to_owned()),
            Polling::Adaptive => words.push("cpuidle_haltpoll.force=1".into()),
            Polling::Never => {}
        }
        if self.polled_queues() > 0 {
            words.push(format!("STASIS_MODULE_virtio_blk=poll_queues={}", self.polled_queues()));
        }
        words.join(" ")
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let queues = self.definition.vcpus + self.polled_queues();
        // A server that is started again is found within a second.
        let reconnect = reconnect(version());
        for (index, socket) in self.sockets.iter().enumerate() {
            let backend = format!("socket,id=drive{index},{reconnect},path=");
            let device = format!("vhost-user-blk-pci,chardev=drive{index},num-queues={queues}");
            arguments.extend(["-chardev".into(), with_path(&backend, socket)]);
            arguments.extend(["-device".into(), device.into()]);
        }
        let polling = self.polling != Polling::Never;
        arguments.extend(self.network.arguments(&self.definition.ports, polling));
        arguments
    }
}

/// Returns whether `memory` bytes of huge pages are free, by the text of `/proc/meminfo`.
pub fn huge_pages_free(meminfo: &str, memory: u64) -> bool {
    let value = |key: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let right_size = value("Hugepagesize") == Some(HUGE_PAGE >> 10);
    let free = value("HugePages_Free").unwrap_or(0);
    right_size && free >= memory.div_ceil(HUGE_PAGE)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(name: &str) -> Instance {
        let found = crate::shipped::find(name).unwrap();
        Instance {
            name: found.name,
            sockets: found.definition.drives.iter().map(|d| format!("/s/{d},1").into()).collect(),
            definition: found.definition,
            base: found.base,
            accelerator: Accelerator::Emulation,
            polling: Polling::Always,
            network: Network::User,
            processors: Vec::new(),
            huge_pages: false,
            folder: "/run/f".into(),
        }
    }

    fn guest() -> Guest {
        Guest { kernel_release: "6".into(), ..Guest::default() }
    }

    #[test]
    fn a_machine_has_the_definitions_parts() {
        let mut instance = sample("nfs");
        instance.check().unwrap();
        instance.definition.vcpus = 2;
        let config = instance.config(guest());
        assert!(config.shared_memory && !config.huge_pages);
        assert_eq!((config.vcpus, config.spare_vcpus, config.memory), (2, 1, 512 << 20));
        assert_eq!(config.kernel_arguments, "idle=poll STASIS_MODULE_virtio_blk=poll_queues=1");
        let text = config.arguments.join(&OsString::from(" ")).into_string().unwrap();
        for part in [
            &format!("-chardev socket,id=drive0,{},path=/s/data,,1 ", reconnect(version())),
            "-device vhost-user-blk-pci,chardev=drive0,num-queues=3 ",
            "hostfwd=tcp:127.0.0.1:12049-:2049",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        instance.polling = Polling::Never;
        let config = instance.config(guest());
        assert_eq!((config.kernel_arguments.as_str(), config.spare_vcpus), ("", 0));
        assert!(config.arguments[3].to_str().unwrap().ends_with("num-queues=2"));
    }

    #[test]
    fn each_drive_needs_a_socket() {
        let mut instance = sample("nfs");
        instance.sockets.clear();
        let error = instance.check().unwrap_err().to_string();
        assert!(error.contains("1 drives (data), but 0 are given"), "{error}");
        instance.name = "a/b".into();
        assert!(instance.check().unwrap_err().to_string().contains("a/b"));
    }

    #[test]
    fn huge_pages_are_counted() {
        let text = "MemTotal: 9 kB\nHugePages_Total: 9\nHugePages_Free:       4\nHugepagesize:       2048 kB\n";
        assert!(huge_pages_free(text, 8 << 20));
        assert!(!huge_pages_free(text, (8 << 20) + 1));
        assert!(!huge_pages_free(&text.replace("2048", "1048576"), 1));
        assert!(!huge_pages_free("", 1));
    }
}
