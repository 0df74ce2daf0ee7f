//! Man pages. Their examples can be copied into a shell: they are neither filled nor hyphenated,
//! and their hyphens and quotes are those of ASCII (groff_char(7)).

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use stasis_program::help::text::{folded, Block, Sections};

/// Columns of a page's text in a terminal of 80: man(1) indents it by seven.
const WIDTH: usize = 72;

/// Before the page: no word is hyphenated, no line is stretched (groff_man(7)).
const PREAMBLE: &str = ".nr HY 0\n.ds AD l\n";
/// Once macros have begun: the same for an older groff, which resets both.
const BEGUN: &str = ".nh\n.ad l\n";

/// Writes the page of `command` and those of all that are below it to `folder`.
pub fn write_all(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    each(&command, &mut |command| {
        let page = Man::new(command.clone());
        let mut text = Vec::new();
        write(command, &page, &mut text)?;
        std::fs::write(folder.join(page.get_filename()), text)
    })
}

/// Writes the page of `command` alone.
pub fn write_first(mut command: Command, to: &mut dyn Write) -> io::Result<()> {
    command.build();
    write(&command, &Man::new(command.clone()), to)
}

fn each(command: &Command, act: &mut dyn FnMut(&Command) -> io::Result<()>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        each(below, act)?;
    }
    act(command)
}

fn write(command: &Command, page: &Man, mut to: &mut dyn Write) -> io::Result<()> {
    to.write_all(PREAMBLE.as_bytes())?;
    page.render_title(&mut to)?;
    to.write_all(BEGUN.as_bytes())?;
    page.render_name_section(&mut to)?;
    page.render_synopsis_section(&mut to)?;
    page.render_description_section(&mut to)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut to)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        page.render_subcommands_section(&mut to)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    to.write_all(sections(&Sections::of(&help)).as_bytes())?;
    page.render_version_section(&mut to)
}

fn sections(sections: &Sections) -> String {
    let mut page = String::new();
    if !sections.notes.is_empty() {
        page += ".SH NOTES\n";
        for block in &sections.notes {
            match block {
                Block::Prose(prose) => page += &format!("{}\n", line(prose)),
                Block::Lines(lines) => page += &literal(lines.iter().cloned()),
                Block::Gap => page += ".PP\n",
            }
        }
    }
    if let Some(status) = &sections.exit_status {
        page += &format!(".SH EXIT STATUS\n{}\n", line(status));
    }
    if !sections.examples.is_empty() {
        let examples = sections.examples.iter().flat_map(|line| folded(line, WIDTH));
        page += &format!(".SH EXAMPLES\n{}", literal(examples));
    }
    page
}

/// Lines that are shown as they are, without what indents them all.
fn literal(lines: impl Iterator<Item = String>) -> String {
    let shown = lines.map(|shown| line(shown.strip_prefix("  ").unwrap_or(&shown)) + "\n");
    format!(".PP\n.nf\n{}.fi\n", shown.collect::<String>())
}

/// `text` as a line of a page: each character stands for itself, and the first one begins no
/// request.
fn line(text: &str) -> String {
    let mut line = String::new();
    if text.starts_with(['.', '\'']) {
        line.push_str("\\&");
    }
    for c in text.chars() {
        match c {
            '\\' => line.push_str("\\e"),
            '-' => line.push_str("\\-"),
            '\'' => line.push_str("\\(aq"),
            '"' => line.push_str("\\(dq"),
            '`' => line.push_str("\\(ga"),
            '^' => line.push_str("\\(ha"),
            '~' => line.push_str("\\(ti"),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_of_a_line_stands_for_itself() {
        assert_eq!(line(".x"), "\\&.x");
        assert_eq!(line("a --b 'c' ~/d\\"), "a \\-\\-b \\(aqc\\(aq \\(ti/d\\e");
    }

    #[test]
    fn examples_are_not_filled() {
        let page = sections(&Sections::of("Note.\n\nExamples:\n  stasis a -- b\n  stasis c"));
        assert_eq!(
            page,
            ".SH NOTES\nNote.\n.SH EXAMPLES\n.PP\n.nf\nstasis a \\-\\- b\nstasis c\n.fi\n"
        );
    }
}
