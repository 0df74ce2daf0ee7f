//! The command that repeats a run, and the files that it reads with their hashes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::escape::escape;
use stasis_results::units;

/// Name of the field of a summary that has it.
pub(crate) const FIELD: &str = "repeat";
/// Files that a page lists; `summary.json` has all.
const LISTED: usize = 64;

/// The command that repeats a run, with its inputs: a page shows it below its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The command line, as a shell takes it. Its results go into a folder of their own.
    pub command: String,
    /// The files that it reads, as they were when the run began.
    #[serde(default)]
    pub inputs: Vec<InputFile>,
}

/// A file or folder that a run read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path, as the command line or the experiment leads to it.
    pub path: String,
    /// Its length (bytes); of a folder that of all files in it.
    pub bytes: u64,
    /// SHA-256 in hexadecimal; `null` where it is too large to be read for it. Of a folder it is
    /// that of the lines which `sha256sum` prints for the files in it, by their sorted paths.
    pub sha256: Option<String>,
    /// Its text, where it is a small one in UTF-8, so that a comparison shows what differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
}

impl Repeat {
    /// Returns the repetition that a summary's fields describe; none where they do not.
    pub fn of(fields: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(fields.get(FIELD)?.clone()).ok()
    }

    /// Takes that of a summary's fields out of them, where another field has this name.
    pub fn take(fields: &mut Map<String, Value>) -> Option<Self> {
        serde_json::from_value(fields.remove(FIELD)?).ok()
    }

    /// The fields of a summary.
    pub fn field(&self) -> Option<(String, Value)> {
        Some((FIELD.to_owned(), serde_json::to_value(self).ok()?))
    }

    /// Shown at the top of a page.
    pub(crate) fn to_html(&self, out: &mut String) {
        out.push_str("<div class=\"repeat\">\n<p class=\"caption\">To make this page again:</p>\n");
        out.push_str(&command(&self.command));
        if !self.inputs.is_empty() {
            let files = match self.inputs.len() {
                1 => "The file that it reads, with its hash".to_owned(),
                many => format!("The {many} files that it reads, with their hashes"),
            };
            let summary = format!("<details><summary>{files}</summary>\n");
            out.push_str(&summary);
            out.push_str("<ul class=\"inputs\">\n");
            for input in self.inputs.iter().take(LISTED) {
                let hash = match &input.sha256 {
                    Some(hash) => format!("SHA-256 <code>{}</code>", escape(hash)),
                    None => "too large to be hashed".to_owned(),
                };
                let (path, length) = (escape(&input.path), units::bytes(input.bytes));
                out.push_str(&format!("<li><code>{path}</code>, {length}: {hash}</li>\n"));
            }
            let more = self.inputs.len().saturating_sub(LISTED);
            if more > 0 {
                out.push_str(&format!("<li>{more} more</li>\n"));
            }
            out.push_str("</ul>\n</details>\n");
        }
        out.push_str("</div>\n");
    }
}

/// A command line on a page, with a button that copies it.
pub(crate) fn command(text: &str) -> String {
    format!("<pre class=\"command\"><code>{}</code></pre>\n", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_command_and_the_files_with_their_hashes() {
        let input = |number: u64| InputFile {
            path: format!("<{number}>.toml"),
            bytes: 1024 * number,
            sha256: (number > 0).then(|| "ab".repeat(32)),
            text: None,
        };
        let command = "stasis run 'a b.toml' --results again".to_owned();
        let repeat = Repeat { command, inputs: (0..66).map(input).collect() };
        let fields = repeat.field().into_iter().collect();
        assert_eq!(Repeat::of(&fields), Some(repeat.clone()));
        assert_eq!(Repeat::of(&Map::new()), None);
        let mut html = String::new();
        repeat.to_html(&mut html);
        for part in [
            "a b.toml",
            "&lt;0&gt;.toml</code>, 0 B: too large to be hashed",
            "&lt;2&gt;.toml</code>, 2 KiB: SHA-256 <code>abab",
            "<li>2 more</li>",
            "<summary>The 66 files that it reads, with their hashes</summary>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<64>"), "{html}");
    }
}
