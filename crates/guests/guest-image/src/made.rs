//! Progress and result of a build.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stasis_guest_root::{ImageConfig, Part};

/// Progress of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The present step, for a user.
    pub step: Cow<'static, str>,
    /// Share of the whole build that is done, 0 to 1; by experience, not measured.
    pub fraction: f64,
}

/// Place of a root that is not copied: a guest reads it there, through a device that takes no
/// virtual time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InPlace {
    /// In files of this machine, whose names are in an image of ext4.
    Files,
    /// In a disk image.
    Image(PathBuf, Part),
}

/// Description of a guest that was made.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// The kernel's release.
    pub release: String,
    /// The guest's date, in seconds since 1970.
    pub date: u64,
    /// Files of the root that this user may not read and that were left out.
    pub left_out: usize,
    pub in_place: Option<InPlace>,
    /// Container images, in the order of their folders in the root file system.
    pub images: Vec<Image>,
}

/// A container image of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The recipe's word for it.
    pub word: String,
    /// Its configuration.
    pub config: ImageConfig,
}
