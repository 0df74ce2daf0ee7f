//! Descriptions of the program's command line beside its help: man pages and completions. All are
//! made of clap's description of the commands.

pub mod completion;
pub mod man;
