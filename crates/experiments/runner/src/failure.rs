//! Messages about failures, for the user.

use std::fmt::Write;

/// The error with its causes, each once. Many errors of the crates name their cause in
/// their own text, as one that is printed alone has to; the chain of causes has it again.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::Path;

    use anyhow::Context;

    use super::told;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open {0}: {source}; choose another", source = .1)]
    struct Opening(&'static str, #[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the drive is not ready")]
    struct Silent(#[source] Opening);

    fn error() -> Opening {
        Opening("x.img", io::Error::from_raw_os_error(2))
    }

    #[test]
    fn a_cause_is_told_once() {
        const OPENING: &str =
            "cannot open x.img: No such file or directory (os error 2); choose another";
        assert_eq!(told(&error().into()), OPENING);
        let above = Err::<(), _>(error()).context("drive a").context("the run");
        assert_eq!(told(&above.unwrap_err()), format!("the run: drive a: {OPENING}"));
        assert_eq!(told(&Silent(error()).into()), format!("the drive is not ready: {OPENING}"));
        assert_eq!(told(&anyhow::anyhow!("alone")), "alone");
    }

    #[test]
    fn nobody_tells_errors_another_way() {
        fn look(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    look(&path, found);
                } else if !path.ends_with("failure.rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
                    if program.contains("error:#}") && !path.ends_with("tests.rs") {
                        found.push(path.display().to_string());
                    }
                }
            }
        }
        let mut found = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for wing in fs::read_dir(crates).unwrap() {
            for entry in fs::read_dir(wing.unwrap().path()).unwrap() {
                look(&entry.unwrap().path().join("src"), &mut found);
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }
}
