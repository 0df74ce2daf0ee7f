//! Firmware (NVMe 2.0 section 3.11): the revisions in the slots, and the images that hosts download.
//!
//! An image is whole when its head says so; what a slot keeps of it is its revision:
//!
//! | bytes | content |
//! | --- | --- |
//! | 0 to 7 | `STASISFW` |
//! | 8 to 15 | revision: printable ASCII characters, padded with spaces |
//! | 16 to 19 | size of the image in bytes, a multiple of 4 |
//! | 20 to 23 | such that all dwords of the image sum to 0 (modulo 2^32) |
//!
//! Numbers are little-endian.

use std::collections::BTreeMap;

use stasis_nvme_layout::logs::FirmwareSlots;

use crate::controller_id::ControllerId;
use crate::intervals::Intervals;
use crate::kept::KeptFirmware;
use crate::narrow::size;
use crate::status::StatusCode;

/// Slots; the first one has the drive's own firmware, and is read only.
pub const SLOTS: u8 = 3;
/// Maximum size of an image in bytes.
pub const MAX_IMAGE: usize = 1 << 20;
/// Head of an image in bytes.
const HEAD: usize = 24;
const MAGIC: &[u8; 8] = b"STASISFW";

/// A revision as Identify and the log have it: padded with spaces.
pub type Revision = [u8; 8];

/// The revision of at most 8 printable ASCII characters, which are not all spaces.
pub fn revision(text: &[u8]) -> Option<Revision> {
    let printable = text.iter().all(|byte| (0x20..=0x7e).contains(byte));
    let blank = text.iter().all(|&byte| byte == b' ');
    let mut revision = [b' '; 8];
    revision.get_mut(..text.len()).filter(|_| printable && !blank)?.copy_from_slice(text);
    Some(revision)
}

/// Commit Action (NVMe 2.0 figure 177).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The image goes to the slot.
    Replace,
    /// The image goes to the slot, and the next reset activates it.
    ReplaceAndActivate,
    /// The next reset activates what the slot has.
    Activate,
    /// The image, if one was downloaded, goes to the slot, whose firmware is active at once.
    ActivateNow,
}

impl Action {
    /// The action of a number; `None` for those of boot partitions, which a drive here has not.
    pub fn of(number: u8) -> Option<Self> {
        [Self::Replace, Self::ReplaceAndActivate, Self::Activate, Self::ActivateNow]
            .get(usize::from(number))
            .copied()
    }
}

/// An image on its way.
#[derive(Debug, Default)]
struct Download {
    bytes: Vec<u8>,
    received: Intervals,
}

impl Download {
    /// The revision of the image, if all of it is there.
    fn revision(&self) -> Option<Revision> {
        let Self { bytes, received } = self;
        let mut ranges = received.ranges();
        let whole = ranges.next() == Some((0, bytes.len() as u64)) && ranges.next().is_none();
        let head = bytes.first_chunk::<HEAD>().filter(|head| whole && head.starts_with(MAGIC))?;
        let size = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
        let dwords = bytes.chunks_exact(4).map(|raw| [raw[0], raw[1], raw[2], raw[3]]);
        let sum = dwords.map(u32::from_le_bytes).fold(0u32, u32::wrapping_add);
        let padded = revision(&head[8..16])?;
        (size as usize == bytes.len() && sum == 0).then_some(padded)
    }
}

/// The slots of a subsystem, and the images on their way to them.
#[derive(Debug)]
pub struct Firmware {
    slots: [Option<Revision>; SLOTS as usize],
    // From 1 on.
    active: u8,
    // The slot that the next reset activates.
    next: Option<u8>,
    downloads: BTreeMap<ControllerId, Download>,
    // True if the last reset has activated another one.
    activated: bool,
}

impl Firmware {
    /// A new drive's.
    pub fn new(own: &str) -> Self {
        let mut slots = [None; SLOTS as usize];
        slots[0] = revision(own.as_bytes()).or(Some([b' '; 8]));
        Self { slots, active: 1, next: None, downloads: BTreeMap::new(), activated: false }
    }

    fn slot(&self, slot: u8) -> Option<Revision> {
        *self.slots.get(usize::from(slot).checked_sub(1)?)?
    }

    /// The revision that is active.
    pub fn active(&self) -> Revision {
        self.slot(self.active).unwrap_or([b' '; 8])
    }

