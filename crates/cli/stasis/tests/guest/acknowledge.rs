//! Runs in the guest: `acknowledge DEVICE` writes the numbers 1, 2, ... each to the block of its
//! number, flushes, and only then prints it.

use std::io::Write;
use std::os::unix::fs::FileExt;

/// Bytes of a block.
const BLOCK: u64 = 4096;

fn main() -> std::io::Result<()> {
    let device = std::env::args().nth(1).expect("a device");
    let device = std::fs::OpenOptions::new().write(true).open(device)?;
    let mut block = [0; BLOCK as usize];
    for number in 1u64.. {
        block[..8].copy_from_slice(&number.to_le_bytes());
        device.write_all_at(&block, number * BLOCK)?;
        device.sync_data()?;
        println!("{number}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
