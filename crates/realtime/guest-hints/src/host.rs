//! On the host: hears guests, and sets weights.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags};
use stasis_block::clock::Nanos;

use crate::cgroup::Cgroup;
use crate::drive::Drive;
use crate::guest::{now, wait};
use crate::link::{Link, Received};
use crate::mapping::Mapping;
use crate::report::GuestReport;
use crate::Error;

/// A guest: the socket of its messages, and its cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The socket of its port.
    pub socket: PathBuf,
    /// The cgroup of its QEMU.
    pub cgroup: PathBuf,
}

/// Settings of the help for guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The weight of one that is helped.
    pub weight: u32,
    /// The part of time for which help is given in the long run, in millionths.
    pub share: u32,
    /// Help that each can get at once beyond that share (ns).
    pub burst: Nanos,
    /// Folder for the settings that are to be restored; without it nothing is written.
    pub state: Option<PathBuf>,
    /// The drive that gets one request at a time while a guest is helped.
    pub drive: Option<String>,
}

/// The reports of all guests, for readers on other threads.
pub type Reports = Arc<Mutex<Vec<GuestReport>>>;

/// Hears guests and sets weights. Dropping it restores them.
#[derive(Debug)]
pub struct Host {
    mapping: Mapping,
    links: Vec<Link>,
    cgroups: Vec<Cgroup>,
    drive: Option<Drive>,
    weight: u32,
    began: Nanos,
    reports: Reports,
}

