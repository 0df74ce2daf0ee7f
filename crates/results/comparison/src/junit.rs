//! A comparison as tests: a figure of a candidate beside the base's is one.

use stasis_report::junit::{Case, Failure, Suite};
use stasis_results::units;

use crate::compared::{self, Slower};
use crate::figures::Unit;
use crate::Comparison;

impl Comparison {
    /// A test for the command's time and for each figure of each candidate but the base. One fails
    /// where it is slower by more than `limit` percent ([`Comparison::slower_by`]); without a limit
    /// all pass.
    pub fn to_junit(&self, limit: Option<f64>) -> Suite {
        let slower: Vec<_> = limit.map_or(Vec::new(), |limit| self.slower_by(limit));
        let limit = limit.unwrap_or_default();
        let base = &self.candidates[0];
        let times = self.candidates[1..].iter().filter_map(|one| {
            let [was, is] = [compared::time(base)?, compared::time(one)?]
                .map(|time| Unit::Nanoseconds.with_interval(&time));
            let output = format!("{is} in place of {was}");
            let message = slower.iter().find_map(|slow| match slow {
                Slower::Failed(other, why) if other.name == one.name => {
                    Some(format!("the command {why}"))
                }
                Slower::Time(other, more) if other.name == one.name => {
                    let more = units::deviation(Some(*more));
                    Some(format!("the time is {more} against {}, more than {limit} %", base.name))
                }
                _ => None,
            });
            let failure = message.map(|message| Failure { message, text: output.clone() });
            Some(Case { class: part(&one.name), name: "time".to_owned(), failure, output })
        });
        let figures = self.differences.iter().map(|one| {
            let [was, is] = [&one.base, &one.value].map(|figure| one.unit.with_interval(figure));
            let percent = units::deviation(Some(one.percent));
            let significant = match (one.comparable, one.significant) {
                (false, _) => "not compared: other I/Os",
                (true, true) => "significant",
                (true, false) => "not significant",
            };
            let output = format!("{is} in place of {was}: {percent}, {significant}");
            let is_one = |slow: &Slower| matches!(slow, Slower::Latency(slow) if *slow == one);
            let failure = slower.iter().any(is_one).then(|| Failure {
                message: format!(
                    "{} of {} of {} is {percent} against {}, more than {limit} %",
                    one.statistic,
                    units::operations(one.operation),
                    one.drive,
                    base.name,
                ),
                text: output.clone(),
            });
            let class = [&one.candidate, &one.drive].map(|name| part(name)).join(".");
            Case {
                class: format!("{class}.{}", one.operation.name()),
                name: one.statistic.clone(),
                failure,
                output,
            }
        });
        let names: Vec<_> = self.candidates[1..].iter().map(|one| one.name.as_str()).collect();
        let name = format!("{} against {}", names.join(", "), base.name);
        Suite { name, cases: times.chain(figures).collect(), ..Suite::default() }
    }
}

/// A name as a part of a test's class: a dot would begin another part.
fn part(name: &str) -> String {
    name.replace('.', "_")
}
