//! Help on the terminal, made of clap's description of a command; the text below the options is
//! parsed once, by [`text`].

pub mod text;

use clap::Command;

/// Columns of help: those of a terminal as it is opened.
pub const WIDTH: usize = 80;

/// `command` with its help, and that of all commands below it, filled to [`WIDTH`] columns.
pub fn dressed(command: Command) -> Command {
    let mut command = command.term_width(WIDTH);
    if let Some(help) = command.get_after_help() {
        let filled = text::filled(&help.to_string(), WIDTH);
        command = command.after_help(filled);
    }
    command.mut_subcommands(dressed)
}
