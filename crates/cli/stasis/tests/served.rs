//! Tests of served drives, by their clients.

mod host_guest;
mod job;
mod kept_killed;
mod kept_tcp;
mod killed_writes;
mod kills;
mod kills_tcp;
mod kills_vfio;
mod newer_qemu;
mod nvme_peer;
mod nvme_tcp;
mod serve;
mod server;
mod suites;
#[path = "../../../realtime/serve/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;
#[path = "../../../realtime/serve/tests/support/tcp_host.rs"]
mod tcp_host;
mod ublk;
#[path = "../../../realtime/serve/tests/support/vfio_host.rs"]
mod vfio_host;
mod vfio_user;
mod vmm;
mod way_tcp;
mod ways;
