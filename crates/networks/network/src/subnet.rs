//! The addresses of a network: `10.0.0.0/24`.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// IPv4 addresses with a common prefix of 8 to 30 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    prefix: u8,
}

impl Subnet {
    /// The default of network `index`: 10.0.INDEX.0/24.
    pub fn of_network(index: u8) -> Self {
        Self { base: u32::from_be_bytes([10, 0, index, 0]), prefix: 24 }
    }

    /// Bits of the common prefix.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Addresses for machines: all but the first, which names the subnet, and the last, which is
    /// for broadcasts.
    pub fn hosts(self) -> u32 {
        (1 << (32 - self.prefix)) - 2
    }

    /// The address of machine `index`: the first has 1. `None` beyond [`Self::hosts`].
    pub fn host(self, index: usize) -> Option<Ipv4Addr> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        (number <= self.hosts()).then(|| Ipv4Addr::from(self.base + number))
    }

    /// Returns whether the two have an address in common.
    pub fn meets(self, other: Self) -> bool {
        let shift = 32 - self.prefix.min(other.prefix);
        self.base >> shift == other.base >> shift
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{word}` is no subnet: write an IPv4 address and a prefix, such as 10.0.0.0/24"
            )
        };
        let (address, prefix) = word.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if !(8..=30).contains(&prefix) {
            return Err(format!("`{word}`: the prefix of a subnet must be 8 to 30 bits"));
        }
        let base = u32::from(address);
        let first = base >> (32 - prefix) << (32 - prefix);
        if base != first {
            let first = Ipv4Addr::from(first);
            return Err(format!("`{word}` is no subnet: with {prefix} bits it begins at {first}"));
        }
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

impl Serialize for Subnet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Subnet;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a subnet such as \"10.0.0.0/24\"")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Subnet, E> {
                word.parse().map_err(E::custom)
            }
        }
        from.deserialize_str(Reads)
    }
}

impl JsonSchema for Subnet {
    fn schema_name() -> Cow<'static, str> {
        "subnet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "IPv4 addresses with a common prefix.",
            "type": "string",
            "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+/[0-9]+$",
            "examples": ["10.0.0.0/24"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_from_one() {
        let subnet: Subnet = "10.0.3.0/24".parse().unwrap();
        assert_eq!(subnet, Subnet::of_network(3));
        assert_eq!(subnet.host(0), Some(Ipv4Addr::new(10, 0, 3, 1)));
        assert_eq!(subnet.host(253), Some(Ipv4Addr::new(10, 0, 3, 254)));
        assert_eq!(subnet.host(254), None);
        assert_eq!(subnet.to_string(), "10.0.3.0/24");
        let small: Subnet = "192.168.0.4/30".parse().unwrap();
        assert_eq!((small.hosts(), small.host(2)), (2, None));
        assert!(subnet.meets("10.0.0.0/16".parse().unwrap()));
        assert!(!subnet.meets(Subnet::of_network(2)));
    }

    #[test]
    fn wrong_words_are_named() {
        for (word, expected) in [
            ("10.0.0.0", "10.0.0.0/24"),
            ("10.0.0/24", "10.0.0.0/24"),
            ("10.0.0.1/24", "begins at 10.0.0.0"),
            ("10.0.0.0/31", "8 to 30"),
            ("0.0.0.0/0", "8 to 30"),
            ("fd00::/64", "IPv4"),
        ] {
            let message = word.parse::<Subnet>().unwrap_err();
            assert!(message.contains(expected), "{word}: {message}");
        }
    }
}
