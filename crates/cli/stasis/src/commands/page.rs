//! `stasis page`: a page from its description.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, Context, Result};
use stasis_report::page::Page;
use stasis_terminal::answer;

/// Arguments of `stasis page`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The page is one file with tables and plots that a reader can point at and zoom. Its description is JSON:
  {\"title\": \"Latency by depth\", \"sections\": [{\"blocks\": [{\"plots\": [{\"lines\": {
    \"title\": \"p99\", \"x\": {\"label\": \"depth\"},
    \"y\": {\"label\": \"latency\", \"quantity\": \"time\"},
    \"series\": [{\"name\": \"read\", \"points\": [[1, 81000], [2, 83000], [4, 97000]]}]}}]}]}]}

Example:
  stasis page page.json > page.html"
)]
pub struct Arguments {
    /// The description; - is standard input
    #[arg(value_name = "PAGE.json")]
    file: PathBuf,
}

/// Draws the page and prints it.
pub fn main(arguments: &Arguments) -> Result<ExitCode> {
    let file = &arguments.file;
    let (name, text) = if file == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        ("standard input".to_owned(), read.map(|_| text))
    } else {
        (file.display().to_string(), std::fs::read_to_string(file))
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let page =
        Page::from_json(&text).map_err(|error| anyhow!("{name} describes no page: {error}"))?;
    let html = page.to_html();
    answer::put("html", &html)?;
    answer::text(&html)?;
    Ok(ExitCode::SUCCESS)
}
