//! Groups of Diffie-Hellman (NVMe 2.0 section 8.13.5.2; RFC 7919 appendix A).

use std::str::FromStr;
use std::sync::OnceLock;

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize, Word};

/// A group; `Null`: no exchange of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// No exchange: who records a handshake can try secrets on it.
    Null,
    /// A prime of 2048 bits.
    Ffdhe2048,
    /// A prime of 3072 bits.
    Ffdhe3072,
    /// A prime of 4096 bits.
    Ffdhe4096,
    /// A prime of 6144 bits.
    Ffdhe6144,
    /// A prime of 8192 bits.
    Ffdhe8192,
}

/// Length of a private exponent in bytes: RFC 7919 appendix A asks for 400 bits at least in the
/// largest group.
pub const EXPONENT: usize = 64;

/// The prime of each group but the null one, in Montgomery's form, once it was used.
static PRIMES: [OnceLock<Option<BoxedMontyParams>>; 5] = [const { OnceLock::new() }; 5];

impl Group {
    /// All, in the order in which a subsystem takes them if it has no other: from the group that
    /// costs least to the largest, and the null group last.
    pub const ALL: [Self; 6] = [
        Self::Ffdhe2048,
        Self::Ffdhe3072,
        Self::Ffdhe4096,
        Self::Ffdhe6144,
        Self::Ffdhe8192,
        Self::Null,
    ];

