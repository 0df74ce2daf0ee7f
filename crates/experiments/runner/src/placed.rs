//! Errors of an experiment's values that are found while a run is prepared, with file and line.

use stasis_config::{Mistake, Step};
use stasis_experiment::{Experiment, ExperimentError};

use crate::failure::told;

/// An error, and the key of the table at fault, if it is known.
pub struct Keyed {
    key: Option<&'static str>,
    error: anyhow::Error,
}

impl<E: Into<anyhow::Error>> From<E> for Keyed {
    fn from(error: E) -> Self {
        Self { key: None, error: error.into() }
    }
}

impl Keyed {
    /// Makes an error one of this key's value.
    pub fn at<E: Into<anyhow::Error>>(key: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self { key: Some(key), error: error.into() }
    }

    /// The error of a value in the table at `place`, whose subject is named before it.
    pub fn within(
        self,
        experiment: &Experiment,
        mut place: Vec<Step>,
        subject: String,
    ) -> anyhow::Error {
        place.extend(self.key.map(Step::from));
        placed(experiment, place, self.error.context(subject))
    }
}

/// The error of the value at `place` of an experiment: with the line of its file, if that says the value.
/// The causes stay, as do the codes that programs know them by.
pub fn placed(experiment: &Experiment, place: Vec<Step>, error: anyhow::Error) -> anyhow::Error {
    let mistake = Mistake::from(told(&error)).within(place);
    match experiment.error(mistake) {
        shown @ ExperimentError::File { .. } => error.context(shown.to_string()),
        _ => error,
    }
}

/// The place of a drive: those of the experiment in order, then those of each machine.
pub fn place_of_drive(experiment: &Experiment, number: usize) -> Vec<Step> {
    let Some(mut rest) = number.checked_sub(experiment.drives.len()) else {
        return vec!["drive".into(), number.into()];
    };
    for (index, machine) in experiment.machine.several().iter().enumerate() {
        if rest < machine.drives.len() {
            return vec!["machine".into(), index.into(), "drive".into(), rest.into()];
        }
        rest -= machine.drives.len();
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::failure::Code;
    use crate::input::Input;
    use crate::prepare::check_drives;

    /// End of the line at which the mistake is to be.
    const HERE: &str = "#!";

    #[test]
    fn what_cannot_be_used_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("small.img"), "xx").unwrap();
        let drive = "[[drive]]\nmodel = 'null'\nmedium = 'ram:8MiB'\n[[drive]]\n";
        for (text, sentence, code) in [
            ("model = 'null'\nmedium = { ram = '3' } #!\n", "a drive needs at least", Code::Experiment),
            ("model = 'null'\nmedium = { file = 'no/x', size = '1MiB' } #!\n", "there is no such folder", Code::NotFound),
            ("model = 'null'\nmedium = 'file:small.img' #!\n", "too small for a drive", Code::Experiment),
            ("medium = 'ram:8MiB'\nmodel = { kind = 'flash', channels = 0 } #!\n", "it is 1 to 256", Code::Experiment),
            ("medium = 'ram:8MiB'\nmodel = { kind = 'profile', file = 'no.json' } #!\n", "cannot read the profile", Code::NotFound),
            ("medium = 'ram:8MiB'\nmodel = 'null'\n[guest]\nfiles = [\n'small.img',\n'none', #!\n]\n", "cannot copy", Code::NotFound),
            ("medium = 'ram:8MiB'\nmodel = 'null'\n[guest]\nstdin = 'none' #!\n", "the standard input", Code::NotFound),
            ("medium = 'ram:8MiB'\nmodel = 'null'\n[guest]\ntemplates = ['none'] #!\n", "the template", Code::NotFound),
        ] {
            let text = format!("command = ['true']\n{drive}{text}");
            let path = folder.path().join("e.toml");
            std::fs::write(&path, &text).unwrap();
            let mut experiment = Experiment::read(&path).unwrap();
            experiment.finish().unwrap();
            let packed = Input::pack(&experiment, folder.path()).map(drop);
            let found = packed.and_then(|()| check_drives(&experiment, folder.path())).unwrap_err();
            let line = text.lines().position(|line| line.ends_with(HERE)).unwrap() + 1;
            let shown = told(&found);
            let place = format!("e.toml: line {line}, column");
            assert!(shown.contains(&place) && shown.contains(sentence), "{text}{shown}");
            assert_eq!(shown.matches(sentence).count(), 1, "{shown}");
            assert_eq!(Code::of(&found), code, "{shown}");
        }
        // An option of the command line has none.
        let mut experiment = Experiment { command: vec!["true".into()], ..Default::default() };
        experiment.guest.files.push("none".into());
        let error = Input::pack(&experiment, Path::new("/no")).unwrap_err();
        assert!(!told(&error).contains("line"), "{error:?}");
    }
}
