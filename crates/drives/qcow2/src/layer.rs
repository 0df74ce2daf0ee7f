//! An image as a layer: commands of the guest in, commands to the drive below
//! out, in virtual time.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use stasis_block::clock::Nanos;
use stasis_block::inside::Inside;
use stasis_block::medium::MediumError;
use stasis_block::{
    BlockLayout, Command, Delivery, Operation, Request, Status, Tag, VendorCommand, VendorError,
    ZoneLayout,
};
use stasis_drive::{Control, Done, Layer, LayerTimes, Properties, Sampling, WritePointers};

use crate::core::Core;
use crate::host::{Ended, Shared};
use crate::lock::lock;
use crate::opening::Files;
use crate::tasks::Tasks;
use crate::{Counters, ImageError};

/// A disk image on the layer below it.
///
/// Dropped, it writes the changes it holds back and is closed, as far as the layer
/// below can do that; [`Image::close`] returns the result.
pub struct Image {
    lower: Box<dyn Layer>,
    pub(crate) core: Arc<Core>,
    shared: Arc<Shared>,
    path: PathBuf,
    properties: Properties,
    tasks: Tasks,
    // Completed for the guest, on their way out.
    done: Arc<std::sync::Mutex<VecDeque<Done>>>,
    lower_done: Vec<Done>,
    in_flight: Arc<std::sync::atomic::AtomicUsize>,
    // Its counters at the start of the measurement.
    before: Counters,
    // Commands submitted so far.
    submitted: u64,
    // Its files, if it is written.
    files: Option<Files>,
    // True if it could not start again after a power cut, and the reason until that is taken.
    broken: bool,
    reason: Option<String>,
    closed: bool,
}

impl Image {
    pub(crate) fn new(
        lower: Box<dyn Layer>,
        core: Arc<Core>,
        path: PathBuf,
        size: u64,
        files: Option<Files>,
    ) -> Self {
        let shared = Arc::clone(&core.shared);
        let of_drive = lower.properties().clone();
        let discard_zeroes = core.discard_zeroes();
        Self {
            lower,
            core,
            shared,
            path,
            properties: Properties { capacity: size, discard_zeroes, ..of_drive },
            tasks: Tasks::default(),
            done: Arc::default(),
            lower_done: Vec::new(),
            in_flight: Arc::default(),
            before: Counters::default(),
            submitted: 0,
            closed: files.is_none(),
            files,
            broken: false,
            reason: None,
        }
    }

    /// Counters of flushes.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The layer below.
    pub fn lower(&self) -> &dyn Layer {
        &*self.lower
    }

    /// Writes the changes held back and closes the image, outside of time. Nothing may be in
    /// flight.
    ///
    /// # Errors
    /// An [`ImageError`] if the layer below could not write it.
    pub fn close(&mut self) -> Result<(), ImageError> {
        if std::mem::replace(&mut self.closed, true) || self.broken {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        self.finish_instantly(async move { core.close().await })
    }

    /// Leaves the image as it is, as a power cut does.
    pub fn abandon(mut self) {
        self.closed = true;
    }

    /// Makes the disk larger, outside of time. After an error the image must be abandoned.
    pub(crate) fn grow(&mut self, size: u64) -> Result<(), ImageError> {
        let core = Arc::clone(&self.core);
        self.finish_instantly(async move { core.grow(size).await })?;
        self.properties.capacity = size;
        Ok(())
    }

    /// Runs a future of the image's outside of time, with a drive below that takes none; `None` if it
    /// waits for something else.
    pub(crate) fn instantly<T: 'static>(
        &mut self,
        future: impl std::future::Future<Output = T> + 'static,
    ) -> Option<T> {
        let result = Arc::new(std::sync::Mutex::new(None));
        let place = Arc::clone(&result);
        self.tasks.spawn(async move {
            let value = future.await;
            *lock(&place) = Some(value);
        });
        loop {
            self.tasks.run();
            let next = self.shared.lock().next();
            let Some(Request { tag, command, data, .. }) = next else { break };
            let (status, data) = self.lower.instant(command, data);
            self.shared.lock().finish(tag, status, data);
        }
        let value = lock(&result).take();
        value
    }

    /// Like [`Self::instantly`], but a future that waits for something else is an error.
    fn finish_instantly(
        &mut self,
        future: impl std::future::Future<Output = std::io::Result<()>> + 'static,
    ) -> Result<(), ImageError> {
        let ended = self.instantly(future);
        let ended = ended.unwrap_or_else(|| Err(std::io::Error::other("it waits for something")));
        ended.map_err(|source| ImageError::Format { path: self.path.clone(), source })
    }

    /// Starts again from what a power cut has left of the files below.
    fn start_again(&mut self) -> Result<(), ImageError> {
        // Commands under way mean nothing any more.
        self.tasks = Tasks::default();
        lock(&self.done).clear();
        self.in_flight = Arc::default();
        if let Some(files) = &self.files {
            let core = files.start_again(&mut *self.lower, &self.core)?;
            self.core = Arc::new(core);
        }
        Ok(())
    }

    /// Runs the tasks that can run at `now`, and submits their operations to the drive below.
    fn pump(&mut self, now: Nanos) {
        self.pump_as(now, false);
    }

    /// Like [`Self::pump`]. `urgent`: the operations are for an urgent request.
    fn pump_as(&mut self, now: Nanos, urgent: bool) {
        self.shared.lock().now = now;
        loop {
            self.tasks.run();
            let mut any = false;
            loop {
                let next = self.shared.lock().next();
                let Some(mut request) = next else { break };
                any = true;
                let moves = matches!(request.command.operation, Operation::Read | Operation::Write);
                request.urgent = urgent && moves;
                self.lower.submit(now, request);
            }
            if !any {
                return;
            }
        }
    }

