//! The guest: what runs inside the virtual machine, and how it is made.
//!
//! [`agent`] is the guest's `/init`: it mounts the root file system, runs one
//! command and hands output and results to the machine. [`build`] makes the
//! kernel, the initramfs and the root file system image from Debian packages
//! and keeps them. [`watch`] watches a kernel's BFQ, for the agent and in
//! anybody's guest.
//!
//! Promise: the agent does nothing between the command's start and its end but
//! relay output, reap orphans, and in a coordinated guest tend its BFQ. A guest, once built, is used as it is until
//! its recipe changes.

pub mod agent;
pub mod build;
pub mod watch;
