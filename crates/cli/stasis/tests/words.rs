//! Comments and documents are in plain words, and lines of prose can be read in any window.

use std::fs;

#[path = "documents/pages.rs"]
mod pages;

use pages::{all, below, root};

/// Columns of a line of prose outside tables.
const COLUMNS: usize = 100;
/// Limit on comments that begin with a clause: descriptions of arguments, and code that documents
/// quote.
const CLAUSES: usize = 214;
/// Words with which a clause begins.
const CONJUNCTIONS: [&str; 8] = ["What", "Whose", "Whether", "How", "Where", "Of", "That", "When"];

/// A comment begins with a noun or a verb: "Returns the invalid field", not "What is invalid".
#[test]
fn few_comments_begin_with_a_clause() {
    let mut found = Vec::new();
    for path in below(&root().join("crates"), "rs") {
        let mut is_comment = false;
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let text = line.trim_start();
            let comment = ["///", "//!", "//"].iter().find_map(|mark| text.strip_prefix(mark));
            let words = comment.and_then(|comment| comment.strip_prefix(' ')).map(str::to_owned);
            let clause = words.is_some_and(|words| {
                let first = words.split(' ').next().unwrap_or_default();
                CONJUNCTIONS.contains(&first)
            });
            // The first line of a comment only: others continue a sentence.
            if clause && !is_comment {
                found.push((path.clone(), number));
            }
            is_comment = comment.is_some_and(|comment| !comment.is_empty());
        }
    }
    let places = found.iter().map(|(path, number)| format!("{}:{}", path.display(), number + 1));
    let places: Vec<_> = places.collect();
    assert!(places.len() <= CLAUSES, "{} comments:\n{}", places.len(), places.join("\n"));
}

#[test]
fn lines_of_documents_are_short() {
    let mut long = Vec::new();
    for path in all() {
        let mut code = false;
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let text = line.trim_start();
            code ^= text.starts_with("```");
            // A table's row, a picture and a quoted command cannot be broken; neither can one word.
            let whole =
                code || ["|", "!", "#", "    ", "<", ">"].iter().any(|s| line.starts_with(s));
            // Outside of code in the line, which stays whole.
            let prose: usize = text.split('`').step_by(2).map(|part| part.chars().count()).sum();
            let length = line.chars().count();
            if !whole && length > COLUMNS + 10 && prose > 20 {
                long.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(long.is_empty(), "{} lines are too long:\n{}", long.len(), long.join("\n"));
}

/// Constants with names of a specification: virtio 1.2, 5.2.3; PCI-to-PCI Bridge Architecture
/// Specification 1.2, 3.2; POSIX, limits.h.
const SPECIFIED: [&str; 5] = ["SIZE_MAX", "SEG_MAX", "MEMORY_LIMIT", "NAME_MAX", "PATH_MAX"];

/// A limit is `MAX_SUBJECT` or `MIN_SUBJECT`.
#[test]
fn limits_are_named_in_one_way() {
    const WORDS: [&str; 9] = [
        "MOST", "LEAST", "LARGEST", "SMALLEST", "LONGEST", "SHORTEST", "MAXIMUM", "MINIMUM",
        "LIMIT",
    ];
    let mut odd = Vec::new();
    for path in below(&root().join("crates"), "rs") {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let declared = line.trim_start().trim_start_matches("pub ");
            let declared = declared.strip_prefix("pub(super) ").unwrap_or(declared);
            let declared = declared.strip_prefix("pub(crate) ").unwrap_or(declared);
            let Some(name) = declared.strip_prefix("const ").and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            let name = name.0;
            let is_odd = WORDS.iter().any(|word| {
                name == *word
                    || name.strip_prefix(word).is_some_and(|rest| rest.starts_with('_'))
                    || name.strip_suffix(word).is_some_and(|rest| rest.ends_with('_'))
            }) || name.ends_with("_MAX")
                || name.ends_with("_MIN");
            if is_odd && !SPECIFIED.contains(&name) {
                odd.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(odd.is_empty(), "limits that are not MAX_ or MIN_:\n{}", odd.join("\n"));
}
