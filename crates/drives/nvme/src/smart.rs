//! The SMART / Health Information log (NVMe 1.4 section 5.14.1.2).

use crate::condition::SPARE_THRESHOLD;
use crate::host::Host;
use crate::io::Io;
use crate::statistics::{Statistics, POWER_CYCLES, UNSAFE_SHUTDOWNS};

/// The log of a controller, by its byte offsets.
pub fn health_page(io: &Io, host: &Host) -> Vec<u8> {
    const NANOS_PER_MINUTE: u64 = 60_000_000_000;
    // Data is counted in thousands of 512 bytes, rounded up.
    const DATA_UNIT: u128 = 1000 * 512;
    let Statistics { bytes_read, bytes_written, .. } = io.statistics;
    let mut log = vec![0; 512];
    log[0] = io.features(host.id).critical_warning(&io.condition);
    log[1..3].copy_from_slice(&io.condition.temperature().to_le_bytes());
    log[3] = io.condition.health().available_spare;
    log[4] = SPARE_THRESHOLD;
    log[5] = io.condition.health().percentage_used;
    log[6] = io.endurance.all_warnings();
    let minutes = u128::from(io.statistics.busy / NANOS_PER_MINUTE);
    let hours = u128::from(io.statistics.powered_on / (60 * NANOS_PER_MINUTE));
    let counts = [
        (32, bytes_read.div_ceil(DATA_UNIT)),
        (48, bytes_written.div_ceil(DATA_UNIT)),
        (64, io.statistics.read_commands),
        (80, io.statistics.write_commands),
        (96, minutes),
        (112, POWER_CYCLES),
        (128, hours),
        (144, UNSAFE_SHUTDOWNS),
        (160, io.statistics.media_errors),
        (176, host.errors.count().into()),
    ];
    for (at, count) in counts {
        log[at..at + 16].copy_from_slice(&count.to_le_bytes());
    }
    let minutes = |time: u64| u32::try_from(time / NANOS_PER_MINUTE).unwrap_or(u32::MAX);
    let Statistics { too_warm, too_hot, .. } = io.statistics;
    log[192..196].copy_from_slice(&minutes(too_warm).to_le_bytes());
    log[196..200].copy_from_slice(&minutes(too_hot).to_le_bytes());
    log
}
