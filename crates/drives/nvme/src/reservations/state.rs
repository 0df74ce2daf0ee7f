//! Registrants and reservations of the namespaces.

use stasis_block::Operation;

use crate::controller_id::ControllerId;
use crate::status::StatusCode;

use super::log::Notice;
use super::HostId;

/// A type of reservation (NVMe 1.4 figure 405).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 2,
    WriteExclusiveRegistrants = 3,
    ExclusiveAccessRegistrants = 4,
    WriteExclusiveAll = 5,
    ExclusiveAccessAll = 6,
}

impl Kind {
    /// The type of a number, if it is one.
    pub fn parse(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::WriteExclusive,
            2 => Self::ExclusiveAccess,
            3 => Self::WriteExclusiveRegistrants,
            4 => Self::ExclusiveAccessRegistrants,
            5 => Self::WriteExclusiveAll,
            6 => Self::ExclusiveAccessAll,
            _ => return None,
        })
    }

    /// Returns whether all registrants are holders.
    fn is_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    /// Returns whether registrants have the access that the holder has.
    fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Returns whether others may read.
    fn admits_reads(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive | Self::WriteExclusiveRegistrants | Self::WriteExclusiveAll
        )
    }
}

/// A registered host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registrant {
    pub host: HostId,
    pub key: u64,
}

/// A reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    kind: Kind,
    /// The host that has it; of a type for all registrants, who took it.
    holder: HostId,
}

/// The registrants and the reservation of a namespace.
#[derive(Debug, Clone, Default)]
pub struct NamespaceReservation {
    registrants: Vec<Registrant>,
    held: Option<Held>,
    /// Counts what changes registrants.
    pub generation: u32,
}

/// Limit on the registrants of a namespace.
pub const MAX_REGISTRANTS: usize = 64;

/// A notice to a host.
pub type ToHost = (HostId, Notice);

impl NamespaceReservation {
    /// The registrants.
    pub fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    /// The type of the reservation that is held, if one is.
    pub fn kind(&self) -> Option<Kind> {
        self.held.map(|held| held.kind)
    }

    /// Returns whether `host` holds the reservation.
    pub fn is_holder(&self, host: &HostId) -> bool {
        self.held.is_some_and(|held| match held.kind.is_all() {
            true => self.key_of(host).is_some(),
            false => held.holder == *host,
        })
    }

    fn key_of(&self, host: &HostId) -> Option<u64> {
        self.registrants
            .iter()
            .find(|registrant| registrant.host == *host)
            .map(|registrant| registrant.key)
    }

    /// Checks that `host` is registered with `key`.
    fn check_key(&self, host: &HostId, key: u64) -> Result<(), StatusCode> {
        match self.key_of(host) {
            Some(registered) if registered == key => Ok(()),
            _ => Err(StatusCode::ReservationConflict),
        }
    }

    /// Registers `host` by `key` (section 6.11, RREGA 0).
    pub fn register(&mut self, host: HostId, key: u64) -> Result<(), StatusCode> {
        match self.key_of(&host) {
            Some(registered) if registered == key => Ok(()),
            Some(_) => Err(StatusCode::ReservationConflict),
            None if self.registrants.len() >= MAX_REGISTRANTS => Err(StatusCode::InternalError),
            None => {
                self.registrants.push(Registrant { host, key });
                self.generation = self.generation.wrapping_add(1);
                Ok(())
            }
        }
    }

