//! A guest's wish for help by those that share its drives. Owns the page by which the guest asks, and
//! what that page has shown.

use stasis_block::clock::Nanos;
use stasis_channel::application_hint;
use stasis_layout::{IntoBytes, U64};

use super::drives::Drives;
use crate::memory::GuestMemory;

/// Place of the page's ring.
const RING: u64 = application_hint::RING_OFFSET as u64;

/// The wish.
#[derive(Debug, Default)]
pub(super) struct Help {
    /// The page, if the guest has one.
    page: Option<u64>,
    /// Number of urgent requests that it has announced.
    urgent: u32,
    is_wanted: bool,
    /// Number of times that its content was invalid.
    refused: u64,
}

impl Help {
    /// The guest asks by the page at this address from now on.
    pub(super) fn begin(&mut self, page: u64) {
        self.page = Some(page);
    }

    /// The guest, which may have asked for help, is no more.
    pub(super) fn end(&mut self, drives: &mut Drives, now: Nanos) {
        (self.page, self.urgent) = (None, 0);
        self.want(drives, now, false);
    }

    /// Returns the number of times that the content of its page was invalid.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// The guest wants help from now on, or no more.
    pub(super) fn want(&mut self, drives: &mut Drives, now: Nanos, is_wanted: bool) {
        if self.is_wanted != is_wanted {
            self.is_wanted = is_wanted;
            drives.help(now, is_wanted);
        }
    }

    /// Looks into the page, if there is one.
    #[inline]
    pub(super) fn look(&mut self, memory: &GuestMemory, drives: &mut Drives, now: Nanos) {
        if let Some(address) = self.page {
            self.read(address, memory, drives, now);
        }
    }

    fn read(&mut self, address: u64, memory: &GuestMemory, drives: &mut Drives, now: Nanos) {
        let mut page = application_hint::Page::default();
        let read = memory.read(address, page.as_mut_bytes()).is_ok();
        let Some(is_wanted) = page.wants_help().filter(|_| read) else {
            // The guest has written something else than it announced: its help page is no longer
            // read.
            self.page = None;
            self.refused += 1;
            self.want(drives, now, false);
            return;
        };
        self.want(drives, now, is_wanted);
        self.read_urgent(address, page.count.get(), memory, drives);
    }

    /// Passes on the requests that the guest's bfq has handed out for interactive queues since the
    /// last look, and that are on their way to one of the guest's drives.
    fn read_urgent(&mut self, page: u64, count: u32, memory: &GuestMemory, drives: &mut Drives) {
        let mut ring = [U64::ZERO; application_hint::RING];
        if count == self.urgent || memory.read(page + RING, ring.as_mut_bytes()).is_err() {
            return;
        }
        let previous = std::mem::replace(&mut self.urgent, count);
        for drive in drives.all_mut() {
            drive.urge(&mut application_hint::since(&ring, previous, count));
        }
    }
}
