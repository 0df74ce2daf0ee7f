//! Placement of related writes: streams, or Flexible Data Placement. Either way the drive receives
//! the grouping by a write's stream.

mod config;
mod directives;
mod events;
mod fdp;
mod fdp_commands;
mod fdp_features;
mod fdp_logs;
mod state;
mod streams;

pub use config::{Placement, HANDLES, RECLAIM_GROUPS, STREAMS, UNIT_STEP};
pub use directives::{DIRECTIVE_RECEIVE, DIRECTIVE_SEND};
pub use fdp_commands::{IO_MANAGEMENT_RECEIVE, IO_MANAGEMENT_SEND};
pub use fdp_features::{feature, get_placement_feature, set_placement_feature};
pub use fdp_logs::{endurance_page, kept_groups, placement_page};
pub use state::PlacementState;
