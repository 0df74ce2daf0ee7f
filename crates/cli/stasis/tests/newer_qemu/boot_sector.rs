//! A boot sector that counts how often it ran, on the drive that it came from.

/// Bytes of a sector.
const SECTOR: usize = 512;

/// A disk that firmware boots: three times it shows a digit on port 0xe9, counts it up in the second
/// sector, and resets the machine; then it shows a dot and ends QEMU by port 0xf4. An error of the
/// firmware's disk services shows an exclamation mark.
pub fn disk() -> Vec<u8> {
    const DONE: u8 = 0x3b;
    const FAIL: u8 = 0x46;
    // Address of the disk address packet, as the program sees it: 0x7c00 plus this.
    const PACKET: u8 = 0x60;
    #[rustfmt::skip]
    let program: &[u8] = &[
        // 00: cli; ax, ds, es, ss = 0; sp = 0x7c00; sti; cld
        0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, 0xbc, 0x00, 0x7c, 0xfb, 0xfc,
        // 0e: si = packet; ah = extended read; int 0x13; on carry go to `fail`
        0xbe, PACKET, 0x7c, 0xb4, 0x42, 0xcd, 0x13, 0x72, FAIL - 0x17,
        // 17: al = the count; out 0xe9, al; count up
        0xa0, 0x00, 0x80, 0xe6, 0xe9, 0xfe, 0x06, 0x00, 0x80,
        // 20: si = packet; ax = extended write; int 0x13; on carry go to `fail`
        0xbe, PACKET, 0x7c, 0xb8, 0x00, 0x43, 0xcd, 0x13, 0x72, FAIL - 0x2a,
        // 2a: the count is 3: go to `done`
        0x80, 0x3e, 0x00, 0x80, b'3', 0x73, DONE - 0x31,
        // 31: out 0xcf9, 6: the machine is reset; hlt; jump back
        0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xf4, 0xeb, 0xfd, 0x90,
        // 3b, done: out 0xe9, '.'; out 0xf4, 0x10; hlt; jump back
        0xb0, b'.', 0xe6, 0xe9, 0xb0, 0x10, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd,
        // 46, fail: out 0xe9, '!'; out 0xf4, 1; hlt; jump back
        0xb0, b'!', 0xe6, 0xe9, 0xb0, 0x01, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd,
    ];
    let mut disk = vec![0; 16 << 20];
    disk[..program.len()].copy_from_slice(program);
    // The packet: its size, one sector, to 0x8000, from sector 1.
    let packet = [0x10, 0, 1, 0, 0x00, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    disk[PACKET.into()..][..packet.len()].copy_from_slice(&packet);
    disk[SECTOR - 2..SECTOR].copy_from_slice(&[0x55, 0xaa]);
    disk[SECTOR] = b'0';
    disk
}
