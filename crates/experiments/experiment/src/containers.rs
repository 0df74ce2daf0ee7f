//! The containers of an experiment's machines: their images, volumes and dependencies together.

use std::collections::BTreeMap;

use stasis_config::{Mistake, Step};

use crate::container::MEMORY;
use crate::names::missing;
use crate::{ContainerSpec, Experiment, MachineSpec};

impl Experiment {
    /// The image of a machine, if its guest has one.
    pub fn image_of<'a>(&'a self, machine: &'a MachineSpec) -> Option<&'a str> {
        machine.container.image.as_deref().or(self.guest.image.as_deref())
    }

    /// Returns whether a machine's image may have a command.
    pub(crate) fn may_have_command(&self, machine: &MachineSpec) -> bool {
        let is_file = |root: &str| root != "host";
        self.image_of(machine).is_some() || self.guest.root.as_deref().is_some_and(is_file)
    }

    /// Checks the containers of machines.
    pub(crate) fn check_containers(&self) -> Result<(), Mistake> {
        if let (Some(_), Some(_)) = (&self.guest.image, &self.guest.root) {
            let text = "image: the guest has a root as well, and either is its file system";
            return Err(Mistake::at("image", text).inside("guest"));
        }
        let has_images = self.machine.all().iter().any(|machine| self.image_of(machine).is_some());
        for (index, machine) in self.machine.all().iter().enumerate() {
            let mistake = |mistake: Mistake| {
                let mistake = mistake.inside("container").within(self.machine_place(index));
                match &machine.name {
                    Some(name) => mistake.said_of(format_args!("machine {name}")),
                    None => mistake,
                }
            };
            let container = &machine.container;
            if machine.container.image.is_some() && self.guest.root.is_some() {
                let text = "image: [guest] has a root for all machines: leave that out, or name images only";
                return Err(mistake(Mistake::at("image", text)));
            }
            if has_images && self.image_of(machine).is_none() {
                let text = "it has no image, and other machines have: give each one, or all one in [guest]";
                return Err(mistake(text.into()));
            }
            if *container != ContainerSpec::default() && !self.may_have_command(machine) {
                let text =
                    "container: the guest is no container: say `image = \"NAME\"` in [guest]";
                return Err(mistake(text.into()));
            }
            container.check().map_err(mistake)?;
            self.check_volumes(machine).map_err(mistake)?;
        }
        self.check_dependencies()
    }

    /// Checks that each volume has a drive of the machine's, and no drive two.
    fn check_volumes(&self, machine: &MachineSpec) -> Result<(), Mistake> {
        let several = !self.machine.several().is_empty();
        let own = if several { &machine.drives } else { &self.drives };
        let disks = machine.disks.iter().filter_map(|disk| disk.name.as_deref());
        let all = || own.iter().filter_map(|drive| drive.name.as_deref()).chain(disks.clone());
        let mut used = BTreeMap::new();
        for (path, on) in machine.container.drives() {
            let at = |text: String| Mistake::at(path, text).inside("volumes");
            if !all().any(|name| name == on) {
                let text = missing("drive", on, all());
                return Err(at(format!("volumes: {text}, and `{MEMORY}`")));
            }
            let blocks =
                own.iter().filter(|drive| drive.name.as_deref() == Some(on)).all(|drive| {
                    let special =
                        drive.zones.is_some() || drive.ocssd.is_some() || drive.key_value.is_some();
                    !special && drive.namespace.is_empty()
                });
            if !blocks {
                return Err(at(format!("volumes: the drive {on} has no blocks for a file system")));
            }
            if let Some(other) = used.insert(on, path) {
                return Err(at(format!(
                    "volumes: the drive {on} has the files of {other} already"
                )));
            }
        }
        Ok(())
    }

