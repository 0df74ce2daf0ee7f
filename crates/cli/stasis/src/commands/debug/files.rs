//! The guest's files for gdb: `target:/usr/bin/fio` in gdb is the file that the guest's root has (gdb's manual,
//! E.7, Host I/O packets). gdb asks whoever has the other end of the wire, so the run has no part in it.

use std::collections::HashMap;
use std::sync::Arc;

use super::packet::{packet, unhex};
use crate::commands::symbols::Programs;

/// The begin of a packet that is for a file.
const FILE: &[u8] = b"$vFile:";
/// Limit on the bytes of an answer.
const MAX_READ: usize = 16 << 10;
/// Limit on the files that are open at once.
const MAX_OPEN: usize = 64;
/// gdb's own numbers of errors (gdb's manual, F.6.2).
const NO_SUCH_FILE: u32 = 2;
const BAD_NUMBER: u32 = 9;
const TOO_MANY: u32 = 23;
const NOT_SUPPORTED: u32 = 88;

/// The guest's files, and those that gdb has open.
pub struct Files {
    programs: Arc<Programs>,
    open: HashMap<u32, Vec<u8>>,
    next: u32,
    /// A packet that has not come whole.
    packet: Vec<u8>,
}

/// The destination of bytes of gdb's.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// They are for the run.
    Others(Vec<u8>),
    /// The answer, of which the run knows nothing.
    Answer(Vec<u8>),
    /// The rest of a packet is to come.
    Part,
}

impl Files {
    pub fn new(programs: Arc<Programs>) -> Self {
        Self { programs, open: HashMap::new(), next: 3, packet: Vec::new() }
    }

    /// Takes bytes of gdb's.
    pub fn take(&mut self, bytes: Vec<u8>) -> Found {
        if self.packet.is_empty() && !bytes.starts_with(FILE) {
            return Found::Others(bytes);
        }
        self.packet.extend(bytes);
        // The sum's two digits follow.
        if self.packet.iter().rev().nth(2) != Some(&b'#') {
            return Found::Part;
        }
        let whole = std::mem::take(&mut self.packet);
        let body = String::from_utf8_lossy(&whole[FILE.len()..whole.len() - 3]).into_owned();
        let (result, data) = match self.answer(&body) {
            Ok((result, data)) => (format!("F{result:x}"), data),
            Err(error) => (format!("F-1,{error:x}"), None),
        };
        let mut answer = result.into_bytes();
        if let Some(data) = data {
            answer.push(b';');
            answer.extend(escaped(&data));
        }
        Found::Answer(packet(&answer))
    }

    fn answer(&mut self, body: &str) -> Result<(usize, Option<Vec<u8>>), u32> {
        let (operation, rest) = body.split_once(':').unwrap_or((body, ""));
        let words: Vec<&str> = rest.split(',').collect();
        let number = |at: usize| words.get(at).and_then(|word| u64::from_str_radix(word, 16).ok());
        let opened = || number(0).and_then(|number| u32::try_from(number).ok());
        match operation {
            // The whole computer has one file system.
            "setfs" => Ok((0, None)),
            "open" => {
                if self.open.len() >= MAX_OPEN {
                    return Err(TOO_MANY);
                }
                let path = words.first().map(|hex| unhex(hex.as_bytes())).unwrap_or_default();
                let path = String::from_utf8(path).map_err(|_| NO_SUCH_FILE)?;
                let bytes = self.programs.bytes(&path).ok_or(NO_SUCH_FILE)?;
                self.next += 1;
                self.open.insert(self.next, bytes);
                Ok((self.next as usize, None))
            }
            "pread" => {
                let file = opened().and_then(|number| self.open.get(&number)).ok_or(BAD_NUMBER)?;
                let (count, offset) = number(1).zip(number(2)).ok_or(NOT_SUPPORTED)?;
                let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
                let count = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_READ);
                let part = &file[begin..file.len().min(begin.saturating_add(count))];
                Ok((part.len(), Some(part.to_vec())))
            }
            "fstat" => {
                let file = opened().and_then(|number| self.open.get(&number)).ok_or(BAD_NUMBER)?;
                let status = status(file.len() as u64);
                Ok((status.len(), Some(status)))
            }
            "close" => {
                let file = opened().and_then(|number| self.open.remove(&number));
                file.map(|_| (0, None)).ok_or(BAD_NUMBER)
            }
            _ => Err(NOT_SUPPORTED),
        }
    }
}

/// `struct stat` of a file that can be read (gdb's manual, F.6.5): numbers have their highest byte first.
fn status(length: u64) -> Vec<u8> {
    const REGULAR: u32 = 0o100_444;
    const BLOCK: u64 = 512;
    let mut status = Vec::new();
    // Device, inode; mode, links, owner, group, device.
    [0, 1, REGULAR, 1, 0, 0, 0u32].iter().for_each(|word| status.extend(word.to_be_bytes()));
    [length, BLOCK, length.div_ceil(BLOCK)]
        .iter()
        .for_each(|word| status.extend(word.to_be_bytes()));
    // Three times.
    status.extend([0; 12]);
    status
}

/// Bytes as a packet has them (gdb's manual, E.1, Binary Data).
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'#' | b'$' | b'}' | b'*' => escaped.extend([b'}', byte ^ 0x20]),
            byte => escaped.push(byte),
        }
    }
    escaped
}

/// Commands for gdb. `program-symbols` has the files that the selected thread's program is mapped from looked up in the
/// guest, and their symbols loaded where they lie; `kernel-modules` has the run make files of the kernel's modules.
pub const COMMANDS: &str = r#"
import gdb, os, tempfile

