//! The check of a definition.

use std::collections::BTreeSet;
use std::time::Duration;

use stasis_block::units::format_size;
use stasis_qemu_vm::MIN_MEMORY;

use super::Definition;

/// Limit on the drives of a function: `/dev/vda` to `/dev/vdz`.
const DRIVES: usize = 26;

/// Returns whether `name` can be part of a file's name and of a shell's.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !name.is_empty() && name.len() <= 64 && !name.starts_with(['-', '.']) && name.bytes().all(fits)
}

fn is_variable(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(first) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Definition {
    /// Checks the definition; returns its fault.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=64).contains(&self.vcpus) {
            return Err(format!("vcpus is {}, but must be 1 to 64", self.vcpus));
        }
        if !(MIN_MEMORY..=1 << 40).contains(&self.memory) {
            return Err(format!("memory must be {} to 1TiB", format_size(MIN_MEMORY)));
        }
        if self.drives.len() > DRIVES {
            return Err(format!("it has {} drives, but at most {DRIVES} fit", self.drives.len()));
        }
        let mut names = BTreeSet::new();
        for name in &self.drives {
            if !is_name(name) || !names.insert(name) {
                return Err(format!("`{name}` cannot be a drive's name: letters, digits, `-`, `_` and `.`, each name once"));
            }
        }
        for key in self.settings.keys() {
            if !is_variable(key) {
                return Err(format!("the setting `{key}` cannot be a variable of a shell: letters, digits and `_` only"));
            }
        }
        self.check_ports()?;
        for file in &self.files {
            let path = file.path.display();
            if !file.path.is_absolute() || file.path.components().any(|c| c.as_os_str() == "..") {
                return Err(format!(
                    "the file {path}: its path in the guest must be absolute and without `..`"
                ));
            }
            if file.content.is_some() == file.source.is_some() {
                return Err(format!("the file {path} needs `content` or `source`, and not both"));
            }
            if !u32::from_str_radix(&file.mode, 8).is_ok_and(|mode| mode <= 0o7777) {
                return Err(format!(
                    "the file {path}: mode is `{}`, but must be octal, such as `0755`",
                    file.mode
                ));
            }
        }
        for (field, time) in [
            ("health.every", self.health.every),
            ("health.deadline", self.health.deadline),
            ("init_deadline", self.init_deadline),
        ] {
            if time.is_zero() || time > Duration::from_secs(86_400) {
                return Err(format!("{field} must be above 0 and at most a day"));
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        let (mut guests, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        for port in &self.ports {
            if !is_name(&port.name) || !names.insert(&port.name) {
                return Err(format!("`{}` cannot be a port's name: letters, digits, `-`, `_` and `.`, each name once", port.name));
            }
            if port.guest == 0 || port.host == 0 {
                return Err(format!("the port {}: 0 is no port", port.name));
            }
            if !guests.insert(port.guest) || !hosts.insert(port.host) {
                return Err(format!("the port {}: another has the same number", port.name));
            }
            if port.disk.as_ref().is_some_and(|disk| !is_name(disk)) {
                return Err(format!(
                    "the port {}: `disk` is the name of an export, and of a file",
                    port.name
                ));
            }
        }
        Ok(())
    }
}
