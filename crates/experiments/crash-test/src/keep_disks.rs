//! The disks of one state as files, for other programs to look at.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use stasis_crash::{Cut, Enumerator, TracedDrive};
use stasis_results::{units, ResultsFolder};
use stasis_runner::free_space::{free_space, full};
use stasis_runner::{leave_zones, state_file};

use crate::session::Session;

/// Name of the file with a drive's contents in the state with this number; `image`: of the image's
/// own file, where no disk can be read from it.
fn name(drive: &TracedDrive, state: u64, image: bool) -> String {
    let kind = if image { "qcow2" } else { "img" };
    format!("{}.state-{state}.{kind}", drive.name)
}

impl Session {
    /// Writes the disks of the state `cut` into `folder`, each as a raw file of the size that the
    /// guest saw; an image that contradicts itself is written as it is. The session may not have
    /// inspected any state. Returns the files, and remarks for the user.
    ///
    /// # Errors
    /// There is not enough room, or a file cannot be read or written.
    pub fn keep(
        &mut self,
        cut: &Cut,
        folder: &mut ResultsFolder,
    ) -> Result<(Vec<PathBuf>, Vec<String>)> {
        let Self { trace, contents, disks, strict, .. } = self;
        let mut enumerator = Enumerator::new(trace, *strict);
        enumerator.go_to(cut.point);
        for (drive, sector, content) in enumerator.news() {
            disks[drive].settle(sector, content, contents)?;
        }
        let states = enumerator.cut(cut.sampling);
        let (mut sound, mut needed) = (Vec::new(), 0);
        for (index, state) in states.iter().enumerate() {
            let made = disks[index].become_state(&enumerator, index, state, contents)?;
            sound.push(made.is_ok());
            needed += disks[index].room((&enumerator, index, state));
        }
        enough(folder.path(), needed, cut.number)?;
        let (mut files, mut remarks) = (Vec::new(), Vec::new());
        for (index, state) in states.iter().enumerate() {
            let (drive, size) = (&trace.header.drives[index], trace.drives[index].guest.capacity);
            let name = name(drive, cut.number, !sound[index]);
            let path = folder.file(&name)?;
            if drive.device.zones.is_some() {
                folder.file(&state_file(&name))?;
            }
            let present = (&enumerator, index, state);
            let saved = match sound[index] {
                true => disks[index].save_disk(&path, present, size, contents),
                false => disks[index].save(folder.path(), &name, present, size, contents),
            };
            saved.with_context(|| full(&path).unwrap_or_else(|| not_kept(cut.number)))?;
            if sound[index] {
                let pointers = state.pointers_in_bytes();
                if let Err(why) = leave_zones(&path, &drive.device, size, &pointers) {
                    remarks.push(format!(
                        "{}: a run on it cannot go on where its zones end: {why:#}",
                        path.display()
                    ));
                }
            } else {
                remarks.push(format!(
                    "{}: the image contradicts itself, so it is kept as it is and not as a raw disk",
                    path.display()
                ));
            }
            files.push(path);
        }
        Ok((files, remarks))
    }
}

/// Refuses where `folder` has not room for `needed` bytes.
fn enough(folder: &Path, needed: u64, state: u64) -> Result<()> {
    match free_space(folder).filter(|free| *free < needed) {
        Some(free) => bail!(
            "--keep-disk: the disks of state {state} take {}, and {} has {} free; free some, or \
             name another folder with --results",
            units::bytes(needed),
            folder.display(),
            units::bytes(free)
        ),
        None => Ok(()),
    }
}

fn not_kept(state: u64) -> String {
    format!("--keep-disk: the disks of state {state} are not kept")
}

#[cfg(test)]
mod tests {
    use super::enough;

    #[test]
    fn too_little_room_is_named() {
        let folder = std::env::temp_dir();
        assert!(enough(&folder, 0, 3).is_ok());
        let message = enough(&folder, u64::MAX, 3).unwrap_err().to_string();
        for word in ["--keep-disk", "state 3", "free some", "--results"] {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
}
