//! The verdict on a run: passed, without a meaning, or failed, and by which oracle.

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use stasis_experiment::{ExploreSpec, Scenario};

/// Complaints of Linux's kernel, which no fault of a drive, a machine or a network may cause: bugs and
/// warnings (`include/asm-generic/bug.h`), tasks and processors that hang (`kernel/hung_task.c`,
/// `kernel/watchdog.c`, `kernel/rcu/tree_stall.h`), lock dependencies (`kernel/locking/lockdep.c`),
/// sanitizers (`mm/kasan/report.c`, `lib/ubsan.c`), and file systems that find themselves damaged
/// (`fs/ext4/super.c`, `fs/xfs/xfs_error.c`, `fs/btrfs/messages.c`).
const KERNEL: &str = r"BUG: |kernel BUG at|WARNING: |Oops|general protection fault|Kernel panic|INFO: task .* blocked for more than|rcu.* (stall|detected stalls)|soft lockup|possible (recursive|circular) locking|UBSAN|EXT4-fs error|XFS .*[Cc]orruption|BTRFS (error|critical)";

/// The end of a kernel, which is no complaint where a fault has asked for it.
const PANIC: &str = "Kernel panic";

/// An oracle, in the order in which they are asked: the first one's answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// A kernel complained.
    Kernel,
    /// A line that must never appear.
    Never,
    /// A guest ended in another way than by its command's end.
    Guest,
    /// The command's status.
    Status,
    /// A line that must appear once.
    Once,
    /// Operations of clients that contradict what they were promised.
    History,
    /// The run came to no end within its virtual time.
    Stuck,
}

impl Oracle {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Kernel,
        Self::Never,
        Self::Guest,
        Self::Status,
        Self::Once,
        Self::History,
        Self::Stuck,
    ];

    /// Returns the oracle's finding in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "the kernel complained",
            Self::Never => "a line that must never appear",
            Self::Guest => "a guest did not end well",
            Self::Status => "the command failed",
            Self::Once => "a line did not appear once",
            Self::History => "operations contradict each other",
            Self::Stuck => "no end within its virtual time",
        }
    }
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The oracle.
    pub oracle: Oracle,
    /// Its evidence in a line.
    pub line: String,
}

impl Failure {
    /// The failure without figures, times and names that differ from run to run: two failures with the
    /// same signature count as one finding.
    pub fn signature(&self) -> String {
        let mut text = format!("{:?}: ", self.oracle);
        let mut in_number = false;
        for letter in self.line.chars() {
            let goes_on = in_number && (letter.is_ascii_hexdigit() || letter == 'x');
            let is_digit = letter.is_ascii_digit() || goes_on;
            match (is_digit, in_number) {
                (true, false) => text.push('#'),
                (true, true) => (),
                (false, _) => text.push(letter),
            }
            in_number = is_digit;
        }
        text
    }
}

/// Why a run that did not fail says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vacuity {
    /// None of its faults happened.
    NoFault,
    /// No operation was acknowledged, in an experiment whose commands write a history.
    NoWork,
    /// A checker of the history could not decide.
    Undecided,
}

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It ended well, with faults and work.
    Passed,
    /// It ended well, and says nothing.
    Vacuous(Vacuity),
    /// An oracle found something.
    Failed(Failure),
    /// The run itself could not be made.
    Broken(String),
}

/// Everything about a run that its verdict rests on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// Ending of the run in the words of its summary.
    pub ending: String,
    /// Exit status.
    pub status: u8,
    /// Number of times that faults happened.
    pub happened: u64,
    /// Number of acknowledged operations, of commands that write a history.
    pub acknowledged: Option<u64>,
    /// The first complaint of a kernel.
    pub complaint: Option<String>,
    /// The first line that must never appear.
    pub never: Option<String>,
    /// The numbers of lines that matched each expression which one line must match.
    pub once: Vec<u64>,
    /// The last line of output.
    pub last: String,
    /// A contradiction among the operations of clients.
    pub contradiction: Option<String>,
    /// Why a checker could not decide, if one could not.
    pub undecided: Option<String>,
    /// Why nothing was acknowledged after the faults, if nothing was.
    pub stuck: Option<String>,
}

