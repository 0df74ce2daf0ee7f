//! The answer about the tenants of shared and limited drives: who suffered when.

use super::{listed, Verdict};
use crate::table::Tone;
use stasis_results::units;

/// From this multiple of its usual p99 on a tenant is said to have suffered.
pub const SUFFERED: f64 = 1.5;
/// Least share of a tenant's requests that waited for its limit, from which on the verdict tells.
const NOTABLE: f64 = 0.05;

/// Tenants that are alone on their drives, of which the verdict tells.
const MAX_ALONE: usize = 3;

/// The facts of the tenants of all shared and limited drives.
#[derive(Debug, Clone)]
pub struct Tenants<'a> {
    /// The worst step of each; at least one.
    pub tenants: Vec<Tenant<'a>>,
    /// The effect of each one's own limit.
    pub waited: Vec<Waited<'a>>,
}

/// A tenant's worst step beside its usual one.
#[derive(Debug, Clone, Copy)]
pub struct Tenant<'a> {
    /// Its name.
    pub name: &'a str,
    /// True if no other tenant and no workload uses its drive.
    pub is_alone: bool,
    /// Steps in which it had requests; one step has no usual one beside it.
    pub steps: usize,
    /// Its beginning and its end (ns on the page's axis of time).
    pub step: (f64, f64),
    /// Its p99 there, and the median of its steps (ns).
    pub most: f64,
    /// Requests of that step: of less than 100 the p99 is the longest.
    pub requests: u64,
    /// See [`Tenant::most`].
    pub usual: f64,
}

/// How a tenant's own limit delayed its requests.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Waited<'a> {
    pub name: &'a str,
    /// Requests that waited, of so many.
    pub waited: u64,
    pub requests: u64,
    /// Their wait on average (ns).
    pub mean: f64,
    /// The limit in words, where it is known.
    pub limit: Option<&'a str>,
}

impl Tenant<'_> {
    /// Ratio of its worst p99 to its usual one.
    pub fn ratio(&self) -> f64 {
        self.most / self.usual.max(1.0)
    }

    fn alone(&self) -> String {
        format!(
            "Alone on its drive, {} had a p99 of {} as a rule and of {} at most, {}.",
            self.name,
            units::duration(self.usual),
            units::duration(self.most),
            self.when()
        )
    }

    /// The time of its worst step.
    fn when(&self) -> String {
        format!("from {} to {}", units::duration(self.step.0), units::duration(self.step.1))
    }

    /// The requests on which its worst p99 rests, where they are few.
    fn rests_on(&self) -> String {
        match self.requests {
            100.. => String::new(),
            1 => " (of one request)".to_owned(),
            few => format!(" (the longest of {few} requests)"),
        }
    }

    /// Returns whether it can suffer, and be seen to: beside others, in several steps.
    pub fn is_compared(&self) -> bool {
        !self.is_alone && self.steps > 1
    }

    /// Returns whether it suffered.
    pub fn suffered(&self) -> bool {
        self.ratio() > SUFFERED
    }
}

impl Tenants<'_> {
    /// The answer.
    pub(super) fn verdict(&self) -> Verdict {
        // The delay by a tenant's own limit is nobody else's doing.
        let own: Vec<_> = self.waited.iter().filter(|one| one.is_notable()).collect();
        let mut all: Vec<&Tenant> = self.tenants.iter().filter(|one| one.is_compared()).collect();
        all.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
        let suffered: Vec<_> = all.iter().copied().filter(|one| one.suffered()).collect();
        let mut verdict = match (&all[..], &suffered[..]) {
            // There is nobody by whom they could have suffered.
            ([], _) if self.tenants.iter().any(|one| !one.is_alone) => Verdict::new(
                "no usual latency",
                Tone::Neutral,
                "Each tenant beside others had requests in one step of the time only, so that none has a usual latency \
                 from which a worse one would differ.",
            ),
            ([], _) => {
                let alone = self.tenants.iter().take(MAX_ALONE).map(Tenant::alone);
                let word = match own.first() {
                    None => "no other tenant".to_owned(),
                    Some(one) => format!("{} waited for its limit", one.name),
                };
                Verdict::new(word, Tone::Neutral, alone.collect::<Vec<_>>().join(" "))
            }
            ([most, ..], []) => {
                let sentence = format!(
                    "Nobody suffered: no tenant's p99 of a step is more than {SUFFERED} times its usual one (at most {}, \
                     of {} {}).",
                    units::significant(most.ratio(), 3),
                    most.name,
                    most.when()
                );
                Verdict::new("nobody suffered", Tone::Good, sentence)
            }
            (_, [first, others @ ..]) => {
                let others: Vec<_> = others
                    .iter()
                    .map(|one| format!("{} {}", one.name, one.when()))
                    .collect();
                let once = self.tenants.iter().filter(|one| !one.is_alone && one.steps == 1);
                let once: Vec<_> = once.map(|one| one.name.to_owned()).collect();
                let others = match others.is_empty() {
                    true if !once.is_empty() => format!(
                        " Of {} nothing can be said: requests in one step of the time only.",
                        listed(&once)
                    ),
                    true => " No other tenant did.".to_owned(),
                    false => format!(" Less so: {}.", others.join(", ")),
                };
                let word = match suffered.len() {
                    1 => format!("{} suffered", first.name),
                    many => format!("{many} tenants suffered"),
                };
                let most = if suffered.len() > 1 { " most" } else { "" };
                let sentence = format!(
                    "The tenant {} suffered{most}, {}: there its p99 was {}{}, {} times the usual {}.{others} A tenant \
                     suffers in a step of the time whose p99 is more than {SUFFERED} times its usual one; a request \
                     belongs to the step in which it ended, and can have begun before.",
                    first.name,
                    first.when(),
                    units::duration(first.most),
                    first.rests_on(),
                    units::significant(first.ratio(), 3),
                    units::duration(first.usual),
                );
                Verdict::new(word, Tone::Neutral, sentence)
            }
        };
        verdict.sentence.extend(own.iter().map(|one| one.sentence()));
        verdict
    }
}

impl Waited<'_> {
    fn is_notable(&self) -> bool {
        self.waited as f64 >= NOTABLE * self.requests.max(1) as f64
    }

    /// After another sentence.
    fn sentence(&self) -> String {
        let limit = self.limit.map_or(String::new(), |limit| format!(" ({limit})"));
        format!(
            " The limit of {}{limit} delayed {} of its {} requests, by {} on average.",
            self.name,
            units::count(self.waited),
            units::count(self.requests),
            units::duration(self.mean)
        )
    }
}
