//! Attached namespaces (NVMe 2.0 section 3.2.1): which controllers have which of the namespaces
//! that there are, and which ones a host's new controllers begin with.
//!
//! Controllers of fabrics come and go with their hosts. The ones of a host begin alike (section
//! 3.1.1, dynamic controllers): with the namespaces that are granted to it.

use std::collections::BTreeMap;

use crate::config::MAX_NSID;
use crate::controller_id::{ControllerId, MAX_CONTROLLERS};

/// A set of namespaces: a bit for each, from NSID 1 on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NamespaceSet(u128);

const _: () = assert!(MAX_NSID <= u128::BITS);

impl NamespaceSet {
    fn first(count: u32) -> Self {
        Self(u128::MAX.checked_shr(u128::BITS.saturating_sub(count)).unwrap_or(0))
    }

    fn bit(nsid: u32) -> u128 {
        nsid.checked_sub(1).and_then(|index| 1u128.checked_shl(index)).unwrap_or(0)
    }

    fn has(self, nsid: u32) -> bool {
        self.0 & Self::bit(nsid) != 0
    }

    /// Returns whether it differs now.
    fn set(&mut self, nsid: u32, on: bool) -> bool {
        let before = self.0;
        match on {
            true => self.0 |= Self::bit(nsid),
            false => self.0 &= !Self::bit(nsid),
        }
        self.0 != before
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (1..=u128::BITS).filter(move |&nsid| self.has(nsid))
    }
}

/// The namespaces of a controller.
#[derive(Debug)]
struct Attached {
    id: ControllerId,
    /// The NQN of its host, on a fabric.
    host: Option<String>,
    namespaces: NamespaceSet,
}

/// The attachments of a subsystem.
#[derive(Debug)]
pub struct Attachments {
    /// The highest NSID that was ever granted.
    count: u32,
    /// The namespaces of hosts without a grant of their own.
    common: NamespaceSet,
    /// Namespaces that one controller at a time can have.
    private: NamespaceSet,
    /// Namespaces that the host on PCIe has detached, or not attached since it created them.
    detached: NamespaceSet,
    /// Namespaces of the other hosts, by their NQNs.
    by_host: BTreeMap<String, NamespaceSet>,
    /// True if the controllers on PCIe are of one host.
    one_host: bool,
    /// By the places of controllers; `None` where there is none for I/O.
    controllers: [Option<Attached>; MAX_CONTROLLERS],
}

impl Attachments {
    /// Starts with `count` namespaces, all of which every host has.
    pub fn new(count: u32) -> Self {
        Self {
            count,
            common: NamespaceSet::first(count),
            private: NamespaceSet::default(),
            detached: NamespaceSet::default(),
            by_host: BTreeMap::new(),
            one_host: false,
            controllers: [const { None }; MAX_CONTROLLERS],
        }
    }

