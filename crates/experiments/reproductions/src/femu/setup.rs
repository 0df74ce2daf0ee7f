//! The drive and the machine of its experiments.

use serde_json::{json, Value};
use stasis_experiment::{DriveSpec, Experiment, MachineSpec};

use crate::experiments::Settings;

/// Threads of the publication's experiments on drives.
pub const THREADS: u32 = 16;

/// The OpenChannel SSD's cells on `channels` channels of `planes` planes.
///
/// `advanced`: two registers and a time for each page type; otherwise FEMU's basic
/// model, with one register and the mean times.
pub fn ssd(channels: u32, planes: u32, advanced: bool) -> Value {
    let (registers, read, program) = if advanced {
        (2, json!({ "L": "48us", "u": "64us" }), json!({ "L": "900us", "u": "2400us" }))
    } else {
        (1, json!("56us"), json!("1650us"))
    };
    json!({
        "base": "femu-ocssd", "channels": channels, "luns": 1, "planes": planes,
        "page_size": "4KiB", "oob_size": "16B", "mapping_unit": "4KiB",
        "registers": registers, "precondition": "sequential",
        // 4 KiB take 52.4 us, FEMU's time for a transfer.
        "timing": { "read": read, "program": program, "erase": "3ms", "bus": "78125kB/s" },
    })
}

pub fn experiment(
    settings: &Settings,
    vcpus: u32,
    memory: u64,
    drives: Vec<DriveSpec>,
    script: &str,
) -> Experiment {
    Experiment {
        engine: settings.engine,
        command: ["sh", "-e", "-c", script].map(str::to_owned).to_vec(),
        machine: MachineSpec { vcpus, memory, ..MachineSpec::default() }.into(),
        drives,
        ..Experiment::default()
    }
}
