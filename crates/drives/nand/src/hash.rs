//! Numbers that look random and are a function of their subject, so that
//! no page's properties have to be kept.

/// Mixes 64 bits: the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The bits of `index` in the stream `seed`: the element of SplitMix64's.
#[inline]
pub fn bits(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Uniform in [0, 1), with 53 bits.
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// About normal with mean 0 and deviation 1, never beyond 3.47: four uniform
/// numbers of 16 bits added up (their deviation is 65536 / sqrt(3)).
#[inline]
pub fn normal(bits: u64) -> f64 {
    let sum: u64 = (0..4).map(|lane| (bits >> (16 * lane)) & 0xFFFF).sum();
    (sum as f64 - 2.0 * 65_535.0) * (1.732_050_807_568_877_2 / 65_536.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_promised() {
        let count = 200_000u64;
        let (mut sum, mut squares, mut uniform) = (0.0, 0.0, 0.0);
        for index in 0..count {
            let value = normal(bits(7, index));
            sum += value;
            squares += value * value;
            uniform += unit(bits(7, index));
        }
        let count = count as f64;
        // Five standard errors each.
        assert!((sum / count).abs() < 5.0 / count.sqrt());
        assert!((squares / count - 1.0).abs() < 5.0 * 2f64.sqrt() / count.sqrt());
        assert!((uniform / count - 0.5).abs() < 5.0 * (1.0f64 / 12.0 / count).sqrt());
    }
}
