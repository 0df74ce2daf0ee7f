//! The Identify data structure of key-value namespaces (KV 1.0 section 4.1.5).

use stasis_key_value::{Store, MAX_KEY};
use stasis_nvme_layout::command_sets::KeyValueNamespace;

use crate::identity::NamespaceIdentity;

/// Identify Namespace data structure of the Key Value command set, but for the fields that every
/// namespace has.
pub fn fill_key_value_namespace(
    page: &mut KeyValueNamespace,
    store: &Store,
    identity: &NamespaceIdentity,
) {
    let layout = store.layout();
    page.nsze.set(layout.capacity);
    page.nuse.set(store.used());
    page.novg.set(layout.unit as u32);
    page.nguid = identity.nguid;
    page.eui64 = identity.eui64;
    // The one format; NKVF is 0's based.
    page.kvf[0].kml.set(MAX_KEY as u16);
    page.kvf[0].vml.set(layout.max_value);
    page.kvf[0].mnk.set(layout.max_keys);
}
