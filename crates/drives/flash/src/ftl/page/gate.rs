//! Collections that block the host, one after another: what waited while one blocked starts before
//! the next one begins.
//!
//! Invariant: a plane that was turned away is looked at again once what it waits for has started.

use stasis_nand::{Array, Geometry, PlaneId, Scope};

use crate::spec::Blocking;

/// The parts that collections close; see the [module](self).
#[derive(Debug)]
pub(super) struct Gate {
    blocking: Blocking,
    geometry: Geometry,
    // By part: the number of the array's next operation as its last collection ended.
    ended: Vec<u64>,
    // Planes that were turned away.
    away: Vec<u32>,
}

impl Gate {
    /// Makes a gate through which every collection may go.
    pub fn new(blocking: Blocking, geometry: Geometry) -> Self {
        let parts = if blocking == Blocking::None { 0 } else { geometry.total_planes() as usize };
        Self { blocking, geometry, ended: vec![0; parts], away: Vec::new() }
    }

    /// The part that a plane's collection closes.
    pub fn scope(&self, plane: u32) -> Scope {
        match self.blocking {
            Blocking::Channel => Scope::Channel(self.geometry.channel(PlaneId(plane))),
            Blocking::Controller => Scope::Controller,
            Blocking::Plane | Blocking::None => Scope::Plane(PlaneId(plane)),
        }
    }

    fn part(&self, plane: u32) -> usize {
        match self.scope(plane) {
            Scope::Channel(channel) => channel as usize,
            Scope::Controller => 0,
            Scope::Plane(plane) => plane.0 as usize,
        }
    }

    /// A plane's collection has ended: what waits now is first.
    pub fn ended(&mut self, plane: u32, array: &Array) {
        let part = self.part(plane);
        if let Some(ended) = self.ended.get_mut(part) {
            *ended = array.submitted();
        }
    }

    fn is_open(&self, plane: u32, array: &Array) -> bool {
        let ended = self.ended.get(self.part(plane)).copied().unwrap_or(0);
        ended == 0 || !array.waits(self.scope(plane), ended)
    }

    /// Returns whether a plane's collection may begin. If not, [`Gate::reopened`] will name it.
    #[inline]
    pub fn lets_in(&mut self, plane: u32, array: &Array) -> bool {
        if self.blocking == Blocking::None || self.is_open(plane, array) {
            return true;
        }
        if !self.away.contains(&plane) {
            self.away.push(plane);
        }
        false
    }

    /// Returns whether planes were turned away.
    #[inline]
    pub fn has_turned_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// Takes out the first of the planes that were turned away and may begin now.
    pub fn reopened(&mut self, array: &Array) -> Option<u32> {
        let place = self.away.iter().position(|&plane| self.is_open(plane, array))?;
        Some(self.away.remove(place))
    }

    /// The power failed: nothing waits.
    pub fn power_cut(&mut self) {
        self.ended.fill(0);
        self.away.clear();
    }
}
