//! A run at whose terminal a person sits.

use std::sync::Arc;

use stasis_channel::{Job, Keyboard, SharedKeyboard, WindowSize};

/// The terminal that a command runs on.
#[derive(Debug, Clone)]
pub struct Attended {
    /// The user's keyboard.
    pub keyboard: SharedKeyboard,
    /// The window's size when the run begins.
    pub window: WindowSize,
    /// Kind of the terminal: the value of `TERM`.
    pub kind: String,
}

impl Attended {
    /// Has a job's command run on it.
    pub(crate) fn apply(&self, job: &mut Job) {
        job.terminal = Some(self.window);
        job.environment.insert("TERM".into(), self.kind.clone());
    }

    /// The keyboard for a machine in this process.
    #[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code))]
    pub(crate) fn local(&self) -> Box<dyn Keyboard> {
        Box::new(Arc::clone(&self.keyboard))
    }
}
