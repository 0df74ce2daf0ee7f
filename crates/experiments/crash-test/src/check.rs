//! A command of the guest's that inspects states, under stock QEMU.

use std::io::{self, Read};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use stasis_crash::{Check, StateReader, Verdict};
use stasis_guest_image::Guest;
use stasis_qemu_vm::{Checker, Config, Disks, Finding, Task};

/// Longest that a check may take, in its guest's time.
const LIMIT: Duration = Duration::from_secs(120);
/// The lines that the workload had written.
const LINES: &str = "root/stasis-lines";
/// When the machine had them (ns), a line each.
const TIMES: &str = "root/stasis-times";
/// How a line begins that says that something was repaired.
const REPAIRED: &str = "repaired";

/// Runs a shell's command on each state.
pub struct GuestCheck {
    checker: Checker,
    command: String,
    // For the guest: path and content.
    files: Vec<(String, Vec<u8>)>,
}

impl GuestCheck {
    /// `files` is the archive of the experiment's files for the guest.
    pub fn new(guest: Guest, command: &str, files: &[u8], stop: &Arc<AtomicBool>) -> Result<Self> {
        let mut config = Config::new(guest);
        config.stop = Arc::clone(stop);
        let words = vec!["sh".into(), "-c".into(), command.into()];
        let checker = Checker::new(config, Task { command: words, limit: LIMIT });
        let mut all = Vec::new();
        for entry in tar::Archive::new(files).entries().context("cannot read the files")? {
            let mut entry = entry.context("cannot read the files")?;
            if entry.header().entry_type().is_file() {
                let path = entry.path().context("cannot read a file's name")?;
                let path = path.to_string_lossy().trim_start_matches('/').to_owned();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).context("cannot read a file")?;
                all.push((path, content));
            }
        }
        Ok(Self { checker, command: command.into(), files: all })
    }
}

/// A state as the machine's disks.
struct StateDisks<'a>(&'a mut dyn StateReader);

impl Disks for StateDisks<'_> {
    fn sizes(&self) -> Vec<u64> {
        (0..self.0.drives()).map(|drive| self.0.size(drive)).collect()
    }

    fn read(&mut self, index: usize, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read(index, offset, into)
    }
}

impl Check for GuestCheck {
    fn check(&mut self, state: &mut dyn StateReader) -> Result<Verdict, String> {
        let mut lines = Vec::new();
        let mut times = String::new();
        for (at, line) in state.lines() {
            lines.extend_from_slice(line);
            lines.push(b'\n');
            times += &format!("{at}\n");
        }
        let environment = [
            ("STASIS_OUTPUT_LINES", format!("/{LINES}")),
            ("STASIS_OUTPUT_TIMES", format!("/{TIMES}")),
            ("STASIS_LINE_COUNT", state.lines().len().to_string()),
            ("STASIS_CUT_NS", state.at().to_string()),
        ];
        let mut files: Vec<(&str, &[u8])> =
            self.files.iter().map(|(path, content)| (path.as_str(), &content[..])).collect();
        files.push((LINES, &lines));
        files.push((TIMES, times.as_bytes()));
        let found = self.checker.check(&mut StateDisks(state), &files, &environment);
        let Finding { status, said } = found.map_err(|error| error.to_string())?;
        Ok(match status {
            Some(0) if said.lines().any(|line| line.starts_with(REPAIRED)) => {
                Verdict::Repaired(said)
            }
            Some(0) => Verdict::Sound,
            Some(124) => Verdict::Broken(format!("the check took more than {LIMIT:?}: {said}")),
            Some(status) => {
                let hint = journal_hint(&self.command, status.into()).unwrap_or_default();
                Verdict::Broken(format!("the check's status is {status}: {said}{hint}"))
            }
            None => Verdict::Broken(format!("the guest did not survive the check: {said}")),
        })
    }
}

/// What is likely where `command` failed with `status`: e2fsck says 4 (errors left as they
/// are, e2fsck(8)) of every disk whose journal is still to be replayed, which `-n` keeps
/// it from doing.
fn journal_hint(command: &str, status: i32) -> Option<&'static str> {
    let mut words = command.split(|c: char| c.is_whitespace() || c == ';');
    let looks_only = words.any(|word| word.starts_with('-') && word.contains('n'));
    let fsck = ["fsck", "e2fsck"].iter().any(|name| command.trim_start().starts_with(name));
    (fsck && looks_only && status == 4).then_some(
        "\n(fsck's status 4 with -n: the journal was not replayed. Mount and unmount first: \
         mount /dev/vda /mnt && umount /mnt && fsck -fn /dev/vda)",
    )
}

#[cfg(test)]
mod tests {
    use super::journal_hint;

    #[test]
    fn a_journal_that_was_not_replayed_is_told_from_damage() {
        assert!(journal_hint("fsck.ext4 -fn /dev/vda", 4).is_some());
        assert!(journal_hint("e2fsck -n -f /dev/vda", 4).is_some());
        let right = "mount /dev/vda /mnt && umount /mnt && fsck.ext4 -fn /dev/vda";
        assert!(journal_hint(right, 4).is_none(), "that is damage");
        assert!(journal_hint("fsck.ext4 -fy /dev/vda", 4).is_none());
        assert!(journal_hint("fsck.ext4 -fn /dev/vda", 8).is_none());
    }
}
