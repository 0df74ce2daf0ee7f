//! Policies that propose the next victim of a collection. The page mapping decides when to collect,
//! and takes another victim where none can be had (`ftl/page/victims.rs`).
//!
//! A new policy is a file here that implements [`VictimPolicy`], and a line in
//! [`POLICIES`].

mod cost_benefit;
mod d_choices;
mod greedy;
mod oldest;

use std::fmt::Debug;

use crate::spec::GcSpec;

/// Draws of a policy that draws, until the least valid block is taken: where most blocks gain
/// nothing, the cost must have a bound.
pub(crate) const ROUNDS: u32 = 64;

/// The full blocks of a plane, as policies see them.
pub trait Candidates {
    /// Blocks of the plane; they are numbered from 0 on.
    fn blocks(&self) -> u32;

    /// The block's figures; `None` if it cannot be collected now.
    fn get(&self, block: u32) -> Option<Candidate>;

    /// A block with the least valid slots, in constant time: the one that has
    /// had so few the longest.
    fn least_valid(&self) -> Option<u32>;
}

/// The figures of a block that can be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Slots that are in use.
    pub valid: u32,
    /// Slots.
    pub slots: u32,
    /// Blocks of the plane that were filled since this one was.
    pub age: u32,
    /// Number of times that it was erased.
    pub erases: u32,
}

/// Chooses a victim.
pub trait VictimPolicy: Debug + Send {
    /// The block to collect; `None` if there is none. Its cost must not grow
    /// with the plane.
    fn choose(&mut self, blocks: &dyn Candidates) -> Option<u32>;

    /// Returns whether the choice is drawn, so that another one may be another block.
    fn draws(&self) -> bool {
        false
    }
}

/// Builds a policy from its description and a seed.
pub type Build = fn(&GcSpec, seed: u64) -> Box<dyn VictimPolicy>;

/// A policy that descriptions can name.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its name.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    /// Builds it.
    pub build: Build,
}

/// Every policy.
pub const POLICIES: &[Registered] = &[
    Registered { name: "greedy", about: "the least valid block", build: greedy::build },
    Registered {
        name: "cost-benefit",
        about: "the best ratio of free space times age to what moves",
        build: cost_benefit::build,
    },
    Registered {
        name: "d-choices",
        about: "the least valid of some drawn at random",
        build: d_choices::build,
    },
    Registered {
        name: "oldest",
        about: "the oldest of some drawn at random",
        build: oldest::build,
    },
];

/// The policy of a checked description; greedy for a name that is not known.
pub(crate) fn build(spec: &GcSpec, seed: u64) -> Box<dyn VictimPolicy> {
    let known = POLICIES.iter().find(|policy| policy.name == spec.policy);
    known.map_or_else(|| greedy::build(spec, seed), |policy| (policy.build)(spec, seed))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests;
