//! Tests of schedulers and limits, without a drive.

mod common;
mod default_shares;
mod help;
mod lag;
mod lanes;
mod limits;
mod order;
mod shares;
mod spec;
mod time_at_drive;
