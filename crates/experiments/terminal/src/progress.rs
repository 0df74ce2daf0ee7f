//! Progress: one line on a terminal, which is gone at the end, and after Ctrl-C. Elsewhere a plain
//! line every ten seconds, or at the interval in [`INTERVAL`]. `--quiet`: none.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use stasis_report::units;

/// Default interval between two plain lines, which [`INTERVAL`] overrides.
const PLAIN: Duration = Duration::from_secs(10);
/// The variable of the environment by which another program has plain lines more often or
/// more rarely (s).
const INTERVAL: &str = "STASIS_PROGRESS_INTERVAL";
/// Range of valid intervals (s).
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Interval between two drawings of the line on a terminal.
const DRAWN: Duration = Duration::from_millis(100);
/// Steps of the sign that turns while a work goes on.
const SPINNER: [char; 8] = ['⠁', '⠂', '⠄', '⡀', '⢀', '⠠', '⠐', '⠈'];
/// Characters of the bar.
const BAR: usize = 30;
/// Clears the terminal's line, and returns to its begin.
const CLEAR: &str = "\r\x1b[2K";
/// Minimum duration of a work before the time left is shown.
const SURE: Duration = Duration::from_secs(2);

static QUIET: AtomicBool = AtomicBool::new(false);
/// Whether another part of the program ends it after Ctrl-C.
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
    /// The time left as last shown.
    told: Option<Duration>,
    terminal: bool,
    /// The thread that shows the line ends with this.
    _ends: Sender<()>,
}

impl Line {
    fn new(text: &str, fraction: Option<f64>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let _ends = if terminal {
            clear_after_interrupt();
            drawn_lines()
        } else {
            plain_lines()
        };
        let (text, began) = (text.to_owned(), Instant::now());
        Self { text, fraction, began, told: None, terminal, _ends }
    }

    fn show(&mut self, text: &str, fraction: Option<f64>) {
        text.clone_into(&mut self.text);
        if fraction < self.fraction {
            // Something else has begun.
            self.told = None;
        }
        self.fraction = fraction;
    }

    /// The line for a terminal of this width.
    fn drawn(&mut self, width: usize) -> String {
        let tick = self.began.elapsed().as_millis() / DRAWN.as_millis();
        let spinner = SPINNER[(tick % SPINNER.len() as u128) as usize];
        let left = self.left();
        let text = &self.text;
        // Only one time is shown: the time left, if that is known.
        let line = match self.fraction {
            Some(fraction) => {
                let done = "=".repeat((fraction * BAR as f64) as usize);
                let arrow = if done.len() < BAR { ">" } else { "" };
                let left = left.map_or(String::new(), |left| format!(" {left} left"));
                let percent = (fraction * 100.0) as u32;
                format!("{spinner} {text} [{:BAR$}] {percent} %{left}", done + arrow)
            }
            None => format!("{spinner} {text} {}", rounded(self.began.elapsed())),
        };
        // A line that wraps would stay.
        line.chars().take(width.saturating_sub(1)).collect()
    }

    /// Estimates the time left from the speed until now. The estimate never rises: parts of a work
    /// are not equally quick, and a rising time is of no use.
    fn left(&mut self) -> Option<String> {
        let (fraction, passed) = (self.fraction?, self.began.elapsed());
        if passed < SURE || fraction < 0.01 {
            return None;
        }
        let left = passed.mul_f64((1.0 - fraction).max(0.0) / fraction);
        let left = self.told.map_or(left, |told| told.min(left));
        self.told = Some(left);
        Some(rounded(left))
    }