    /// Replaces the key of `host` (RREGA 2); `current`: its key, or `None` for any, by which a host
    /// that is not registered is registered.
    pub fn replace(
        &mut self,
        host: HostId,
        current: Option<u64>,
        key: u64,
    ) -> Result<(), StatusCode> {
        match current {
            Some(current) => self.check_key(&host, current)?,
            None if self.key_of(&host).is_none() => return self.register(host, key),
            None => {}
        }
        for registrant in self.registrants.iter_mut().filter(|registrant| registrant.host == host) {
            registrant.key = key;
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// Takes the registration of `host` back (RREGA 1), and the reservation with it if it was the
    /// holder's.
    pub fn unregister(
        &mut self,
        host: HostId,
        key: Option<u64>,
        notices: &mut Vec<ToHost>,
    ) -> Result<(), StatusCode> {
        match key {
            Some(key) => self.check_key(&host, key)?,
            None if self.key_of(&host).is_none() => return Err(StatusCode::ReservationConflict),
            None => {}
        }
        self.registrants.retain(|registrant| registrant.host != host);
        self.generation = self.generation.wrapping_add(1);
        let Some(held) = self.held else { return Ok(()) };
        let ends = match held.kind.is_all() {
            true => self.registrants.is_empty(),
            false => held.holder == host,
        };
        if ends {
            self.end(host, notices);
        }
        Ok(())
    }

    /// Ends the reservation; other registrants hear of it where they had access by it.
    fn end(&mut self, by: HostId, notices: &mut Vec<ToHost>) {
        let Some(held) = self.held.take() else { return };
        if held.kind.admits_registrants() {
            self.tell(by, Notice::ReservationReleased, notices);
        }
    }

    /// Notifies all registrants but `by`.
    fn tell(&self, by: HostId, notice: Notice, notices: &mut Vec<ToHost>) {
        let others = self.registrants.iter().filter(|registrant| registrant.host != by);
        notices.extend(others.map(|registrant| (registrant.host, notice)));
    }

    /// `host` takes the reservation (section 6.10, RACQA 0).
    pub fn acquire(&mut self, host: HostId, key: u64, kind: Kind) -> Result<(), StatusCode> {
        self.check_key(&host, key)?;
        match self.held {
            None => self.held = Some(Held { kind, holder: host }),
            Some(held) if held.kind == kind && self.is_holder(&host) => {}
            Some(_) => return Err(StatusCode::ReservationConflict),
        }
        Ok(())
    }

    /// Preempts registrations by `preempted`, and the reservation if it was theirs, for `host`
    /// (RACQA 1 and 2). Returns the hosts that are registered no longer.
    pub fn preempt(
        &mut self,
        host: HostId,
        key: u64,
        preempted: u64,
        kind: Kind,
        notices: &mut Vec<ToHost>,
    ) -> Result<Vec<HostId>, StatusCode> {
        self.check_key(&host, key)?;
        let all = self.held.is_some_and(|held| held.kind.is_all());
        if preempted == 0 && !all {
            return Err(StatusCode::InvalidField);
        }
        // Key 0 stands for all other registrants, where all of them hold it.
        let goes = |registrant: &Registrant| {
            (preempted == 0 || registrant.key == preempted) && registrant.host != host
        };
        let holders_key = self.held.and_then(|held| self.key_of(&held.holder));
        let takes = match self.held {
            Some(_) if all => preempted == 0,
            Some(_) => holders_key == Some(preempted),
            None => false,
        };
        let gone: Vec<HostId> = self
            .registrants
            .iter()
            .filter(|registrant| goes(registrant))
            .map(|registrant| registrant.host)
            .collect();
        if gone.is_empty() && !takes {
            return Err(StatusCode::ReservationConflict);
        }
        self.registrants.retain(|registrant| !gone.contains(&registrant.host));
        self.generation = self.generation.wrapping_add(1);
        notices.extend(gone.iter().map(|&gone_host| (gone_host, Notice::RegistrationPreempted)));
        if takes {
            let before = self.held.replace(Held { kind, holder: host });
            if before.is_some_and(|before| before.kind != kind) {
                self.tell(host, Notice::ReservationReleased, notices);
            }
        }
        Ok(gone)
    }

    /// `host` gives the reservation back (section 6.13, RRELA 0). Without one, or of another
    /// host's, nothing changes.
    pub fn release(
        &mut self,
        host: HostId,
        key: u64,
        kind: Option<Kind>,
        notices: &mut Vec<ToHost>,
    ) -> Result<(), StatusCode> {
        self.check_key(&host, key)?;
        let Some(held) = self.held.filter(|_| self.is_holder(&host)) else { return Ok(()) };
        if Some(held.kind) != kind {
            return Err(StatusCode::InvalidField);
        }
        self.end(host, notices);
        Ok(())
    }

    /// `host` takes everything back (RRELA 1).
    pub fn clear(
        &mut self,
        host: HostId,
        key: u64,
        notices: &mut Vec<ToHost>,
    ) -> Result<(), StatusCode> {
        self.check_key(&host, key)?;
        self.tell(host, Notice::ReservationPreempted, notices);
        self.registrants.clear();
        self.held = None;
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// Returns whether `host` may read, or with `writes` change, the namespace (figure 406).
    fn admits(&self, host: Option<&HostId>, writes: bool) -> bool {
        let Some(held) = self.held else { return true };
        if !writes && held.kind.admits_reads() {
            return true;
        }
        let Some(host) = host else { return false };
        self.is_holder(host) || held.kind.admits_registrants() && self.key_of(host).is_some()
    }
}

/// The reservations of all namespaces, and the hosts of all controllers.
#[derive(Debug, Default)]
pub struct Reservations {
    /// By the places of controllers.
    hosts: Vec<Option<(ControllerId, HostId)>>,
    /// By namespace.
    namespaces: Vec<NamespaceReservation>,
    /// True if there is, or was, a registrant: before, nothing needs to be checked.
    used: bool,
}

impl Reservations {
    /// The host of a controller has named itself, or has gone.
    pub fn set_host(&mut self, controller: ControllerId, host: Option<HostId>) {
        let index = controller.index();
        if self.hosts.len() <= index {
            self.hosts.resize(index + 1, None);
        }
        self.hosts[index] = host.map(|host| (controller, host));
    }

    /// The host of a controller.
    pub fn host_of(&self, controller: ControllerId) -> Option<HostId> {
        let named = self.hosts.get(controller.index()).copied().flatten();
        named.filter(|(id, _)| *id == controller).map(|(_, host)| host)
    }

    /// The controllers of a host.
    pub fn controllers_of(&self, host: HostId) -> impl Iterator<Item = ControllerId> + '_ {
        let all = self.hosts.iter().flatten();
        all.filter(move |(_, registered)| *registered == host).map(|(id, _)| *id)
    }

    /// Returns whether a host is registered for any namespace.
    pub fn is_registered(&self, host: HostId) -> bool {
        self.namespaces.iter().any(|namespace| namespace.key_of(&host).is_some())
    }

    /// Takes all registrations of a host back; the notices to others, with their namespaces.
    pub fn unregister(&mut self, host: HostId) -> Vec<(u32, ToHost)> {
        let mut all = Vec::new();
        for (nsid, namespace) in (1..).zip(&mut self.namespaces) {
            let mut notices = Vec::new();
            // A host that is not registered has nothing to take back.
            let _ = namespace.unregister(host, None, &mut notices);
            all.extend(notices.into_iter().map(|notice| (nsid, notice)));
        }
        all
    }

    /// Forgets the reservation and the registrants of a deleted namespace.
    pub fn forget(&mut self, nsid: u32) {
        if let Some(namespace) = self.namespaces.get_mut((nsid as usize).wrapping_sub(1)) {
            *namespace = NamespaceReservation::default();
        }
    }

    /// Returns the reservation of an existing namespace, to change it.
    pub fn namespace_mut(&mut self, nsid: u32) -> &mut NamespaceReservation {
        let index = (nsid as usize).saturating_sub(1);
        if self.namespaces.len() <= index {
            self.namespaces.resize_with(index + 1, NamespaceReservation::default);
        }
        self.used = true;
        &mut self.namespaces[index]
    }

    /// Checks that the host of `controller` may carry out `operation` on a namespace; `None`: one
    /// that changes it and is no I/O.
    ///
    /// # Errors
    /// Another host's reservation does not admit it.
    pub fn check(
        &self,
        controller: ControllerId,
        nsid: u32,
        operation: Option<Operation>,
    ) -> Result<(), StatusCode> {
        if !self.used {
            return Ok(());
        }
        let host = self.host_of(controller);
        let writes = !matches!(operation, Some(Operation::Read | Operation::Verify));
        let all = nsid == crate::command::ALL_NAMESPACES;
        let mut concerned =
            self.namespaces.iter().zip(1u32..).filter(|(_, number)| all || *number == nsid);
        match concerned.all(|(namespace, _)| namespace.admits(host.as_ref(), writes)) {
            true => Ok(()),
            false => Err(StatusCode::ReservationConflict),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: HostId = HostId::Named([1; 16]);
    const TWO: HostId = HostId::Named([2; 16]);
    const THREE: HostId = HostId::Named([3; 16]);

    /// Figure 406: for each type, whether a registrant and another host may read and write.
    #[test]
    fn access_is_that_of_the_specification() {
        let expected = [
            (1, [true, false, true, false]),
            (2, [false, false, false, false]),
            (3, [true, true, true, false]),
            (4, [true, true, false, false]),
            (5, [true, true, true, false]),
            (6, [true, true, false, false]),
        ];
        for (number, [registrant_reads, registrant_writes, other_reads, other_writes]) in expected {
            let mut reservation = NamespaceReservation::default();
            reservation.register(ONE, 11).unwrap();
            reservation.register(TWO, 22).unwrap();
            reservation.acquire(ONE, 11, Kind::parse(number).unwrap()).unwrap();
            let admits = |host: &HostId| {
                [reservation.admits(Some(host), false), reservation.admits(Some(host), true)]
            };
            assert_eq!(admits(&ONE), [true, true], "type {number}: the holder");
            assert_eq!(admits(&TWO), [registrant_reads, registrant_writes], "type {number}");
            assert_eq!(admits(&THREE), [other_reads, other_writes], "type {number}: another");
            assert_eq!(reservation.admits(None, true), other_writes, "type {number}: nobody");
        }
        assert_eq!((Kind::parse(0), Kind::parse(7)), (None, None));
    }

    #[test]
    fn a_holder_that_goes_ends_what_was_its_own() {
        for (number, expected) in [(1, 0), (3, 1), (5, 0)] {
            let mut reservation = NamespaceReservation::default();
            let mut notices = vec![];
            reservation.register(ONE, 1).unwrap();
            reservation.register(TWO, 2).unwrap();
            reservation.acquire(ONE, 1, Kind::parse(number).unwrap()).unwrap();
            assert_eq!(
                reservation.unregister(ONE, Some(9), &mut notices),
                Err(StatusCode::ReservationConflict)
            );
            reservation.unregister(ONE, Some(1), &mut notices).unwrap();
            // A reservation for all registrants stays with the last of them.
            assert_eq!(reservation.kind().is_some(), number == 5, "type {number}");
            assert_eq!(notices.len(), expected, "type {number}");
            reservation.unregister(TWO, None, &mut notices).unwrap();
            assert_eq!(reservation.kind(), None);
        }
    }

    #[test]
    fn preemption_takes_the_reservation_of_the_key() {
        let mut reservation = NamespaceReservation::default();
        let mut notices = vec![];
        for (host, key) in [(ONE, 1), (TWO, 2), (THREE, 3)] {
            reservation.register(host, key).unwrap();
        }
        reservation.acquire(ONE, 1, Kind::WriteExclusive).unwrap();
        let conflict = Err(StatusCode::ReservationConflict);
        assert_eq!(reservation.preempt(TWO, 2, 77, Kind::WriteExclusive, &mut notices), conflict);
        let field = Err(StatusCode::InvalidField);
        assert_eq!(reservation.preempt(TWO, 2, 0, Kind::WriteExclusive, &mut notices), field);
        // A registrant that is no holder: the reservation stays.
        assert_eq!(
            reservation.preempt(TWO, 2, 3, Kind::ExclusiveAccess, &mut notices),
            Ok(vec![THREE])
        );
        assert!(reservation.is_holder(&ONE));
        assert_eq!(
            reservation.preempt(TWO, 2, 1, Kind::ExclusiveAccess, &mut notices),
            Ok(vec![ONE])
        );
        assert!(reservation.is_holder(&TWO));
        assert_eq!(reservation.kind(), Some(Kind::ExclusiveAccess));
        let preempted = |host| (host, Notice::RegistrationPreempted);
        assert_eq!(notices, [preempted(THREE), preempted(ONE)]);
        // All registrants hold it: key 0 stands for the others.
        reservation.release(TWO, 2, Some(Kind::ExclusiveAccess), &mut notices).unwrap();
        reservation.register(ONE, 1).unwrap();
        reservation.acquire(ONE, 1, Kind::WriteExclusiveAll).unwrap();
        assert!(reservation.is_holder(&TWO));
        assert_eq!(
            reservation.preempt(TWO, 2, 0, Kind::WriteExclusive, &mut notices),
            Ok(vec![ONE])
        );
        assert_eq!(
            (reservation.kind(), reservation.is_holder(&TWO)),
            (Some(Kind::WriteExclusive), true)
        );
    }

    proptest! {
        /// Whatever hosts do: a holder is registered, and without a reservation all may do all.
        #[test]
        fn a_holder_is_always_registered(steps in proptest::collection::vec(
            (0u8..6, 0usize..3, 0u64..4, 0u64..4, 1u8..7), 0..60))
        {
            let hosts = [ONE, TWO, THREE];
            let mut reservation = NamespaceReservation::default();
            let mut notices = vec![];
            for (action, host, key, other, number) in steps {
                let (host, kind) = (hosts[host], Kind::parse(number).unwrap());
                let generation = reservation.generation;
                let before = reservation.registrants.clone();
                let _ = match action {
                    0 => reservation.register(host, key),
                    1 => reservation.replace(host, (other > 0).then_some(other), key),
                    2 => reservation.unregister(host, (other > 0).then_some(other), &mut notices),
                    3 => reservation.acquire(host, key, kind),
                    4 => reservation.preempt(host, key, other, kind, &mut notices).map(|_| ()),
                    _ if number < 6 => reservation.release(host, key, Some(kind), &mut notices),
                    _ => reservation.clear(host, key, &mut notices),
                };
                prop_assert!(before == reservation.registrants || generation != reservation.generation);
                match reservation.held {
                    Some(held) if held.kind.is_all() => prop_assert!(!reservation.registrants.is_empty()),
                    Some(held) => prop_assert!(reservation.key_of(&held.holder).is_some()),
                    None => prop_assert!(reservation.admits(None, true)),
                }
            }
        }
    }
}
