//! The change of a drive's model while the drive works.

use std::collections::BTreeMap;

use serde_json::Value;
use stasis_block::Model;

use super::table::flatten;
use super::{BuildContext, ModelSpec};
use crate::kinds::ModelKind;

/// A change of a drive's model into another one.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChange {
    /// The model takes over some values: [`stasis_block::Model::adapt`] with these parameters.
    Adapts(ModelKind),
    /// Another one takes its place for what is submitted from then on.
    Replaces,
}

impl ModelSpec {
    /// Returns the change to `to` of a working drive of `capacity` bytes; `None` if they differ
    /// only in their names.
    ///
    /// # Errors
    /// The key that cannot change, and the reason.
    pub fn change(&self, to: &Self, capacity: u64) -> Result<Option<ModelChange>, String> {
        if self.link != to.link {
            return Err("model.link: a guest knows it since its boot".into());
        }
        let keys = |spec: &Self| {
            let table = spec.kind.table().map_err(|error| error.to_string())?;
            let mut keys = BTreeMap::new();
            flatten("", &table.into(), &mut |key, value: Value| drop(keys.insert(key, value)));
            Ok::<_, String>(keys)
        };
        let (before, after) = (keys(self)?, keys(to)?);
        let same_kind = self.kind.name() == to.kind.name();
        if same_kind && before == after {
            return Ok(None);
        }
        if let (true, Some(adapts)) = (same_kind, self.kind.adapts()) {
            let may = |key: &str| {
                let below = |prefix: &&str| {
                    key.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with('.'))
                };
                adapts.iter().any(|prefix| key == *prefix || below(prefix))
            };
            let mut differ = before.keys().chain(after.keys());
            if let Some(key) = differ.find(|key| before.get(*key) != after.get(*key) && !may(key)) {
                return Err(format!(
                    "model.{key} cannot change while the drive works; {} can",
                    adapts.join(", ")
                ));
            }
            return Ok(Some(ModelChange::Adapts(to.kind.clone())));
        }
        for spec in [self, to] {
            if spec.kind.adapts().is_some() {
                let name = spec.kind.name();
                return Err(format!(
                    "model: one of kind `{name}` knows where the drive's contents lie: no other \
                     can take its place, nor it that of another"
                ));
            }
        }
        let context = BuildContext { seed: 0, capacity, path: 0 };
        let build = |spec: &Self| spec.build(&context).map_err(|error| format!("model: {error}"));
        let (before, after) = (build(self)?, build(to)?);
        let visible = |model: &dyn Model| (model.power_loss(), model.barrier());
        if visible(&*before) != visible(&*after) {
            return Err(
                "model: the other one's cache, atomic unit or barrier is another, and the \
                        guest has seen this one's"
                    .into(),
            );
        }
        Ok(Some(ModelChange::Replaces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(word: &str) -> ModelSpec {
        match word.starts_with('{') {
            true => {
                #[derive(serde::Deserialize, schemars::JsonSchema)]
                struct Drive {
                    model: ModelSpec,
                }
                toml::from_str::<Drive>(&format!("model = {word}")).unwrap().model
            }
            false => ModelSpec::parse(word).unwrap(),
        }
    }

    fn change(from: &str, to: &str) -> Result<Option<ModelChange>, String> {
        spec(from).change(&spec(to), 1 << 30)
    }

    #[test]
    fn a_model_is_replaced_where_nobody_has_seen_the_difference() {
        assert_eq!(change("fixed:1us", "fixed:1us"), Ok(None));
        assert_eq!(change("fixed:1us", "uniform:1us-2us"), Ok(Some(ModelChange::Replaces)));
        let cached =
            r#"{ kind = "fixed", latency = "1us", cache = { size = "1MiB", drain = "1GB/s" } }"#;
        let refused = change("fixed:1us", cached).unwrap_err();
        assert!(refused.contains("cache"), "{refused}");
        let linked = r#"{ kind = "fixed", latency = "1us", link = "PCIe 4.0 x4" }"#;
        assert!(change("fixed:1us", linked).unwrap_err().starts_with("model.link"));
    }

    #[test]
    fn a_flash_drive_adapts_and_keeps_its_contents() {
        let flash = |rest: &str| format!(r#"{{ base = "flash-tlc"{rest} }}"#);
        for rest in [
            r#", timing = { read = "99us" }"#,
            r#", gc = { policy = "oldest" }"#,
            r#", controller = "9us""#,
        ] {
            let changed = change("flash-tlc", &flash(rest));
            let Ok(Some(ModelChange::Adapts(kind))) = changed else {
                panic!("{rest}: {changed:?}")
            };
            assert!(kind.parameters().is::<stasis_flash::Spec>());
        }
        for (rest, key) in [
            (", channels = 2", "model.channels"),
            (", gc = { foreground = 9 }", "model.gc.foreground"),
        ] {
            let refused = change("flash-tlc", &flash(rest)).unwrap_err();
            assert!(refused.starts_with(key), "{refused}");
        }
        for (from, to) in [("flash-tlc", "fixed:1us"), ("fixed:1us", "flash-tlc")] {
            assert!(change(from, to).unwrap_err().contains("contents lie"));
        }
    }
}
