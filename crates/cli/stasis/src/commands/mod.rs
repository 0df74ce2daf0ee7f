//! What each subcommand does.

pub mod cache;
pub mod calibrate;
pub mod compare;
pub mod coordinate;
pub mod crash_test;
pub mod doctor;
pub mod export;
pub mod function;
pub mod guest;
pub mod guest_shell;
pub mod image;
pub mod models;
pub mod page;
pub mod run;
pub mod runtime_folder;
pub mod schema;
pub mod serve;
pub mod shell;
pub mod sweep;