    /// The line for an output that is no terminal.
    fn plain(&mut self) -> String {
        let left = self.left();
        let text = &self.text;
        match (self.fraction, left) {
            (Some(fraction), Some(left)) => {
                format!("progress: {text}, {:.0} %, {left} left", fraction * 100.0)
            }
            (Some(fraction), None) => format!("progress: {text}, {:.0} %", fraction * 100.0),
            (None, _) => format!("progress: {text}, {} so far", rounded(self.began.elapsed())),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.terminal {
            draw("");
        }
    }
}

/// Whole seconds, or minutes with seconds, or hours with minutes.
fn rounded(time: Duration) -> String {
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
fn interval(said: Option<&str>) -> Duration {
    let seconds =
        said.and_then(|said| said.parse::<f64>().ok()).filter(|said| INTERVALS.contains(said));
    seconds.map_or(PLAIN, Duration::from_secs_f64)
}

/// Puts this line in place of what stands on the terminal's line.
fn draw(text: &str) {
    let mut error = std::io::stderr().lock();
    // A terminal that is gone shows nothing.
    let _ = write!(error, "{CLEAR}{text}").and_then(|()| error.flush());
}

/// Starts a thread that draws the line on the terminal until the returned sender is dropped.
fn drawn_lines() -> Sender<()> {
    let (sender, ends) = channel::<()>();
    std::thread::spawn(move || loop {
        // The line is kept from ending until it is drawn.
        if let Some(line) = line().as_mut().filter(|line| line.terminal) {
            let size = rustix::termios::tcgetwinsize(std::io::stderr());
            let columns = size.map_or(0, |size| usize::from(size.ws_col));
            draw(&line.drawn(if columns == 0 { 80 } else { columns }));
        }
        if ends.recv_timeout(DRAWN) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    });
    sender
}

/// Starts a thread that prints the line's progress until the returned sender is dropped.
fn plain_lines() -> Sender<()> {
    let (sender, ends) = channel::<()>();
    let interval = interval(std::env::var(INTERVAL).ok().as_deref());
    std::thread::spawn(move || {
        while ends.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            // The line may have ended just now.
            let text = line().as_mut().map(Line::plain);
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
    said: bool,
}

impl Steps {
    /// Nothing is shown before the first step.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a step, with how far everything is where that is known.
    pub fn step(&mut self, what: &str, fraction: Option<f64>) {
        if QUIET.load(Ordering::Relaxed) {
            return;
        }
        self.said = true;
        let fraction = fraction.map(|fraction| fraction.clamp(0.0, 1.0));
        match &mut *line() {
            Some(line) => line.show(what, fraction),
            none => *none = Some(Line::new(what, fraction)),
        }
    }

    /// Shows how many of `total` things are done, with their rate.
    pub fn count(&mut self, what: &str, done: u64, total: u64) {
        let passed =
            line().as_ref().map(|line| line.began.elapsed()).filter(|passed| *passed >= SURE);
        let rate = passed.map_or(String::new(), |passed| {
            let rate = done as f64 / passed.as_secs_f64();
            format!(", {} a second", units::significant(rate, 3))
        });
        let text = format!("{} of {} {what}{rate}", units::count(done), units::count(total));
        self.step(&text, Some(done as f64 / total.max(1) as f64));
    }

    /// Takes it off the terminal.
    pub fn done(&mut self) {
        if std::mem::take(&mut self.said) {
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

    fn at(text: &str, fraction: Option<f64>, seconds: u64) -> Line {
        let (_ends, _) = channel();
        let began = Instant::now() - Duration::from_secs(seconds);
        Line { text: text.into(), fraction, began, told: None, terminal: false, _ends }
    }

    #[test]
    fn the_time_left_never_rises() {
        let mut line = at("installing", Some(0.5), 60);
        assert_eq!(line.left().unwrap(), "1 min 0 s");
        // A slow part: half is done still, a minute later.
        line.began -= Duration::from_secs(60);
        assert_eq!(line.left().unwrap(), "1 min 0 s");
        line.show("installing", Some(0.9));
        assert_eq!(line.left().unwrap(), "13 s");
        // Another work has a separate time.
        line.show("checking", Some(0.25));
        assert_eq!(line.left().unwrap(), "6 min 0 s");
    }

    #[test]
    fn a_plain_line_has_the_time_left_where_that_is_known() {
        assert_eq!(at("booting", None, 75).plain(), "progress: booting, 1 min 15 s so far");
        assert_eq!(at("cuts", Some(0.25), 60).plain(), "progress: cuts, 25 %, 3 min 0 s left");
        assert_eq!(at("cuts", Some(0.001), 60).plain(), "progress: cuts, 0 %");
        assert_eq!(at("cuts", Some(0.5), 1).plain(), "progress: cuts, 50 %");
        assert_eq!(at("cuts", Some(0.01), 120).left().unwrap(), "3 h 18 min");
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
    fn a_terminal_has_a_bar_or_the_time_until_now() {
        let drawn = |fraction, seconds, width| {
            let line = at("cuts", fraction, seconds).drawn(width);
            let (spinner, rest) = line.split_once(' ').unwrap();
            assert!(SPINNER.map(String::from).contains(&spinner.to_owned()));
            rest.to_owned()
        };
        assert_eq!(drawn(None, 75, 80), "cuts 1 min 15 s");
        let bar = |signs: &str| format!("cuts [{signs:30}]");
        assert_eq!(drawn(Some(0.0), 0, 80), bar(">") + " 0 %");
        assert_eq!(drawn(Some(0.5), 60, 80), bar("===============>") + " 50 % 1 min 0 s left");
        assert_eq!(drawn(Some(1.0), 1, 80), bar(&"=".repeat(30)) + " 100 %");
        assert_eq!(drawn(Some(1.0), 1, 10), "cuts [=");
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
