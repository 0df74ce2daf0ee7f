//! `stasis cache`: the files kept for later runs, and their size on the disk.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;
use stasis_emulated_host::Kind;
use stasis_guest_image as guest_image;
use stasis_report::{Column, Table};
use stasis_results::units;
use stasis_runner::guest;
use stasis_runner::software_host;
use stasis_terminal::answer;

/// Commands of `stasis cache`.
#[derive(Debug, clap::Subcommand)]
pub enum CacheCommand {
    /// Remove what later runs make again in seconds; with --all, guests and downloads as well
    #[command(after_help = "Examples:
  stasis cache prune
  stasis cache prune --all")]
    Prune {
        /// Remove guests and the software host's kernel too: the next run needs the network
        #[arg(long)]
        all: bool,
    },
}

/// `stasis cache [prune]`.
pub fn main(command: Option<&CacheCommand>) -> Result<ExitCode> {
    let cache = software_host::cache().context(software_host::NO_CACHE)?;
    match command {
        None => {
            let mut text = list(&cache)?.to_text();
            text += &format!("\nin {}\n", cache.display());
            answer::put("cache", &cache)?;
            answer::text(&text)?;
        }
        Some(CacheCommand::Prune { all }) => {
            let before = guest_image::bytes(&cache);
            prune(&cache, *all)?;
            let freed = before.saturating_sub(guest_image::bytes(&cache));
            answer::put("freed_bytes", &freed)?;
            answer::text(&format!("{} freed\n", units::bytes(freed)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn kinds(cache: &Path) -> Result<Vec<Kind>> {
    let folder = guest::cache()?;
    let guests =
        guest_image::list(&folder).into_iter().map(|kept| folder.join(kept.name)).collect();
    let guests = Kind { description: "guests", paths: guests };
    Ok([guests].into_iter().chain(stasis_emulated_host::kept(cache)).collect())
}

fn list(cache: &Path) -> Result<Table> {
    let columns = ["number", "size"].map(Column::right);
    let mut table = Table::new([Column::left("what")].into_iter().chain(columns).collect());
    let mut listed = 0;
    answer::list("kept");
    for kind in kinds(cache)? {
        let bytes = kind.paths.iter().map(|path| guest_image::bytes(path)).sum();
        listed += bytes;
        let kept = json!({ "what": kind.description, "number": kind.paths.len(), "bytes": bytes });
        answer::push("kept", &kept)?;
        table.push(vec![
            kind.description.to_owned(),
            kind.paths.len().to_string(),
            units::bytes(bytes),
        ]);
    }
    let rest = guest_image::bytes(cache).saturating_sub(listed);
    answer::put("bytes", &(listed + rest))?;
    table.push(vec!["everything else".to_owned(), String::new(), units::bytes(rest)]);
    table.push(vec!["all".to_owned(), String::new(), units::bytes(listed + rest)]);
    Ok(table)
}

fn prune(cache: &Path, all: bool) -> Result<()> {
    let folder = guest::cache()?;
    guest_image::remove_left_overs(&folder)?;
    stasis_emulated_host::forget_machines(cache);
    if !all {
        return Ok(());
    }
    for guest in guest_image::list(&folder) {
        guest_image::remove(&folder, &guest.name)?;
    }
    Ok(stasis_emulated_host::forget_kernel(cache)?)
}
