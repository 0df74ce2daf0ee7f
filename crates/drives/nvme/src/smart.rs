//! The SMART / Health Information log (NVMe 1.4 section 5.14.1.2).

use stasis_nvme_layout::logs::SmartLog;

use crate::condition::SPARE_THRESHOLD;
use crate::host::Host;
use crate::io::Io;
use crate::statistics::{Statistics, POWER_CYCLES, UNSAFE_SHUTDOWNS};

/// The log of a controller.
pub fn health_page(io: &Io, host: &Host) -> SmartLog {
    const NANOS_PER_MINUTE: u64 = 60_000_000_000;
    // Data is counted in thousands of 512 bytes, rounded up.
    const DATA_UNIT: u128 = 1000 * 512;
    let Statistics { bytes_read, bytes_written, .. } = io.reports.statistics;
    let minutes = |time: u64| u32::try_from(time / NANOS_PER_MINUTE).unwrap_or(u32::MAX);
    let Statistics { too_warm, too_hot, busy, powered_on, .. } = io.reports.statistics;
    let health = io.condition.health();
    SmartLog {
        critical_warning: io.features(host.id).critical_warning(&io.condition),
        composite_temperature: io.condition.temperature().into(),
        available_spare: health.available_spare,
        available_spare_threshold: SPARE_THRESHOLD,
        percentage_used: health.percentage_used,
        endurance_group_warnings: io.endurance.all_warnings(),
        data_units_read: bytes_read.div_ceil(DATA_UNIT).into(),
        data_units_written: bytes_written.div_ceil(DATA_UNIT).into(),
        host_read_commands: io.reports.statistics.read_commands.into(),
        host_write_commands: io.reports.statistics.write_commands.into(),
        controller_busy_time: u128::from(busy / NANOS_PER_MINUTE).into(),
        power_cycles: u128::from(POWER_CYCLES).into(),
        power_on_hours: u128::from(powered_on / (60 * NANOS_PER_MINUTE)).into(),
        unsafe_shutdowns: UNSAFE_SHUTDOWNS.into(),
        media_errors: io.reports.statistics.media_errors.into(),
        error_log_entries: u128::from(host.errors.count()).into(),
        warning_temperature_time: minutes(too_warm).into(),
        critical_temperature_time: minutes(too_hot).into(),
        ..Default::default()
    }
}
