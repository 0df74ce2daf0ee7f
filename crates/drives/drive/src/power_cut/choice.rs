//! Choice of what a power cut leaves, as a user words it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::splitmix;

use super::Sampling;

/// Choice of the state that a power cut leaves, among those that the rules permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutChoice {
    /// The seed draws it: of eight cuts, on average, three take all that can be lost, one takes
    /// nothing, and four take a random part.
    #[default]
    Drawn,
    /// Nothing is left that can be lost; where a cache bounds it, the newest is lost.
    Least,
    /// Everything is left.
    Most,
    /// The newest write is left, and older ones are lost as far as they may be.
    Newest,
    /// The oldest write is left, and newer ones are lost as far as they may be.
    Oldest,
    /// Everything is left but one change, which the seed draws.
    AllButOne,
    /// A random part is left, which the seed draws.
    Some,
}

impl CutChoice {
    /// Every choice.
    pub const ALL: [Self; 7] = [
        Self::Drawn,
        Self::Least,
        Self::Most,
        Self::Newest,
        Self::Oldest,
        Self::AllButOne,
        Self::Some,
    ];

    /// Returns the sampling for the cut of one drive, with the `seed` of this drive and cut.
    pub fn sampling(self, seed: u64) -> Sampling {
        let drawn = splitmix::nth(seed, 2);
        match self {
            // Everything that can be lost is lost now and then, as in a crash test, because that is
            // what promises are measured by.
            Self::Drawn => match splitmix::nth(seed, 1) % 8 {
                0..=2 => Sampling::Least,
                3 => Sampling::Most,
                _ => Sampling::Random(drawn),
            },
            Self::Least => Sampling::Least,
            Self::Most => Sampling::Most,
            Self::Newest => Sampling::Newest,
            Self::Oldest => Sampling::Oldest,
            Self::AllButOne => Sampling::AllButOne(drawn),
            Self::Some => Sampling::Random(drawn),
        }
    }
}

/// The state that a power cut leaves, as a fault has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CutState {
    /// The choice, where no changes are named.
    pub choice: CutChoice,
    /// The changes that are lost, a bit each as in [`Sampling::Losing`]; 0: none is named.
    pub loses: u64,
}

impl CutState {
    /// Returns the sampling for the cut of one drive, with the `seed` of this drive and cut.
    pub fn sampling(self, seed: u64) -> Sampling {
        match self.loses {
            0 => self.choice.sampling(seed),
            mask => Sampling::Losing(mask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_has_its_word() {
        let words = CutChoice::ALL.map(|choice| serde_json::to_value(choice).unwrap());
        let expected = ["drawn", "least", "most", "newest", "oldest", "all-but-one", "some"];
        assert_eq!(words, expected);
        let read = words.map(|word| serde_json::from_value::<CutChoice>(word).unwrap());
        assert_eq!(read, CutChoice::ALL);
    }

    /// Results of earlier experiments stay as they are.
    #[test]
    fn the_seed_draws_what_it_always_drew() {
        let drawn = |seed| CutChoice::default().sampling(seed);
        for (seed, expected) in [
            (0, Sampling::Random(0x6e78_9e6a_a1b9_65f4)),
            (1, Sampling::Least),
            (12, Sampling::Most),
            (3, Sampling::Random(0xb346_6f8a_7b81_a989)),
        ] {
            assert_eq!(drawn(seed), expected, "{seed}");
        }
        let count = |sampling| (0..8000).filter(|seed| drawn(*seed) == sampling).count();
        assert!((2800..3200).contains(&count(Sampling::Least)));
        assert!((900..1100).contains(&count(Sampling::Most)));
    }

    #[test]
    fn any_other_choice_is_always_of_its_sort() {
        for seed in 0..100 {
            let draw = splitmix::nth(seed, 2);
            for (choice, expected) in [
                (CutChoice::Least, Sampling::Least),
                (CutChoice::Most, Sampling::Most),
                (CutChoice::Newest, Sampling::Newest),
                (CutChoice::Oldest, Sampling::Oldest),
                (CutChoice::AllButOne, Sampling::AllButOne(draw)),
                (CutChoice::Some, Sampling::Random(draw)),
            ] {
                assert_eq!(choice.sampling(seed), expected);
            }
        }
    }
}
