//! `stasis calibrate`: a profile from what fio or blkparse wrote of a drive.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use stasis_block::units::{format_duration, format_size};
use stasis_block::Operation;
use stasis_models::calibrate::{from_text, Form};
use stasis_models::profile::{Block, Observed};
use stasis_models::Profile;
use stasis_terminal::answer;

/// Arguments of `stasis calibrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fio job.fio --output-format=json+ --output=fio.json && stasis calibrate fio.json
  blkparse -i sdb > sdb.txt && stasis calibrate sdb.txt -o sdb.json
  stasis run --drive model=profile:sdb.json,medium=ram:1GiB --file job.fio -- fio job.fio")]
pub struct CalibrateArguments {
    /// fio's JSON output or blkparse's text output; - reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The profile's file; - prints it [default: profile.json]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Name of the profile [default: the first job's]
    #[arg(long)]
    pub name: Option<String>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
}

/// `stasis calibrate FILE`.
pub fn main(arguments: &CalibrateArguments) -> Result<ExitCode> {
    let mut profile = read(&arguments.file)?;
    if let Some(name) = &arguments.name {
        profile.name.clone_from(name);
    }
    let text = profile.to_json() + "\n";
    let output = arguments.output.clone().unwrap_or_else(|| PathBuf::from("profile.json"));
    if output == Path::new("-") {
        answer::document(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    stasis_results::keep_inputs(&output, std::slice::from_ref(&arguments.file))?;
    write(&output, &text, arguments.force)?;
    answer::put("profile", &output)?;
    answer::text(&describe(&profile, &output))?;
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<Profile> {
    let shown = file.display();
    let text = match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => anyhow::anyhow!(
            "{shown} is no text; for blktrace's binary files, give what \
             `blkparse -i NAME` prints"
        ),
        _ => anyhow::Error::new(error).context(format!("cannot read {shown}")),
    })?;
    from_text(&text).with_context(|| match Form::of(&text) {
        Form::Fio => format!("{shown}, taken for fio's JSON"),
        Form::FioText | Form::FioTerse => format!("{shown}"),
        Form::Blkparse => format!("{shown}, taken for blkparse's text"),
    })
}

/// Writes a new file, or over an old one if that was asked for.
fn write(output: &Path, text: &str, force: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(!force).create(true).truncate(force);
    match options.open(output) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; take another name with -o, or --force", output.display())
        }
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot write {}", output.display()))
}

/// Describes the profile's contents and its use.
fn describe(profile: &Profile, output: &Path) -> String {
    let mut text = String::new();
    for (operation, blocks) in &profile.operations {
        for block in blocks {
            let size = match block.block_size {
                0 => String::new(),
                size => format!(" of {}", format_size(size)),
            };
            let (least, most) = ends(block);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{}{size}: {} to {}, {}",
                operation.name(),
                format_duration(least),
                format_duration(most),
                match block.samples.len() {
                    0 => format!("{} percentiles", block.percentiles.len()),
                    samples => format!("{samples} samples"),
                }
            );
        }
    }
    if let Some(depth) = profile.depth {
        let _ = writeln!(
            text,
            "At most {depth} in flight: a drive of the profile has no more in service at once, and is no faster than the \
             fastest job."
        );
    }
    for (operation, without) in [(Operation::Read, "reads"), (Operation::Write, "writes")] {
        if !profile.operations.contains_key(&operation) {
            let name = operation.name();
            let _ = writeln!(
                text,
                "It has no {without}: a drive of the profile refuses them, unless its table gives `{name} = \"20us\"`."
            );
        }
    }
    if profile.observed == Observed::Application {
        text.push_str(
            "The times are an application's: they hold the software path of the machine they were \
             measured on as well. blktrace sees the drive alone.\n",
        );
    }
    let shown = output.display();
    let _ = write!(
        text,
        "\nWritten to {shown}. To use it:\n  \
         stasis run --drive model=profile:{shown},medium=ram:1GiB -- COMMAND...\n\
         or in an experiment file:\n  [[drive]]\n  model  = {{ kind = \"profile\", file = \"{shown}\" }}\n  \
         medium = {{ ram = \"1GiB\" }}\n"
    );
    text
}

/// The least and the largest latency (ns).
fn ends(block: &Block) -> (u64, u64) {
    let of_samples = block.samples.iter().min().zip(block.samples.iter().max());
    let of_percentiles = block.percentiles.first().zip(block.percentiles.last());
    match (of_samples, of_percentiles) {
        (Some((&least, &most)), _) => (least, most),
        (None, Some((least, most))) => (least.1 as u64, most.1 as u64),
        (None, None) => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_lost_by_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        write(&path, "a long text", false).unwrap();
        assert!(write(&path, "new", false).unwrap_err().to_string().contains("--force"));
        write(&path, "new", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    }
}