    fn check_dependencies(&self) -> Result<(), Mistake> {
        let machines = self.machine.several();
        let named = |name: &str| machines.iter().position(|one| one.name.as_deref() == Some(name));
        for (index, machine) in self.machine.all().iter().enumerate() {
            for name in machine.container.depends_on.keys() {
                let at = |text: String| {
                    let path = ["container".into(), "depends-on".into(), Step::from(&**name)];
                    Mistake::from(text).within([self.machine_place(index), path.to_vec()].concat())
                };
                if named(name).is_none() {
                    let all = machines.iter().filter_map(|one| one.name.as_deref());
                    return Err(at(format!("depends-on: {}", missing("machine", name, all))));
                }
            }
        }
        // One after the other those go whose dependencies have gone; the others go round in a circle.
        let mut rest: Vec<usize> = (0..machines.len()).collect();
        loop {
            let waits = |index: &usize| {
                let mut others =
                    machines[*index].container.depends_on.keys().filter_map(|name| named(name));
                others.any(|other| rest.contains(&other))
            };
            let waiting: Vec<usize> = rest.iter().copied().filter(waits).collect();
            match waiting.first() {
                None => return Ok(()),
                Some(first) if waiting.len() == rest.len() => {
                    let names = waiting.iter().filter_map(|index| machines[*index].name.as_deref());
                    let names: Vec<_> = names.collect();
                    let text = format!(
                        "depends-on: nobody can begin: {} wait for each other",
                        names.join(", ")
                    );
                    let place = [self.machine_place(*first), vec!["container".into()]].concat();
                    return Err(Mistake::at("depends-on", text).within(place));
                }
                Some(_) => rest = waiting,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Condition;

    fn finished(text: &str) -> Result<Experiment, String> {
        let mut experiment: Experiment =
            stasis_config::read_text(text).map_err(|error| error.to_string())?;
        experiment.finish().map_err(|error| error.to_string())?;
        Ok(experiment)
    }

    const TWO: &str = "[guest]\nimage = 'app:1'\n\
        [[machine]]\nname = 'db'\n[[machine.drive]]\nname = 'data'\nmodel = 'null'\nmedium = 'ram:64MiB'\n\
        [machine.container]\nimage = 'postgres:16'\nvolumes = { '/data' = 'data', '/run' = 'memory' }\n\
        environment = { A = '1' }\nhealth = { test = ['true'], interval = '1s' }\n\
        [[machine]]\nname = 'web'\n[machine.container]\ndepends-on = { db = 'healthy' }\n";

    #[test]
    fn machines_have_images_of_their_own() {
        let experiment = finished(TWO).unwrap();
        let machines = experiment.machine.several();
        assert_eq!(experiment.image_of(&machines[0]), Some("postgres:16"));
        assert_eq!(experiment.image_of(&machines[1]), Some("app:1"));
        assert_eq!(machines[0].container.drives().collect::<Vec<_>>(), [("/data", "data")]);
        let health = machines[0].container.health.as_ref().unwrap();
        assert_eq!((health.interval, health.timeout), (Some(1_000_000_000), None));
        assert_eq!(machines[1].container.depends_on["db"], Condition::Healthy);
        // The command is the image's.
        finished("[guest]\nimage = 'app'\n").unwrap();
    }

    #[test]
    fn containers_that_cannot_be_are_refused() {
        for (from, to, expected) in [
            ("'/data' = 'data'", "'/data' = 'dat'", "did you mean `data`?"),
            (
                "environment = {",
                "texts = { 'etc/x' = 'y' }\nenvironment = {",
                "texts: \"etc/x\" is no path",
            ),
            ("'/data'", "'data'", "no path of a folder"),
            ("'/data'", "'/a/../b'", "no path of a folder"),
            ("'/run' = 'memory'", "'/run' = 'data'", "has the files of /data already"),
            ("A = '1'", "'A=' = '1'", "is no variable"),
            ("db = 'healthy'", "db2 = 'healthy'", "did you mean `db`?"),
            ("db = 'healthy'", "db = 'heathy'", "healthy"),
            ("db = 'healthy'", "web = 'started'", "web wait for each other"),
            ("'app:1'", "'app:1'\nroot = 'host'", "a root as well"),
            ("[guest]\nimage = 'app:1'\n", "", "web: it has no image"),
            ("[guest]\nimage", "[guest]\npackages = ['jq']\nimage", "packages"),
            ("health = {", "working-directory = 'a'\nhealth = {", "does not begin with /"),
            ("medium = 'ram:64MiB'", "medium = 'ram:64MiB'\nkey-value = {}", "has no blocks"),
        ] {
            assert!(TWO.contains(from), "{from}");
            let error = finished(&TWO.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{from} -> {to}: {error}");
        }
        let error = finished("command = ['true']\n[machine.container]\nuser = 'a'\n").unwrap_err();
        assert!(error.contains("the guest is no container"), "{error}");
    }
}
