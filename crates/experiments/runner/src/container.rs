//! Containers: a machine's job by the configuration of its image and by what the experiment says of it.

use std::collections::BTreeMap;

use anyhow::{bail, Context, Result};
use stasis_channel::{Container, Health, Job, Volume};
use stasis_experiment::{Condition, ContainerSpec, Experiment, HealthSpec, MachineSpec};
use stasis_guest_image::{Guest, HealthCheck, Image, ImageConfig};
use stasis_guest_root::image_folder;

use crate::plan::PlannedDependency;

/// Folder in which a container's command starts where nobody names one (OCI Image Format 1.1, config.md).
const FOLDER: &str = "/";

/// The image of a machine, with the image's place in its guest; None where the guest's root is another.
///
/// # Errors
/// The experiment speaks of a container, and the root is none.
pub fn image<'a>(
    experiment: &Experiment,
    machine: &MachineSpec,
    guest: &'a Guest,
) -> Result<Option<(usize, &'a Image)>> {
    let named = experiment.image_of(machine).or(experiment.guest.root.as_deref());
    let place = guest.images.iter().position(|image| Some(image.word.as_str()) == named);
    match place {
        Some(place) => Ok(Some((place, &guest.images[place]))),
        None if speaks_of_one(&machine.container) => bail!(
            "container: the root {} is no container image, of which that is: leave it out",
            named.unwrap_or("of packages")
        ),
        None => Ok(None),
    }
}

/// Returns whether a root has to be a container. That no entry point comes before a command holds for each.
fn speaks_of_one(spec: &ContainerSpec) -> bool {
    let without = spec.entrypoint.as_ref().filter(|words| !words.is_empty());
    ContainerSpec { entrypoint: without.cloned(), ..spec.clone() } != ContainerSpec::default()
}

/// The words that run: entry point and command, as docker(1) puts them together.
///
/// # Errors
/// There are none.
pub fn command(
    spec: &ContainerSpec,
    config: &ImageConfig,
    given: Vec<String>,
) -> Result<Vec<String>> {
    let (entrypoint, command) = match &spec.entrypoint {
        // Another entry point takes other arguments.
        Some(entrypoint) => (entrypoint, Vec::new()),
        None => (&config.entrypoint, config.command.clone()),
    };
    let command = if given.is_empty() { command } else { given };
    let words = [&entrypoint[..], &command].concat();
    if words.is_empty() {
        bail!(
            "no command: the image has neither an entry point nor a command: say what to run, for example \
             `stasis run --image NAME -- uname -a`"
        );
    }
    Ok(words)
}

/// The check of a machine's health, if its image or the experiment has one.
pub fn health(spec: Option<&HealthSpec>, config: &ImageConfig) -> Option<HealthCheck> {
    let mut check = match (spec.map(|spec| &spec.test), &config.health) {
        (Some(test), _) if !test.is_empty() => HealthCheck::new(test.clone()),
        (_, check) => check.clone()?,
    };
    if let Some(spec) = spec {
        check.interval = spec.interval.unwrap_or(check.interval);
        check.timeout = spec.timeout.unwrap_or(check.timeout);
        check.retries = spec.retries.unwrap_or(check.retries);
        check.start_period = spec.start_period.unwrap_or(check.start_period);
        check.start_interval = spec.start_interval.unwrap_or(check.start_interval);
    }
    Some(check)
}

