//! `stasis completions` and `stasis man`: the command line as a shell and man(1) use it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use stasis_terminal::answer;

use crate::help::{completion, man};

/// `stasis completions SHELL`.
pub fn completions(command: Command, shell: Shell) -> Result<ExitCode> {
    let script = completion::of(command, shell);
    answer::put("script", &script)?;
    answer::text(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// `stasis man [DIR]`.
pub fn pages(command: Command, folder: Option<&Path>) -> Result<ExitCode> {
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| man::write_all(command, folder))
                .with_context(|| format!("cannot write man pages to {}", folder.display()))?;
            answer::put("folder", &folder)?;
        }
        None => {
            let mut text = Vec::new();
            man::write_first(command, &mut text)?;
            let text = String::from_utf8_lossy(&text);
            answer::put("page", &text)?;
            answer::text(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
