//! Machines of an experiment: one, or several.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use schemars::{json_schema, JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stasis_config::Mistake;

use crate::MachineSpec;

/// Limit on the machines of one table.
const MAX_COUNT: u32 = 32;

/// One machine, in a table `[machine]`, or several, in tables `[[machine]]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Machines {
    one: MachineSpec,
    many: Vec<MachineSpec>,
}

impl Machines {
    /// Machines of `[[machine]]`; none where there is only one machine.
    pub fn several(&self) -> &[MachineSpec] {
        &self.many
    }

    pub(crate) fn several_mut(&mut self) -> &mut [MachineSpec] {
        &mut self.many
    }

    /// Every machine, to be changed.
    pub(crate) fn each_mut(&mut self) -> &mut [MachineSpec] {
        if self.many.is_empty() {
            std::slice::from_mut(&mut self.one)
        } else {
            &mut self.many
        }
    }

    /// Puts as many machines in place of one as its `count` says. Their names are numbered. Returns
    /// the former place of each.
    pub(crate) fn multiply(&mut self) -> Result<Vec<usize>, Mistake> {
        let (mut all, mut from) = (Vec::new(), Vec::new());
        for (index, machine) in std::mem::take(&mut self.many).into_iter().enumerate() {
            let Some(count) = machine.count else {
                all.push(machine);
                from.push(index);
                continue;
            };
            let name = machine.name.clone().unwrap_or_else(|| format!("machine{index}-"));
            if !(1..=MAX_COUNT).contains(&count) {
                let message =
                    format!("machine {name}: count is {count}, but must be 1 to {MAX_COUNT}");
                return Err(Mistake::at("count", message).inside(index).inside("machine"));
            }
            from.extend((0..count).map(|_| index));
            all.extend((1..=count).map(|number| MachineSpec {
                name: Some(format!("{name}{number}")),
                count: None,
                ..machine.clone()
            }));
        }
        self.many = all;
        Ok(from)
    }

    /// Every machine.
    pub fn all(&self) -> &[MachineSpec] {
        if self.many.is_empty() {
            std::slice::from_ref(&self.one)
        } else {
            &self.many
        }
    }
}

impl From<MachineSpec> for Machines {
    fn from(one: MachineSpec) -> Self {
        Self { one, many: Vec::new() }
    }
}

/// The one machine, where there is only one.
impl Deref for Machines {
    type Target = MachineSpec;

    fn deref(&self) -> &MachineSpec {
        &self.one
    }
}

impl DerefMut for Machines {
    fn deref_mut(&mut self) -> &mut MachineSpec {
        &mut self.one
    }
}

impl Serialize for Machines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.many.is_empty() {
            self.one.serialize(serializer)
        } else {
            self.many.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Machines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Machines;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("a table [machine], or tables [[machine]]")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Machines, A::Error> {
                let one = MachineSpec::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Machines { one, many: Vec::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Machines, A::Error> {
                let many = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(Machines { one: MachineSpec::default(), many })
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

impl JsonSchema for Machines {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "machines".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let machine = generator.subschema_for::<MachineSpec>();
        json_schema!({ "anyOf": [machine, { "type": "array", "items": machine }] })
    }
}
