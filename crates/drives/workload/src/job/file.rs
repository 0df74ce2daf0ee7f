//! The form of a job file: sections of keys (fio's HOWTO, "Job file format").

use super::place::Place;
use super::text::{meaning, JobText};
use crate::JobError;

/// A line `key=value`, or a key alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its place.
    pub place: Place,
    /// The key.
    pub key: String,
    /// The value after the `=`, if there is one.
    pub value: Option<String>,
}

/// A section with its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The name between the brackets.
    pub name: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Reads the sections. `${NAME}` is replaced by the result of `variable` for it.
pub fn sections(
    text: &JobText,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Section>, JobError> {
    let mut sections: Vec<Section> = Vec::new();
    for (place, line) in text.lines() {
        let wrong = |problem: String| JobError::Line { place: place.clone(), problem };
        let line = meaning(line);
        if line.is_empty() {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = rest.rsplit_once(']') else {
                return Err(wrong(format!("`{line}` begins a section without a `]`")));
            };
            if !after.is_empty() {
                return Err(wrong(format!("`{after}` stands after a section's heading")));
            }
            sections.push(Section { name: name.to_owned(), lines: Vec::new() });
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (line, None),
        };
        let value = value.map(|value| expand(value, variable)).transpose().map_err(wrong)?;
        let key = key.to_owned();
        let Some(section) = sections.last_mut() else {
            return Err(wrong(format!(
                "`{key}` stands before the first section, such as [global]"
            )));
        };
        section.lines.push(Line { place: place.clone(), key, value });
    }
    Ok(sections)
}

fn expand(line: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        let value = variable(name).ok_or(format!("the environment has no variable `{name}`"))?;
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_and_variables_are_read() {
        let text = "; a comment\n[global]\nbs = 4k\t; small\ngroup_reporting\n\n\
                    [a job]\nsize=${SIZE}m#large\nthread=\n";
        let variable = |name: &str| (name == "SIZE").then(|| "64".into());
        let read = sections(&JobText::alone(text).unwrap(), &variable).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[1].name, "a job");
        let line = |line, key: &str, value: Option<&str>| {
            let value = value.map(str::to_owned);
            Line { place: Place { line, file: None }, key: key.into(), value }
        };
        let expected = [line(3, "bs", Some("4k")), line(4, "group_reporting", None)];
        assert_eq!(read[0].lines, expected);
        assert_eq!(read[1].lines, [line(7, "size", Some("64m")), line(8, "thread", Some(""))]);
    }

    #[test]
    fn what_is_no_job_file_names_its_line() {
        for (text, expected) in [
            ("bs=4k\n", "line 1: `bs` stands before"),
            ("[a\n", "without a `]`"),
            ("[a] b\n", "after a section's heading"),
            ("[a]\nsize=${NO}\n", "line 2: the environment has no variable `NO`"),
        ] {
            let error =
                sections(&JobText::alone(text).unwrap(), &|_| None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
