//! The Identify data structure of key-value namespaces (KV 1.0 section 4.1.5).

use stasis_key_value::MAX_KEY;
use stasis_nvme_layout::command_sets;

use crate::identity::NamespaceIdentity;
use crate::narrow::constant16;

use super::namespace::KeyValueNamespace;

/// Identify Namespace data structure of the Key Value command set, but for the fields that every
/// namespace has.
pub fn fill_key_value_namespace(
    page: &mut command_sets::KeyValueNamespace,
    pairs: &KeyValueNamespace,
    identity: &NamespaceIdentity,
) {
    let layout = pairs.store.layout();
    page.nsze.set(layout.capacity);
    page.nuse.set(pairs.store.used());
    page.novg.set(u32::try_from(layout.unit).unwrap_or(u32::MAX));
    page.nguid = identity.nguid;
    page.eui64 = identity.eui64;
    // The one format; NKVF is 0's based.
    page.kvf[0].kml.set(const { constant16(MAX_KEY as u64) });
    page.kvf[0].vml.set(layout.max_value);
    page.kvf[0].mnk.set(layout.max_keys);
}
