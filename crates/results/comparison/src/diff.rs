//! Differences between two texts, line by line.

/// Equal lines that are shown around those that differ.
const AROUND: usize = 3;
/// Pairs of lines that are looked at; texts with more are shown as a whole.
const MAX_PAIRS: usize = 4 << 20;
/// Limits on the lines that are shown, and on the characters of one.
const MAX_LINES: usize = 200;
const MAX_LINE: usize = 200;

/// Differences between two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The lines that differ with some around them, as `diff -u` shows them, within bounds.
    pub shown: String,
    /// The lines that only the first text has.
    pub was: Vec<String>,
    /// The lines that only the second text has.
    pub is: Vec<String>,
}

impl Changes {
    /// Returns the changes from one text to another; None where no line differs.
    pub(crate) fn between(was: &str, is: &str) -> Option<Self> {
        let lines = lines(&was.lines().collect::<Vec<_>>(), &is.lines().collect::<Vec<_>>());
        let only_in = |text: fn(&Line) -> Option<String>| lines.iter().filter_map(text).collect();
        let was: Vec<String> = only_in(|line| match line {
            Line::Was(text) => Some(shortened(text)),
            _ => None,
        });
        let is: Vec<String> = only_in(|line| match line {
            Line::Is(text) => Some(shortened(text)),
            _ => None,
        });
        let differs = !was.is_empty() || !is.is_empty();
        differs.then(|| Self { shown: unified(&lines), was, is })
    }
}

