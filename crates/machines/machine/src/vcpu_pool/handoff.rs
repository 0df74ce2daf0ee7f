//! Hands the work of a round to a thread, and takes it back.
//!
//! Both sides wait on their cores for a while before they sleep, so that most rounds need no system
//! call. The state shows who waits and how; each change of it is one that only one side can make,
//! or one that both may try and one loses. `tests/handoff.rs` has loom try every order in which the
//! two threads can do their steps; so the used parts of the standard library come from
//! [`super::sync`], for which that test has loom's.

use super::sync::{current, park, AtomicU8, Mutex, MutexGuard, Ordering, SpinWait, Thread};

/// The state of a thread, as both sides set it.
pub mod state {
    /// The thread waits for a round, on its core.
    pub const WAITS: u8 = 0;
    /// The thread waits for a round and sleeps.
    pub const SLEEPS: u8 = 1;
    /// The thread has a round to do.
    pub const WORKS: u8 = 2;
    /// The thread has a round to do, and the other side sleeps until it is done.
    pub const AWAITED: u8 = 3;
    /// The thread has done its round, and waits on its core.
    pub const DONE: u8 = 4;
    /// The thread has done its round, and sleeps.
    pub const RESTS: u8 = 5;
    /// The thread is to end.
    pub const ENDS: u8 = 6;
}

/// The state shared by two threads: the one that gives work, and the one that does it.
pub struct Handoff<T> {
    state: AtomicU8,
    work: Mutex<T>,
    giver: Thread,
}

impl<T> Handoff<T> {
    /// Made by the thread that will give the work.
    pub fn new(work: T) -> Self {
        Self { state: AtomicU8::new(state::WAITS), work: Mutex::new(work), giver: current() }
    }

    /// The thread's state: one of [`state`].
    #[cfg(test)]
    #[allow(dead_code, reason = "not every test that has this file looks")]
    pub fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    /// The work: to be put in before [`Handoff::begin`].
    pub fn work(&self) -> MutexGuard<'_, T> {
        self.work.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The loop of the thread that does the work, until [`Handoff::end`].
    pub fn serve(&self, mut run: impl FnMut(&mut T)) {
        while self.wait_for_work() {
            run(&mut self.work());
            match self.change(state::WORKS, state::DONE) {
                Err(state::AWAITED) if self.change(state::AWAITED, state::DONE).is_ok() => {
                    self.giver.unpark();
                }
                // Lost to nothing but the end.
                _ => {}
            }
        }
    }

    /// Waits until there is work. Returns false if the thread is to end.
    fn wait_for_work(&self) -> bool {
        let mut spin = SpinWait::new();
        loop {
            match self.state.load(Ordering::Acquire) {
                state::WORKS | state::AWAITED => return true,
                state::ENDS => return false,
                state::SLEEPS | state::RESTS => park(),
                state => {
                    if !spin.wait() {
                        // Lost if there is something to do now.
                        let asleep =
                            if state == state::DONE { state::RESTS } else { state::SLEEPS };
                        let _ = self.change(state, asleep);
                    }
                }
            }
        }
    }

    /// `thread`, which serves, begins with the work.
    pub fn begin(&self, thread: &Thread) {
        self.set(state::WORKS, thread);
    }

    /// `thread`, which serves, ends when it has done what it has.
    pub fn end(&self, thread: &Thread) {
        self.set(state::ENDS, thread);
    }

    fn set(&self, state: u8, thread: &Thread) {
        let before = self.state.swap(state, Ordering::AcqRel);
        if matches!(before, state::SLEEPS | state::RESTS) {
            thread.unpark();
        }
    }

    /// Waits until the work is done, and calls `take` with it; returns at once where nothing
    /// was begun.
    pub fn collect(&self, take: impl FnOnce(&mut T)) {
        if !self.await_done() {
            return;
        }
        take(&mut self.work());
        if self.change(state::DONE, state::WAITS).is_err() {
            // Lost to its falling asleep.
            let _ = self.change(state::RESTS, state::SLEEPS);
        }
    }

    fn await_done(&self) -> bool {
        let mut spin = SpinWait::new();
        loop {
            match self.state.load(Ordering::Acquire) {
                state::DONE | state::RESTS => return true,
                state::AWAITED => park(),
                state::WORKS => {
                    if !spin.wait() {
                        // Lost if it is done now.
                        let _ = self.change(state::WORKS, state::AWAITED);
                    }
                }
                _ => return false,
            }
        }
    }

    fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }
}
