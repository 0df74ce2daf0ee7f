//! The lines of a job file, with those of the files that it includes (fio's init.c:
//! `__parse_jobs_ini`).

use std::fmt;
use std::sync::Arc;

use super::place::Place;
use crate::JobError;

/// Depth to which files include each other.
const MAX_DEPTH: usize = 16;
/// Lines of a job file with those of all included files.
const MAX_LINES: usize = 1 << 20;

/// A file that a job file includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    /// The name that errors show, and by which [`Include`] finds what the file itself includes.
    pub name: String,
    /// The lines.
    pub text: String,
}

/// Finds an included file by its name as written, and the [`Included::name`] of the file in which
/// that is, or `None` in the job file itself. The error is the reason why there is none.
pub type Include<'a> = dyn Fn(&str, Option<&str>) -> Result<Included, String> + 'a;

/// A job file whose `include` lines are replaced by the files that they name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobText {
    lines: Vec<(Place, String)>,
}

impl JobText {
    /// A text that includes no other file.
    ///
    /// # Errors
    /// [`JobError`] if it does.
    pub fn alone(text: &str) -> Result<Self, JobError> {
        Self::new(text, &|_, _| {
            Err("a job that stands in no file of its own includes none: write the lines here"
                .into())
        })
    }

    /// A text with the files that it includes.
    ///
    /// # Errors
    /// [`JobError`], which names the line: a file cannot be had, has a section, or includes itself.
    pub fn new(text: &str, include: &Include<'_>) -> Result<Self, JobError> {
        let mut all = Self::default();
        all.add(text, None, 0, include)?;
        Ok(all)
    }

    fn add(
        &mut self,
        text: &str,
        file: Option<&Arc<str>>,
        depth: usize,
        include: &Include<'_>,
    ) -> Result<(), JobError> {
        let mut in_section = depth > 0;
        for (index, line) in text.lines().enumerate() {
            let place = Place { line: index + 1, file: file.cloned() };
            let bare = meaning(line);
            if bare.starts_with('[') {
                in_section = true;
                if depth > 0 {
                    let problem = "an included file has no sections, only options".into();
                    return Err(JobError::Line { place, problem });
                }
            }
            // As in fio, whatever begins so; but not before the first section.
            let name = bare.strip_prefix("include").filter(|_| in_section);
            let Some(name) = name else {
                if self.lines.len() >= MAX_LINES {
                    let problem = format!("there are more than {MAX_LINES} lines");
                    return Err(JobError::Line { place, problem });
                }
                self.lines.push((place, line.to_owned()));
                continue;
            };
            let name = name.get(1..).unwrap_or_default().trim();
            let wrong = |problem: String| JobError::Line {
                place: place.clone(),
                problem: format!("include: {problem}"),
            };
            if name.is_empty() {
                return Err(wrong("needs the name of a file".into()));
            }
            if depth >= MAX_DEPTH {
                return Err(wrong(format!("files include each other more than {MAX_DEPTH} deep")));
            }
            let found = include(name, file.map(AsRef::as_ref)).map_err(wrong)?;
            self.add(&found.text, Some(&found.name.into()), depth + 1, include)?;
        }
        Ok(())
    }

    /// The lines with their places.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Place, &str)> {
        self.lines.iter().map(|(place, line)| (place, line.as_str()))
    }
}

/// The text without a file of its own.
impl fmt::Display for JobText {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(_, line)| writeln!(to, "{line}"))
    }
}

/// A line without its comment. In fio `;` and `#` begin one wherever they stand.
pub fn meaning(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(name: &str, from: Option<&str>) -> Result<Included, String> {
        let text = match name {
            "size" => "; two lines\nsize=1m\n",
            "both" => "include size\nbs=8k\n",
            "self" => "include self\n",
            "section" => "bs=4k\n[b]\n",
            "wrong" => "\nbs=x\n",
            _ => return Err(format!("there is no file `{name}`")),
        };
        let name = from.map_or(String::new(), |from| format!("{from}/")) + name;
        Ok(Included { name, text: text.into() })
    }

    #[test]
    fn lines_of_included_files_stand_in_place_of_the_include() {
        let text = JobText::new("[a]\n include both # common\nrw=read\ninclude=size\n", &include);
        let text = text.unwrap();
        let expected = "[a]\n; two lines\nsize=1m\nbs=8k\nrw=read\n; two lines\nsize=1m\n";
        assert_eq!(text.to_string(), expected);
        let places: Vec<_> = text.lines().map(|(place, _)| place.to_string()).collect();
        assert_eq!(
            places[..4],
            ["line 1", "line 1 of both/size", "line 2 of both/size", "line 2 of both"]
        );
        assert_eq!(places[4..], ["line 3", "line 1 of size", "line 2 of size"]);
        assert_eq!(JobText::alone(&text.to_string()).unwrap().to_string(), expected);
    }

    #[test]
    fn what_cannot_be_included_is_named() {
        for (text, expected) in [
            ("[a]\ninclude no\n", "line 2: include: there is no file `no`"),
            ("[a]\ninclude\n", "line 2: include: needs the name of a file"),
            ("[a]\ninclude self\n", "more than 16 deep"),
            ("[a]\ninclude section\n", "line 2 of section: an included file has no sections"),
        ] {
            let error = JobText::new(text, &include).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = JobText::alone("[a]\ninclude size\n").unwrap_err().to_string();
        assert!(error.contains("includes none"), "{error}");
        // Before the first section it is an option like any other there.
        assert_eq!(JobText::alone("include size\n").unwrap().to_string(), "include size\n");
    }
}
