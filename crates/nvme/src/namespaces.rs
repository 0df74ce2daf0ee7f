//! What becomes of the namespaces while the controller is there; resets leave it alone. What they
//! are made as is the configuration's.

use crate::config::{Config, Namespace};
use crate::identity::NamespaceIdentity;
use crate::intervals::Intervals;
use crate::ocssd::ChunkSet;
use crate::zoned::ZonedNamespace;

/// The namespaces, by identifiers from 1 on.
#[derive(Debug)]
pub struct Namespaces(Vec<State>);

#[derive(Debug)]
struct State {
    identity: NamespaceIdentity,
    // The bytes that Write Uncorrectable has marked.
    marks: Intervals,
    // Its size in bytes, whatever its blocks are.
    capacity: u64,
    zones: Option<ZonedNamespace>,
    chunks: Option<ChunkSet>,
}

impl Namespaces {
    /// New ones: empty, and nothing is marked.
    pub fn new(config: &Config) -> Self {
        let state = |(index, namespace): (usize, &Namespace)| State {
            identity: NamespaceIdentity::new(&config.serial, index as u32 + 1),
            marks: Intervals::default(),
            capacity: namespace.bytes(),
            zones: ZonedNamespace::new(namespace),
            chunks: namespace.ocssd.as_ref().map(ChunkSet::new),
        };
        Self(config.namespaces.iter().enumerate().map(state).collect())
    }

    fn get(&self, nsid: u32) -> Option<&State> {
        self.0.get((nsid as usize).checked_sub(1)?)
    }

    fn get_mut(&mut self, nsid: u32) -> Option<&mut State> {
        self.0.get_mut((nsid as usize).checked_sub(1)?)
    }

    /// Its identifiers.
    pub fn identity(&self, nsid: u32) -> Option<&NamespaceIdentity> {
        Some(&self.get(nsid)?.identity)
    }

    /// Its size in bytes; 0 if there is no such namespace.
    pub fn capacity(&self, nsid: u32) -> u64 {
        self.get(nsid).map_or(0, |state| state.capacity)
    }

    /// The size of all in bytes.
    pub fn total_capacity(&self) -> u64 {
        self.0.iter().map(|state| state.capacity).sum()
    }

    /// The bytes that cannot be read until they are written.
    pub fn marks(&self, nsid: u32) -> Option<&Intervals> {
        Some(&self.get(nsid)?.marks)
    }

    /// The same, to change them.
    pub fn marks_mut(&mut self, nsid: u32) -> Option<&mut Intervals> {
        Some(&mut self.get_mut(nsid)?.marks)
    }

    /// The zones of one that has some.
    pub fn zones(&self, nsid: u32) -> Option<&ZonedNamespace> {
        self.get(nsid)?.zones.as_ref()
    }

    /// The same, to change them.
    pub fn zones_mut(&mut self, nsid: u32) -> Option<&mut ZonedNamespace> {
        self.get_mut(nsid)?.zones.as_mut()
    }

    /// The chunks of one that has some.
    pub fn chunks(&self, nsid: u32) -> Option<&ChunkSet> {
        self.get(nsid)?.chunks.as_ref()
    }

    /// The same, to change them.
    pub fn chunks_mut(&mut self, nsid: u32) -> Option<&mut ChunkSet> {
        self.get_mut(nsid)?.chunks.as_mut()
    }

    /// One is formatted as `namespace` says: it is empty, and nothing is marked.
    pub fn format(&mut self, nsid: u32, namespace: &Namespace) {
        if let Some(state) = self.get_mut(nsid) {
            state.marks.clear();
            state.zones = ZonedNamespace::new(namespace);
            state.chunks = namespace.ocssd.as_ref().map(ChunkSet::new);
        }
    }
}
