//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
//! 2014, figures 11 and 19): numbers that look drawn at random and follow from their input.

/// The step between two states of the generator: 2^64 divided by the golden ratio.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer: each bit of the result depends on each bit of `state`.
pub fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Number `index` of the sequence of `seed`; the generator's first is number 1.
pub fn nth(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_mul(GAMMA)))
}

#[cfg(test)]
mod tests {
    use super::nth;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The reference sequence of SplitMix64 for the seed 1234567.
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!([1, 2, 3, 4].map(|index| nth(1_234_567, index)), expected);
    }
}
