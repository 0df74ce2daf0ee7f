//! Identifiers of the subsystem and its namespaces, derived from the serial
//! number: the same drive has the same in every run.

use sha2::{Digest, Sha256};

/// The identifiers of one namespace (NVMe 1.4 section 5.15.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceIdentity {
    pub eui64: [u8; 8],
    pub nguid: [u8; 16],
    pub uuid: [u8; 16],
}

impl NamespaceIdentity {
    /// Returns the identifiers of the namespace `nsid`. `creation`: number of the creation by a
    /// host, so that a later namespace of the same NSID has other identifiers; 0 for one that the
    /// drive was made with.
    pub fn new(serial: &str, nsid: u32, creation: u32) -> Self {
        let digest = digest(serial, nsid, creation);
        let mut eui64 = [0; 8];
        eui64.copy_from_slice(&digest[..8]);
        eui64[0] = locally_administered(eui64[0]);
        let mut nguid = [0; 16];
        nguid.copy_from_slice(&digest[8..24]);
        // The NGUID's last 8 bytes begin with the OUI (section 7.10).
        nguid[8] = locally_administered(nguid[8]);
        Self { eui64, nguid, uuid: uuid(&digest[16..32]) }
    }
}

/// The subsystem's NVMe Qualified Name, by UUID (NVMe 1.4 section 7.9).
pub fn subsystem_name(serial: &str) -> String {
    let uuid = uuid(&digest(serial, 0, 0)[..16]);
    let mut name = String::from("nqn.2014-08.org.nvmexpress:uuid:");
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            name.push('-');
        }
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

fn digest(serial: &str, nsid: u32, creation: u32) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"stasis nvme ");
    hash.update(nsid.to_le_bytes());
    hash.update(serial);
    if creation > 0 {
        // No serial number has such a byte.
        hash.update([0]);
        hash.update(creation.to_le_bytes());
    }
    hash.finalize().into()
}

/// Marks an EUI as given by no registrar: the U/L bit set, the I/G bit clear
/// (IEEE 802, clause 8).
fn locally_administered(byte: u8) -> u8 {
    byte & !1 | 2
}

/// A UUID of version 8, free form (RFC 9562 section 5.8).
fn uuid(random: &[u8]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(random);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ_between_drives_and_namespaces_only() {
        let one = NamespaceIdentity::new("A", 1, 0);
        assert_eq!(one, NamespaceIdentity::new("A", 1, 0));
        for (serial, nsid, creation) in [("A", 2, 0), ("B", 1, 0), ("A", 1, 1)] {
            let other = NamespaceIdentity::new(serial, nsid, creation);
            assert_ne!(one.eui64, other.eui64);
            assert_ne!(one.nguid, other.nguid);
            assert_ne!(one.uuid, other.uuid);
        }
        assert_eq!(one.eui64[0] & 3, 2);
        assert_eq!((one.uuid[6] >> 4, one.uuid[8] >> 6), (8, 2));
        let name = subsystem_name("A");
        assert_eq!(name.len(), 32 + 36);
        assert_ne!(name, subsystem_name("B"));
    }
}
