//! The text below the options: paragraphs, and indented lines that stand as they are, such as
//! examples.

/// Indent of an example's continuation lines.
const GOES_ON: &str = "    ";
/// Beginning of the paragraph about the exit status.
const EXIT_STATUS: &str = "Exit status:";

/// A part of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A paragraph, whose lines are broken where it is shown.
    Prose(String),
    /// Indented lines; a line with more indent belongs to the line before.
    Lines(Vec<String>),
    /// An empty line.
    Gap,
}

/// The parts of `text`.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines() {
        let indented = line.starts_with("  ");
        match (blocks.last_mut(), line.trim_end()) {
            (_, "") => blocks.push(Block::Gap),
            (Some(Block::Lines(lines)), line) if indented => lines.push(line.to_owned()),
            (_, line) if indented => blocks.push(Block::Lines(vec![line.to_owned()])),
            (Some(Block::Prose(prose)), line) => {
                prose.push(' ');
                prose.push_str(line);
            }
            (_, line) => blocks.push(Block::Prose(line.to_owned())),
        }
    }
    blocks
}

/// `text` in lines of at most `width` columns: paragraphs are filled, and a longer example
/// continues after a backslash. A longer word stays whole, and so do other indented lines.
pub fn filled(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    let mut are_examples = false;
    for block in blocks(text) {
        match block {
            Block::Prose(prose) => {
                are_examples = is_title(&prose);
                lines.extend(wrapped(&prose, width));
            }
            Block::Lines(indented) if are_examples => {
                lines.extend(indented.iter().flat_map(|line| folded(line, width)));
            }
            Block::Lines(indented) => lines.extend(indented),
            Block::Gap => lines.push(String::new()),
        }
    }
    lines.join("\n")
}

/// Returns whether examples follow this paragraph.
fn is_title(prose: &str) -> bool {
    prose == "Example:" || prose == "Examples:"
}

/// `text` in lines of at most `width` columns, but for longer words.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A command in lines that a shell reads as one.
pub fn folded(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    if let Some((command, comment)) = line.split_once("  # ") {
        // A backslash would be part of the comment.
        let above = format!("  # {comment}");
        return [above].into_iter().chain(folded(command.trim_end(), width)).collect();
    }
    let indent = line.len() - line.trim_start().len();
    let mut lines = vec![line[..indent].to_owned()];
    for word in pieces(line[indent..].trim_end()) {
        let last = lines.last_mut().expect("begun with one");
        let is_begun = !last.trim().is_empty();
        // Room for a space and a backslash.
        if is_begun && last.chars().count() + 1 + word.chars().count() + 2 > width {
            last.push_str(" \\");
            lines.push(format!("{GOES_ON}{word}"));
        } else {
            last.push_str(if is_begun { " " } else { "" });
            last.push_str(word);
        }
    }
    lines
}

/// `line` at its spaces, but for those in quotes and behind the name of an option.
fn pieces(line: &str) -> Vec<&str> {
    let (mut pieces, mut begin, mut quote) = (Vec::new(), 0, None);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') if !is_option(&line[begin..at], &line[at + 1..]) => {
                pieces.push(&line[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&line[begin..]);
    pieces
}

/// Returns whether `word` is an option whose value follows, as far as the text shows it.
fn is_option(word: &str, rest: &str) -> bool {
    word.len() > 2 && word.starts_with("--") && !word.contains([' ', '=']) && !rest.starts_with('-')
}

/// The text by what it is about, for a page with headings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The paragraph about the exit status, without its title.
    pub exit_status: Option<String>,
    /// The examples' lines.
    pub examples: Vec<String>,
    /// All else.
    pub notes: Vec<Block>,
}

impl Sections {
    /// The sections of a text.
    pub fn of(text: &str) -> Self {
        let mut sections = Self::default();
        let mut parts = blocks(text).into_iter().peekable();
        while let Some(block) = parts.next() {
            match block {
                Block::Prose(title) if is_title(&title) => {
                    if let Some(Block::Lines(lines)) =
                        parts.next_if(|next| matches!(next, Block::Lines(_)))
                    {
                        sections.examples.extend(lines);
                    }
                }
                Block::Prose(prose) if prose.starts_with(EXIT_STATUS) => {
                    sections.exit_status = Some(prose[EXIT_STATUS.len()..].trim().to_owned());
                }
                block => sections.notes.push(block),
            }
        }
        while sections.notes.last() == Some(&Block::Gap) {
            sections.notes.pop();
        }
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_filled_and_indented_lines_stay() {
        let text = "one two\nthree\n\nExamples:\n  a  b\n  c\n\nExit status: 0\nor 1.";
        assert_eq!(
            filled(text, 9),
            "one two\nthree\n\nExamples:\n  a  b\n  c\n\nExit\nstatus: 0\nor 1."
        );
        let sections = Sections::of(text);
        assert_eq!(sections.exit_status.as_deref(), Some("0 or 1."));
        assert_eq!(sections.examples, ["  a  b", "  c"]);
        assert_eq!(sections.notes[0], Block::Prose("one two three".into()));
    }

    #[test]
    fn a_long_command_goes_on_after_a_backslash_but_not_within_quotes() {
        let lines = folded("  stasis run --check 'a b c' -- true", 23);
        assert_eq!(lines, ["  stasis run \\", "    --check 'a b c' \\", "    -- true"]);
        assert_eq!(folded("  short", 24), ["  short"]);
        assert_eq!(folded("  stasis a  # a comment", 20), ["  # a comment", "  stasis a"]);
    }

    #[test]
    fn words_are_kept_when_lines_are_wrapped() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible x", 5), ["incomprehensible", "x"]);
        assert!(wrapped("", 5).is_empty());
    }
}
