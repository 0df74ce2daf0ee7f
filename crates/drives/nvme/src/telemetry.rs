//! Telemetry (NVMe 2.0 section 8.24): the drive's counters and state as they were at an instant, in
//! the logs Telemetry Host-Initiated and Telemetry Controller-Initiated.
//!
//! Data is text, a line for each value, in three areas: counters; namespaces; and of a host the
//! errors of its controller.

use stasis_block::clock::Nanos;
use stasis_nvme_layout::logs::TelemetryHead;
use stasis_nvme_layout::{IntoBytes, U16};

use crate::condition::Condition;
use crate::namespaces::Namespaces;
use crate::narrow::count16;
use crate::statistics::Statistics;

/// Size of a block of data, and of the header, in bytes.
pub const BLOCK: usize = 512;
/// Maximum number of bytes of an area.
const MAX_AREA: usize = 64 << 10;

/// State at an instant.
#[derive(Debug, Clone)]
struct Capture {
    // The areas, one behind the other, each of whole blocks.
    data: Vec<u8>,
    // The last block of each area: of the log, so that 0 is an area that has nothing.
    last: [u16; 3],
    reason: &'static str,
}

impl Capture {
    fn new(areas: [String; 3], reason: &'static str) -> Self {
        let mut data = Vec::new();
        let last = areas.map(|text| {
            let text = text.as_bytes();
            data.extend(&text[..text.len().min(MAX_AREA)]);
            data.resize(data.len().next_multiple_of(BLOCK), 0);
            count16(data.len() / BLOCK)
        });
        Self { data, last, reason }
    }
}

/// The last captures.
#[derive(Debug, Default)]
pub struct Telemetry {
    of_host: Option<Capture>,
    of_controller: Option<Capture>,
    // Captures ever made: of hosts, of the controller.
    generations: [u8; 2],
    // True if that of the controller was not read yet.
    is_available: bool,
}

impl Telemetry {
    /// A host has the present state captured.
    pub fn capture(&mut self, areas: [String; 3]) {
        self.generations[0] = self.generations[0].wrapping_add(1);
        self.of_host = Some(Capture::new(areas, "asked for by a host"));
    }

    /// Captures the present state for a `reason` of the controller's, unless the last capture waits
    /// to be read. Returns whether the state was captured.
    pub fn capture_by_itself(&mut self, reason: &'static str, areas: [String; 3]) -> bool {
        if self.is_available {
            return false;
        }
        self.generations[1] = self.generations[1].wrapping_add(1);
        self.is_available = true;
        self.of_controller = Some(Capture::new(areas, reason));
        true
    }

    /// Returns whether the controller's capture waits to be read.
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// The controller's capture was read.
    pub fn was_read(&mut self) {
        self.is_available = false;
    }

    /// The log of hosts, or of the controller (figures 207 and 208).
    pub fn to_page(&self, identifier: u8, by_host: bool) -> Vec<u8> {
        let mut head = TelemetryHead { lid: identifier, ..Default::default() };
        let capture = if by_host { &self.of_host } else { &self.of_controller };
        if by_host {
            head.host_generation = self.generations[0];
        }
        head.controller_available = self.is_available.into();
        head.controller_generation = self.generations[1];
        let Some(Capture { data, last, reason }) = capture else {
            return head.as_bytes().to_vec();
        };
        head.last_blocks = last.map(U16::new);
        head.reason[..reason.len()].copy_from_slice(reason.as_bytes());
        [head.as_bytes(), data].concat()
    }
}

/// The parts of a drive that a capture is made of.
#[derive(Debug)]
pub struct Captured<'a> {
    /// Virtual time (ns).
    pub now: Nanos,
    pub statistics: &'a Statistics,
    pub condition: &'a Condition,
    pub namespaces: &'a Namespaces,
    pub in_flight: usize,
    pub firmware: [u8; 8],
    pub serial: &'a str,
    /// The errors of a host's controller.
    pub errors: String,
}

/// Returns the areas of a capture.
pub fn areas(captured: Captured) -> [String; 3] {
    let Captured { now, statistics, condition, namespaces, in_flight, firmware, serial, errors } =
        captured;
    let Statistics {
        bytes_read,
        bytes_written,
        read_commands,
        write_commands,
        media_errors,
        busy,
        powered_on,
        too_warm,
        too_hot,
    } = statistics;
    let health = condition.health();
    let revision = String::from_utf8_lossy(&firmware);
    let values: [(&str, u128); 17] = [
        ("time_ns", now.into()),
        ("powered_on_ns", (*powered_on).into()),
        ("busy_ns", (*busy).into()),
        ("too_warm_ns", (*too_warm).into()),
        ("too_hot_ns", (*too_hot).into()),
        ("bytes_read", *bytes_read),
        ("bytes_written", *bytes_written),
        ("read_commands", *read_commands),
        ("write_commands", *write_commands),
        ("media_errors", *media_errors),
        ("media_bytes_written", health.media_bytes_written.into()),
        ("media_bytes_erased", health.media_bytes_erased.into()),
        ("available_spare_percent", health.available_spare.into()),
        ("percentage_used", health.percentage_used.into()),
        ("read_only", health.read_only.into()),
        ("temperature_kelvin", condition.temperature().into()),
        ("requests_in_flight", in_flight as u128),
    ];
    let mut counters: String =
        values.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    counters += &format!("firmware {}\nserial {}\n", revision.trim_end(), serial);
    let each = namespaces.iter().map(|(nsid, namespace)| {
        let unreadable = namespaces.unreadable(nsid).count();
        format!(
            "namespace {nsid} start {} blocks {} block_size {} metadata {} read_only {} \
             unreadable_ranges {unreadable}\n",
            namespace.start,
            namespace.blocks,
            namespace.block_size,
            namespace.format().metadata_size(),
            namespace.read_only
        )
    });
    [counters, each.collect(), errors]
}
