//! The inner side: the program as `/init` of the software host.
//!
//! Everything that crosses the boundary does so synchronously, within one instruction of the
//! emulated processor: the event stream leaves through QEMU's debug console (long entries: see
//! `packet.rs`), inputs arrive by fw_cfg's DMA. Only a stop, and passed drives, are asynchronous.
//! Terminal input is requested.

mod boot;
mod fwcfg;
mod memory;
mod output;
mod port;
mod processors;
mod stop;

use crate::items::{
    DRIVES_ITEM, FIRST_ITEM, INPUT_PREFIX, JOB_ITEM, LATER_ITEM, RESUME_ITEM, SAVE_ITEM,
};
use crate::packet::{snapshot as snapshot_packet, PAUSE};
use crate::{Programs, Source};
use fwcfg::FwCfg;
use output::Port;
use stasis_channel::Keyboard;
use stasis_run_events::{Debugger, EventSink, Instant, RunEvent, Stage};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

pub use stop::StopReason;

/// An error of the inner side.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// A step of the start failed.
    #[error("in the software host: cannot {step}: {source}")]
    Start {
        /// The step.
        step: String,
        /// The reason.
        source: io::Error,
    },
    /// No such input was passed.
    #[error("in the software host: there is no input named `{0}`")]
    NoInput(String),
    /// A read goes past an input's end.
    #[error("in the software host: input `{name}` has {length} bytes, asked for {asked}")]
    PastEnd {
        /// The input.
        name: String,
        /// Its length in bytes.
        length: u64,
        /// The end of the range asked for.
        asked: u64,
    },
    /// The emulated machine does not count as it should.
    #[error("in the software host: {0}")]
    NotExact(#[from] stasis_bare::svm::NotExact),
    /// QEMU could not transfer an item.
    #[error("in the software host: reading `{0}` from QEMU failed")]
    Transfer(String),
}

/// Returns whether this process is the first one of a software host: then [`main`] is to be called.
pub fn is_here() -> bool {
    stasis_bare::is_here()
        || std::process::id() == 1 && std::env::var_os("STASIS_SOFTKVM").is_some()
}

/// Does everything that `/init` has to do, calls `run` with the job, and ends
/// the software host when it returns. A panic in `run` becomes
/// [`RunEvent::Failed`].
pub fn main(run: fn(&mut Inside, Vec<u8>)) -> ! {
    let ended = std::panic::catch_unwind(|| {
        let (mut inside, job) = Inside::start()?;
        if job.is_empty() {
            return inside.check();
        }
        run(&mut inside, job);
        Ok(())
    });
    let message = match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(InsideError::to_string(&error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("in the software host: internal error: {}", text.unwrap_or("panic")))
        }
    };
    if let Some(message) = message {
        // Cannot fail: it is a port write.
        let _ = Port.event(RunEvent::Failed(message));
    }
    port::end()
}

/// The inner side's connections to the outer world.
pub struct Inside {
    items: FwCfg,
    events: Port,
    stop: stop::Listener,
    drives: Vec<PathBuf>,
    is_first: bool,
}

impl Inside {
    /// Boots up to where the machine is saved, is restored there, and takes
    /// the job.
    fn start() -> Result<(Self, Vec<u8>), InsideError> {
        let buffer = || {
            output::prepare().map_err(|source| InsideError::Start {
                step: "reserve memory for the events".into(),
                source,
            })
        };
        if stasis_bare::is_here() {
            buffer()?;
            let mut items = FwCfg::open()?;
            let drives = disks(&mut items)?;
            let is_first = items.length(FIRST_ITEM).is_some();
            let job = items.whole(if is_first { FIRST_ITEM } else { JOB_ITEM })?;
            let stop = stop::Listener::polled();
            return Ok((Self { items, events: Port, stop, drives, is_first }, job));
        }
        boot::before_pause()?;
        buffer()?;
        port::pause();
        // From here on it is a restored machine: QEMU's items are looked up now, not before.
        let mut items = FwCfg::open()?;
        let drives = boot::load_drives(drives(&mut items)?)?;
        let job = items.whole(JOB_ITEM)?;
        let stop = stop::Listener::start()?;
        Ok((Self { items, events: Port, stop, drives, is_first: false }, job))
    }

    /// Tells that a job could run here.
    fn check(&mut self) -> Result<(), InsideError> {
        if stasis_bare::is_here() {
            // SAFETY: on the bare machine, and nothing else is done in its life.
            unsafe {
                stasis_bare::start();
                stasis_bare::svm::calibrate()?;
            }
        }
        // Cannot fail: it is a port write.
        let _ = self.events.event(RunEvent::Stage(Stage::Calibrating));
        Ok(())
    }

    /// Returns whether the job is only the [first part](crate::Job::first) of one.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Ends the first part: the machine is kept here. Returns the job that goes on from there, in another
    /// machine.
    pub fn end_first(&mut self) -> Result<Vec<u8>, InsideError> {
        port::write_events(&PAUSE);
        stasis_bare::pausing(port::pause);
        self.is_first = false;
        self.items = FwCfg::open()?;
        self.drives = disks(&mut self.items)?;
        self.items.whole(JOB_ITEM)
    }

