//! Sends a folder to the machine as a tar stream.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use stasis_channel::{Client, Transport, LEFT_OUT};
use tar::{Builder, EntryType, Header, HeaderMode};

use crate::AgentError;

/// Sends everything below `folder`, in the order of names. An entry that is neither file, folder
/// nor symbolic link is left out, and so is one that cannot be read: an entry of the type [`LEFT_OUT`]
/// at the end says so, a line each.
pub(crate) fn send<T: Transport>(client: &mut Client<T>, folder: &Path) -> Result<(), AgentError> {
    let mut left_out = Vec::new();
    let mut archive = Builder::new(client.results());
    let sent = archive_folder(&mut archive, folder, Path::new(""), &mut left_out)
        .and_then(|()| list(&mut archive, &left_out))
        .and_then(|()| archive.into_inner());
    match sent {
        Ok(writer) => Ok(writer.finish()?),
        Err(e) => Err(AgentError::new("send", folder.display().to_string(), e)),
    }
}

/// Appends the list of what is left out, if there is anything.
fn list(archive: &mut Builder<impl Write>, left_out: &[String]) -> io::Result<()> {
    if left_out.is_empty() {
        return Ok(());
    }
    let text = left_out.join("\n");
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(LEFT_OUT));
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    archive.append_data(&mut header, "left-out", text.as_bytes())
}

fn archive_folder(
    archive: &mut Builder<impl Write>,
    folder: &Path,
    inside: &Path,
    left_out: &mut Vec<String>,
) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(e) => {
            left_out.push(format!("{} is not in the results: {e}", folder.display()));
            return Ok(());
        }
    };
    entries.sort_unstable();
    for path in entries {
        let Some(name) = path.file_name() else { continue };
        let inside = inside.join(name);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(e) => {
                left_out.push(format!("{} is not in the results: {e}", path.display()));
                continue;
            }
        };
        let kind = meta.file_type();
        if kind.is_dir() {
            archive.append_data(&mut header(&meta, 0), &inside, io::empty())?;
            archive_folder(archive, &path, &inside, left_out)?;
        } else if kind.is_symlink() {
            archive.append_link(&mut header(&meta, 0), &inside, fs::read_link(&path)?)?;
        } else if kind.is_file() {
            match File::open(&path) {
                Ok(file) => {
                    // The header has promised this many bytes: a file that is
                    // shorter by now is filled up.
                    let bytes = Exactly { file, remaining: meta.len() };
                    archive.append_data(&mut header(&meta, meta.len()), &inside, bytes)?;
                }
                Err(e) => left_out.push(format!("{} is not in the results: {e}", path.display())),
            }
        } else {
            let text = "is not in the results: neither a file, a folder nor a symbolic link";
            left_out.push(format!("{} {text}", path.display()));
        }
    }
    Ok(())
}

fn header(meta: &Metadata, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_metadata_in_mode(meta, HeaderMode::Complete);
    header.set_size(size);
    header
}

/// Reads exactly as much as was promised.
struct Exactly {
    file: File,
    remaining: u64,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
        let into = &mut into[..most];
        let length = match self.file.read(into) {
            Ok(0) | Err(_) => {
                into.fill(0);
                most
            }
            Ok(length) => length,
        };
        self.remaining -= length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_becomes_an_archive_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("b/c")).unwrap();
        let long = "n".repeat(150);
        fs::write(root.join("b").join(&long), vec![5; 70_000]).unwrap();
        fs::write(root.join("a"), "first").unwrap();
        symlink("../gone", root.join("z")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut left_out = Vec::new();
        let mut archive = Builder::new(Vec::new());
        archive_folder(&mut archive, root, Path::new(""), &mut left_out).unwrap();
        let bytes = archive.into_inner().unwrap();
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].contains("pipe"));
        let mut listed = Builder::new(Vec::new());
        list(&mut listed, &[]).unwrap();
        list(&mut listed, &left_out).unwrap();
        let listed = listed.into_inner().unwrap();
        let mut listed = tar::Archive::new(&listed[..]);
        let mut entry = listed.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(entry.header().entry_type().as_byte(), LEFT_OUT);
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, left_out[0]);

        let mut listed = Vec::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let path = entry.path().unwrap().display().to_string();
            let link = entry.link_name().unwrap().map(|l| l.display().to_string());
            listed.push((path, content.len(), link));
        }
        let expected = [
            ("a".into(), 5, None),
            ("b".into(), 0, None),
            ("b/c".into(), 0, None),
            (format!("b/{long}"), 70_000, None),
            ("z".into(), 0, Some("../gone".to_string())),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn a_file_that_shrinks_keeps_the_stream_whole() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abc").unwrap();
        use std::io::Seek;
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        Exactly { file, remaining: 6 }.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"abc\0\0\0");
    }
}
