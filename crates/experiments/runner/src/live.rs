//! The page of a run that goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Least wall-clock time between two drawings of the page.
const PACE: Duration = Duration::from_secs(1);
/// Time for which the last page waits for a reader who has looked at others within [`READER`].
const LINGER: Duration = Duration::from_secs(5);
const READER: Duration = Duration::from_secs(10);

/// A page that a run draws and others read. It is drawn only where somebody reads it.
#[derive(Debug)]
pub struct LivePage {
    wanted: AtomicBool,
    state: Mutex<State>,
    /// The last page was read.
    read: Condvar,
}

#[derive(Debug)]
struct State {
    html: String,
    drawn: Option<Instant>,
    looked: Option<Instant>,
    over: bool,
    read: bool,
}

impl LivePage {
    /// A page that is `html` at first.
    pub fn new(html: String) -> Self {
        let state = State { html, drawn: None, looked: None, over: false, read: false };
        Self { wanted: AtomicBool::new(false), state: Mutex::new(state), read: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the page, and whether it is the last one.
    pub fn look(&self) -> (String, bool) {
        self.wanted.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.looked = Some(Instant::now());
        (state.html.clone(), state.over)
    }

    /// A reader has all of the last page.
    pub fn was_read(&self) {
        self.state().read = true;
        self.read.notify_all();
    }

    /// Returns whether a new page is to be drawn.
    pub fn is_due(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
            && self.state().drawn.is_none_or(|drawn| drawn.elapsed() >= PACE)
    }

    /// Shows a new page.
    pub fn show(&self, html: String) {
        self.wanted.store(false, Ordering::Relaxed);
        let mut state = self.state();
        (state.html, state.drawn) = (html, Some(Instant::now()));
    }

    /// Shows the last page, and waits for a moment until somebody who reads has it.
    pub fn end(&self, html: String) {
        let mut state = self.state();
        (state.html, state.over) = (html, true);
        if state.looked.is_some_and(|looked| looked.elapsed() < READER) {
            let wait = self.read.wait_timeout_while(state, LINGER, |state| !state.read);
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_page_is_drawn_where_somebody_reads_it() {
        let page = LivePage::new("begins".into());
        assert!(!page.is_due());
        assert_eq!(page.look(), ("begins".into(), false));
        assert!(page.is_due());
        page.show("goes on".into());
        assert!(!page.is_due());
        assert_eq!(page.look().0, "goes on");
        // Not again at once.
        assert!(!page.is_due());
    }

    #[test]
    fn the_last_page_waits_for_its_reader_only() {
        let nobody = LivePage::new(String::new());
        let begun = Instant::now();
        nobody.end("over".into());
        assert!(begun.elapsed() < LINGER);
        let page = Arc::new(LivePage::new(String::new()));
        page.look();
        let reader = Arc::clone(&page);
        let reads = std::thread::spawn(move || loop {
            if let (html, true) = reader.look() {
                reader.was_read();
                return html;
            }
            std::thread::yield_now();
        });
        page.end("over".into());
        assert_eq!(reads.join().unwrap(), "over");
        assert!(begun.elapsed() < LINGER);
    }
}
