//! Names of what runs have left in a folder of results.

use std::fs;
use std::path::Path;

use crate::file_list::{listed, names_in, LIST_FILE};
use crate::{earlier, IOS_FILE, REPORT_FILE, SUMMARY_FILE};

/// The names of what runs have left in the folder `path`; none where no run has.
pub fn names_of_run(path: &Path) -> Vec<String> {
    let mut all = names_in_place(path);
    if earlier::is_kept(path) {
        let below = names_in_place(&earlier::folder(path));
        all.extend(below.iter().map(|name| format!("{}/{name}", earlier::EARLIER_FOLDER)));
    }
    all
}

/// Like [`names_of_run`], but without results that are set aside. A folder with a list of its own
/// is followed by that list, and by the names in it.
pub(crate) fn names_in_place(path: &Path) -> Vec<String> {
    let names = listed(path);
    if names.is_empty() && has_older_results(path) {
        return OLDER_FILES.map(str::to_owned).to_vec();
    }
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let below = path.join(&name);
        let is_folder = fs::symlink_metadata(&below).is_ok_and(|there| there.is_dir());
        let list = is_folder.then(|| fs::read(below.join(LIST_FILE)).ok()).flatten();
        all.push(name.clone());
        if let Some(list) = list {
            all.push(format!("{name}/{LIST_FILE}"));
            all.extend(names_in(&list).iter().map(|inner| format!("{name}/{inner}")));
            if earlier::is_kept(&below) {
                let inner = earlier::names(&below);
                all.extend(inner.into_iter().map(|inner| format!("{name}/{inner}")));
            }
        }
    }
    all
}

/// Results of versions of Stasis that kept no list.
pub(crate) const OLDER_FILES: [&str; 3] = [IOS_FILE, REPORT_FILE, SUMMARY_FILE];

/// Returns whether a version of Stasis that kept no list has left its results there.
pub(crate) fn has_older_results(path: &Path) -> bool {
    let summary = fs::read_to_string(path.join(SUMMARY_FILE)).unwrap_or_default();
    let summary: Option<serde_json::Value> = serde_json::from_str(&summary).ok();
    summary.is_some_and(|summary| summary["boot_virtual_seconds"].is_number())
}
