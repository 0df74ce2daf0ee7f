//! A comparison as tests: a figure of a candidate beside the base's is one.

use stasis_report::junit::{Case, Failure, Suite};
use stasis_report::units;

use crate::page::shown;
use crate::Comparison;

impl Comparison {
    /// A test for each figure of each candidate but the base. One fails where it is slower by more
    /// than `limit` percent ([`Comparison::slower_by`]); without a limit all pass.
    pub fn to_junit(&self, limit: Option<f64>) -> Suite {
        let slower: Vec<_> = limit.map_or(Vec::new(), |limit| self.slower_by(limit).collect());
        let base = &self.candidates[0].name;
        let cases = self.differences.iter().map(|one| {
            let [was, is] = [&one.base, &one.value].map(|figure| shown(figure, one.unit));
            let percent = units::deviation(Some(one.percent));
            let significant = if one.significant { "significant" } else { "not significant" };
            let told = format!("{is} in place of {was}: {percent}, {significant}");
            let fails = slower.iter().any(|slow| std::ptr::eq(*slow, one));
            let failure = fails.then(|| Failure {
                message: format!(
                    "{} of {} of {} is {percent} against {base}, more than {} %",
                    one.statistic,
                    units::operations(one.operation),
                    one.drive,
                    limit.unwrap_or_default(),
                ),
                text: told.clone(),
            });
            // A dot would begin another part.
            let part = |name: &str| name.replace('.', "_");
            let class = [&one.candidate, &one.drive].map(|name| part(name)).join(".");
            Case {
                class: format!("{class}.{}", one.operation.name()),
                name: one.statistic.clone(),
                failure,
                output: told,
            }
        });
        let names: Vec<_> = self.candidates[1..].iter().map(|one| one.name.as_str()).collect();
        let name = format!("{} against {base}", names.join(", "));
        Suite { name, cases: cases.collect(), ..Suite::default() }
    }
}
