//! `stasis image`: disk images, outside of experiments.

mod arguments;
mod convert;
mod open;
mod show;

use std::process::ExitCode;

use anyhow::Result;
use stasis_qcow2::{CreateOptions, Format};
use stasis_terminal::answer;

pub use arguments::ImageCommand;
use arguments::{CreateArguments, GrowArguments};

/// `stasis image`.
pub fn image(command: &ImageCommand) -> Result<ExitCode> {
    match command {
        ImageCommand::Create(arguments) => create(arguments),
        ImageCommand::Info(arguments) => show::info(&arguments.file, arguments.json),
        ImageCommand::Check(arguments) => show::check(&arguments.file, arguments.json),
        ImageCommand::Map(arguments) => show::map(&arguments.file, arguments.json),
        ImageCommand::Convert(arguments) => convert::convert(arguments),
        ImageCommand::Grow(arguments) => grow(arguments),
    }
}

fn create(arguments: &CreateArguments) -> Result<ExitCode> {
    let format = arguments.backing_format.map(Format::from);
    let options = CreateOptions {
        size: arguments.size,
        cluster_size: arguments.cluster_size,
        refcount_bits: arguments.refcount_bits,
        lazy_refcounts: arguments.lazy_refcounts,
        backing: arguments.backing.clone().map(|name| (name, format)),
    };
    stasis_qcow2::create(&arguments.file, &options)?;
    answer::put("file", &arguments.file)?;
    Ok(ExitCode::SUCCESS)
}

fn grow(arguments: &GrowArguments) -> Result<ExitCode> {
    stasis_qcow2::grow(&arguments.file, arguments.size)?;
    answer::put("file", &arguments.file)?;
    Ok(ExitCode::SUCCESS)
}
