//! Comments and documents are in plain words, and lines of prose can be read in any window.

use std::fs;

use crate::pages::{all, below, root};

/// Columns of a line of prose outside tables.
const COLUMNS: usize = 100;
/// Limit on comments that begin with a clause: descriptions of arguments, and code that documents
/// quote.
const CLAUSES: usize = 80;
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

/// Words that say nothing of the value that they name.
const EMPTY: [&str; 6] = ["of", "what", "told", "said", "seen", "left"];

/// A variable or parameter has a noun as its name; `left` is one beside `right`.
#[test]
fn variables_are_nouns() {
    let mut found = Vec::new();
    for path in below(&root().join("crates"), "rs") {
        for (line, name) in empty_names(&fs::read_to_string(&path).unwrap()) {
            found.push(format!("{}:{line}: {name}", path.display()));
        }
    }
    assert!(found.is_empty(), "{} variables:\n{}", found.len(), found.join("\n"));
}

#[test]
fn variables_are_found_wherever_they_are_declared() {
    fn found(text: &str) -> Vec<&str> {
        empty_names(text).into_iter().map(|(_, name)| name).collect()
    }
    for text in [
        "fn f(what: u8) {}",
        "fn f() { let mut what: u8 = 1; }",
        "fn f() { let (a, what) = g(); }",
        "fn f() { g(|what| 1); }",
        "fn f() { let g = |a, what: &str| 1; }",
        "fn f() { for what in g() {} }",
        "fn f() { let A { what, .. } = g(); }",
        "fn f() { match g() { Some(what) => 1, None => 2 } }",
        "fn f() { g(0..what); }",
    ] {
        assert_eq!(found(text), ["what"], "{text}");
    }
    for text in [
        "fn what(a: A) -> u8 { a.what + a.what() + A::what() + what(1) }",
        "struct A { pub what: u8 }",
        "fn f() { let A { what: a, .. } = A { what: 1, ..g() }; }",
        "use a::{what, b};",
        "fn f() { \"what\"; r#\"a \"what\"\"#; '\"'; } // what\n/* what */",
        "fn f<'a>(a: &'a u8) { let (left, right) = g(); }",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
    assert_eq!(found("fn f() { let left = 1; }\nfn g() { let right = 1; }"), ["left"]);
}

/// Uses of variables with an empty name, each with its line. Fields, methods and functions are none.
fn empty_names(code: &str) -> Vec<(usize, &str)> {
    let tokens = tokens(code);
    let word = |place: Option<usize>| place.and_then(|at| tokens.get(at)).map_or("", |one| one.1);
    // The open brackets, each with the number of `|` behind it: closures' parameters are between two.
    let mut open = vec![("", 0)];
    let (mut found, mut is_import) = (Vec::new(), false);
    for (place, &(line, token)) in tokens.iter().enumerate() {
        let [before, last] = [2, 1].map(|back| word(place.checked_sub(back)));
        let [next, after] = [1, 2].map(|on| word(Some(place + on)));
        match token {
            "(" | "[" | "{" => open.push((token, 0)),
            ")" | "]" | "}" if open.len() > 1 => drop(open.pop()),
            "|" => open.last_mut().unwrap().1 += 1,
            ";" => (open.last_mut().unwrap().1, is_import) = (0, false),
            "use" => is_import = next != "<",
            _ => {}
        }
        let (bracket, bars) = open[open.len() - 1];
        let is_member = last == "." && before != ".";
        let is_path = (before, last) == (":", ":") || (next, after) == (":", ":");
        let is_function = next == "(" || last == "fn";
        let is_field =
            bracket == "{" && bars % 2 == 0 && next == ":" && !["let", "mut"].contains(&last);
        let is_other = is_import || is_member || is_path || is_function || is_field;
        if EMPTY.contains(&token) && !is_other && !(token == "left" && has_right(&tokens, place)) {
            found.push((line, token));
        }
    }
    found
}

/// Returns whether the function around a place names something `right`.
fn has_right(tokens: &[(usize, &str)], place: usize) -> bool {
    let (before, behind) = tokens.split_at(place);
    let is_inside = |token: &&(usize, &str)| token.1 != "fn";
    let mut around =
        before.iter().rev().take_while(is_inside).chain(behind.iter().take_while(is_inside));
    around.any(|token| token.1 == "right")
}

/// Words and signs of Rust code, each with its line; without comments, texts and characters.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let (mut all, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let until = |end: &str, from: usize| {
            rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len())
        };
        let hashes = rest[word..].bytes().take_while(|byte| *byte == b'#').count();
        let is_raw = ["r", "br", "cr"].contains(&&rest[..word]);
        let length = if is_raw && rest[word + hashes..].starts_with('"') {
            until(&format!("\"{}", "#".repeat(hashes)), word + hashes + 1)
        } else if rest.starts_with("//") {
            until("\n", 0)
        } else if rest.starts_with("/*") {
            until("*/", 0)
        } else if first == '"' {
            let mut is_escaped = false;
            let end = rest[1..].find(|c: char| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\\") {
            until("'", 3)
        } else if first == '\'' && rest.chars().nth(2) == Some('\'') {
            until("'", 1)
        } else {
            let length = word.max(first.len_utf8());
            if !first.is_whitespace() {
                all.push((line, &rest[..length]));
            }
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    all
}
