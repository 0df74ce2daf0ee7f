//! Which publications there are.

use crate::publication::Publication;
use crate::{barrier, controller, coordination, femu, freezing_time};

/// Every publication.
pub const PUBLICATIONS: [&dyn Publication; 5] = [
    &freezing_time::FreezingTime,
    &femu::Femu,
    &barrier::Barrier,
    &coordination::Coordination,
    &controller::Controller,
];

/// The publication of that name.
pub fn named(name: &str) -> Option<&'static dyn Publication> {
    PUBLICATIONS.into_iter().find(|publication| publication.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_publication_is_found_by_its_name() {
        for publication in PUBLICATIONS {
            assert_eq!(named(publication.name()).unwrap().citation(), publication.citation());
        }
        assert!(named("nonsense").is_none());
    }
}