    /// Length of an input in bytes, `None` if none has that name.
    pub fn input_length(&self, name: &str) -> Option<u64> {
        self.items.length(&format!("{INPUT_PREFIX}{name}"))
    }

    /// Fills `into` with the input `name` from `offset` on, by DMA: quickest
    /// into memory of huge pages, and where reads go forwards.
    pub fn read_input(
        &mut self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), InsideError> {
        self.items.read(&format!("{INPUT_PREFIX}{name}"), offset, into).map_err(|error| match error
        {
            InsideError::NoInput(_) => InsideError::NoInput(name.to_owned()),
            other => other,
        })
    }

    /// Returns the sink of entries for the outer side. Entries are out when the call returns.
    pub fn events(&mut self) -> &mut dyn EventSink {
        &mut self.events
    }

    /// A second way to the events, for a caller that needs this value too.
    pub fn event_sink(&self) -> impl EventSink + Send + 'static {
        Port
    }

    /// The terminal of the person who watches from outside.
    pub fn keyboard(&self) -> Box<dyn Keyboard> {
        Box::new(output::Outside)
    }

    /// The world outside, where networks lead there.
    pub fn outside(&self) -> Box<dyn stasis_network::Outside> {
        Box::new(output::Outside)
    }

    /// The debugger outside.
    pub fn debugger(&self) -> Box<dyn Debugger> {
        Box::new(output::Outside)
    }

    /// The reader of the outer side's source ([`crate::Control::source`]).
    pub fn source(&self) -> Source {
        Arc::new(output::read_source)
    }

    /// The outer side's knowledge of guests' programs ([`crate::Control::programs`]).
    pub fn programs(&self) -> Programs {
        Arc::new(output::read_program)
    }

    /// The block device of the passed drive `index`.
    pub fn drive_path(&self, index: usize) -> Option<PathBuf> {
        self.drives.get(index).cloned()
    }

    /// Set when the outer side asks to stop; see [`Inside::stop_reason`].
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.flag()
    }

    /// Why the outer side asked to stop, once it has.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.reason()
    }

    /// To be called now and then where this program has one thread only, the bare
    /// machine: looks whether the outer side asks to stop. Elsewhere None.
    pub fn stop_poll(&self) -> Option<Box<dyn Fn()>> {
        stasis_bare::is_here().then(|| {
            let stop = self.stop.clone();
            Box::new(move || stop.poll()) as Box<dyn Fn()>
        })
    }
}

/// The part of a job that belongs to a run and not to its machine.
pub struct Later {
    /// Contents of [`crate::Job::later`].
    pub job: Vec<u8>,
    items: FwCfg,
}

impl Later {
    /// Looks it up. Where the machine is to be kept, it is kept here, and each of its runs
    /// continues here with the inputs of that run.
    pub fn take() -> Result<Self, InsideError> {
        let mut items = FwCfg::open()?;
        if items.length(SAVE_ITEM).is_some() {
            port::write_events(&PAUSE);
            stasis_bare::pausing(port::pause);
            items = FwCfg::open()?;
        }
        Ok(Self { job: items.whole(LATER_ITEM)?, items })
    }

    /// Reads the whole input `name`; `None` if there is none of that name.
    pub fn input(&mut self, name: &str) -> Result<Option<Vec<u8>>, InsideError> {
        let name = format!("{INPUT_PREFIX}{name}");
        match self.items.length(&name) {
            Some(_) => Ok(Some(self.items.whole(&name)?)),
            None => Ok(None),
        }
    }
}

/// Pauses the machine between two turns, so that a snapshot is stored of `instant`. Returns what is to
/// be done from there on where the machine is another that continues from it; None where it is the
/// one that was paused.
///
/// # Errors
/// The input cannot be read.
pub fn snapshot(instant: &Instant) -> Result<Option<Later>, InsideError> {
    port::write_events(&snapshot_packet(instant));
    stasis_bare::pausing(port::pause);
    let mut items = FwCfg::open()?;
    if items.length(RESUME_ITEM).is_none() {
        return Ok(None);
    }
    // One that continues from a snapshot may take later ones itself.
    if items.whole(RESUME_ITEM)? != instant.at.to_string().as_bytes() {
        return Ok(None);
    }
    Ok(Some(Later { job: items.whole(LATER_ITEM)?, items }))
}

/// Returns the passed drives of a bare machine.
fn disks(items: &mut FwCfg) -> Result<Vec<PathBuf>, InsideError> {
    Ok((0..drives(items)?).map(|index| stasis_bare::disk_path(index).into()).collect())
}

/// Returns the number of drives that are passed.
fn drives(items: &mut FwCfg) -> Result<usize, InsideError> {
    let count = items.whole(DRIVES_ITEM)?;
    Ok(String::from_utf8_lossy(&count).parse().unwrap_or(0))
}
