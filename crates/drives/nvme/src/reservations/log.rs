//! Notices of reservations to a host (NVMe 1.4 section 5.14.1.16.1).

use std::collections::VecDeque;

use stasis_nvme_layout::reservations::ReservationNotice;

use crate::narrow::count8;

/// Notices that are kept; of more the oldest are forgotten, as the specification has it.
const KEPT: usize = 255;

/// A notice to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    RegistrationPreempted = 1,
    ReservationReleased = 2,
    ReservationPreempted = 3,
}

/// The notices of one controller's host.
#[derive(Debug, Default)]
pub struct ReservationLog {
    notices: VecDeque<(Notice, u32)>,
    /// Notices ever added.
    count: u64,
    /// The notices of each namespace that are not to be logged, a bit for each kind.
    masks: Vec<u32>,
}

impl ReservationLog {
    /// Adds a notice of a namespace. Returns whether the host asks for such notices.
    pub fn add(&mut self, notice: Notice, nsid: u32) -> bool {
        if self.mask(nsid) & 1 << notice as u32 != 0 {
            return false;
        }
        if self.notices.len() == KEPT {
            self.notices.pop_front();
        }
        self.notices.push_back((notice, nsid));
        self.count += 1;
        true
    }

    /// Reservation Notification log: the oldest notice, which is then gone.
    pub fn take_page(&mut self) -> ReservationNotice {
        let Some((notice, nsid)) = self.notices.pop_front() else { return Default::default() };
        ReservationNotice {
            count: (self.count - self.notices.len() as u64).into(),
            notice: notice as u8,
            available: count8(self.notices.len()),
            nsid: nsid.into(),
            ..Default::default()
        }
    }

    /// Reservation Notification Mask of a namespace (section 5.21.1.18).
    pub fn mask(&self, nsid: u32) -> u32 {
        self.masks.get(nsid as usize).copied().unwrap_or(0)
    }

    /// Sets it.
    pub fn set_mask(&mut self, nsid: u32, mask: u32) {
        let index = nsid as usize;
        if self.masks.len() <= index {
            self.masks.resize(index + 1, 0);
        }
        self.masks[index] = mask & 0b1110;
    }
}
