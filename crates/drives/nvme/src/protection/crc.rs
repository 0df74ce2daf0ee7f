//! The CRCs that guard logical blocks (NVM Command Set 1.0 section 5.2.1).

/// CRC-16 T10-DIF: the register begins as zeroes, the highest bit first (SBC-4 section 4.22.4).
const T10_DIF: u64 = 0x8bb7;
/// CRC-32C (Castagnoli), the lowest bit first.
const CASTAGNOLI: u64 = 0x82f6_3b78;
/// The 64-bit CRC of NVMe, polynomial AD93D23594C93659h, the lowest bit first.
const NVME_64: u64 = 0x9a6c_9329_ac4b_c9b5;

/// Effects of a byte that so many other bytes follow: eight bytes are taken at a time.
type Tables = [[u64; 256]; 8];

static T10_DIF_TABLES: Tables = highest_first(T10_DIF << 48);
static CASTAGNOLI_TABLES: Tables = lowest_first(CASTAGNOLI);
static NVME_64_TABLES: Tables = lowest_first(NVME_64);

const fn lowest_first(polynomial: u64) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u64;
        let mut step = 0;
        while step < 64 {
            let low = register & 1;
            register = register >> 1 ^ if low == 1 { polynomial } else { 0 };
            step += 1;
            if step % 8 == 0 {
                tables[step / 8 - 1][byte] = register;
            }
        }
        byte += 1;
    }
    tables
}

/// The register is in the highest bits.
const fn highest_first(polynomial: u64) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u64) << 56;
        let mut step = 0;
        while step < 64 {
            let high = register >> 63;
            register = register << 1 ^ if high == 1 { polynomial } else { 0 };
            step += 1;
            if step % 8 == 0 {
                tables[step / 8 - 1][byte] = register;
            }
        }
        byte += 1;
    }
    tables
}

fn advance_lowest_first(tables: &Tables, mut register: u64, data: &[u8]) -> u64 {
    let (chunks, rest) = data.as_chunks::<8>();
    for chunk in chunks {
        let bytes = (register ^ u64::from_le_bytes(*chunk)).to_le_bytes();
        let effects = bytes.iter().zip(tables.iter().rev());
        register = effects.fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)]);
    }
    for &byte in rest {
        register = register >> 8 ^ tables[0][usize::from((register & 0xff) as u8 ^ byte)];
    }
    register
}

fn advance_highest_first(tables: &Tables, mut register: u64, data: &[u8]) -> u64 {
    let (chunks, rest) = data.as_chunks::<8>();
    for chunk in chunks {
        let bytes = (register ^ u64::from_be_bytes(*chunk)).to_be_bytes();
        let effects = bytes.iter().zip(tables.iter().rev());
        register = effects.fold(0, |sum, (&byte, table)| sum ^ table[usize::from(byte)]);
    }
    for &byte in rest {
        register = register << 8 ^ tables[0][usize::from((register >> 56) as u8 ^ byte)];
    }
    register
}

/// CRC-16 T10-DIF of two parts, one behind the other.
pub fn crc16(parts: [&[u8]; 2]) -> u16 {
    let tables = &T10_DIF_TABLES;
    let register = parts.iter().fold(0, |sum, part| advance_highest_first(tables, sum, part));
    (register >> 48) as u16
}

/// CRC-32C of two parts, one behind the other.
pub fn crc32c(parts: [&[u8]; 2]) -> u32 {
    let (tables, ones) = (&CASTAGNOLI_TABLES, u64::from(u32::MAX));
    let register = parts.iter().fold(ones, |sum, part| advance_lowest_first(tables, sum, part));
    !((register & 0xffff_ffff) as u32)
}

/// The 64-bit CRC of two parts, one behind the other.
pub fn crc64(parts: [&[u8]; 2]) -> u64 {
    let tables = &NVME_64_TABLES;
    !parts.iter().fold(u64::MAX, |sum, part| advance_lowest_first(tables, sum, part))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, of data as polynomial arithmetic has it: the simplest reference.
    pub fn bitwise(width: u32, polynomial: u64, begin: u64, reflected: bool, data: &[u8]) -> u64 {
        let mask = u64::MAX >> (64 - width);
        let mut register = begin;
        for &byte in data {
            for bit in 0..8 {
                let input = if reflected { byte >> bit } else { byte >> (7 - bit) } & 1;
                let out = register >> (width - 1) & 1;
                register = register << 1 & mask;
                if out ^ u64::from(input) == 1 {
                    register ^= polynomial;
                }
            }
        }
        if reflected {
            register.reverse_bits() >> (64 - width)
        } else {
            register
        }
    }

    #[test]
    fn check_values_are_those_of_the_specifications() {
        let digits: [&[u8]; 2] = [b"12345", b"6789"];
        // The usual check strings.
        assert_eq!(crc16(digits), 0xd0db);
        assert_eq!(crc32c(digits), 0xe306_9283);
        assert_eq!(crc64(digits), 0xae8b_1486_0a79_9888);
        // NVM Command Set 1.0 sections 5.2.1.2 and 5.2.1.3: blocks of 4 KiB of zeroes, of ones, of
        // bytes that count up, and that count down.
        let up: Vec<u8> = (0..4096u32).map(|at| at as u8).collect();
        let down: Vec<u8> = up.iter().map(|byte| !byte).collect();
        let blocks = [vec![0; 4096], vec![0xff; 4096], up, down];
        let of_32 = blocks.each_ref().map(|block| crc32c([block, &[]]));
        assert_eq!(of_32, [0x98f9_4189, 0x25c1_fe13, 0x9c71_fe32, 0x2149_41a8]);
        let of_64 = blocks.each_ref().map(|block| crc64([block, &[]]));
        let expected = [
            0x6482_d367_eb22_b64e,
            0xc0dd_ba73_02ec_a3ac,
            0x3e72_9f5f_6750_449c,
            0x9a2d_f64b_8e9e_517e,
        ];
        assert_eq!(of_64, expected);
    }

    proptest! {
        #[test]
        fn tables_compute_what_bits_do(data in prop::collection::vec(any::<u8>(), 0..100), cut: u8) {
            let parts = data.split_at(usize::from(cut) % (data.len() + 1));
            let parts = [parts.0, parts.1];
            let of_16 = bitwise(16, T10_DIF, 0, false, &data);
            prop_assert_eq!(u64::from(crc16(parts)), of_16);
            let of_32 = bitwise(32, 0x1edc_6f41, u64::from(u32::MAX), true, &data);
            prop_assert_eq!(crc32c(parts), !(of_32 as u32));
            let of_64 = bitwise(64, 0xad93_d235_94c9_3659, u64::MAX, true, &data);
            prop_assert_eq!(crc64(parts), !of_64);
        }
    }
}
