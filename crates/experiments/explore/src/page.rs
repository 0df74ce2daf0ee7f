//! The page of an exploration.

use stasis_report::page::{Block, Head, Page, Section};
use stasis_report::{Column, Table};
use stasis_results::units;

use crate::findings::Finding;
use crate::report::Report;

impl Report {
    /// The page, as HTML.
    pub fn to_html(&self) -> String {
        let mut sections: Vec<_> =
            self.findings.iter().map(|finding| self.finding(finding)).collect();
        sections.push(self.coverage());
        sections.extend(stasis_report::provenance(&self.provenance).map(Section::folded));
        let page = Page {
            title: format!("Exploration of {}", self.experiment.display()),
            subtitle: String::new(),
            head: Some(self.head()),
            sections,
        };
        page.to_html()
    }

    fn head(&self) -> Head {
        let counts = &self.counts;
        let tiles = [
            ("Runs", units::count(counts.runs)),
            ("Runs an hour", units::count(self.runs_per_hour.round() as u64)),
        ];
        let mut table = Table::new(vec![Column::left("runs that"), Column::right("number")]);
        let rows = [
            ("ended well, with faults and work", counts.passed),
            ("failed", counts.failed),
            ("had none of their faults", counts.no_fault),
            ("acknowledged nothing", counts.no_work),
            ("have a history that a checker could not decide", counts.undecided),
            ("could not be made", counts.broken),
            (
                "had a power cut at most 10 ms after an acknowledgement",
                counts.cut_after_acknowledgement,
            ),
        ];
        for (name, count) in rows {
            table.push(vec![name.to_owned(), units::count(count)]);
        }
        let mut head = Head::answering(self.explored().verdict(), tiles)
            .with("", table)
            .repeated_by(self.repeat_exploration.clone());
        if let Some(why) = &self.broken_reason {
            head.remarks.push(format!("The first run that could not be made: {why}"));
        }
        if self.exhausted {
            head.remarks.push("No other scenario can be drawn from this space.".to_owned());
        }
        head
    }

    fn finding(&self, finding: &Finding) -> Section {
        let mut facts = vec![
            ("Found by".to_owned(), finding.failure.oracle.name().to_owned()),
            ("First in run".to_owned(), units::count(finding.run)),
            (
                "Faults before and after".to_owned(),
                format!("{} and {}", finding.faults_before, finding.scenario.faults.len()),
            ),
            ("Runs to shorten it".to_owned(), units::count(finding.tries)),
        ];
        if let Some(group) = self.group(finding) {
            let believed = group.runs_to_believe(self.counts.runs);
            facts.push(("Runs with it".to_owned(), units::count(group.count)));
            facts.push((
                "Runs without it after which a correction is believed (95 %)".to_owned(),
                units::count(believed),
            ));
        }
        let inevitable = finding.inevitable.as_ref();
        let branches = inevitable.map(|inevitable| {
            let headings = ["after the commands' start", "branches that failed"].map(Column::right);
            let mut table = Table::new(headings.to_vec());
            for share in &inevitable.moments {
                let shares = format!("{} of {}", share.failed, share.branches);
                table.push(vec![units::duration(share.at_ns as f64), shares]);
            }
            let about = format!(
                "By branches with other seeds, without the faults that had not begun, {}.",
                inevitable.sentence()
            );
            (about, table)
        });
        let repeats = match finding.repeats {
            true => "A run with these faults alone fails in the same way:",
            false => "A run with these faults did not fail in the same way:",
        };
        let mut section = Section::new(format!("Finding {}: {}", finding.number, finding.title()))
            .with(Block::Prose(format!("Enough for it: {}.", finding.faults())))
            .with(Block::Terms(facts));
        if let Some((about, table)) = branches {
            section = section.with(Block::Prose(about)).with(Block::Table(String::new(), table));
        }
        section
            .with(Block::Prose(repeats.to_owned()))
            .with(Block::Command(finding.repeat.clone()))
            .with(Block::Prose("Just before its first fault, with gdb:".to_owned()))
            .with(Block::Command(finding.debug.clone()))
            .with(Block::Details("The scenario".to_owned(), finding.scenario.to_toml("")))
    }

    fn coverage(&self) -> Section {
        let mut table = Table::new(vec![
            Column::left("fault"),
            Column::left("target"),
            Column::left("phase"),
            Column::right("happened"),
            Column::right("in runs that failed"),
        ]);
        for landed in &self.landed {
            table.push(vec![
                landed.kind.clone(),
                landed.target.clone(),
                landed.phase.name().to_owned(),
                units::count(landed.faults),
                units::count(landed.failed),
            ]);
        }
        Section::new("Faults that have happened").with(Block::Table(String::new(), table))
    }
}
