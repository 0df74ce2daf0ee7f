//! I/Os that failed, in words: how many, why, and the status that the guest got.

use stasis_results::summary::DriveSummary;
use stasis_results::units;

/// Codes that report a medium's failure to a guest, by interface: NVMe 1.4 figure 128 with the type
/// in bits 10:8, virtio 1.2 section 5.2.6.
const CODES: &[(&str, u16, &str)] = &[
    ("nvme", 0x280, "Write Fault"),
    ("nvme", 0x281, "Unrecovered Read Error"),
    ("nvme", 0x282, "End-to-end Guard Check Error"),
    ("nvme", 0x283, "End-to-end Application Tag Check Error"),
    ("nvme", 0x284, "End-to-end Reference Tag Check Error"),
    ("nvme", 0x285, "Compare Failure"),
    ("virtio-blk", 1, "VIRTIO_BLK_S_IOERR"),
];

/// The finding of a check by the drive, by its status: the drive has done what it was asked.
fn found(interface: &str, code: u16) -> Option<&'static str> {
    match (interface, code) {
        ("nvme", 0x282..=0x284) => Some("The protection information of a block is wrong"),
        ("nvme", 0x285) => Some("What a Compare was given differs from what the drive holds"),
        _ => None,
    }
}

/// A remark on a drive's failed I/Os; none where all ended well.
pub(crate) fn failed(drive: &DriveSummary) -> Option<String> {
    let errors: u64 = drive.used().map(|(_, used)| used.errors).sum();
    if errors == 0 {
        return None;
    }
    let count = match errors {
        1 => "one I/O failed".to_owned(),
        _ => format!("{} I/Os failed", units::count(errors)),
    };
    let Some(first) = &drive.first_error else {
        return Some(format!("{}: {count}.", drive.described.name));
    };
    let known = |(interface, code, _): &&(&str, u16, &str)| {
        drive.described.interface == *interface && first.code == *code
    };
    let status = match CODES.iter().find(known) {
        Some((_, code, name)) => format!("{name} ({code:#x})"),
        None => format!("{:#x}", first.code),
    };
    let why = match (&first.cause, found(&drive.described.interface, first.code)) {
        (Some(cause), _) => format!("{}: {cause}", drive.described.medium),
        (None, Some(found)) => found.into(),
        (None, None) => format!("The model {} let them fail", drive.described.model),
    };
    Some(format!(
        "{}: {count}. {why}. The guest was told the status {status} of the first, a {}.",
        drive.described.name, first.operation
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_block::{Command, Operation};
    use stasis_results::statistics::DriveStatistics;
    use stasis_run_events::{IoRecord, IoStatus};

    fn summary(interface: &str, code: u16) -> DriveSummary {
        let [name, model, medium] = ["d", "fixed:1us", "file:x.img"].map(str::to_owned);
        let drive = stasis_results::Drive {
            name,
            model,
            parameters: serde_json::Value::Null,
            changes: None,
            interface: interface.to_owned(),
            medium,
        };
        let mut statistics = DriveStatistics::new(drive, 10);
        statistics.record(&IoRecord {
            queue: 1,
            status: if code == 0 { IoStatus::Ok } else { IoStatus::Error },
            code,
            target: 1,
            delivered: 1,
            ..IoRecord::of(&Command::new(Operation::Write, 0, 4096))
        });
        statistics.sort();
        statistics.summary()
    }

    #[test]
    fn a_failure_is_told_with_its_cause_and_what_the_guest_was_told() {
        assert_eq!(failed(&summary("nvme", 0)), None);
        let mut drive = summary("nvme", 0x280);
        let remark = failed(&drive).unwrap();
        assert_eq!(
            remark,
            "d: one I/O failed. The model fixed:1us let them fail. The guest was told the status \
             Write Fault (0x280) of the first, a write."
        );
        drive.first_error.as_mut().unwrap().cause = Some("write: the disk is full".into());
        assert!(failed(&drive).unwrap().contains("file:x.img: write: the disk is full. The guest"));
        let remark = failed(&summary("nvme", 0x285)).unwrap();
        assert!(!remark.contains("fixed:1us") && remark.contains("differs from"), "{remark}");
        assert!(remark.contains("Compare Failure (0x285)"), "{remark}");
        let remark = failed(&summary("nvme", 0x282)).unwrap();
        assert!(remark.contains("information of a block is wrong"), "{remark}");
        assert!(remark.contains("Guard Check Error (0x282)"), "{remark}");
        assert!(failed(&summary("virtio-blk", 1)).unwrap().contains("VIRTIO_BLK_S_IOERR (0x1)"));
        assert!(failed(&summary("nvme", 0x2c0)).unwrap().contains("the status 0x2c0 of"));
    }
}