impl Host {
    /// Finds the cgroups; connects to nobody yet.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(guests: &[Guest], settings: &Settings) -> Result<Self, Error> {
        let mut used_paths = BTreeSet::new();
        let (mut cgroups, mut reports) = (Vec::new(), Vec::new());
        for guest in guests {
            let cgroup = Cgroup::open(&guest.cgroup, settings.state.as_deref())?;
            for path in [&guest.socket, cgroup.path()] {
                if !used_paths.insert(path.to_owned()) {
                    return Err(Error::Twice(path.to_owned()));
                }
            }
            reports.push(GuestReport {
                socket: guest.socket.display().to_string(),
                cgroup: cgroup.path().display().to_string(),
                ..GuestReport::default()
            });
            cgroups.push(cgroup);
        }
        let drive = settings.drive.as_ref().zip(settings.state.as_ref());
        let drive = drive.map(|(name, state)| Drive::open(name, state)).transpose()?;
        Ok(Self {
            drive,
            mapping: Mapping::new(guests.len(), settings.share, settings.burst),
            links: guests.iter().map(|guest| Link::new(&guest.socket)).collect(),
            cgroups,
            weight: settings.weight,
            began: now(),
            reports: Arc::new(Mutex::new(reports)),
        })
    }

    /// Messages of guests and the help they got; brought up to date whenever something happens.
    pub fn reports(&self) -> Reports {
        Arc::clone(&self.reports)
    }

    /// Works until `stop` is readable, and restores the weights. `on_news` receives the events of a
    /// guest, named by its socket.
    ///
    /// # Errors
    /// See [`Error`]. A weight that cannot be set is reported and counted.
    pub fn run(
        mut self,
        stop: BorrowedFd<'_>,
        on_news: &mut dyn FnMut(&str, &str),
    ) -> Result<Vec<GuestReport>, Error> {
        loop {
            for guest in 0..self.links.len() {
                if let Some(news) = self.links[guest].connect(now()) {
                    self.notify(on_news, guest, &news);
                }
            }
            self.mapping.advance(self.time());
            self.apply(on_news);
            self.update();
            let (ready, stopped) = self.wait(stop)?;
            if stopped {
                break;
            }
            for (guest, flags) in ready {
                if flags.contains(PollFlags::HUP) {
                    // The part not read yet is of no use any more.
                    self.links[guest].hang_up(now());
                    self.gone(guest, on_news);
                } else {
                    self.receive(guest, on_news);
                }
            }
        }
        for guest in 0..self.links.len() {
            self.mapping.disconnect(self.time(), guest);
        }
        self.apply(on_news);
        self.update();
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(reports)
    }

    /// Time since the beginning.
    fn time(&self) -> Nanos {
        now().saturating_sub(self.began)
    }

    /// Waits for the next event: guests that can be read from or are gone, and whether to stop.
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<(Vec<(usize, PollFlags)>, bool), Error> {
        let time = self.time();
        let mut until = self.mapping.next().map(|next| self.began.saturating_add(next));
        let mut sooner = |at: Nanos| until = Some(until.map_or(at, |until| until.min(at)));
        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        let mut guests = Vec::new();
        for (guest, link) in self.links.iter().enumerate() {
            link.next().into_iter().for_each(&mut sooner);
            let Some(stream) = link.stream() else { continue };
            // If it sends too much, its input is to wait; its end is not.
            let later = self.mapping.guest(guest).and_then(|end| end.wait(time));
            let flags = if later.is_some() { PollFlags::empty() } else { PollFlags::IN };
            later.map(|later| self.began.saturating_add(later)).into_iter().for_each(&mut sooner);
            fds.push(PollFd::from_borrowed_fd(stream.as_fd(), flags));
            guests.push(guest);
        }
        wait(&mut fds, until)?;
        let stopped = !fds[0].revents().is_empty();
        let ready = guests.into_iter().zip(fds[1..].iter().map(PollFd::revents));
        Ok((ready.filter(|(_, flags)| !flags.is_empty()).collect(), stopped))
    }

    fn receive(&mut self, guest: usize, on_news: &mut dyn FnMut(&str, &str)) {
        let mut bytes = [0; 1024];
        match self.links[guest].receive(now(), &mut bytes) {
            Received::Bytes(count) => self.mapping.receive(self.time(), guest, &bytes[..count]),
            Received::Nothing => {}
            Received::Gone => self.gone(guest, on_news),
        }
    }

    fn gone(&mut self, guest: usize, on_news: &mut dyn FnMut(&str, &str)) {
        self.mapping.disconnect(self.time(), guest);
        self.notify(on_news, guest, "disconnected");
    }

    /// Sets the weights of those whose help has begun or ended.
    fn apply(&mut self, on_news: &mut dyn FnMut(&str, &str)) {
        while let Some((guest, helped)) = self.mapping.pop_change() {
            let cgroup = &mut self.cgroups[guest];
            let done = if helped { cgroup.raise(self.weight) } else { cgroup.restore() };
            let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports[guest].helped = helped;
            match &done {
                Ok(()) => reports[guest].weights += 1,
                Err(_) => reports[guest].failed += 1,
            }
            drop(reports);
            let news = match (&done, helped) {
                (Ok(()), true) => "helped".to_owned(),
                (Ok(()), false) => "not helped any more".to_owned(),
                (Err(error), _) => error.to_string(),
            };
            self.notify(on_news, guest, &news);
            self.set_drive(on_news);
        }
    }

    /// Keeps the drive's queue short while a guest is helped.
    fn set_drive(&mut self, on_news: &mut dyn FnMut(&str, &str)) {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let helped = reports.iter().any(|guest| guest.helped);
        drop(reports);
        let Some(drive) = &mut self.drive else { return };
        let done = if helped { drive.tighten() } else { drive.restore() };
        if let Err(error) = done {
            on_news("drive", &error.to_string());
        }
    }

    fn notify(&self, on_news: &mut dyn FnMut(&str, &str), guest: usize, news: &str) {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = reports[guest].socket.clone();
        drop(reports);
        on_news(&socket, news);
    }

    fn update(&self) {
        let time = self.time();
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for (guest, report) in reports.iter_mut().enumerate() {
            report.connected = self.links[guest].stream().is_some();
            (report.changes, report.helped_ns, report.unhelped_ns) =
                self.mapping.account(time, guest);
            report.counts = self.mapping.guest(guest).map(|g| g.counts()).unwrap_or_default();
        }
    }
}