/// Looks at the lines of a run.
#[derive(Debug)]
pub struct Watch {
    kernel: Regex,
    panics: bool,
    never: Vec<Regex>,
    once: Vec<Regex>,
    /// The observation so far.
    pub observation: Observation,
}

impl Watch {
    /// Watches a run of a scenario.
    ///
    /// # Errors
    /// Returns the invalid expression.
    pub fn new(spec: &ExploreSpec, scenario: &Scenario) -> Result<Self, regex_lite::Error> {
        let all = |patterns: &[String]| -> Result<Vec<Regex>, regex_lite::Error> {
            patterns.iter().map(|one| Regex::new(one)).collect()
        };
        let once: Vec<Regex> = all(&spec.once)?;
        let observation = Observation { once: vec![0; once.len()], ..Observation::default() };
        Ok(Self {
            kernel: Regex::new(KERNEL)?,
            panics: scenario.faults.iter().any(|fault| fault.kind == "panic"),
            never: all(&spec.never)?,
            once,
            observation,
        })
    }

    /// A line of a command's output.
    pub fn output(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.forbid(line);
        for (count, pattern) in self.observation.once.iter_mut().zip(&self.once) {
            *count += u64::from(pattern.is_match(line));
        }
        self.observation.last.clear();
        self.observation.last.push_str(line.trim());
    }

    /// A line of a kernel's log.
    pub fn console(&mut self, line: &str) {
        self.forbid(line);
        let complains = self.kernel.is_match(line) && !(self.panics && line.contains(PANIC));
        if complains && self.observation.complaint.is_none() {
            self.observation.complaint = Some(without_time(line).to_owned());
        }
    }

    fn forbid(&mut self, line: &str) {
        if self.observation.never.is_none()
            && self.never.iter().any(|pattern| pattern.is_match(line))
        {
            self.observation.never = Some(line.trim().to_owned());
        }
    }
}

/// A line of a kernel's log without its time.
fn without_time(line: &str) -> &str {
    let line = line.trim();
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_time =
        |time: &str| time.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    rest.filter(|(time, _)| is_time(time)).map_or(line, |(_, text)| text.trim())
}

