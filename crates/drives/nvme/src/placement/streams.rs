//! Streams: groups of related writes, marked by the host (NVMe 1.4 section 9.3).

use std::collections::VecDeque;

use crate::narrow::count16;

/// State of one namespace's streams.
#[derive(Debug, Clone, Default)]
pub struct NamespaceStreams {
    pub enabled: bool,
    /// Resources that only this namespace has.
    pub allocated: u16,
    /// Identifiers of the open streams, that written last at the end.
    pub open: VecDeque<u16>,
}

#[derive(Debug)]
pub struct Streams {
    /// Limit on open streams in all namespaces together (MSL).
    pub max: u16,
    pub namespaces: Vec<NamespaceStreams>,
}

impl Streams {
    pub fn new(max: u16, namespaces: usize) -> Self {
        Self { max, namespaces: vec![NamespaceStreams::default(); namespaces] }
    }

    /// Directives do not persist over a reset.
    pub fn reset(&mut self) {
        self.namespaces.fill(NamespaceStreams::default());
    }

    /// Forgets a deleted namespace.
    pub fn forget(&mut self, nsid: u32) {
        if let Some(streams) = self.namespaces.get_mut((nsid as usize).wrapping_sub(1)) {
            *streams = NamespaceStreams::default();
        }
    }

    /// The resources that no namespace has for itself (NSSA).
    pub fn shared(&self) -> u16 {
        self.max - self.namespaces.iter().map(|namespace| namespace.allocated).sum::<u16>()
    }

    /// Returns the number of those in use (NSSO).
    pub fn shared_open(&self) -> u16 {
        let sharing = self.namespaces.iter().filter(|namespace| namespace.allocated == 0);
        sharing.map(|namespace| count16(namespace.open.len())).sum()
    }

    /// Opens the stream `identifier` for a write; `None` if the namespace has streams disabled.
    /// Without room for another stream, the one not written for longest is closed, of
    /// this namespace if it has any; with all resources given to others, the write belongs to no
    /// stream.
    pub fn open(&mut self, nsid: u32, identifier: u16) -> Option<u16> {
        let index = nsid as usize - 1;
        if !self.namespaces[index].enabled {
            return None;
        }
        // Stream 0 is no stream.
        if identifier == 0 {
            return Some(0);
        }
        let namespace = &mut self.namespaces[index];
        if let Some(place) = namespace.open.iter().position(|&open| open == identifier) {
            namespace.open.remove(place);
            namespace.open.push_back(identifier);
            return Some(identifier);
        }
        let full = match namespace.allocated {
            0 => self.shared_open() >= self.shared(),
            allocated => namespace.open.len() >= allocated.into(),
        };
        if full {
            let own = &self.namespaces[index];
            let from = match own.open.is_empty() {
                false => Some(index),
                true => self
                    .namespaces
                    .iter()
                    .position(|other| other.allocated == 0 && !other.open.is_empty()),
            };
            let Some(from) = from else { return Some(0) };
            self.namespaces[from].open.pop_front();
        }
        self.namespaces[index].open.push_back(identifier);
        Some(identifier)
    }

    /// Gives the namespace `wanted` exclusive resources, or as many as there are; `None` if there
    /// are none.
    pub fn allocate(&mut self, nsid: u32, wanted: u16) -> Option<u16> {
        let granted = wanted.min(self.shared() - self.shared_open().min(self.shared()));
        if granted == 0 {
            return None;
        }
        let namespace = &mut self.namespaces[nsid as usize - 1];
        namespace.allocated = granted;
        namespace.open.truncate(granted.into());
        Some(granted)
    }
}
