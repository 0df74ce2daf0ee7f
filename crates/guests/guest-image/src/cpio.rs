//! The archive format of an initramfs: cpio "newc"
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

/// File types and modes of stat(2).
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive in memory. Owner, group and time of everything are 0, so that
/// the same content is the same archive.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder.
    pub(crate) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER | 0o755, (0, 0), &[]);
    }

    /// Adds a character device.
    pub(crate) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, CHARACTER_DEVICE | 0o600, (major, minor), &[]);
    }

    /// Adds a file with permissions `mode`. Its size must be below 4 GiB.
    pub(crate) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, FILE | mode, (0, 0), content);
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0, // device that the file was on
            0,
            major,
            minor,
            name.len() as u32 + 1,
            0, // no checksum
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The content of the file of this name; None where the archive has none, or is none.
pub(crate) fn file<'a>(mut archive: &'a [u8], name: &str) -> Option<&'a [u8]> {
    const MAGIC: usize = 6;
    const HEAD: usize = MAGIC + 13 * 8;
    loop {
        let head = archive.first_chunk::<HEAD>()?;
        let field = |number: usize| {
            let digits = std::str::from_utf8(&head[MAGIC + 8 * number..][..8]).ok()?;
            usize::from_str_radix(digits, 16).ok()
        };
        let (length, name_length) = (field(6)?, field(11)?);
        let its_name = archive.get(HEAD..)?.get(..name_length)?.strip_suffix(b"\0")?;
        let begin = (HEAD + name_length).next_multiple_of(4);
        let end = begin.checked_add(length)?;
        let content = archive.get(begin..end)?;
        if its_name == name.as_bytes() {
            return Some(content);
        }
        archive = archive.get(end.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn one_entry_byte_by_byte() {
        let mut archive = Archive::default();
        archive.file("ab", 0o644, b"xyz");
        let expected = b"070701\
            00000001\x30\x30\x30\x30\x38\x31\x41\x34\
            00000000000000000000000100000000\
            00000003\
            00000000000000000000000000000000\
            0000000300000000ab\0\0\0\0xyz\0";
        // 110 bytes of header and 3 of name are padded to 116.
        assert_eq!(archive.bytes[..113], expected[..113]);
        assert_eq!(archive.bytes[113..], *b"\0\0\0xyz\0");
    }

    #[test]
    fn a_file_is_found_by_its_name() {
        let mut archive = Archive::default();
        archive.folder("modules");
        archive.file("modules/init", 0o644, b"not this one");
        archive.file("init", 0o755, b"agent");
        let bytes = archive.finish();
        assert_eq!(file(&bytes, "init"), Some(&b"agent"[..]));
        assert_eq!(file(&bytes, "other"), None);
        for cut in 0..bytes.len() {
            let found = file(&bytes[..cut], "init");
            assert!(found.is_none_or(|content| content == b"agent"), "{cut}");
        }
        let digits = bytes.iter().map(|byte| if byte.is_ascii_digit() { b'F' } else { *byte });
        assert_eq!(file(&digits.collect::<Vec<_>>(), "init"), None);
    }

    #[test]
    fn gnu_cpio_reads_it() {
        let mut archive = Archive::default();
        archive.folder("dev");
        archive.device("dev/null", 1, 3);
        archive.file("init", 0o755, &[9; 5001]);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let Ok(mut cpio) = Command::new("cpio")
            .args(["-itv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            return;
        };
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("drwxr-xr-x") && lines[0].ends_with("dev"), "{text}");
        assert!(lines[1].starts_with("crw-------") && lines[1].contains("1,   3"), "{text}");
        assert!(lines[2].starts_with("-rwxr-xr-x") && lines[2].contains("5001"), "{text}");
    }
}