def selected():
    """gdb's number of the selected thread."""
    thread = gdb.selected_thread()
    if thread is None:
        raise gdb.GdbError("there is no run: connect first")
    return thread.ptid[1]

class ProgramSymbols(gdb.Command):
    """Load the symbols of the program that the selected thread runs, and of its libraries.
Their files are the guest's; debugging information is found by their build IDs."""

    def __init__(self):
        super().__init__("program-symbols", gdb.COMMAND_FILES)
        self.loaded = []

    def invoke(self, words, from_tty):
        text = gdb.execute("monitor mappings %d" % selected(), to_string=True)
        bases, code = {}, set()
        for line in text.splitlines():
            fields = line.split(" ", 4)
            if len(fields) < 5 or not fields[0].startswith("0x"):
                raise gdb.GdbError(line)
            begin, offset, path = int(fields[0], 16), int(fields[2], 16), fields[4]
            if offset == 0:
                # A program that is not relocated lies where its file says: low.
                bases.setdefault(path, 0 if begin < 1 << 32 else begin)
            if "x" in fields[3]:
                code.add(path)
        wanted = [(path, base) for path, base in bases.items() if path in code]
        # Another program may have others at the same addresses.
        for path, base in [one for one in self.loaded if one not in wanted]:
            gdb.execute('remove-symbol-file "target:%s"' % path, False, True)
            self.loaded.remove((path, base))
        for path, base in [one for one in wanted if one not in self.loaded]:
            try:
                gdb.execute('add-symbol-file "target:%s" -o 0x%x' % (path, base), False, True)
            except gdb.error as error:
                print("%s: %s" % (path, error))
                continue
            self.loaded.append((path, base))
            print("%s at 0x%x" % (path, base))

class KernelModules(gdb.Command):
    """Load the symbols of the kernel's modules, and the frames of their functions: kernel-modules [NAME...]"""

    def __init__(self):
        super().__init__("kernel-modules", gdb.COMMAND_FILES)
        self.folder = tempfile.TemporaryDirectory()
        self.loaded = {}

    def invoke(self, words, from_tty):
        number = selected()
        there = {}
        for line in gdb.execute("monitor modules %d" % number, to_string=True).splitlines():
            fields = line.split()
            if len(fields) != 3 or not fields[0].startswith("0x"):
                raise gdb.GdbError(line)
            there[fields[2]] = fields[0]
        wanted = words.split() or list(there)
        for name in wanted:
            if name not in there:
                raise gdb.GdbError("no module %s is loaded; there is %s" % (name, ", ".join(there)))
        path = lambda name: os.path.join(self.folder.name, name + ".elf")
        # Loaded again, a module lies elsewhere.
        for name, base in [one for one in self.loaded.items() if there.get(one[0]) != one[1]]:
            gdb.execute('remove-symbol-file "%s"' % path(name), False, True)
            del self.loaded[name]
        for name in [name for name in wanted if name not in self.loaded]:
            text = gdb.execute("monitor module %d %s" % (number, name), to_string=True)
            with open(path(name), "wb") as file:
                file.write(bytes.fromhex(text))
            gdb.execute('add-symbol-file "%s"' % path(name), False, True)
            self.loaded[name] = there[name]
            print("%s at %s" % (name, there[name]))

ProgramSymbols()
KernelModules()
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, b"a#b$c}d*e").unwrap();
        let own = vec![("/root/program".to_owned(), program)];
        let programs = Programs::new(folder.path().join("no-image"), own);
        (folder, Files::new(Arc::new(programs)))
    }

    fn ask(files: &mut Files, body: &str) -> String {
        let sum = body.bytes().fold(0u8, u8::wrapping_add);
        match files.take(format!("${body}#{sum:02x}").into_bytes()) {
            Found::Answer(answer) => String::from_utf8_lossy(&answer).into_owned(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_guests_file_is_read() {
        let (_folder, mut files) = files();
        assert_eq!(files.take(b"$m0,8#00".to_vec()), Found::Others(b"$m0,8#00".to_vec()));
        let hex: String = "/root/program".bytes().map(|byte| format!("{byte:02x}")).collect();
        let opened = ask(&mut files, &format!("vFile:open:{hex},0,0"));
        assert_eq!(opened, "$F4#7a");
        assert!(ask(&mut files, "vFile:pread:4,5,2").starts_with("$F5;b}\u{4}c}]d#"));
        assert!(ask(&mut files, "vFile:pread:4,5,63").starts_with("$F0;#"));
        assert!(ask(&mut files, "vFile:fstat:4").starts_with("$F40;"));
        assert!(ask(&mut files, "vFile:close:4").starts_with("$F0#"));
        assert!(ask(&mut files, "vFile:pread:4,5,0").starts_with("$F-1,9#"));
        assert!(ask(&mut files, "vFile:open:2f78,0,0").starts_with("$F-1,2#"));
        assert!(ask(&mut files, "vFile:unlink:2f78").starts_with("$F-1,58#"));
    }

    #[test]
    fn a_packet_may_come_in_parts() {
        let (_folder, mut files) = files();
        assert_eq!(files.take(b"$vFile:setfs".to_vec()), Found::Part);
        assert_eq!(files.take(b":0#bf".to_vec()), Found::Answer(b"$F0#76".to_vec()));
    }

    #[test]
    fn a_status_is_as_long_as_gdb_reads_it() {
        assert_eq!(status(5).len(), 64);
    }
}
