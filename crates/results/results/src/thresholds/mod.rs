//! Thresholds of a run: `FIGURE OPERATOR VALUE`, such as `read.p99 < 1ms`.
//!
//! FIGURE is one of [`all`](figures::all), of an operation with the operation's name before it, and
//! before that a drive's or a job's: `data.read.p99`. Without them, the threshold is one of each
//! operation that was used, of each drive. VALUE has the figure's unit.

pub mod figures;
mod judgement;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeMap;

use stasis_block::Operation;
use stasis_config::{guess, listed};

use crate::summary::{DriveSummary, OperationSummary, Summary};
use figures::{flat, Figure, Subject};

pub use judgement::{Judgement, UNMET};
pub use unit::Unit;

/// Figures of a flash drive's internal activity, and one that each flash drive has.
const INSIDE: &str = "inside.";
const WHERE_FLASH: &str = "inside.write_amplification";

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
}

impl Operator {
    /// Every operator; one that another begins with comes after it.
    pub const ALL: [Self; 6] =
        [Self::AtMost, Self::AtLeast, Self::Equal, Self::Unequal, Self::Less, Self::Greater];

    /// Returns the relation's sign.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
            Self::Unequal => "!=",
        }
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::Greater => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
            Self::Unequal => value != limit,
        }
    }

    /// Distance of a value from meeting the limit: greater is worse.
    fn distance(self, value: f64, limit: f64) -> f64 {
        match self {
            Self::Less | Self::AtMost => value - limit,
            Self::Greater | Self::AtLeast => limit - value,
            Self::Equal => (value - limit).abs(),
            Self::Unequal => -(value - limit).abs(),
        }
    }
}

/// A threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    name: Option<String>,
    /// A drive or a job.
    owner: Option<String>,
    operation: Option<Operation>,
    figure: &'static Figure,
    operator: Operator,
    /// As the figure is compared ([`Unit::compared`]).
    limit: f64,
}

/// A threshold that cannot be read, or that no run of the experiment can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the threshold `{text}`: {why}")]
pub struct ThresholdError {
    text: String,
    why: String,
}

impl Threshold {
    /// Reads a threshold.
    ///
    /// # Errors
    /// Names what is wrong, and the nearest figure or unit.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let wrong = |why: String| ThresholdError { text: text.to_owned(), why };
        let form = || {
            let signs = listed(Operator::ALL.map(Operator::sign));
            format!("write FIGURE OPERATOR VALUE, such as `read.p99 < 1ms`, with one of {signs}")
        };
        let place = text.find(['<', '>', '=', '!']).ok_or_else(|| wrong(form()))?;
        let (figure, rest) = text.split_at(place);
        let operator = Operator::ALL.into_iter().find(|one| rest.starts_with(one.sign()));
        let operator = operator.ok_or_else(|| wrong(form()))?;
        let (figure, value) = (figure.trim(), rest[operator.sign().len()..].trim());
        if figure.is_empty() || value.is_empty() || value.starts_with(['<', '>', '=', '!']) {
            return Err(wrong(form()));
        }
        let found = figures::all().iter().filter_map(|one| Some((one, before(figure, one)?)));
        let found = found.max_by_key(|(one, _)| one.name.len());
        let (found, before) = found.ok_or_else(|| wrong(unknown(figure)))?;
        let (owner, operation) = match found.subject {
            Subject::Operation => owner_and_operation(before),
            Subject::Run | Subject::Drive => (before, None),
        };
        let limit = found.unit.parse(value).map_err(wrong)?;
        Ok(Self {
            text: text.trim().to_owned(),
            name: None,
            owner: (!owner.is_empty()).then(|| owner.to_owned()),
            operation,
            figure: found,
            operator,
            limit,
        })
    }

    /// Gives the threshold a name for readers.
    #[must_use]
    pub fn named(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// Checks that it is of a drive or a job with one of these names.
    ///
    /// # Errors
    /// Names the nearest of them.
    pub fn check(&self, owners: &[&str]) -> Result<(), ThresholdError> {
        let Some(owner) = self.owner.as_deref().filter(|owner| !owners.contains(owner)) else {
            return Ok(());
        };
        let operations = Operation::ALL.map(Operation::name);
        let guess = guess(owner, operations.into_iter().chain(owners.iter().copied()));
        let names = match owners {
            [] => "none".to_owned(),
            owners => listed(owners.iter().copied()),
        };
        let why = format!(
            "`{owner}` is no operation, and no drive or job: {guess}operations: {}; drives and jobs: \
             {names}",
            listed(operations)
        );
        Err(ThresholdError { text: self.text.clone(), why })
    }

    /// Compares it with a run.
    pub fn judge(&self, summary: &Summary) -> Judgement {
        let unit = self.figure.unit;
        let compared = |value: Option<f64>| value.map(|value| unit.compared(value));
        // Of several the worst; one without a value is worse than any.
        let worst = self.values(summary).into_iter().max_by(|(_, one), (_, other)| {
            let distance = |value: &Option<f64>| {
                compared(*value).map_or(f64::INFINITY, |v| self.operator.distance(v, self.limit))
            };
            distance(one).total_cmp(&distance(other))
        });
        let (figure, value) = worst.unwrap_or_else(|| (self.figure_name(), None));
        let met = compared(value).is_some_and(|value| self.operator.holds(value, self.limit));
        let limit = if unit == Unit::Seconds { self.limit / 1e9 } else { self.limit };
        let (that, name) = (self.text.clone(), self.name.clone());
        Judgement { that, name, met, figure, value, limit, unit }
    }

    /// The figure as far as the threshold names it.
    fn figure_name(&self) -> String {
        let operation = self.operation.map(|operation| operation.name().to_owned());
        let parts = self.owner.iter().cloned().chain(operation);
        parts.chain([self.figure.name.clone()]).collect::<Vec<_>>().join(".")
    }

    /// The values of the figure, with their whole names.
    fn values(&self, summary: &Summary) -> Vec<(String, Option<f64>)> {
        let name = &self.figure.name;
        match self.figure.subject {
            Subject::Run => vec![(name.clone(), self.value(&flat(summary)))],
            Subject::Drive => {
                let one = |drive: &DriveSummary| {
                    let numbers = flat(drive);
                    // Of a flash drive some figures are written where they are not 0 only.
                    let path = &self.figure.path;
                    let flash = path.starts_with(INSIDE) && numbers.contains_key(WHERE_FLASH);
                    let value = match flash && !numbers.contains_key(path) {
                        true => Some(0.0),
                        false => self.value(&numbers),
                    };
                    (format!("{}.{name}", drive.described.name), value)
                };
                self.drives(summary).map(one).collect()
            }
            Subject::Operation => {
                let one = |(owner, operation, figures): (&str, &str, &OperationSummary)| {
                    (format!("{owner}.{operation}.{name}"), self.value(&flat(figures)))
                };
                let used: Vec<_> = self.operations(summary).into_iter().map(one).collect();
                // An operation that nobody used has counts, and no latency.
                let counted = matches!(name.as_str(), "count" | "bytes" | "errors");
                match used.is_empty() && counted && self.operation.is_some() {
                    true => vec![(self.figure_name(), Some(0.0))],
                    false => used,
                }
            }
        }
    }

    fn value(&self, numbers: &BTreeMap<String, Option<f64>>) -> Option<f64> {
        numbers.get(&self.figure.path).copied().flatten()
    }

    fn drives<'a>(&'a self, summary: &'a Summary) -> impl Iterator<Item = &'a DriveSummary> {
        let named = |drive: &&DriveSummary| {
            self.owner.as_ref().is_none_or(|owner| *owner == drive.described.name)
        };
        summary.drives.iter().filter(named)
    }

    /// The operations that it is of, with their drive's or job's name, and that were used.
    fn operations<'a>(
        &'a self,
        summary: &'a Summary,
    ) -> Vec<(&'a str, &'a str, &'a OperationSummary)> {
        let own = |name: &str| self.operation.is_none_or(|operation| operation.name() == name);
        let of_drives = self.drives(summary).flat_map(|drive| {
            let name = drive.described.name.as_str();
            drive.used().map(move |(operation, figures)| (name, operation.name(), figures))
        });
        let jobs = summary.jobs.iter().filter(|job| self.owner.as_ref() == Some(&job.name));
        let of_jobs = jobs.flat_map(|job| {
            let name = job.name.as_str();
            job.operations.iter().map(move |(operation, figures)| (name, &**operation, figures))
        });
        of_drives.chain(of_jobs).filter(|(_, operation, _)| own(operation)).collect()
    }
}

