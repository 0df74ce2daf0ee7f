//! Runs in the guest: `writers DEVICE` waits for the device, whose first block holds a number, and
//! then writes from sixteen threads at once. An acknowledged number is written to a port of QEMU's
//! (`isa-debugcon`) before the thread continues: the host has the number then, even if QEMU dies.

use std::arch::asm;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::time::Duration;

/// Bytes of a block.
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;
const THREADS: u64 = 16;
/// `O_DIRECT` of Linux on x86.
const DIRECT: i32 = 0o40000;
const PORT: u16 = 0xe9;

extern "C" {
    fn ioperm(from: u64, count: u64, on: i32) -> i32;
}

#[repr(align(4096))]
struct Aligned([u8; BLOCK as usize]);

fn wait_for(path: &str) -> File {
    loop {
        if let Ok(file) = OpenOptions::new().read(true).write(true).custom_flags(DIRECT).open(path)
        {
            return file;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tells that write `number` of a thread, to `block`, was acknowledged.
fn tell(block: u64, number: u64) {
    static ONE: Mutex<()> = Mutex::new(());
    let record = number << 16 | block << 8 | 0x5a;
    let _one = ONE.lock().unwrap();
    for byte in record.to_le_bytes() {
        // SAFETY: `ioperm` has allowed the port, which does nothing to this program.
        unsafe { asm!("out dx, al", in("dx") PORT, in("al") byte, options(nomem, nostack)) };
    }
}

fn write(device: &File, thread: u64, life: u64) {
    let mut random = life * THREADS + thread + 1;
    let mut data = Aligned([0; BLOCK as usize]);
    let mut number = 0;
    loop {
        // Marsaglia's xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // The threads' blocks are their own; the first is nobody's.
        let block = thread + THREADS * (random % (BLOCKS / THREADS));
        if block == 0 {
            continue;
        }
        number += 1;
        let stamp = life << 32 | number;
        data.0.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
        device.write_all_at(&data.0, block * BLOCK).expect("a write");
        tell(block, number);
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("a device");
    // SAFETY: asks for one port of this process.
    assert_eq!(unsafe { ioperm(PORT.into(), 1, 1) }, 0, "the port is allowed");
    println!("ready");
    let device = &wait_for(&path);
    let mut first = Aligned([0; BLOCK as usize]);
    device.read_exact_at(&mut first.0, 0).expect("the first block");
    let life = u64::from_le_bytes(first.0[..8].try_into().expect("eight bytes"));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || write(device, thread, life));
        }
    });
}
