//! `stasis completions` and `stasis man`: what a shell and man(1) know of the
//! command line, made of its own description.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

/// `stasis completions SHELL`.
pub fn completions(mut command: Command, shell: Shell) -> Result<ExitCode> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    stasis_terminal::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// `stasis man [DIR]`.
pub fn man(command: Command, folder: Option<&Path>) -> Result<ExitCode> {
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder))
                .with_context(|| format!("cannot write man pages to {}", folder.display()))?;
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            stasis_terminal::print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
