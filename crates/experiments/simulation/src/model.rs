//! The model that a simulation drives, from its word or its file.

use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use schemars::JsonSchema;
use serde::Deserialize;
use stasis_models::ModelSpec;

/// The part of a file that names a model. Other keys are an experiment's.
#[derive(Deserialize, JsonSchema)]
struct File {
    model: Option<ModelSpec>,
    #[serde(default, rename = "drive")]
    drives: Vec<Drive>,
}

#[derive(Deserialize, JsonSchema)]
struct Drive {
    model: Option<ModelSpec>,
}

/// The file that MODEL names, if it is one: a named model is none, though a folder may have its name.
pub fn file(word: &str) -> Option<PathBuf> {
    let name = if word.ends_with(".toml") { Some(word) } else { word.strip_prefix("profile:") };
    name.map(PathBuf::from)
}

/// Reads MODEL: a word, an inline table, or a TOML file with a `[model]` table
/// or one `[[drive]]`. Its files are read as well.
pub fn read(word: &str) -> Result<ModelSpec> {
    let (mut model, base) = if word.trim_start().starts_with('{') {
        (of_text(&format!("model = {word}")).context("MODEL")?, Path::new("."))
    } else if word.ends_with(".toml") {
        let path = Path::new(word);
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the model {word}"))?;
        let base = path.parent().unwrap_or(Path::new("."));
        (of_text(&text).with_context(|| word.to_owned())?, base)
    } else {
        (ModelSpec::parse(word)?, Path::new("."))
    };
    model.resolve(base)?;
    Ok(model)
}

fn of_text(text: &str) -> Result<ModelSpec> {
    let File { model, mut drives } = stasis_config::read_text(text)?;
    match (model, drives.pop()) {
        (Some(model), _) => Ok(model),
        (None, Some(drive)) if drives.is_empty() => {
            drive.model.context("its [[drive]] has no `model`")
        }
        (None, Some(_)) => bail!("it has several [[drive]]: keep one, or write a [model] table"),
        (None, None) => bail!("it has neither a [model] table nor a [[drive]]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tables_and_files_are_models() {
        assert_eq!(read("fixed:100us").unwrap().label(), "fixed:100us");
        let table = read("{ kind = 'fixed', read = '80us', label = 'mine' }").unwrap();
        assert_eq!(table.label(), "mine");
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("model.toml", "[model]\nkind = 'fixed'\nread = '80us'\nlabel = 'mine'\n"),
            ("word.toml", "model = { kind = 'fixed', read = '80us', label = 'mine' }\n"),
            (
                "drive.toml",
                "[[drive]]\nmedium = 'ram:1GiB'\n[drive.model]\nkind = 'fixed'\nread = '80us'\n\
                 label = 'mine'\n",
            ),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(path.to_str().unwrap()).unwrap(), table, "{name}");
        }
    }

    #[test]
    fn what_is_no_model_is_named() {
        for (word, expected) in [
            ("dcpm", "did you mean `dcpmm`?"),
            ("{ kind = 'fxed' }", "did you mean `fixed`?"),
            ("{ kind = ", "MODEL"),
            ("{ kind = 'fixed', raed = '80us' }", "line 1, column 9: model: unknown key `raed`"),
            ("missing.toml", "cannot read the model missing.toml"),
        ] {
            let error = format!("{:#}", read(word).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