    /// The highest NSID that any namespace had.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn granted(&self, host: Option<&str>) -> NamespaceSet {
        host.and_then(|host| self.by_host.get(host)).copied().unwrap_or(self.common)
    }

    /// Returns whether a host, or one without a name, may have a namespace.
    pub fn is_granted(&self, host: Option<&str>, nsid: u32) -> bool {
        self.granted(host).has(nsid)
    }

    /// Grants a namespace to a host, or withdraws it; `None`: for all hosts.
    pub fn grant(&mut self, host: Option<&str>, nsid: u32, on: bool) {
        self.count = self.count.max(nsid);
        match host {
            None => {
                self.common.set(nsid, on);
                self.by_host.values_mut().for_each(|granted| {
                    granted.set(nsid, on);
                });
            }
            Some(host) => {
                let common = self.common;
                self.by_host.entry(host.to_owned()).or_insert(common).set(nsid, on);
            }
        }
    }

    /// Begins a controller of a host, with the namespaces granted to it.
    pub fn begin(&mut self, controller: ControllerId, host: Option<&str>) {
        let mut namespaces = self.granted(host);
        for nsid in 1..=self.count {
            let kept_away = host.is_none() && self.detached.has(nsid)
                || self.private.has(nsid) && self.is_attached(nsid);
            if kept_away {
                namespaces.set(nsid, false);
            }
        }
        let host = host.map(str::to_owned);
        if let Some(attached) = self.controllers.get_mut(controller.index()) {
            *attached = Some(Attached { id: controller, host, namespaces });
        }
    }

    /// Ends a controller.
    pub fn end(&mut self, controller: ControllerId) {
        if let Some(attached) = self.controllers.get_mut(controller.index()) {
            attached.take_if(|attached| attached.id == controller);
        }
    }

    fn attached(&self, controller: ControllerId) -> Option<&Attached> {
        let attached = self.controllers.get(controller.index())?.as_ref();
        attached.filter(|attached| attached.id == controller)
    }

    /// Returns whether a controller is of the host of this NQN.
    pub fn is_of_host(&self, controller: ControllerId, host: &str) -> bool {
        self.attached(controller).is_some_and(|attached| attached.host.as_deref() == Some(host))
    }

    /// The controllers on PCIe are of one host.
    pub fn share_host(&mut self) {
        self.one_host = true;
    }

    /// Returns whether two controllers have one host.
    pub fn is_of_same_host(&self, one: ControllerId, other: ControllerId) -> bool {
        let host = |id| self.attached(id).map(|attached| attached.host.as_deref());
        match (host(one), host(other)) {
            _ if one == other => true,
            (Some(None), Some(None)) => self.one_host,
            (Some(Some(one)), Some(Some(other))) => one == other,
            _ => false,
        }
    }

    fn of(&self, controller: ControllerId) -> NamespaceSet {
        self.attached(controller).map_or_else(NamespaceSet::default, |attached| attached.namespaces)
    }

    /// Returns whether a namespace is attached to a controller.
    pub fn has(&self, controller: ControllerId, nsid: u32) -> bool {
        self.of(controller).has(nsid)
    }

    /// The namespaces that are attached to a controller, in order.
    pub fn namespaces(&self, controller: ControllerId) -> impl Iterator<Item = u32> {
        self.of(controller).iter()
    }

    /// The controllers for I/O.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerId> + '_ {
        self.controllers.iter().flatten().map(|attached| attached.id)
    }

    /// Returns whether a namespace is attached to any controller.
    pub fn is_attached(&self, nsid: u32) -> bool {
        self.controllers().any(|id| self.has(id, nsid))
    }

    /// Returns whether one controller at a time can have a namespace.
    pub fn is_private(&self, nsid: u32) -> bool {
        self.private.has(nsid)
    }

    /// The host on PCIe has attached a namespace, or detached it: that outlives its resets.
    pub fn set_detached(&mut self, nsid: u32, detached: bool) {
        self.detached.set(nsid, detached);
    }

    /// Returns whether the host on PCIe has detached it.
    pub fn is_detached(&self, nsid: u32) -> bool {
        self.detached.has(nsid)
    }

    /// A namespace that a host has created: granted to that host, if it is private, else to all.
    /// `None`: of the host on PCIe. It is attached to no controller.
    pub fn create(&mut self, host: Option<&str>, nsid: u32, shared: bool) {
        self.private.set(nsid, !shared);
        self.detached.set(nsid, true);
        self.grant(host.filter(|_| !shared), nsid, true);
    }

    /// Deletes a namespace.
    pub fn delete(&mut self, nsid: u32) {
        self.grant(None, nsid, false);
        self.private.set(nsid, false);
        self.detached.set(nsid, false);
        for attached in self.controllers.iter_mut().flatten() {
            attached.namespaces.set(nsid, false);
        }
    }

    /// Attaches a namespace to a controller, or detaches it; returns whether that is a change. A
    /// private one that another controller has stays there.
    pub fn set(&mut self, controller: ControllerId, nsid: u32, on: bool) -> bool {
        if on && self.is_private(nsid) && self.is_attached(nsid) {
            return false;
        }
        let attached = self.controllers.get_mut(controller.index()).and_then(Option::as_mut);
        let attached = attached.filter(|attached| attached.id == controller);
        attached.is_some_and(|attached| attached.namespaces.set(nsid, on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_begin_with_what_is_granted_to_their_host() {
        let mut attachments = Attachments::new(3);
        let (one, other) = (ControllerId(1), ControllerId(2));
        attachments.begin(one, Some("one"));
        attachments.grant(Some("other"), 2, false);
        attachments.begin(other, Some("other"));
        assert_eq!(attachments.namespaces(one).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(attachments.namespaces(other).collect::<Vec<_>>(), [1, 3]);
        attachments.grant(None, 3, false);
        assert!(!attachments.is_granted(Some("other"), 3) && !attachments.is_granted(None, 3));
        assert!(attachments.has(one, 3), "what is attached stays until it is detached");
        assert!(attachments.set(one, 3, false) && !attachments.set(one, 3, false));
        assert_eq!(attachments.controllers().collect::<Vec<_>>(), [one, other]);
        attachments.end(one);
        assert!(!attachments.has(one, 1) && !attachments.set(one, 1, true), "an ended controller");
        assert_eq!(attachments.controllers().collect::<Vec<_>>(), [other]);
    }

    #[test]
    fn controllers_on_pcie_are_of_one_host_if_that_is_said() {
        let mut attachments = Attachments::new(1);
        let (one, other, far) = (ControllerId(0), ControllerId(1), ControllerId(2));
        attachments.begin(one, None);
        attachments.begin(other, None);
        attachments.begin(far, Some("far"));
        let same = |attachments: &Attachments| {
            [(one, one), (one, other), (one, far), (far, other)]
                .map(|(one, other)| attachments.is_of_same_host(one, other))
        };
        assert_eq!(same(&attachments), [true, false, false, false]);
        attachments.share_host();
        assert_eq!(same(&attachments), [true, true, false, false]);
        // The place of one that is gone has another identifier.
        let later = ControllerId(2 + 64);
        attachments.end(later);
        assert!(attachments.has(far, 1) && !attachments.has(later, 1));
    }

    #[test]
    fn as_many_namespaces_as_there_can_be() {
        let attachments = Attachments::new(MAX_NSID);
        assert!(
            attachments.is_granted(None, 128)
                && !attachments.is_granted(None, 129)
                && !attachments.is_granted(None, 0)
        );
        assert!(!Attachments::new(0).is_granted(None, 1));
    }
}
