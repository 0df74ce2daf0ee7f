//! The software host's first file system: the program as `/init` and the
//! kernel's modules, as a cpio archive of the `newc` kind
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use crate::{Error, Kernel};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CONSOLE: u32 = 0o020_600;

/// Writes the archive for `executable` and `kernel` to `path`.
pub(crate) fn write(path: &Path, executable: &Path, kernel: &Kernel) -> Result<(), Error> {
    let file = File::create(path).map_err(Error::io("cannot write", path))?;
    let mut archive = Archive { out: BufWriter::new(file), number: 0 };
    let mut fill = || -> io::Result<()> {
        for folder in ["dev", "proc", "sys", "tmp", "modules", "modules/kvm", "modules/drives"] {
            archive.entry(folder, FOLDER, (0, 0), &[])?;
        }
        // Standard input and output of /init, before devtmpfs is there.
        archive.entry("dev/console", CONSOLE, (5, 1), &[])?;
        archive.entry("init", PROGRAM, (0, 0), &std::fs::read(executable)?)?;
        for (folder, modules) in [("kvm", &kernel.kvm), ("drives", &kernel.drives)] {
            for (order, module) in modules.iter().enumerate() {
                let name = format!("modules/{folder}/{order:02}");
                archive.entry(&name, FILE, (0, 0), &std::fs::read(module)?)?;
            }
        }
        archive.entry("TRAILER!!!", 0, (0, 0), &[])?;
        archive.out.flush()
    };
    fill().map_err(Error::io("cannot write", path))
}

struct Archive<W> {
    out: W,
    number: u32,
}

impl<W: Write> Archive<W> {
    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> io::Result<()> {
        self.number += 1;
        let length = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor
        // rdevminor namesize check
        let fields = [
            self.number,
            mode,
            0,
            0,
            1,
            0,
            length,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        let mut head = b"070701".to_vec();
        for field in fields {
            write!(head, "{field:08x}")?;
        }
        head.extend_from_slice(name.as_bytes());
        head.push(0);
        head.resize(head.len().next_multiple_of(4), 0);
        self.out.write_all(&head)?;
        self.out.write_all(content)?;
        self.out.write_all(&[0; 3][..content.len().next_multiple_of(4) - content.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_the_kernel_reads_them() {
        let mut archive = Archive { out: Vec::new(), number: 0 };
        archive.entry("a", FILE, (0, 0), b"hello").unwrap();
        archive.entry("TRAILER!!!", 0, (0, 0), &[]).unwrap();
        let bytes = archive.out;
        // Header (110) + "a\0" = 112, then 5 bytes padded to 8.
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[14..22], b"000081a4");
        assert_eq!(&bytes[54..62], b"00000005");
        assert_eq!(&bytes[110..117], b"a\0hello");
        assert_eq!(&bytes[120..126], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }
}