/// Makes `job`, of a machine with drives of these names and nodes, one of its container.
///
/// # Errors
/// Names what the image lacks.
pub fn apply(
    job: &mut Job,
    experiment: &Experiment,
    machine: &MachineSpec,
    (place, image): (usize, &Image),
    nodes: &BTreeMap<String, String>,
) -> Result<()> {
    let (spec, config) = (&machine.container, &image.config);
    job.command = command(spec, config, std::mem::take(&mut job.command))?;
    let mut environment = config.environment.clone();
    environment.extend(spec.environment.clone());
    job.environment.extend(environment);
    job.working_directory =
        spec.working_directory.clone().unwrap_or(match &config.working_directory {
            none if none.is_empty() => FOLDER.into(),
            folder => folder.clone(),
        });
    // The experiment's check has seen that they are there.
    let volumes = spec.drives().filter_map(|(path, on)| {
        nodes.get(on).map(|device| Volume { device: device.clone(), path: path.into() })
    });
    let name = machine.name.as_deref().unwrap_or_default();
    let is_waited_for = experiment
        .machine
        .several()
        .iter()
        .any(|other| other.container.depends_on.get(name) == Some(&Condition::Healthy));
    let health = match is_waited_for {
        true => {
            let check = health(spec.health.as_ref(), config);
            let check = check.with_context(|| {
                format!(
                    "depends-on: another machine waits until {name} is healthy, and neither its image {} nor \
                     its `health` has a check",
                    image.word
                )
            })?;
            let HealthCheck { test, interval, timeout, start_period, start_interval, retries } =
                check;
            Some(Health { test, interval, timeout, start_period, start_interval, retries })
        }
        false => None,
    };
    let user = spec.user.clone().unwrap_or_else(|| config.user.clone());
    let folder = image_folder(place);
    job.container = Some(Container { folder, user, volumes: volumes.collect(), health });
    Ok(())
}

/// Differences of a run from what its user may think, for a warning each.
pub fn notes(machine: &MachineSpec, config: &ImageConfig, has_drives: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let named = |path: &String| machine.container.volumes.contains_key(path);
    for path in config.volumes.iter().filter(|path| has_drives && !named(path)) {
        notes.push(format!(
            "the image's volume {path} is in memory and on none of the drives: \
             `volumes = {{ {path:?} = \"DRIVE\" }}` in [machine.container] has it on one, `\"memory\"` says \
             that it is to be so"
        ));
    }
    if let Some(signal) = config.stop_signal.as_ref().filter(|_| !machine.wait) {
        notes.push(format!(
            "the image's stop signal {signal} is not sent: a machine that is not waited for ends at once"
        ));
    }
    notes
}

/// The machines that a machine waits for, by their places.
pub fn dependencies(experiment: &Experiment, machine: &MachineSpec) -> Vec<PlannedDependency> {
    let machines = experiment.machine.several();
    let place = |name: &String| machines.iter().position(|one| one.name.as_ref() == Some(name));
    let dependency = |(name, state): (&String, &Condition)| {
        Some(PlannedDependency { machine: place(name)?, name: name.clone(), state: *state })
    };
    machine.container.depends_on.iter().filter_map(dependency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_command_is_put_together_as_docker_does() {
        let config = |entrypoint: &str, command: &str| ImageConfig {
            entrypoint: words(entrypoint),
            command: words(command),
            ..ImageConfig::default()
        };
        let both = config("enter", "serve -p");
        for (entrypoint, given, expected) in [
            (None, "", Some("enter serve -p")),
            (None, "other", Some("enter other")),
            (Some("sh -c"), "", Some("sh -c")),
            (Some("sh -c"), "other", Some("sh -c other")),
            (Some(""), "other", Some("other")),
            (Some(""), "", None),
        ] {
            let spec =
                ContainerSpec { entrypoint: entrypoint.map(words), ..ContainerSpec::default() };
            let found = command(&spec, &both, words(given)).ok();
            assert_eq!(found, expected.map(words), "{entrypoint:?} {given}");
        }
        let none = command(&ContainerSpec::default(), &config("", ""), Vec::new()).unwrap_err();
        assert!(none.to_string().contains("neither an entry point nor a command"), "{none}");
    }

    #[test]
    fn a_check_of_health_is_the_images_but_for_what_is_given() {
        let of_image = HealthCheck { retries: 7, ..HealthCheck::new(words("ask")) };
        let config = ImageConfig { health: Some(of_image.clone()), ..ImageConfig::default() };
        assert_eq!(health(None, &config), Some(of_image.clone()));
        let spec = HealthSpec { interval: Some(5), ..HealthSpec::default() };
        assert_eq!(health(Some(&spec), &config), Some(HealthCheck { interval: 5, ..of_image }));
        let spec = HealthSpec { test: words("other"), ..HealthSpec::default() };
        assert_eq!(health(Some(&spec), &config), Some(HealthCheck::new(words("other"))));
        assert_eq!(health(Some(&HealthSpec::default()), &ImageConfig::default()), None);
    }
}
