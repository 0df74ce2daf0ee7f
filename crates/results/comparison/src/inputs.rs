//! Files that candidates read: which are others, and what differs in their texts.

use std::path::Path;

use stasis_report::InputFile;
use stasis_results::units;

use crate::diff::Changes;
use crate::Candidate;

/// Digits of a hash that are shown.
const SHOWN: usize = 12;
/// Limits on the lines that a sentence has of each text, and on the characters of one.
const MAX_QUOTED: usize = 3;
const MAX_QUOTE: usize = 60;

/// A file in whose place a candidate read another than the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherInput {
    /// The file's name, or both names where they are not the same.
    pub name: String,
    /// Its length and hash for each candidate.
    pub values: Vec<String>,
    /// The candidates whose file differs from the first one's, with what differs in it.
    pub texts: Vec<(String, TextDifference)>,
}

/// Differences of a file's text from the first candidate's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextDifference {
    /// In these lines.
    Lines(Changes),
    /// In the ends of lines alone.
    LineEnds,
    /// Nobody knows: results keep the hash of a large file, of a folder, and of what is no text.
    NotKept,
}

impl OtherInput {
    /// The file as a parameter of the set-up.
    pub(crate) fn row(&self) -> (String, Vec<String>) {
        (format!("input {}", self.name), self.values.clone())
    }

    /// The lines that differ, in a sentence, where they are few in the file of each candidate.
    pub(crate) fn sentence(&self) -> Option<String> {
        let each = self.texts.iter().map(|(candidate, text)| {
            let TextDifference::Lines(Changes { was, is, .. }) = text else { return None };
            let clause = match (quoted(was)?, quoted(is)?) {
                (was, is) if was.is_empty() && is.is_empty() => return None,
                (was, is) if was.is_empty() => format!("has {is} besides"),
                (was, is) if is.is_empty() => format!("lacks {was}"),
                (was, is) => format!("has {is} in place of {was}"),
            };
            Some(format!("{candidate} {clause}"))
        });
        let each: Option<Vec<_>> = each.collect();
        let each = each.filter(|each| !each.is_empty())?;
        Some(format!("In the file {}, {}.", self.name, each.join("; ")))
    }
}

/// Lines in quotes, but blank ones; none where they are too many or too long for a sentence.
fn quoted(lines: &[String]) -> Option<String> {
    let lines = lines.iter().map(|line| line.trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let is_short = |line: &&str| line.chars().count() <= MAX_QUOTE;
    let are_few = lines.len() <= MAX_QUOTED && lines.iter().all(is_short);
    let quote = |line: &&str| format!("“{line}”");
    are_few.then(|| lines.iter().map(quote).collect::<Vec<_>>().join(", "))
}

/// The inputs of which a candidate has read others than the first one.
pub(crate) fn differing(candidates: &[Candidate]) -> Vec<OtherInput> {
    let read = |candidate: &'_ Candidate| candidate.runs.first().map(|run| run.inputs.clone());
    let all: Vec<Vec<InputFile>> =
        candidates.iter().map(|one| read(one).unwrap_or_default()).collect();
    let Some((base, others)) = all.split_first() else { return Vec::new() };
    let matches: Vec<Vec<Option<usize>>> =
        others.iter().map(|other| matched(base, other)).collect();
    let mut found = Vec::new();
    for (place, file) in base.iter().enumerate() {
        let theirs = others.iter().zip(&matches).map(|(other, found)| Some(&other[found[place]?]));
        let row: Vec<Option<&InputFile>> = [Some(file)].into_iter().chain(theirs).collect();
        found.extend(other_input(candidates, &row));
    }
    // Files that the first candidate did not read.
    for (number, (other, found_places)) in others.iter().zip(&matches).enumerate() {
        for (place, file) in other.iter().enumerate() {
            if !found_places.contains(&Some(place)) {
                let mut row = vec![None; candidates.len()];
                row[number + 1] = Some(file);
                found.extend(other_input(candidates, &row));
            }
        }
    }
    found
}

/// For each file of `base` the place of the one in `other` that stands for it: of the same path,
/// else of the same name, else of the same contents, else the only one of its kind that is left, by
/// the end of its name, else the only one that is left.
fn matched(base: &[InputFile], other: &[InputFile]) -> Vec<Option<usize>> {
    let name = |file: &InputFile| Path::new(&file.path).file_name().map(|name| name.to_owned());
    let kind = |file: &InputFile| Path::new(&file.path).extension().map(|end| end.to_owned());
    let is_path = |a: &InputFile, b: &InputFile| a.path == b.path;
    let is_name = |a: &InputFile, b: &InputFile| name(a) == name(b);
    let is_content = |a: &InputFile, b: &InputFile| a.sha256.is_some() && a.sha256 == b.sha256;
    let is_kind = |a: &InputFile, b: &InputFile| kind(a) == kind(b);
    let is_any = |_: &InputFile, _: &InputFile| true;
    type Rule<'a> = (&'a dyn Fn(&InputFile, &InputFile) -> bool, bool);
    let rules: [Rule; 5] = [
        (&is_path, false),
        (&is_name, false),
        (&is_content, false),
        (&is_kind, true),
        (&is_any, true),
    ];
    let mut found: Vec<Option<usize>> = vec![None; base.len()];
    let mut taken = vec![false; other.len()];
    for (is_same, alone) in rules {
        let open: Vec<usize> = (0..base.len()).filter(|place| found[*place].is_none()).collect();
        for &place in &open {
            let file = &base[place];
            // Nobody knows which is which of several of a kind.
            let is_rival = |rival: &&usize| is_same(&base[**rival], file);
            if alone && open.iter().filter(is_rival).count() > 1 {
                continue;
            }
            let mut free = (0..other.len()).filter(|at| !taken[*at] && is_same(file, &other[*at]));
            let Some(first) = free.next() else { continue };
            if alone && free.next().is_some() {
                continue;
            }
            (found[place], taken[first]) = (Some(first), true);
        }
    }
    found
}

/// A row of files that stand for one another; none where they are the same.
fn other_input(candidates: &[Candidate], row: &[Option<&InputFile>]) -> Option<OtherInput> {
    let content = |file: &&InputFile| (file.bytes, file.sha256.clone());
    let first = row[0];
    if row.iter().all(|file| file.as_ref().map(content) == first.as_ref().map(content)) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for file in row.iter().flatten() {
        if !names.contains(&file.path.as_str()) {
            names.push(&file.path);
        }
    }
    let value = |file: &Option<&InputFile>| match file {
        None => "–".to_owned(),
        Some(file) => {
            let hash = match &file.sha256 {
                Some(hash) => format!("SHA-256 {}…", &hash[..hash.len().min(SHOWN)]),
                None => "not hashed".to_owned(),
            };
            format!("{}, {hash}", units::bytes(file.bytes))
        }
    };
    let texts = row.iter().zip(candidates).skip(1).filter_map(|(file, candidate)| {
        let (was, is) = (first?, (*file)?);
        let difference = match (&was.text, &is.text) {
            _ if content(&was) == content(&is) => return None,
            (Some(was), Some(is)) => {
                Changes::between(was, is).map_or(TextDifference::LineEnds, TextDifference::Lines)
            }
            _ => TextDifference::NotKept,
        };
        Some((candidate.name.clone(), difference))
    });
    Some(OtherInput {
        name: names.join(" / "),
        values: row.iter().map(value).collect(),
        texts: texts.collect(),
    })
}
