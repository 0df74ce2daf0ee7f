//! The check of an executable that is to run as `/init`.

use crate::Error;
use stasis_layout::{u16_at, u32_at, u64_at};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// `/init` has no dynamic linker beside it: an executable that asks for one
/// (ELF program header PT_INTERP) cannot run.
pub(crate) fn check_static(path: &Path) -> Result<(), Error> {
    // The program headers follow the ELF header in every linker's output.
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut head))
        .map_err(Error::io("cannot read", path))?;
    if asks_for_linker(&head) {
        return Err(Error::NotStatic(path.to_owned()));
    }
    Ok(())
}

fn asks_for_linker(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    // ELF-64: e_phoff at 32, e_phentsize at 54, e_phnum at 56.
    let table = || -> Option<(usize, usize, usize)> {
        let (size, count) = (u16_at(elf, 54)?, u16_at(elf, 56)?);
        Some((usize::try_from(u64_at(elf, 32)?).ok()?, size.into(), count.into()))
    };
    let Some((offset, size, count)) = table() else { return false };
    (0..count).any(|index| {
        let kind = offset.checked_add(index * size).and_then(|at| u32_at(elf, at));
        kind == Some(PT_INTERP)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_executables_are_told_from_others() {
        assert!(!asks_for_linker(b"#!/bin/sh"));
        let shell = std::fs::read("/bin/sh").unwrap();
        assert!(asks_for_linker(&shell));
        assert!(!asks_for_linker(&shell[..60]));
    }
}
