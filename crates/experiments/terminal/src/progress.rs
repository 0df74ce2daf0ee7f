//! Progress: one line on a terminal, which is gone at the end, and after Ctrl-C. Elsewhere a plain
//! line every ten seconds, or at the interval in [`INTERVAL`]. `--quiet`: none.

use std::io::{IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stasis_results::units;

/// Default interval between two plain lines, which [`INTERVAL`] overrides.
const PLAIN: Duration = Duration::from_secs(10);
/// The variable of the environment by which another program has plain lines more often or
/// more rarely (s).
const INTERVAL: &str = "STASIS_PROGRESS_INTERVAL";
/// Range of valid intervals (s).
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Minimum duration of a work before the time left is shown.
const SURE: Duration = Duration::from_secs(2);
/// Largest difference between estimates of a work's whole time, as a share of the last.
const SAME: f64 = 0.2;
/// The part of the time until now whose speed has to be that of the whole.
const LATELY: f64 = 0.05;
/// The share of the time until now for which a work may stand still before nobody knows its speed.
const STILL: f64 = 0.2;
/// Limit on the time left (s): more is not to be told.
const MAX_LEFT: f64 = 1e9;
/// Limit on the places of a work's course that are kept.
const MAX_COURSE: usize = 256;

static QUIET: AtomicBool = AtomicBool::new(false);
/// Set if another part of the program ends it after Ctrl-C.
static STOPS: AtomicBool = AtomicBool::new(false);
/// The line of the current work. There is one, as there is one terminal.
static LINE: Mutex<Option<Line>> = Mutex::new(None);

/// No progress from now on.
pub fn quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Ctrl-C ends the program in its own way, which is registered elsewhere.
pub fn stops_by_itself() {
    STOPS.store(true, Ordering::Relaxed);
}

/// Something that takes a while.
struct Line {
    text: String,
    fraction: Option<f64>,
    began: Instant,
    /// Times with the progress then, in rising order.
    course: Vec<(Duration, f64)>,
    shown: Shown,
}

enum Shown {
    /// On a terminal.
    Bar(ProgressBar),
    /// By a thread that ends with this.
    Plain { _ends: Sender<()> },
}

impl Line {
    fn new(text: &str, fraction: Option<f64>) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            clear_after_interrupt();
            let bar = ProgressBar::new(1000);
            bar.enable_steady_tick(Duration::from_millis(100));
            Shown::Bar(bar)
        } else {
            Shown::Plain { _ends: plain_lines() }
        };
        let mut line = Self {
            text: String::new(),
            fraction: None,
            began: Instant::now(),
            course: Vec::new(),
            shown,
        };
        line.show(text, fraction);
        line
    }

    fn show(&mut self, text: &str, fraction: Option<f64>) {
        text.clone_into(&mut self.text);
        if fraction < self.fraction {
            // Something else has begun.
            self.began = Instant::now();
            self.course.clear();
        }
        self.fraction = fraction;
        if let Some(fraction) = fraction {
            record(&mut self.course, self.began.elapsed(), fraction);
        }
        // Only one time is shown: the time left, if that is known.
        let remaining = self.left().map(|remaining| format!("{remaining} left"));
        let Shown::Bar(bar) = &self.shown else { return };
        let template = match (fraction, &remaining) {
            (Some(_), Some(_)) => "{spinner} {msg} [{bar:30}] {percent} % {prefix}",
            (Some(_), None) => "{spinner} {msg} [{bar:30}] {percent} %",
            (None, _) => "{spinner} {msg} {elapsed}",
        };
        // The templates are constants, checked by a test.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(remaining.unwrap_or_default());
        bar.set_message(text.to_owned());
        if let Some(fraction) = fraction {
            bar.set_position((fraction * 1000.0) as u64);
        }
    }

    /// Estimates the time left from the speed until now. There is none where the same estimate halfway
    /// until now was off: then the speed changes, and nobody knows.
    fn left(&self) -> Option<String> {
        left(&self.course, self.began.elapsed()).map(rounded)
    }

    /// The line for an output that is no terminal.
    fn plain(&self) -> String {
        let remaining = self.left();
        let text: Vec<&str> = self.text.lines().map(str::trim).collect();
        let text = text.join(", ");
        match (self.fraction, remaining) {
            (Some(fraction), Some(remaining)) => {
                format!("progress: {text}, {:.0} %, {remaining} left", fraction * 100.0)
            }
            (Some(fraction), None) => format!("progress: {text}, {:.0} %", fraction * 100.0),
            (None, _) => format!("progress: {text}, {} so far", rounded(self.began.elapsed())),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// Appends how far a work is; of many every second is forgotten.
fn record(course: &mut Vec<(Duration, f64)>, at: Duration, fraction: f64) {
    if course.len() >= MAX_COURSE {
        let mut index = 0;
        course.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
    course.push((at, fraction));
}

/// The time left of a work of this course that has begun so long ago, if it can be told.
fn left(course: &[(Duration, f64)], passed: Duration) -> Option<Duration> {
    let &(last, fraction) = course.last()?;
    if passed < SURE || fraction < 0.01 {
        return None;
    }
    // A work that stands still has no speed any more.
    if passed - last.min(passed) > passed.mul_f64(STILL) {
        return None;
    }
    let total = |at: Duration, fraction: f64| at.as_secs_f64() / fraction.max(f64::MIN_POSITIVE);
    let now = total(last, fraction);
    // Each estimate since halfway has to have been the same.
    let since = course.partition_point(|(at, _)| *at < last / 2).saturating_sub(1);
    let same = |&(at, fraction): &(Duration, f64)| (total(at, fraction) / now - 1.0).abs() < SAME;
    let known = course[since].0 <= last / 2 || course[since].1 <= fraction / 2.0;
    if !known || !course[since..].iter().all(same) {
        return None;
    }
    // So has the speed of the last while, by which a change is seen at once.
    let lately = course.partition_point(|(at, _)| *at < last.mul_f64(1.0 - LATELY));
    let (at, before) = course[lately.saturating_sub(1)];
    let speed = (fraction - before) / (last - at).as_secs_f64().max(f64::MIN_POSITIVE);
    if (speed * now - 1.0).abs() > SAME {
        return None;
    }
    let seconds = (now - passed.as_secs_f64()).clamp(0.0, MAX_LEFT).round();
    Some(Duration::from_secs_f64(seconds))
}

/// Whole seconds, or minutes with seconds, or hours with minutes.
pub(crate) fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn line() -> MutexGuard<'static, Option<Line>> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the value of [`INTERVAL`]; a value outside [`INTERVALS`] is ignored.
fn interval(setting: Option<&str>) -> Duration {
    let seconds = setting
        .and_then(|setting| setting.parse::<f64>().ok())
        .filter(|setting| INTERVALS.contains(setting));
    seconds.map_or(PLAIN, Duration::from_secs_f64)
}

/// Starts a thread that prints the line's progress until the returned sender is dropped.
fn plain_lines() -> Sender<()> {
    let (sender, ends) = channel::<()>();
    let interval = interval(std::env::var(INTERVAL).ok().as_deref());
    std::thread::spawn(move || {
        while ends.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            // The line may have ended just now.
            let text = line().as_ref().map(Line::plain);
            if let Some(text) = text {
                eprintln!("{text}");
            }
        }
    });
    sender
}

/// Takes the line away when Ctrl-C comes, and ends the program unless it does so itself.
fn clear_after_interrupt() {
    use signal_hook::consts::SIGINT;
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok((mut read, write)) = UnixStream::pair() else { return };
        if signal_hook::low_level::pipe::register(SIGINT, write).is_err() {
            return;
        }
        std::thread::spawn(move || {
            while read.read(&mut [0; 1]).is_ok_and(|count| count > 0) {
                drop(line().take());
                if !STOPS.load(Ordering::Relaxed) {
                    // The handler ends the program, so an error cannot be reported.
                    let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
                }
            }
        });
    });
}

