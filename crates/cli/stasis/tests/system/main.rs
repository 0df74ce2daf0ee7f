//! Boots guests through the built program and checks what its user sees: in
//! the software KVM host, in its exact form, so that every figure is exact.
//! Needs what `stasis guest build` needs the first time. Best with
//! `--release`: the program is also what runs in the software host.

mod bad_input;
mod branch;
mod branches;
mod clock;
mod clusters;
mod commands;
mod compose;
mod computational;
mod containers;
mod cost;
mod crash;
mod damage;
mod debug;
mod drives;
mod ends;
mod endurance;
mod examples;
mod expected;
mod explore;
mod fabric;
mod faults;
mod files;
mod findings;
mod first_boots;
mod flash;
mod images;
mod kernel_bug;
mod key_value;
mod measure;
mod memory_buffer;
mod modules;
mod networks;
mod old_results;
mod on;
mod parts;
mod processors;
mod profile;
mod protection;
mod rates;
mod reader;
mod readme;
mod repeat;
mod replay;
mod restarts;
mod root;
mod shell;
mod snapshots;
mod suite;
mod support;
mod tenants;
mod timeline;
mod virtio;
mod zoned;
