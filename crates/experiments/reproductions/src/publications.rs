//! The list of publications.

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
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use stasis_experiment::Engine;

    use super::*;
    use crate::reproduction::{Part, Reproduction};

    fn request(quick: bool) -> Reproduction {
        Reproduction {
            folder: "unused".into(),
            engine: Engine::Exact,
            quick,
            full: false,
            force: false,
            gather: false,
            devices: Vec::new(),
            jobs: None,
            stop: Arc::default(),
        }
    }

    #[test]
    fn each_publication_is_found_by_its_name() {
        let names = PUBLICATIONS.map(Publication::name);
        assert_eq!(names, stasis_program::reproduce::PUBLICATIONS.map(|(name, _)| name));
        for name in names {
            assert_eq!(named(name).unwrap().name(), name);
        }
        assert!(named("nonsense").is_none());
    }

    #[test]
    fn each_part_has_a_name_and_a_digest_of_its_own() {
        for publication in PUBLICATIONS {
            let [usual, quick] =
                [false, true].map(|quick| publication.parts(&request(quick)).unwrap());
            let distinct = |field: fn(&Part) -> &String| {
                usual.iter().map(field).collect::<BTreeSet<_>>().len()
            };
            assert_eq!(distinct(|part| &part.name), usual.len());
            assert_eq!(distinct(|part| &part.digest), usual.len());
            assert!(!quick.is_empty() && quick.len() <= usual.len(), "{}", publication.name());
            for part in &quick {
                let same = usual.iter().find(|other| other.name == part.name);
                assert_eq!(same.map(|other| other.timed).unwrap_or(part.timed), part.timed);
            }
        }
    }

    #[test]
    fn what_the_wall_clock_compares_is_together() {
        let parts = freezing_time::FreezingTime.parts(&request(false)).unwrap();
        let together = |group| {
            let group_parts = parts.iter().filter(|part| part.timed == Some(group));
            group_parts.map(|part| part.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(together("emulated-1"), ["ssd-1", "emulated-1"]);
        assert_eq!(together("ffmpeg"), ["ffmpeg-hdd", "ffmpeg-ram", "ffmpeg-emulated"]);
        assert!(parts.iter().any(|part| part.timed.is_none()));
    }
}
