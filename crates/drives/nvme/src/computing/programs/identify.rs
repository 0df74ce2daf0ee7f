//! The Identify data structure of the compute namespace (CP figure 36).

use stasis_nvme_layout::command_sets::ComputeNamespace;

use super::device::{MAX_PROGRAMS, MAX_PROGRAM_BYTES, MAX_RANGES, MAX_SETS};

/// Fills in the limits of a compute namespace. Load Program takes any number of bytes, which is 0.
pub fn fill_compute_namespace(page: &mut ComputeNamespace) {
    /// A range begins and ends at dwords, as a power of two.
    const GRANULARITY: u16 = 2;
    page.max_active_programs.set(MAX_PROGRAMS);
    page.max_range_sets.set(MAX_SETS);
    page.range_granularity.set(GRANULARITY);
    page.max_ranges = MAX_RANGES;
    page.max_program_mib.set(MAX_PROGRAM_BYTES >> 20);
}
