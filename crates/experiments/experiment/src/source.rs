//! The file that an experiment was read from, in which its mistakes have lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stasis_config::{Mistake, Places, Step};

use crate::ExperimentError;

/// The file that an experiment was read from, if it was. It is no part of what the experiment says:
/// two experiments are equal whatever their files are.
#[derive(Debug, Clone, Default)]
pub struct Source {
    file: Option<Arc<File>>,
    // The place in the file of each machine, where one stands for several.
    machines: Vec<usize>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    places: Places,
    /// The experiment as the file has it.
    table: Value,
}

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Source {
    /// The file at `path`, from which an experiment has been read as `table`.
    pub(crate) fn of(path: &Path, places: Places, table: Value) -> Self {
        let file = File { path: path.to_owned(), places, table };
        Self { file: Some(Arc::new(file)), machines: Vec::new() }
    }

    /// Returns whether there is a file.
    pub(crate) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Has the machines be copies of those at these places.
    pub(crate) fn copied(&mut self, from: Vec<usize>) {
        self.machines = from.into_iter().map(|place| self.machine(place)).collect();
    }

    /// The place in the file of a machine.
    fn machine(&self, place: usize) -> usize {
        self.machines.get(place).copied().unwrap_or(place)
    }

    /// The error of a mistake in the experiment that is `now` this table: with file and line, if the
    /// file says what is wrong.
    pub(crate) fn error(&self, mistake: Mistake, now: &Value) -> ExperimentError {
        let is_of_machine = mistake.path().next() == Some(&Step::from("machine"));
        let mistake = match is_of_machine {
            true => mistake.renumbered(1, |place| self.machine(place)),
            false => mistake,
        };
        let source = self.file.as_ref().filter(|file| !file.is_changed(&mistake, now));
        match source.and_then(|file| Some((file, file.places.error(&mistake)?))) {
            Some((file, error)) => ExperimentError::File { path: file.path.clone(), error },
            None => ExperimentError::Value(mistake.into()),
        }
    }
}

impl File {
    /// Returns whether the value at fault is another than the file's: an option of the command line
    /// gave it.
    fn is_changed(&self, mistake: &Mistake, now: &Value) -> bool {
        fn at<'a>(table: &'a Value, mistake: &Mistake) -> Option<&'a Value> {
            let found = mistake.path().try_fold(table, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => value.get(index),
            });
            // The values at fault in a table are not known.
            found.filter(|value| !value.is_null() && !value.is_object())
        }
        let now = at(now, mistake);
        now.is_some() && now != at(&self.table, mistake)
    }
}
