//! The agent's executable, without what only debuggers need.

use std::fs;
use std::path::Path;

use stasis_layout::{u16_at, u64_at};

use crate::BuildError;

/// Offsets and values of the ELF-64 object file format, version 1.5 draft 2,
/// figures 2 (file header), 6 (program header).
mod elf {
    pub const SECTION_TABLE: usize = 0x28;
    pub const SECTION_COUNT: usize = 0x3c;
    pub const SECTION_NAMES: usize = 0x3e;
    pub const SEGMENT_TABLE: usize = 0x20;
    pub const SEGMENT_SIZE: usize = 0x36;
    pub const SEGMENT_COUNT: usize = 0x38;
    pub const HEADER_SIZE: usize = 0x40;
    pub const SEGMENT_HEADER: usize = 0x38;
    pub const INTERPRETER: u32 = 3;
}

/// The part of an executable that a kernel loads: everything up to the end of
/// the last segment, with a file header that names no sections. Symbols and
/// debugging information stay behind, often nine tenths of the file, which the
/// guest would have to copy at every boot.
pub(crate) fn loadable_part(path: &Path) -> Result<Vec<u8>, BuildError> {
    let bytes = fs::read(path).map_err(BuildError::file("read", path))?;
    cut(bytes).map_err(|cause| BuildError::Agent { path: path.into(), cause })
}

/// [`loadable_part`] of a file's bytes.
pub(crate) fn cut(mut bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    // Class 2: 64 bits; data 1: little-endian; machine 62: x86-64.
    let header: &[u8] = bytes.get(..elf::HEADER_SIZE).ok_or("it is no ELF executable")?;
    if !header.starts_with(b"\x7fELF\x02\x01") || header[0x12..0x14] != [62, 0] {
        return Err("it is no x86-64 ELF executable");
    }
    let broken = "its ELF header is damaged";
    let segments = size_at(&bytes, elf::SEGMENT_TABLE).ok_or(broken)?;
    let size = usize::from(u16_at(&bytes, elf::SEGMENT_SIZE).ok_or(broken)?);
    let count = usize::from(u16_at(&bytes, elf::SEGMENT_COUNT).ok_or(broken)?);
    if size < elf::SEGMENT_HEADER || count == 0 {
        return Err(broken);
    }
    let mut end = elf::HEADER_SIZE;
    for index in 0..count {
        let start = segments.checked_add(index * size).ok_or(broken)?;
        let segment = bytes.get(start..).and_then(|rest| rest.get(..size)).ok_or(broken)?;
        if segment[..4] == elf::INTERPRETER.to_le_bytes() {
            return Err("it is linked dynamically; build it with RUSTFLAGS=\"-C target-feature=+crt-static\"");
        }
        let (offset, length) = (size_at(segment, 0x08), size_at(segment, 0x20));
        let last = offset.zip(length).and_then(|(offset, length)| offset.checked_add(length));
        end = end.max(start + size).max(last.ok_or(broken)?);
    }
    if end > bytes.len() {
        return Err("it is cut short");
    }
    bytes.truncate(end);
    bytes[elf::SECTION_TABLE..elf::SECTION_TABLE + 8].fill(0);
    bytes[elf::SECTION_COUNT..elf::SECTION_COUNT + 2].fill(0);
    bytes[elf::SECTION_NAMES..elf::SECTION_NAMES + 2].fill(0);
    Ok(bytes)
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one segment of `length` bytes at offset 0 and a tail.
    fn executable(length: u64, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0xaa; 4096];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x12..0x14].copy_from_slice(&[62, 0]);
        bytes[0x20..0x28].copy_from_slice(&64u64.to_le_bytes());
        bytes[0x36..0x38].copy_from_slice(&56u16.to_le_bytes());
        bytes[0x38..0x3a].copy_from_slice(&1u16.to_le_bytes());
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[64 + 8..64 + 16].copy_from_slice(&0u64.to_le_bytes());
        bytes[64 + 32..64 + 40].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    #[test]
    fn keeps_the_segments_and_no_more() {
        let cut_file = cut(executable(1000, 1)).unwrap();
        assert_eq!(cut_file.len(), 1000);
        assert_eq!(cut_file[0x28..0x30], [0; 8]);
        assert_eq!(cut_file[0x3c..0x40], [0; 4]);
    }

    #[test]
    fn refuses_what_cannot_start() {
        assert!(cut(executable(1000, 3)).unwrap_err().contains("dynamically"));
        assert!(cut(executable(5000, 1)).unwrap_err().contains("short"));
        assert!(cut(executable(u64::MAX, 1)).is_err());
        assert!(cut(b"#!/bin/sh\n".to_vec()).is_err());
        assert!(cut(executable(1000, 1)[..100].to_vec()).is_err());
    }

    #[test]
    fn a_cut_executable_still_runs() {
        // This test is linked dynamically, so try a static program if Debian's
        // busybox-static is here, and the cut's arithmetic otherwise (above).
        let Ok(bytes) = fs::read("/bin/busybox") else { return };
        let Ok(bytes) = cut(bytes) else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("busybox");
        fs::write(&path, bytes).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let output = std::process::Command::new(&path).args(["echo", "runs"]).output().unwrap();
        assert_eq!(output.stdout, b"runs\n");
    }
}