    /// The image's own next event: a flush that bounds the loss by a crash.
    fn timer(&self) -> Option<Nanos> {
        lock(&self.core.lag).due(&self.core.settings)
    }

    /// Everything inside that happens until `now`, each at its own time.
    fn catch_up(&mut self, now: Nanos) {
        loop {
            let timer = self.timer();
            let lower = self.lower.next_event();
            let Some(at) = [timer, lower].into_iter().flatten().min().filter(|&at| at <= now)
            else {
                return;
            };
            let at = at.max(self.shared.lock().now);
            if lower.is_some_and(|lower| lower <= at) {
                let mut done = std::mem::take(&mut self.lower_done);
                self.lower.advance(at, &mut done);
                for Done { tag, status, data, submit, at, layers, .. } in done.drain(..) {
                    let moment = {
                        let mut state = self.shared.lock();
                        state.finish(tag, status, data);
                        state.ended = Some(Ended { submit, at, layers });
                        at.max(state.now)
                    };
                    self.pump(moment);
                }
                self.shared.lock().ended = None;
                self.lower_done = done;
            } else {
                let core = Arc::clone(&self.core);
                self.shared.lock().now = at;
                self.tasks.spawn(async move { core.catch_up().await });
                self.pump(at);
            }
        }
    }
}

impl Layer for Image {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn in_flight(&self) -> usize {
        self.in_flight.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        use std::sync::atomic::Ordering::Relaxed;
        self.catch_up(now);
        // A command that has to wait for the image's own tables asks for its data later, as others
        // do.
        let Request { tag, queue, urgent, command, mut data } = request;
        let core = Arc::clone(&self.core);
        let finished = Arc::clone(&self.done);
        let in_flight = Arc::clone(&self.in_flight);
        in_flight.fetch_add(1, Relaxed);
        let order = self.submitted;
        self.submitted += 1;
        let end =
            move |tag: Tag, status: Status, data: Vec<u8>, (at, layers): (Nanos, LayerTimes)| {
                let (submit, failed_at, delivery) = (now, 0, Delivery::Once);
                let done = Done {
                    tag,
                    queue,
                    command,
                    status,
                    failed_at,
                    data,
                    submit,
                    order,
                    at,
                    layers,
                    delivery,
                };
                lock(&finished).push_back(done);
            };
        if self.broken {
            let status = match command.operation {
                Operation::Read | Operation::Verify => Status::ReadError,
                _ => Status::WriteError,
            };
            return end(tag, status, data, (now, LayerTimes::default()));
        }
        self.tasks.spawn(async move {
            let early = std::cell::Cell::new(false);
            let acknowledge = || {
                let moment = core.shared.lock().moment(now);
                end(tag, Status::Ok, Vec::new(), moment);
                early.set(true);
            };
            let status = core.run(command, &mut data, &acknowledge).await;
            if !early.get() {
                let moment = core.shared.lock().moment(now);
                end(tag, status, data, moment);
            }
        });
        self.pump_as(now, urgent);
    }

    fn next_event(&self) -> Option<Nanos> {
        let done = lock(&self.done).front().map(|done| done.at);
        [done, self.lower.next_event(), self.timer()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.catch_up(now);
        let mut finished = lock(&self.done);
        while finished.front().is_some_and(|done| done.at <= now) {
            let Some(next) = finished.pop_front() else { break };
            self.in_flight.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            done.push(next);
        }
    }

    fn instant(&mut self, command: Command, mut data: Vec<u8>) -> (Status, Vec<u8>) {
        if self.broken {
            return (Status::WriteError, data);
        }
        let core = Arc::clone(&self.core);
        let outcome = self.instantly(async move {
            let status = core.run(command, &mut data, &|| {}).await;
            (status, data)
        });
        outcome.unwrap_or((Status::WriteError, Vec::new()))
    }

    fn control(&mut self) -> &mut dyn Control {
        self
    }
}

impl Control for Image {
    fn lower(&mut self) -> Option<&mut dyn Control> {
        Some(self.lower.control())
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.catch_up(now);
        self.lower.control().vendor(now, command)
    }

    /// Zones of the disk are none of its files'.
    fn set_layout(&mut self, layout: &BlockLayout) {
        let below = layout.clone().with_zones(ZoneLayout::default());
        self.lower.control().set_layout(&below);
    }

    fn cut_power(&mut self, now: Nanos, sampling: Sampling) -> Option<WritePointers> {
        self.catch_up(now);
        let ends = self.lower.control().cut_power(now, sampling);
        if let Err(error) = self.start_again() {
            (self.broken, self.reason) = (true, Some(error.to_string()));
        }
        ends
    }

    fn take_error(&mut self) -> Option<MediumError> {
        let broken = self.reason.take().map(|cause| MediumError::Image { cause });
        broken.or_else(|| self.lower.control().take_error())
    }

    fn start(&mut self, now: Nanos) {
        self.before = self.counters();
        self.lower.control().start(now);
    }

    fn inside(&mut self, now: Nanos) -> Option<Inside> {
        let image = self.counters().since(&self.before);
        let below = self.lower.control().inside(now).map(Box::new);
        Some(Inside::Image { image, below })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Operations under way end here; the guest waits for none of them. Others' operations may
        // continue below.
        while self.lower.in_flight() > 0 {
            let Some(at) = self.lower.next_event() else { break };
            self.lower.advance(at, &mut self.lower_done);
            for Done { tag, status, data, .. } in self.lower_done.drain(..) {
                self.shared.lock().finish(tag, status, data);
            }
        }
        if !self.closed {
            // A caller that needs the result closes the image before.
            let _ = self.close();
        }
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("path", &self.path)
            .field("size", &self.properties.capacity)
            .finish_non_exhaustive()
    }
}