    /// Returns the group's identifier.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Returns the group's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Ffdhe2048 => "ffdhe2048",
            Self::Ffdhe3072 => "ffdhe3072",
            Self::Ffdhe4096 => "ffdhe4096",
            Self::Ffdhe6144 => "ffdhe6144",
            Self::Ffdhe8192 => "ffdhe8192",
        }
    }

    /// Length of its prime, and so of its values, in bytes.
    pub fn length(self) -> usize {
        self.prime().map_or(0, |(bits, _)| bits as usize / 8)
    }

    /// The bits of its prime, and the number that makes it one (RFC 7919 appendix A).
    fn prime(self) -> Option<(u32, u32)> {
        match self {
            Self::Null => None,
            Self::Ffdhe2048 => Some((2048, 560_316)),
            Self::Ffdhe3072 => Some((3072, 2_625_351)),
            Self::Ffdhe4096 => Some((4096, 5_736_041)),
            Self::Ffdhe6144 => Some((6144, 15_705_020)),
            Self::Ffdhe8192 => Some((8192, 10_965_728)),
        }
    }

    fn parameters(self) -> Option<&'static BoxedMontyParams> {
        let (bits, number) = self.prime()?;
        let cell = PRIMES.get(usize::from(self.id()) - 1)?;
        let made = cell.get_or_init(|| {
            let bytes = prime(bits as usize, number);
            let prime = BoxedUint::from_be_slice(&bytes, bits).ok()?;
            Odd::new(prime).into_option().map(BoxedMontyParams::new)
        });
        made.as_ref()
    }

    /// 2 to the power of `exponent`: the value to send. Empty for the null group.
    pub fn public(self, exponent: &[u8; EXPONENT]) -> Vec<u8> {
        self.power(&BoxedUint::from(2 as Word), exponent).unwrap_or_default()
    }

    /// The other side's value to the power of `exponent`: the shared key, with its leading zeroes;
    /// `None` if the value is none of the group's (RFC 7919 section 5.1).
    pub fn shared(self, exponent: &[u8; EXPONENT], value: &[u8]) -> Option<Vec<u8>> {
        let (bits, _) = self.prime()?;
        let one = BoxedUint::one_with_precision(bits);
        let last = self.parameters()?.modulus().as_ref().wrapping_sub(&one);
        if value.len() != self.length() {
            return None;
        }
        let value = BoxedUint::from_be_slice(value, bits).ok()?;
        if value <= one || value >= last {
            return None;
        }
        self.power(&value, exponent)
    }

    fn power(self, base: &BoxedUint, exponent: &[u8; EXPONENT]) -> Option<Vec<u8>> {
        let (bits, _) = self.prime()?;
        let exponent = BoxedUint::from_be_slice(exponent, 8 * EXPONENT as u32).ok()?;
        let base = base.clone().resize(bits);
        let power = BoxedMontyForm::new(base, self.parameters()?).pow(&exponent);
        Some(power.retrieve().to_be_bytes().into_vec())
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|group| group.name() == word);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{word}` is no group of Diffie-Hellman: say one of {names}")
        })
    }
}

/// The prime of so many bits: 2^b - 2^(b-64) + (floor(2^(b-130) e) + `number`) 2^64 - 1
/// (RFC 7919 appendix A), in big-endian bytes.
fn prime(bits: usize, number: u32) -> Vec<u8> {
    let middle = bits / 64 - 2;
    let mut limbs = e(middle);
    // e has 2 bits before its point, and `middle` words behind it: 2 bits more than are wanted.
    for index in 0..=middle {
        let above = limbs.get(index + 1).map_or(0, |limb| limb << 62);
        limbs[index] = limbs[index] >> 2 | above;
    }
    limbs.truncate(middle);
    // Less 1 for the one that the lowest word, all ones, has borrowed.
    let mut carry = u64::from(number) - 1;
    for limb in &mut limbs {
        let (sum, over) = limb.overflowing_add(carry);
        (*limb, carry) = (sum, u64::from(over));
    }
    limbs.insert(0, u64::MAX);
    limbs.push(u64::MAX);
    limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
}

/// The number e with `words` words behind its point, the lowest word first; cut off. The sum of
/// 1/k!, with a word more, for what each term loses.
fn e(words: usize) -> Vec<u64> {
    let mut sum = vec![0u64; words + 2];
    let mut term = sum.clone();
    term[words + 1] = 1;
    let mut k = 0;
    while term.iter().any(|&limb| limb != 0) {
        let mut carry = false;
        for (limb, &other) in sum.iter_mut().zip(&term) {
            let (one, first) = limb.overflowing_add(other);
            let (both, second) = one.overflowing_add(u64::from(carry));
            (*limb, carry) = (both, first || second);
        }
        k += 1;
        let mut rest = 0u128;
        for limb in term.iter_mut().rev() {
            let value = rest << 64 | u128::from(*limb);
            *limb = (value / k) as u64;
            rest = value % k;
        }
    }
    sum.remove(0);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_the_standard() {
        // RFC 7919 appendix A: all begin alike; the last words before the ones.
        let expected: [(Group, &[u32]); 5] = [
            (Group::Ffdhe2048, &[0x886b_4238, 0x6128_5c97]),
            (Group::Ffdhe3072, &[0x25e4_1d2b, 0x66c6_2e37]),
            (Group::Ffdhe4096, &[0xc68a_007e, 0x5e65_5f6a]),
            (Group::Ffdhe6144, &[0xa40e_329c, 0xd0e4_0e65]),
            (Group::Ffdhe8192, &[0xd68c_8bb7, 0xc5c6_424c]),
        ];
        for (group, words) in expected {
            let (bits, number) = group.prime().unwrap();
            let prime = prime(bits as usize, number);
            assert_eq!(prime.len(), group.length());
            let first = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xad, 0xf8, 0x54, 0x58];
            assert_eq!(prime[..12], first);
            let last: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            assert_eq!(prime[prime.len() - 16..], [&last[..], &[0xff; 8]].concat());
        }
    }

    #[test]
    fn both_sides_have_one_key() {
        for group in Group::ALL.into_iter().filter(|&group| group != Group::Null) {
            let (one, other) = ([0x35; EXPONENT], [0xc1; EXPONENT]);
            let key = group.shared(&one, &group.public(&other)).unwrap();
            assert_eq!(group.shared(&other, &group.public(&one)), Some(key.clone()));
            assert_eq!(key.len(), group.length());
            assert_eq!(group.name().parse(), Ok(group));
        }
        assert_eq!(Group::Null.public(&[1; EXPONENT]), []);
        assert!("ffdhe1024".parse::<Group>().unwrap_err().contains("ffdhe2048"));
    }

    #[test]
    fn values_that_are_none_are_refused() {
        let group = Group::Ffdhe2048;
        let (bits, number) = group.prime().unwrap();
        let prime = prime(bits as usize, number);
        let mut last = prime.clone();
        *last.last_mut().unwrap() -= 1;
        let mut one = vec![0; 256];
        one[255] = 1;
        for wrong in [vec![0; 256], one, last, prime, vec![0xff; 256], vec![2; 255], vec![]] {
            assert_eq!(group.shared(&[7; EXPONENT], &wrong), None);
        }
        assert_eq!(Group::Null.shared(&[7; EXPONENT], &[]), None);
    }
}
