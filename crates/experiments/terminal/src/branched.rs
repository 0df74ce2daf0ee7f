//! A run that becomes another: what its own commands write is not shown.

use std::io;

use stasis_run_events::Stage;
use stasis_runner::{Event, Observer};

/// A second (ns).
const SECOND: u64 = 1_000_000_000;

/// Shows a run by another observer: the way to the moment as progress, and from there on the
/// branch.
#[derive(Debug)]
pub struct Branched<'a, O> {
    inner: &'a mut O,
    /// Virtual time, and when the commands have begun (ns).
    now: u64,
    began: Option<u64>,
    has_branched: bool,
    quiet: bool,
}

impl<'a, O: Observer> Branched<'a, O> {
    /// By `inner`; `quiet`: without a word that the run is another now.
    pub fn new(inner: &'a mut O, quiet: bool) -> Self {
        Self { inner, now: 0, began: None, has_branched: false, quiet }
    }

    /// Returns whether the moment has come.
    pub fn has_branched(&self) -> bool {
        self.has_branched
    }
}

impl<O: Observer> Observer for Branched<'_, O> {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Output(_) | Event::ErrorOutput(_) if !self.has_branched => return Ok(()),
            Event::VirtualTime(now) => self.now = now,
            Event::Stage(Stage::Running) => self.began = Some(self.now),
            Event::Stage(Stage::Branching) => {
                self.has_branched = true;
                let since = self.now.saturating_sub(self.began.unwrap_or(self.now));
                let (whole, rest) = (since / SECOND, since % SECOND);
                let text =
                    format!("from here on it is another run, a branch at {whole}.{rest:09} s");
                if !self.quiet {
                    self.inner.event(Event::Warning(&text))?;
                }
            }
            _ => {}
        }
        self.inner.event(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_own_output_is_not_shown() {
        let mut shown = Vec::new();
        let mut inner = |event: Event<'_>| {
            shown.push(format!("{event:?}"));
            Ok(())
        };
        let mut branched = Branched::new(&mut inner, false);
        for event in [
            Event::VirtualTime(2_000_000_000),
            Event::Stage(Stage::Running),
            Event::Output(b"own"),
            Event::ErrorOutput(b"own"),
            Event::VirtualTime(2_250_000_001),
        ] {
            branched.event(event).unwrap();
        }
        assert!(!branched.has_branched());
        branched.event(Event::Stage(Stage::Branching)).unwrap();
        branched.event(Event::Output(b"the branch's")).unwrap();
        assert!(branched.has_branched());
        let at = "Warning(\"from here on it is another run, a branch at 0.250000001 s\")";
        assert_eq!(shown[3], at);
        assert_eq!(shown[4], "Stage(Branching)");
        assert!(shown[5].starts_with("Output"), "{shown:?}");
        assert_eq!(shown.len(), 6, "{shown:?}");
    }
}