impl Observation {
    /// The verdict on a run with `faults` faults; `once`: the expressions that one line must match.
    pub fn verdict(&self, once: &[String], faults: usize) -> Verdict {
        let failed = |oracle, line: String| Verdict::Failed(Failure { oracle, line });
        if let Some(line) = &self.complaint {
            return failed(Oracle::Kernel, line.clone());
        }
        if let Some(line) = &self.never {
            return failed(Oracle::Never, line.clone());
        }
        let late = ["virtual-limit", "wall-limit"].contains(&self.ending.as_str());
        if !late && self.ending != "exited" {
            return failed(Oracle::Guest, format!("{}: {}", self.ending, self.last));
        }
        if !late && self.status != 0 {
            return failed(Oracle::Status, format!("status {}: {}", self.status, self.last));
        }
        let wrong = self.once.iter().zip(once).find(|(count, _)| **count != 1);
        if let Some((count, pattern)) = wrong.filter(|_| !late) {
            return failed(Oracle::Once, format!("`{pattern}` is in {count} lines"));
        }
        if let Some(line) = &self.contradiction {
            return failed(Oracle::History, line.clone());
        }
        if let Some(line) = self.stuck.as_ref().or(late.then_some(&self.last)) {
            return failed(Oracle::Stuck, line.clone());
        }
        match (self.happened, self.acknowledged) {
            (0, _) if faults > 0 => Verdict::Vacuous(Vacuity::NoFault),
            (_, Some(0)) => Verdict::Vacuous(Vacuity::NoWork),
            _ if self.undecided.is_some() => Verdict::Vacuous(Vacuity::Undecided),
            _ => Verdict::Passed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(spec: &ExploreSpec, kinds: &[&str]) -> Watch {
        let fault = |kind: &&str| stasis_experiment::ScheduledFault {
            kind: (*kind).to_owned(),
            ..Default::default()
        };
        let faults = kinds.iter().map(fault).collect();
        Watch::new(spec, &Scenario { faults, ..Scenario::default() }).unwrap()
    }

    #[test]
    fn each_oracle_finds_its_violation_and_the_first_one_counts() {
        let spec = ExploreSpec {
            never: vec!["lost$".into()],
            once: vec!["^done".into()],
            ..ExploreSpec::default()
        };
        let well = Observation { ending: "exited".into(), happened: 1, ..Observation::default() };
        let oracle = |lines: &[&str], log: &[&str], change: &dyn Fn(&mut Observation)| {
            let mut watch = watch(&spec, &["power-cut"]);
            lines.iter().for_each(|line| watch.output(line));
            log.iter().for_each(|line| watch.console(line));
            let mut observation =
                Observation { ending: well.ending.clone(), happened: 1, ..watch.observation };
            change(&mut observation);
            match observation.verdict(&spec.once, 1) {
                Verdict::Failed(failure) => Ok(failure.oracle),
                other => Err(other),
            }
        };
        let same = |_: &mut Observation| ();
        assert_eq!(
            oracle(&["done"], &["[    1.5] EXT4-fs (nvme0n1): mounted"], &same),
            Err(Verdict::Passed)
        );
        assert_eq!(oracle(&["done", "x lost"], &["[    1.5] BUG: x"], &same), Ok(Oracle::Kernel));
        assert_eq!(oracle(&["done", "x lost"], &[], &same), Ok(Oracle::Never));
        assert_eq!(
            oracle(&["done"], &[], &|observation| observation.ending = "hung".into()),
            Ok(Oracle::Guest)
        );
        assert_eq!(oracle(&[], &[], &|observation| observation.status = 3), Ok(Oracle::Status));
        assert_eq!(oracle(&[], &[], &same), Ok(Oracle::Once));
        assert_eq!(oracle(&["done", "done"], &[], &same), Ok(Oracle::Once));
        assert_eq!(
            oracle(&["done"], &[], &|observation| observation.ending = "virtual-limit".into()),
            Ok(Oracle::Stuck)
        );
        let lost =
            |observation: &mut Observation| observation.contradiction = Some("lost: 7".into());
        assert_eq!(oracle(&["done"], &[], &lost), Ok(Oracle::History));
        let stuck =
            |observation: &mut Observation| observation.stuck = Some("nothing for 5 s".into());
        assert_eq!(oracle(&["done"], &[], &stuck), Ok(Oracle::Stuck));
        let unknown =
            |observation: &mut Observation| observation.undecided = Some("9 clients".into());
        assert_eq!(oracle(&["done"], &[], &unknown), Err(Verdict::Vacuous(Vacuity::Undecided)));
        let none = |observation: &mut Observation| observation.happened = 0;
        assert_eq!(oracle(&["done"], &[], &none), Err(Verdict::Vacuous(Vacuity::NoFault)));
        let idle = |observation: &mut Observation| observation.acknowledged = Some(0);
        assert_eq!(oracle(&["done"], &[], &idle), Err(Verdict::Vacuous(Vacuity::NoWork)));
    }

    #[test]
    fn a_panic_that_a_fault_has_asked_for_is_no_complaint() {
        let spec = ExploreSpec::default();
        for (kinds, complains) in [(&["panic"][..], false), (&["power-cut"], true)] {
            let mut watch = watch(&spec, kinds);
            watch.console("[    2.1] Kernel panic - not syncing: NMI");
            assert_eq!(watch.observation.complaint.is_some(), complains);
        }
    }

    #[test]
    fn failures_that_differ_in_figures_only_are_one_finding() {
        let signature =
            |line: &str| Failure { oracle: Oracle::Status, line: line.into() }.signature();
        assert_eq!(signature("status 3: key12 lost"), signature("status 3: key9 lost"));
        assert_eq!(signature("at 0xffff8a1c"), signature("at 0x12bc"));
        assert_ne!(signature("status 3: key12 lost"), signature("status 3: key12 twice"));
    }
}