/// The thresholds that were not met, a clause each.
pub fn unmet(summary: &Summary) -> impl Iterator<Item = String> + '_ {
    summary.thresholds.iter().filter(|one| !one.met).map(Judgement::line)
}

/// The part of a text before a figure, with whose name it ends.
fn before<'a>(text: &'a str, figure: &Figure) -> Option<&'a str> {
    let before = text.strip_suffix(figure.name.as_str())?;
    match figure.subject {
        Subject::Run => before.is_empty().then_some(""),
        _ if before.is_empty() => Some(""),
        _ => before.strip_suffix('.').filter(|before| !before.is_empty()),
    }
}

/// `DRIVE.OPERATION`, either of them, or nothing.
fn owner_and_operation(before: &str) -> (&str, Option<Operation>) {
    let named = |word: &str| Operation::ALL.into_iter().find(|one| one.name() == word);
    if let Some(operation) = named(before) {
        return ("", Some(operation));
    }
    match before.rsplit_once('.').and_then(|(owner, word)| Some((owner, named(word)?))) {
        Some((owner, operation)) => (owner, Some(operation)),
        None => (before, None),
    }
}

/// The error message for a figure that does not exist.
fn unknown(figure: &str) -> String {
    let word = figure.rsplit('.').next().unwrap_or(figure);
    if crate::INCIDENTAL_FIELDS.contains(&word) {
        return format!(
            "`{word}` depends on the computer, not on the run; --wall-limit bounds the time that a run \
             may take"
        );
    }
    let names = |subject| {
        let of_it = figures::all().iter().filter(move |one| one.subject == subject);
        of_it.map(|one| one.name.as_str())
    };
    let all = || figures::all().iter().map(|one| one.name.as_str());
    let guessed = match all().find(|name| name.ends_with(&format!(".{word}"))) {
        Some(name) => format!("did you mean `{name}`? "),
        None => guess(word, all()),
    };
    format!(
        "`{word}` is no figure: {guessed}Figures of an operation are {}; of a drive {}; of the run {}",
        listed(names(Subject::Operation).filter(|name| !name.starts_with("delivered_ns"))),
        listed(names(Subject::Drive)),
        listed(names(Subject::Run)),
    )
}
