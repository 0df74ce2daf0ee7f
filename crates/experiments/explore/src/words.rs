//! Faults in words.

use stasis_block::units::format_duration;
use stasis_drive::CutChoice;
use stasis_experiment::ScheduledFault;

/// A fault in a line: `power-cut of redis1 at its command 1234, back after 200ms`.
pub fn fault(fault: &ScheduledFault) -> String {
    let mut text = format!("{} of {}", fault.kind, fault.target().replace(',', " and "));
    match (&fault.at_io, fault.at.or(fault.begin)) {
        (Some(command), _) => text.push_str(&format!(" at command {command}")),
        (None, Some(at)) => text.push_str(&format!(" at {}", format_duration(at))),
        (None, None) => (),
    }
    if let Some(leaves) = fault.leaves {
        text.push_str(match leaves {
            CutChoice::Least => " with what was promised left",
            CutChoice::Most => " with everything left",
            CutChoice::Newest => " with the newest write left",
            CutChoice::Oldest => " with the oldest write left",
            CutChoice::AllButOne => " with one change lost",
            CutChoice::Some | CutChoice::Drawn => " with a drawn part left",
        });
    }
    match &fault.loses[..] {
        [] => (),
        [number] => text.push_str(&format!(" with change {number} lost, from the newest")),
        numbers => {
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            text.push_str(&format!(" with changes {} lost, from the newest", numbers.join(", ")));
        }
    }
    if let Some(restart) = fault.restart {
        text.push_str(&format!(", back after {}", format_duration(restart)));
    }
    if let Some(end) = fault.end {
        let length = end.saturating_sub(fault.begin.unwrap_or(0));
        text.push_str(&format!(", for {}", format_duration(length)));
    }
    text
}

/// Faults in one line.
pub fn faults(faults: &[ScheduledFault]) -> String {
    let each: Vec<_> = faults.iter().map(fault).collect();
    match each.is_empty() {
        true => "no fault".to_owned(),
        false => each.join("; "),
    }
}