/// Steps that take a while. All of them share the one line; it is gone with the last word.
#[derive(Debug, Default)]
pub struct Steps {
    shown: bool,
}

impl Steps {
    /// Creates a line that shows nothing before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a step, with the progress of the whole if known.
    pub fn step(&mut self, text: &str, fraction: Option<f64>) {
        if QUIET.load(Ordering::Relaxed) {
            return;
        }
        self.shown = true;
        let fraction = fraction.map(|fraction| fraction.clamp(0.0, 1.0));
        match &mut *line() {
            Some(line) => line.show(text, fraction),
            none => *none = Some(Line::new(text, fraction)),
        }
    }

    /// Shows the number of finished items of `total`, with their rate.
    pub fn count(&mut self, units: &str, done: u64, total: u64) {
        let passed =
            line().as_ref().map(|line| line.began.elapsed()).filter(|passed| *passed >= SURE);
        let rate = passed.map_or(String::new(), |passed| {
            let rate = done as f64 / passed.as_secs_f64();
            format!(", {} a second", units::significant(rate, 3))
        });
        let text = format!("{} of {} {units}{rate}", units::count(done), units::count(total));
        self.step(&text, Some(done as f64 / total.max(1) as f64));
    }

    /// Removes the line from the terminal.
    pub fn done(&mut self) {
        if std::mem::take(&mut self.shown) {
            drop(line().take());
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A work that has gone on at one speed.
    fn at(text: &str, fraction: Option<f64>, seconds: u64) -> Line {
        let (_ends, _) = channel();
        let passed = Duration::from_secs(seconds);
        let began = Instant::now() - passed;
        let mut course = Vec::new();
        for step in 1..=100 {
            if let Some(fraction) = fraction {
                record(&mut course, passed * step / 100, fraction * f64::from(step) / 100.0);
            }
        }
        Line { text: text.into(), fraction, began, course, shown: Shown::Plain { _ends } }
    }

    /// A work of stretches, each of so long and so large a share: what is shown on its way is right
    /// within a third, or not shown. Returns the share of its time for which it was.
    fn shown_of(stretches: &[(f64, f64)]) -> f64 {
        let (time, work) = stretches.iter().fold((0.0, 0.0), |(t, w), (dt, dw)| (t + dt, w + dw));
        let (mut course, mut shown, mut steps) = (Vec::new(), 0, 0);
        let (mut began, mut done) = (0.0, 0.0);
        for &(length, share) in stretches {
            for step in 0..200 {
                let part = f64::from(step) / 200.0;
                let at = Duration::from_secs_f64(began + part * length);
                record(&mut course, at, (done + part * share) / work);
                steps += 1;
                let Some(estimate) = left(&course, at) else { continue };
                shown += 1;
                let right = time - at.as_secs_f64();
                // A change is seen within a moment.
                if part * length < at.as_secs_f64() / 20.0 {
                    continue;
                }
                // The future alone can make it wrong: as long as the speed is one, it is right.
                let rest = estimate.as_secs_f64();
                let uniform = (1.0 - (done + part * share) / work) * length * work / share;
                let near = |right: f64| (rest - right).abs() <= right / 3.0 + 2.0;
                assert!(
                    near(right) || near(uniform),
                    "{stretches:?} at {at:?}: {rest} for {right}"
                );
            }
            began += length;
            done += share;
        }
        f64::from(shown) / f64::from(steps)
    }

    #[test]
    fn the_time_left_is_right_or_not_shown() {
        assert!(shown_of(&[(60.0, 1.0)]) > 0.9);
        assert!(shown_of(&[(3600.0, 1.0)]) > 0.9);
        // Too short for an estimate.
        assert_eq!(shown_of(&[(1.9, 1.0)]), 0.0);
        // A quick beginning and a slow rest, the other way round, and a work of many speeds.
        let speeds = [0.01, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0, 100.0];
        for first in speeds {
            for second in speeds {
                for third in speeds {
                    shown_of(&[(20.0, 20.0 * first), (60.0, 60.0 * second), (30.0, 30.0 * third)]);
                }
            }
        }
    }

    /// 90 % in three seconds, and then minutes: no time is shown while it stands still.
    #[test]
    fn a_work_that_stands_still_has_no_time_left() {
        let mut course = Vec::new();
        for step in 0..=90u32 {
            record(
                &mut course,
                Duration::from_millis(u64::from(step) * 40),
                f64::from(step) / 100.0,
            );
        }
        let estimate = |seconds: f64| left(&course, Duration::from_secs_f64(seconds));
        assert!(estimate(3.6).is_some_and(|rest| rest < Duration::from_secs(1)));
        assert!([5.0, 10.0, 60.0, 300.0].into_iter().all(|seconds| estimate(seconds).is_none()));
    }

    #[test]
    fn another_work_has_a_time_of_its_own() {
        let mut line = at("installing", Some(0.5), 60);
        assert_eq!(line.left().unwrap(), "1 min 0 s");
        line.show("checking", Some(0.25));
        assert_eq!(line.left(), None);
        assert!(line.began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_plain_line_has_the_time_left_where_that_is_known() {
        assert_eq!(at("booting", None, 75).plain(), "progress: booting, 1 min 15 s so far");
        assert_eq!(at("cuts", Some(0.25), 60).plain(), "progress: cuts, 25 %, 3 min 0 s left");
        assert_eq!(at("cuts", Some(0.001), 60).plain(), "progress: cuts, 0 %");
        assert_eq!(at("cuts", Some(0.5), 1).plain(), "progress: cuts, 50 %");
        assert_eq!(at("cuts", Some(0.01), 120).left().unwrap(), "3 h 18 min");
        let of_a_run = at("1 s of virtual time\n  3 I/Os\n  no fault", None, 75);
        assert!(of_a_run.plain().starts_with("progress: 1 s of virtual time, 3 I/Os, no fault, "));
    }

    #[test]
    fn the_interval_is_a_time_that_makes_sense() {
        assert_eq!(interval(Some("0.5")), Duration::from_millis(500));
        for odd in [None, Some(""), Some("-1"), Some("nan"), Some("inf"), Some("1e300"), Some("x")]
        {
            assert_eq!(interval(odd), PLAIN, "{odd:?}");
        }
    }

    #[test]
    fn templates_are_valid() {
        for template in
            ["{spinner} {msg} [{bar:30}] {percent} % {prefix}", "{spinner} {msg} {elapsed}"]
        {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn counts_are_told_and_nothing_stays() {
        let mut steps = Steps::new();
        steps.count("power cuts", 139, 1300);
        assert_eq!(line().as_ref().unwrap().text, "139 of 1,300 power cuts");
        // A handle without a step removes no line.
        drop(Steps::new());
        assert!(line().is_some());
        drop(steps);
        assert!(line().is_none());
    }
}
