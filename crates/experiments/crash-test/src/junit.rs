//! A crash test as tests: a kind of finding that did not occur passed, and each cause of findings is
//! a failure.

use stasis_report::junit::{Case, Failure, Suite};
use stasis_results::units::rounded;

use crate::page::{conclusion, first_line, of_drive, KINDS};
use crate::report::Report;
use crate::session::Kind;

impl Report {
    /// The tests.
    pub fn to_junit(&self) -> Suite {
        let name = format!("crash test of {}", self.experiment.display());
        let outcome = &self.outcome;
        let looked_for =
            KINDS.iter().filter(|(kind, ..)| !kind.is_of_a_check() || outcome.checked > 0);
        let mut cases = Vec::new();
        for (kind, title, meaning) in looked_for {
            let case = |name: &str, failure, output| Case {
                class: "crash-test".to_owned(),
                name: name.to_owned(),
                failure,
                output,
            };
            let groups: Vec<_> = self.groups.iter().filter(|group| group.kind == *kind).collect();
            if groups.is_empty() {
                let output = format!("{meaning} None of {} power cuts left that.", outcome.cuts);
                cases.push(case(title, None, output));
            }
            for group in groups {
                let drive = of_drive(group.drive.as_ref());
                let Some(finding) = outcome.findings.get(group.example) else { continue };
                let states: Vec<_> = group.states.iter().map(ToString::to_string).collect();
                let more = if group.count > states.len() as u64 { ", …" } else { "" };
                let repeat = self.repeat.get(group.example).map_or("", String::as_str);
                let cuts = group.cuts(rounded);
                let findings = if group.count == 1 { "finding" } else { "findings" };
                let text = format!(
                    "{} {findings}, states {}{more}, {cuts}\n\nstate {}:\n{}\n{}\nto repeat it:\n{repeat}\n",
                    group.count,
                    states.join(", "),
                    finding.state,
                    finding.what.trim_end(),
                    finding.evidence.as_ref().map(|found| found.text(finding.at)).unwrap_or_default(),
                );
                let message = match kind {
                    Kind::Check => conclusion(&finding.what),
                    _ => first_line(&finding.what),
                };
                let message = message.to_owned();
                let name = format!("{title}, {drive}: {}", first_line(&group.cause));
                cases.push(case(&name, Some(Failure { message, text }), String::new()));
            }
        }
        let error = outcome.stopped.then(|| {
            format!(
                "interrupted after {} of {} power cuts; not looked at: {}",
                outcome.cuts,
                self.asked,
                self.not_inspected().unwrap_or_default()
            )
        });
        Suite { name, seconds: self.seconds, error, cases }
    }
}
