//! Files that candidates read: which are others, and what differs in their texts.

use std::path::Path;

use stasis_report::InputFile;
use stasis_results::units;

use crate::{diff, Candidate};

/// Digits of a hash that are shown.
const SHOWN: usize = 12;

/// A file in whose place a candidate read another than the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherInput {
    /// The file's name, or both names where they are not the same.
    pub name: String,
    /// Its length and hash for each candidate.
    pub values: Vec<String>,
    /// The candidates whose text differs from the first one's, and what differs in it.
    pub texts: Vec<(String, String)>,
}

impl OtherInput {
    /// The file as a parameter of the set-up.
    pub(crate) fn row(&self) -> (String, Vec<String>) {
        (format!("input {}", self.name), self.values.clone())
    }
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
/// else of the same name, else the only one that is left.
fn matched(base: &[InputFile], other: &[InputFile]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<usize>> = vec![None; base.len()];
    let name = |file: &InputFile| Path::new(&file.path).file_name().map(|name| name.to_owned());
    let is_path = |a: &InputFile, b: &InputFile| a.path == b.path;
    let is_name = |a: &InputFile, b: &InputFile| name(a) == name(b);
    let is_any = |_: &InputFile, _: &InputFile| true;
    type Rule<'a> = (&'a dyn Fn(&InputFile, &InputFile) -> bool, bool);
    let rules: [Rule; 3] = [(&is_path, false), (&is_name, false), (&is_any, true)];
    for (is_same, alone) in rules {
        let free = |found: &[Option<usize>]| -> Vec<usize> {
            (0..other.len()).filter(|place| !found.contains(&Some(*place))).collect()
        };
        let open = found.iter().filter(|place| place.is_none()).count();
        if alone && (open != 1 || free(&found).len() != 1) {
            break;
        }
        for (place, file) in base.iter().enumerate() {
            if found[place].is_none() {
                let free = free(&found);
                found[place] = free.into_iter().find(|free| is_same(file, &other[*free]));
            }
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
        let (was, is) = (first?.text.as_ref()?, (*file)?.text.as_ref()?);
        let differs = diff::unified(was, is);
        (!differs.is_empty()).then(|| (candidate.name.clone(), differs))
    });
    Some(OtherInput {
        name: names.join(" / "),
        values: row.iter().map(value).collect(),
        texts: texts.collect(),
    })
}
