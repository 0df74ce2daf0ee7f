//! Thresholds on the page, on the terminal, and as tests.

use super::Judgement;
use crate::junit::{Case, Failure, Suite};
use crate::page::{Block, Section};
use crate::summary::Summary;
use crate::table::{Column, Table, Tone};
use crate::verdict::Thresholds;

/// The thresholds that were not met, a clause each.
pub fn unmet(summary: &Summary) -> impl Iterator<Item = String> + '_ {
    summary.thresholds.iter().filter(|one| !one.met).map(Judgement::line)
}

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
