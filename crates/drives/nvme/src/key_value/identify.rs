//! The Identify data structure of key-value namespaces (KV 1.0 section 4.1.5).

use stasis_key_value::{Store, MAX_KEY};

use crate::identity::NamespaceIdentity;
use crate::PAGE_SIZE;

/// Identify Namespace data structure of the Key Value command set, by its byte offsets, but for the
/// fields that every namespace has. Sizes are in bytes.
pub fn fill_key_value_namespace(
    page: &mut [u8; PAGE_SIZE],
    store: &Store,
    identity: &NamespaceIdentity,
) {
    let layout = store.layout();
    let mut put = |at: usize, value: &[u8]| page[at..at + value.len()].copy_from_slice(value);
    put(0, &layout.capacity.to_le_bytes()); // NSZE
    put(16, &store.used().to_le_bytes()); // NUSE
    put(32, &(layout.unit as u32).to_le_bytes()); // NOVG
    put(48, &identity.nguid);
    put(64, &identity.eui64);
    // The one format: lengths of keys and values, and the number of keys. NKVF is 0's based.
    put(72, &(MAX_KEY as u16).to_le_bytes());
    put(76, &layout.max_value.to_le_bytes());
    put(80, &layout.max_keys.to_le_bytes());
}
