//! `stasis guest`: the system that runs in the virtual machine.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{json, Value};
use stasis_experiment::Experiment;
use stasis_guest_image::{self as guest_image, DEFAULT_PACKAGES};
use stasis_report::{Column, Table};
use stasis_results::units;
use stasis_runner::guest::{cache, recipe_of};
use stasis_terminal::{answer, ensure_guest, stop_on_signals};

use crate::arguments::SystemArguments;

/// The guest's system.
#[derive(Debug, clap::Args)]
pub struct GuestBuildArguments {
    /// An experiment file whose guest it is to be
    #[arg(value_name = "EXPERIMENT.toml")]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub system: SystemArguments,
    /// Debian release [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
}

/// An experiment with the guest that the words ask for, or its own; words win.
fn spec(arguments: GuestBuildArguments) -> Result<Experiment> {
    let mut experiment = match &arguments.experiment {
        Some(path) => {
            let mut experiment = Experiment::read(path)?;
            experiment.finish()?;
            experiment
        }
        None => Experiment::default(),
    };
    arguments.system.apply(&mut experiment.guest);
    experiment.guest.suite = arguments.suite.or(experiment.guest.suite);
    Ok(experiment)
}

/// `stasis guest build`.
pub fn build(arguments: GuestBuildArguments) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let guest = ensure_guest(&recipe_of(&spec(arguments)?), &stop)?;
    answer::put("kernel_release", &guest.kernel_release)?;
    answer::put("vmlinux", &guest.vmlinux)?;
    answer::put("initramfs", &guest.initramfs)?;
    answer::put("root", &guest.root)?;
    answer::put("digest", &guest.digest)?;
    answer::text(&format!(
        "kernel {}: {}\nroot file system: {}\n",
        guest.kernel_release,
        guest.vmlinux.display(),
        guest.root.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// `stasis guest list`.
pub fn list() -> Result<ExitCode> {
    let named = ["guest", "suite", "kernel", "root", "packages beside the usual"].map(Column::left);
    let columns = named.into_iter().chain([Column::right("size"), Column::right("days old")]);
    let mut table = Table::new(columns.collect());
    answer::put("guests", &Vec::<Value>::new())?;
    answer::list("guests");
    for kept in guest_image::list(&cache()?) {
        let value = json!({
            "name": kept.name,
            "kernel_release": kept.kernel_release,
            "recipe": kept.recipe,
            "bytes": kept.bytes,
        });
        answer::push("guests", &value)?;
        let usual = |package: &&String| DEFAULT_PACKAGES.contains(&package.as_str());
        let more: Vec<_> = kept.recipe.packages.iter().filter(|package| !usual(package)).collect();
        let age = kept.made.elapsed().unwrap_or_default();
        table.push(vec![
            kept.name,
            kept.recipe.suite,
            kept.kernel_release,
            match (kept.recipe.root, kept.recipe.images) {
                (Some(root), _) => root,
                (None, images) if images.is_empty() => "packages".into(),
                (None, images) => images.join(" "),
            },
            more.iter().map(|package| package.as_str()).collect::<Vec<_>>().join(" "),
            units::bytes(kept.bytes),
            (age.as_secs() / 86_400).to_string(),
        ]);
    }
    answer::text(&match table.rows.is_empty() {
        true => "no guests; `stasis guest build` makes one\n".to_owned(),
        false => table.to_text(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `stasis guest remove`.
pub fn remove(names: &[String]) -> Result<ExitCode> {
    let cache = cache()?;
    answer::list("removed");
    for name in names {
        let freed = guest_image::remove(&cache, name)?;
        answer::push("removed", &json!({ "name": name, "bytes": freed }))?;
        answer::text(&format!("{name}: {} freed\n", units::bytes(freed)))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiments_guest_is_built_and_words_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("experiment.toml");
        let text = "command = ['true']\n[guest]\npackages = ['jq']\nkernel = 'linux-image-amd64'\n";
        std::fs::write(&path, text).unwrap();
        let arguments = |packages: &[&str], kernel: Option<&str>, suite: Option<&str>| {
            let packages = packages.iter().map(|name| (*name).to_owned()).collect();
            let kernel = kernel.map(str::to_owned);
            let system = SystemArguments { packages, kernel, root: None, image: None };
            let (experiment, suite) = (Some(path.clone()), suite.map(str::to_owned));
            GuestBuildArguments { experiment, system, suite }
        };
        let built = recipe_of(&spec(arguments(&[], None, None)).unwrap());
        let mut experiment = Experiment::read(&path).unwrap();
        experiment.finish().unwrap();
        assert_eq!(built, recipe_of(&experiment), "what `stasis run` builds");
        assert!(built.packages.contains(&"jq".to_owned()));
        assert_eq!(built.kernel, "linux-image-amd64");

        let kernel = "linux-image-cloud-amd64";
        let built = recipe_of(&spec(arguments(&["ffmpeg"], Some(kernel), Some("trixie"))).unwrap());
        assert!(["jq", "ffmpeg"].iter().all(|name| built.packages.contains(&(*name).to_owned())));
        assert_eq!((&*built.kernel, &*built.suite), (kernel, "trixie"));
    }
}
