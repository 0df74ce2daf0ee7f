//! The accesses of a booting guest to the devices that every machine has, to be made again.

/// Limit on them: a boot of Linux 6.1 has some 8,000.
const MAX_ACCESSES: usize = 1 << 16;

/// Bytes of an access, 8 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Bytes {
    bytes: [u8; 8],
    length: u8,
}

impl Bytes {
    /// The first 8 of `bytes`.
    pub(in super::super) fn new(bytes: &[u8]) -> Self {
        let length = bytes.len().min(8);
        let mut all = [0; 8];
        all[..length].copy_from_slice(&bytes[..length]);
        Self { bytes: all, length: length as u8 }
    }

    /// The bytes.
    pub(in super::super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// An access of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Access {
    /// To a port, with what was written.
    PortWrite(u16, Bytes),
    /// To a port, with what was read.
    PortRead(u16, Bytes),
    /// To the I/O APIC, at an offset.
    IoApicWrite(u64, Bytes),
}

/// Accesses in their order.
#[derive(Debug, Default)]
pub(in super::super) struct Accesses(Vec<Access>);

impl Accesses {
    /// Adds one; false where there are too many.
    pub(in super::super) fn add(&mut self, access: Access) -> bool {
        let has_room = self.0.len() < MAX_ACCESSES;
        if has_room {
            self.0.push(access);
        }
        has_room
    }

    /// Returns all accesses.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = &Access> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many() {
        let mut accesses = Accesses::default();
        let read = Access::PortRead(0xcfc, Bytes::new(&[1, 2, 3, 4]));
        for _ in 0..MAX_ACCESSES {
            assert!(accesses.add(read));
        }
        assert!(!accesses.add(read));
        assert_eq!((accesses.iter().count(), accesses.iter().last()), (MAX_ACCESSES, Some(&read)));
        assert_eq!(Bytes::new(&[7; 9]).get(), [7; 8]);
    }
}
