//! Refcounts as they lie in a refcount block: entries of 1 to 64 bits.

/// The entry `index` of a block.
pub fn get(block: &[u8], order: u32, index: u64) -> u64 {
    let index = index as usize;
    match order {
        0..=2 => {
            let width = 1usize << order;
            let bit = index * width;
            let byte = block.get(bit / 8).copied().unwrap_or(0);
            // Entries below a byte begin at its least significant bit.
            u64::from(byte >> (bit % 8)) & ((1 << width) - 1)
        }
        _ => {
            let bytes = 1usize << (order - 3);
            let entry = block.get(index * bytes..(index + 1) * bytes).unwrap_or(&[]);
            entry.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
        }
    }
}

/// Sets the entry `index` of a block.
pub fn set(block: &mut [u8], order: u32, index: u64, value: u64) {
    let index = index as usize;
    match order {
        0..=2 => {
            let width = 1usize << order;
            let bit = index * width;
            let mask = (((1u16 << width) - 1) as u8) << (bit % 8);
            if let Some(byte) = block.get_mut(bit / 8) {
                *byte = *byte & !mask | ((value as u8) << (bit % 8)) & mask;
            }
        }
        _ => {
            let bytes = 1usize << (order - 3);
            if let Some(entry) = block.get_mut(index * bytes..(index + 1) * bytes) {
                entry.copy_from_slice(&value.to_be_bytes()[8 - bytes..]);
            }
        }
    }
}

/// The largest value of an entry.
pub fn limit(order: u32) -> u64 {
    u64::MAX >> (64 - (1u32 << order))
}

/// The larger of two blocks, entry by entry.
pub fn larger(a: &[u8], b: &[u8], order: u32) -> Vec<u8> {
    let mut larger = a.to_vec();
    for index in 0..(a.len() as u64 * 8) >> order {
        let value = get(b, order, index);
        if value > get(a, order, index) {
            set(&mut larger, order, index, value);
        }
    }
    larger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_every_width_are_kept_apart() {
        for order in 0..=6 {
            let mut block = vec![0; 512];
            let entries = (512 * 8) >> order;
            let value = |index: u64| (index * 7 + 1) & limit(order);
            (0..entries).for_each(|index| set(&mut block, order, index, value(index)));
            for index in 0..entries {
                assert_eq!(get(&block, order, index), value(index), "order {order}");
            }
            set(&mut block, order, 3, 0);
            assert_eq!((get(&block, order, 2), get(&block, order, 3)), (value(2), 0));
            let full = vec![0xff; 512];
            assert_eq!(larger(&block, &full, order), full);
            assert_eq!(get(&larger(&block, &vec![0; 512], order), order, 2), value(2));
        }
        // 16 bits are big-endian (qcow2.txt, refcount blocks).
        let mut block = vec![0; 512];
        set(&mut block, 4, 1, 0x102);
        assert_eq!(block[..4], [0, 0, 1, 2]);
    }
}