    /// Takes a piece of an image.
    ///
    /// # Errors
    /// The piece overlaps another one, or the image is too large or has too many pieces.
    pub fn download(
        &mut self,
        controller: ControllerId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), StatusCode> {
        let end = offset.saturating_add(data.len() as u64);
        if end > MAX_IMAGE as u64 {
            return Err(StatusCode::InvalidField);
        }
        let Download { bytes, received } = self.downloads.entry(controller).or_default();
        if received.overlaps(&(offset..end)) {
            return Err(StatusCode::OverlappingFirmwareRange);
        }
        if !received.insert(offset..end) {
            return Err(StatusCode::InternalError);
        }
        let (start, end) = (size(offset), size(end));
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(data);
        Ok(())
    }

    /// Commits the controller's image to a slot (0: one that the drive chooses), or activates what
    /// is there; returns the slot. An image that is no good is dropped.
    ///
    /// # Errors
    /// The image is none, or there is none to activate; the slot is none, or read only.
    pub fn commit(
        &mut self,
        controller: ControllerId,
        action: Action,
        slot: u8,
    ) -> Result<u8, StatusCode> {
        let image = match action {
            Action::Activate => None,
            Action::ActivateNow => self.downloads.remove(&controller),
            // Without an image there is nothing that could be valid.
            _ => Some(self.downloads.remove(&controller).unwrap_or_default()),
        };
        let free = |&slot: &u8| self.slot(slot).is_none();
        let spare = (2..=SLOTS).find(free).or((2..=SLOTS).find(|&slot| slot != self.active));
        let slot = match (slot, &image) {
            (0, Some(_)) => spare.unwrap_or(SLOTS),
            (0, None) => return Err(StatusCode::InvalidFirmwareSlot),
            (slot, _) => slot,
        };
        let writable = image.is_none() || slot != 1;
        if slot > SLOTS || !writable {
            return Err(StatusCode::InvalidFirmwareSlot);
        }
        match image {
            Some(image) => {
                let revision = image.revision().ok_or(StatusCode::InvalidFirmwareImage)?;
                self.slots[usize::from(slot) - 1] = Some(revision);
            }
            None if self.slot(slot).is_none() => return Err(StatusCode::InvalidFirmwareImage),
            None => {}
        }
        match action {
            Action::Replace => {}
            Action::ReplaceAndActivate | Action::Activate => self.next = Some(slot),
            Action::ActivateNow => (self.active, self.next) = (slot, None),
        }
        Ok(slot)
    }

    /// Resets a controller: its image on the way is dropped, and the slot that waits for a reset
    /// becomes active. Returns whether another slot was active before.
    pub fn reset(&mut self, controller: ControllerId) -> bool {
        self.downloads.remove(&controller);
        let before = self.active;
        let waited = self.next.is_some();
        self.active = self.next.take().unwrap_or(before);
        self.activated = waited;
        waited
    }

    /// Returns whether the last reset has activated firmware.
    pub fn was_activated(&self) -> bool {
        self.activated
    }

    /// The Firmware Slot Information log (NVMe 2.0 section 5.16.1.4).
    pub fn to_page(&self) -> FirmwareSlots {
        let afi = self.active | self.next.unwrap_or(0) << 4;
        let mut log = FirmwareSlots { afi, ..Default::default() };
        for (field, revision) in log.frs.iter_mut().zip(self.slots) {
            *field = revision.unwrap_or_default();
        }
        log
    }

    /// The state that is kept without power; `None` if it is a new drive's.
    pub fn kept(&self) -> Option<KeptFirmware> {
        let text = |revision: &Revision| String::from_utf8_lossy(revision).trim_end().to_owned();
        let slots: Vec<_> = self.slots[1..].iter().map(|slot| slot.as_ref().map(text)).collect();
        let Self { active, next, .. } = *self;
        let new = active == 1 && next.is_none() && slots.iter().all(Option::is_none);
        (!new).then_some(KeptFirmware { slots, active, next })
    }

    /// Resumes the state that was kept: what waited for a reset is active.
    ///
    /// # Errors
    /// The reason why the slots cannot be so.
    pub fn restore(&mut self, kept: &KeptFirmware) -> Result<(), &'static str> {
        if kept.slots.len() + 1 != self.slots.len() {
            return Err("its slots of firmware are others");
        }
        for (slot, text) in self.slots[1..].iter_mut().zip(&kept.slots) {
            let padded = text.as_ref().map(|text| revision(text.as_bytes()));
            *slot = match padded {
                Some(None) => return Err("a revision of firmware is none"),
                Some(revision) => revision,
                None => None,
            };
        }
        let active = kept.next.unwrap_or(kept.active);
        if self.slot(active).is_none() || self.slot(kept.active).is_none() {
            return Err("the active slot of firmware is empty");
        }
        (self.active, self.activated) = (active, kept.next.is_some());
        Ok(())
    }
}
