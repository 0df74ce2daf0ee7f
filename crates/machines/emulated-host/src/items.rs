//! Names of the items and bytes that pass between the two sides.

/// fw_cfg item that holds the job.
pub(crate) const JOB_ITEM: &str = "opt/stasis/job";
/// fw_cfg item that holds the first part of a job, where the machine is kept after that.
pub(crate) const FIRST_ITEM: &str = "opt/stasis/first";
/// fw_cfg item that holds what is looked up later.
pub(crate) const LATER_ITEM: &str = "opt/stasis/later";
/// fw_cfg item that is there where the machine is to be kept when it looks for that.
pub(crate) const SAVE_ITEM: &str = "opt/stasis/save";
/// fw_cfg item that is there where the machine continues from a snapshot: that one's instant (ns), as
/// text.
pub(crate) const RESUME_ITEM: &str = "opt/stasis/resume";
/// fw_cfg item that holds the number of passed drives, as text.
pub(crate) const DRIVES_ITEM: &str = "opt/stasis/drives";
/// Prefix of the names of fw_cfg items with inputs.
pub(crate) const INPUT_PREFIX: &str = "opt/stasis/input/";
/// Sent from outside: the user asks to stop.
pub(crate) const STOP_BYTE: u8 = b's';
/// Sent from outside: the wall-clock limit is reached.
pub(crate) const TIMEOUT_BYTE: u8 = b'w';
