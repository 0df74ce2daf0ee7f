//! Provenance of results: the programs, the machine, the time, and the way to repeat a run.

use serde_json::{Map, Value};

use crate::{page::Block, page::Section};

/// The fields of a summary about its provenance, with their names on a page.
const FIELDS: &[(&str, &str)] = &[
    ("stasis_version", "Stasis"),
    ("stasis_commit", "Commit"),
    ("started_at", "Started at"),
    ("engine", "Engine"),
    ("qemu", "QEMU"),
    ("host_kernel", "Kernel of this machine"),
    ("kernel", "Kernel of the guest"),
    ("guest", "Guest"),
    ("guest_recipe", "Recipe of the guest"),
    ("seed", "Seed"),
    ("command_line", "Command line"),
];

/// The section about provenance; none where nothing of it is known.
pub fn section(fields: &Map<String, Value>) -> Option<Section> {
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| match value {
                Value::Array(words) => {
                    format!("{name} {}", words.iter().map(text).collect::<Vec<_>>().join(" "))
                }
                other => format!("{name} {}", text(other)),
            };
            fields.iter().map(field).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    };
    let known = FIELDS.iter().filter_map(|(name, title)| {
        let value = fields.get(*name).filter(|value| !value.is_null())?;
        let usual = if (*name, value.as_u64()) == ("seed", Some(0)) {
            ", as where none is given"
        } else {
            ""
        };
        Some(((*title).to_owned(), shown(value) + usual))
    });
    let known: Vec<_> = known.collect();
    (!known.is_empty()).then(|| Section::new("Where this comes from").with(Block::Terms(known)))
}

/// A value without quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_told_in_words() {
        assert!(section(&Map::new()).is_none());
        let fields = json!({
            "stasis_version": "1.2.3", "stasis_commit": null, "seed": 7,
            "guest_recipe": { "suite": "trixie", "packages": ["bash", "fio"] },
        });
        let Value::Object(fields) = fields else { unreachable!() };
        let usual = json!({ "seed": 0 }).as_object().and_then(section).unwrap();
        assert!(format!("{usual:?}").contains("0, as where none is given"), "{usual:?}");
        let section = section(&fields).unwrap();
        let [Block::Terms(terms)] = &section.blocks[..] else { panic!("{section:?}") };
        let terms: Vec<_> = terms.iter().map(|(name, text)| format!("{name}: {text}")).collect();
        let recipe = "Recipe of the guest: packages bash fio; suite trixie";
        assert_eq!(terms, ["Stasis: 1.2.3", recipe, "Seed: 7"]);
    }
}
