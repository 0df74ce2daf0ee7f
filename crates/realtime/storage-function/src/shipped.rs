//! The functions that come with the program, and where others are found.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Definition, Error};

/// Name and text of each.
const SHIPPED: [(&str, &str); 4] = [
    ("nfs", include_str!("../functions/nfs.toml")),
    ("smb", include_str!("../functions/smb.toml")),
    ("compress", include_str!("../functions/compress.toml")),
    ("template", include_str!("../functions/template.toml")),
];

/// A definition and where it is from.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its default name.
    pub name: String,
    /// The definition.
    pub definition: Definition,
    /// The folder that its `source`s start from.
    pub base: PathBuf,
}

/// Every shipped function.
///
/// # Errors
/// None that the tests have not seen.
pub fn all() -> Result<Vec<(&'static str, Definition)>, Error> {
    SHIPPED.iter().map(|(name, text)| Ok((*name, Definition::parse(text, name)?))).collect()
}

/// The function of a word: a shipped one's name, a file's path, or that of a
/// folder with a `function.toml`.
///
/// # Errors
/// Nothing is there, or it is not a valid definition.
pub fn find(word: &str) -> Result<Found, Error> {
    if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == word) {
        let definition = Definition::parse(text, name)?;
        return Ok(Found { name: (*name).into(), definition, base: PathBuf::new() });
    }
    let mut path = PathBuf::from(word);
    if path.is_dir() {
        path.push(FILE);
    }
    let is_path = word.contains('/') || word.ends_with(".toml");
    if !is_path && !path.is_file() {
        let guess = stasis_config::guess(word, SHIPPED.map(|(name, _)| name));
        return Err(Error::Unknown { word: word.into(), guess });
    }
    let definition = Definition::read(&path)?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Found { name: name_of(&path), definition, base })
}

/// A definition's file, in a separate folder.
const FILE: &str = "function.toml";

/// The folder's name for `function.toml`, else the file's.
fn name_of(path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let named = match whole.file_name().is_some_and(|name| name == FILE) {
        true => whole.parent().and_then(Path::file_name),
        false => whole.file_stem(),
    };
    let name = named.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if crate::definition::is_name(&name) {
        name
    } else {
        "function".into()
    }
}

/// Writes the template into a new folder; gives the file's path.
///
/// # Errors
/// The folder cannot be made, or has a definition already.
pub fn new(folder: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
    let path = folder.join(FILE);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(Error::file("create", &path))?;
    let text = SHIPPED[3].1;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(Error::file("write", &path))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_has_a_suggestion_only_if_one_resembles_it() {
        let message = |word: &str| find(word).unwrap_err().to_string();
        let (name, _) = SHIPPED[0];
        let mistyped = &name[..name.len() - 1];
        assert!(message(mistyped).contains(&format!("did you mean `{name}`?")), "{mistyped}");
        assert!(!message("nosuch").contains("did you mean"));
    }

    #[test]
    fn what_is_shipped_is_sound() {
        for (name, definition) in all().unwrap() {
            assert!(!definition.about.is_empty() && !definition.drives.is_empty(), "{name}");
            assert!(!definition.ports.is_empty(), "{name}");
            for script in [&definition.init, &definition.stop, &definition.health.command] {
                let status = std::process::Command::new("sh").args(["-n", "-c", script]).status();
                assert!(status.unwrap().success(), "{name}: {script}");
            }
        }
    }

    #[test]
    fn a_function_is_found_by_name_file_or_folder() {
        assert_eq!(find("nfs").unwrap().name, "nfs");
        let error = find("nsf").unwrap_err().to_string();
        assert!(error.contains("`nfs`"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine");
        let file = new(&mine).unwrap();
        assert!(new(&mine).unwrap_err().to_string().contains("function.toml"));
        for word in [&mine, &file] {
            let found = find(word.to_str().unwrap()).unwrap();
            assert_eq!((found.name.as_str(), found.base), ("mine", mine.clone()));
        }
        let error = find("./no/such.toml").unwrap_err().to_string();
        assert!(error.contains("cannot read ./no/such.toml"), "{error}");
    }
}