/// The begin of a long line.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A line that is in one text, or in both.
#[derive(Clone, Copy, PartialEq)]
enum Line<'a> {
    Same(&'a str),
    Was(&'a str),
    Is(&'a str),
}

/// The lines that differ, with some around them; empty where none does.
fn unified(lines: &[Line]) -> String {
    let changed: Vec<usize> =
        (0..lines.len()).filter(|place| !matches!(lines[*place], Line::Same(_))).collect();
    let mut out = String::new();
    let (mut end, mut count) = (0, 0);
    for (number, &place) in changed.iter().enumerate() {
        let begin = place.saturating_sub(AROUND).max(end);
        if count >= MAX_LINES {
            let more = changed[number..].iter().filter(|place| **place >= end).count();
            if more > 0 {
                out.push_str(&format!("… and {more} more that differ\n"));
            }
            break;
        }
        if begin > end && end > 0 {
            out.push_str("…\n");
        }
        let last = (place + AROUND + 1).min(lines.len());
        for line in &lines[begin..last.max(begin)] {
            let (mark, text) = match line {
                Line::Same(text) => (' ', text),
                Line::Was(text) => ('-', text),
                Line::Is(text) => ('+', text),
            };
            out.push(mark);
            out.push_str(&shortened(text));
            out.push('\n');
            count += 1;
        }
        end = end.max(last);
    }
    out
}

/// All lines of both texts in order, by their longest common subsequence.
fn lines<'a>(was: &[&'a str], is: &[&'a str]) -> Vec<Line<'a>> {
    let begin = was.iter().zip(is).take_while(|(was, is)| was == is).count();
    let ends = was[begin..].iter().rev().zip(is[begin..].iter().rev());
    let end = ends.take_while(|(was, is)| was == is).count();
    let (was_middle, is_middle) = (&was[begin..was.len() - end], &is[begin..is.len() - end]);
    let same = |lines: &[&'a str]| lines.iter().map(|line| Line::Same(line)).collect::<Vec<_>>();
    let mut all = same(&was[..begin]);
    let (rows, columns) = (was_middle.len(), is_middle.len());
    if rows.saturating_mul(columns) > MAX_PAIRS {
        all.extend(was_middle.iter().map(|line| Line::Was(line)));
        all.extend(is_middle.iter().map(|line| Line::Is(line)));
    } else {
        // The length of the longest common subsequence of what follows each pair of places.
        let at = |row: usize, column: usize| row * (columns + 1) + column;
        let mut longest = vec![0_u32; (rows + 1) * (columns + 1)];
        for row in (0..rows).rev() {
            for column in (0..columns).rev() {
                longest[at(row, column)] = match was_middle[row] == is_middle[column] {
                    true => longest[at(row + 1, column + 1)] + 1,
                    false => longest[at(row + 1, column)].max(longest[at(row, column + 1)]),
                };
            }
        }
        let (mut row, mut column) = (0, 0);
        while row < rows || column < columns {
            if row < rows && column < columns && was_middle[row] == is_middle[column] {
                all.push(Line::Same(was_middle[row]));
                (row, column) = (row + 1, column + 1);
            } else if column == columns
                || row < rows && longest[at(row + 1, column)] >= longest[at(row, column + 1)]
            {
                all.push(Line::Was(was_middle[row]));
                row += 1;
            } else {
                all.push(Line::Is(is_middle[column]));
                column += 1;
            }
        }
    }
    all.extend(same(&was[was.len() - end..]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown_with_those_around_them() {
        let was = "1\n2\n3\n4\n5\nold\n6\n7\n8\n9\n10\n11\n12\n13\n";
        let is = "1\n2\n3\n4\n5\nnew\n6\n7\n8\n9\n10\n11\n12\n13\nlast\n";
        let shown = " 3\n 4\n 5\n-old\n+new\n 6\n 7\n 8\n…\n 11\n 12\n 13\n+last\n";
        let shown_of = |was, is| Changes::between(was, is).map(|changes| changes.shown);
        assert_eq!(shown_of(was, is).as_deref(), Some(shown));
        assert_eq!(shown_of(was, was), None);
        assert_eq!(shown_of("a\r\n", "a"), None);
        assert_eq!(shown_of("", "a\n").as_deref(), Some("+a\n"));
        assert_eq!(shown_of("a\n", "").as_deref(), Some("-a\n"));
        let changes = Changes::between(was, is).unwrap();
        assert_eq!(
            (changes.was, changes.is),
            (vec!["old".into()], vec!["new".into(), "last".into()])
        );
    }

    #[test]
    fn no_more_is_shown_than_a_page_has_room_for() {
        let long = |word: &str| (0..5000).map(|n| format!("{word}{n}\n")).collect::<String>();
        let shown = Changes::between(&long("a"), &long("b")).unwrap().shown;
        assert!(shown.lines().count() <= MAX_LINES + 2 * AROUND + 2, "{}", shown.lines().count());
        let last = shown.lines().last().unwrap();
        let (_, more) = last.split_once("and ").unwrap();
        let more: usize = more.split(' ').next().unwrap().parse().unwrap();
        let marked = shown.lines().filter(|line| line.starts_with(['-', '+'])).count();
        assert_eq!(marked + more, 10_000, "{last}");
        let wide = Changes::between("", &"ä".repeat(10_000)).unwrap();
        assert!(wide.shown.chars().count() < MAX_LINE + 5 && wide.is[0].ends_with('…'));
    }

    /// As `diff -u` of many small texts: each line of one is there, in order.
    #[test]
    fn both_texts_can_be_made_from_what_is_shown() {
        for (was, is) in (0..64_u32).flat_map(|was| (0..64).map(move |is| (was, is))) {
            let text = |bits: u32| -> String {
                (0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| format!("{bit}\n")).collect()
            };
            let (was, is) = (text(was), text(is));
            let all = lines(&was.lines().collect::<Vec<_>>(), &is.lines().collect::<Vec<_>>());
            let side = |other: fn(&Line) -> bool| -> String {
                let kept = all.iter().filter(|line| !other(line));
                kept.map(|(Line::Same(text) | Line::Was(text) | Line::Is(text))| {
                    format!("{text}\n")
                })
                .collect()
            };
            assert_eq!(side(|line| matches!(line, Line::Is(_))), was);
            assert_eq!(side(|line| matches!(line, Line::Was(_))), is);
        }
    }
}
