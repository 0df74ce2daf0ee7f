//! Thresholds on the page, on the terminal, and as tests.

use crate::junit::{Case, Failure, Suite};
use crate::page::{Block, Section};
use crate::table::{Column, Table, Tone};
use crate::verdict::Thresholds;
use stasis_results::summary::Summary;
use stasis_results::thresholds::unmet;

/// The thresholds that were met, a line each.
pub(crate) fn lines(summary: &Summary) -> String {
    let met = summary.thresholds.iter().filter(|one| one.met);
    met.map(|one| format!("threshold met: {}\n", one.line())).collect()
}

/// The facts for the page's answer.
pub(crate) fn facts(summary: &Summary) -> Thresholds {
    Thresholds { count: summary.thresholds.len(), unmet: unmet(summary).collect() }
}

/// The section of the page, if the run has thresholds.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    if summary.thresholds.is_empty() {
        return None;
    }
    let columns = ["threshold", "figure"].map(Column::left).into_iter();
    let columns = columns.chain([Column::right("value"), Column::left("")]);
    let mut table = Table::new(columns.collect());
    for one in &summary.thresholds {
        let title = match &one.name {
            Some(name) => format!("{name}: {}", one.that),
            None => one.that.clone(),
        };
        let (word, tone) = if one.met { ("met", Tone::Good) } else { ("not met", Tone::Bad) };
        table.push(vec![title, one.figure.clone(), one.shown(), word.to_owned()]);
        table.judge(3, tone);
    }
    let caption = "Of several drives or operations the figure that is furthest to the wrong side.";
    Some(Section::new("Thresholds").with(Block::Table(caption.to_owned(), table)))
}

/// Runs with their names as tests: that the command of each succeeded, and each threshold.
pub fn to_junit(title: &str, runs: &[(&str, &Summary)]) -> Suite {
    let mut cases = Vec::new();
    for (name, summary) in runs {
        // A dot would begin another part.
        let class = name.replace('.', "_");
        let failure = (summary.exit_status != 0).then(|| Failure {
            message: match summary.ending.as_str() {
                "exited" => format!("it ended with status {}", summary.exit_status),
                other => format!("the run did not end with it: {}", other.replace('-', " ")),
            },
            text: summary.message.clone().unwrap_or_default(),
        });
        let name = "the command".to_owned();
        cases.push(Case { class: class.clone(), name, failure, output: String::new() });
        cases.extend(summary.thresholds.iter().map(|one| Case {
            class: class.clone(),
            name: one.title().to_owned(),
            failure: (!one.met).then(|| Failure { message: one.line(), text: String::new() }),
            output: if one.met { one.line() } else { String::new() },
        }));
    }
    let seconds = runs.iter().map(|(_, summary)| summary.wall_seconds).sum();
    Suite { name: title.to_owned(), seconds, error: None, cases }
}

#[cfg(test)]
mod tests {
    use stasis_results::thresholds::Threshold;
    use stasis_results::{Drive, DriveSummary, OperationSummary};
    use stasis_run_events::{Ending, Outcome};

    use super::*;
    use crate::page::Page;

    #[test]
    fn what_is_not_met_stands_on_the_page_and_fails_as_a_test() {
        let described = Drive { name: "a".into(), ..Drive::default() };
        let read = OperationSummary { count: 1, ..OperationSummary::default() };
        let drives = vec![DriveSummary { described, read, ..DriveSummary::default() }];
        let outcome = Outcome::of(Ending::Exited(3));
        let wall = std::time::Duration::ZERO;
        let mut run = Summary::new(&outcome, "exact", wall, drives, Default::default());
        let judged = |text| Threshold::parse(text).unwrap().judge(&run);
        run.thresholds = ["read.count == 1", "read.count == 2"].map(judged).to_vec();
        let xml = to_junit("t", &[("run", &run)]).to_xml();
        assert!(xml.contains("tests=\"3\" failures=\"2\""), "{xml}");
        assert!(xml.contains("it ended with status 3"), "{xml}");
        let page = Page { sections: section(&run).into_iter().collect(), ..Page::default() };
        let html = page.to_html();
        assert!(html.contains("class=\"bad\"") && html.contains("not met"), "{html}");
        let facts = facts(&run);
        let unmet = vec!["read.count == 2: a.read.count is 1".into()];
        assert_eq!((facts.count, facts.unmet), (2, unmet));
    }
}
