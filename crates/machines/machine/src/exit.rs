//! Exits of a processor from guest mode: their costs, and their reach.

pub use stasis_bare::{DebugEvent, Exit};

use stasis_run_events::Exits;

use crate::freeze::ExitPath;
use crate::layout::{TSC_DEADLINE, X2APIC};
use crate::{apic, layout, pvclock};

/// Returns the way by which `exit` left guest mode, as far as costs differ.
pub fn path(exit: &Exit) -> ExitPath {
    match exit {
        Exit::Interrupted => ExitPath::Kick,
        Exit::Halt => ExitPath::Halt,
        Exit::MsrWrite { .. } => ExitPath::MsrWrite,
        Exit::MsrRead { .. } => ExitPath::MsrRead,
        Exit::MmioWrite { .. } => ExitPath::MmioWrite,
        Exit::MmioRead { .. } => ExitPath::MmioRead,
        Exit::PortWrite { .. } | Exit::PortRead { .. } => ExitPath::Port,
        Exit::Window | Exit::Shutdown | Exit::Debug(_) | Exit::Unsupported(_) => ExitPath::Other,
    }
}

/// Counts `exit` by its reason and in the total at once, so that the reasons add up whenever a count begins.
/// The end of a slice has no exit of its own: its caller knows whether there was one.
pub fn count(exits: &mut Exits, exit: &Exit) {
    let reason = match exit {
        Exit::Interrupted => return,
        Exit::Halt => &mut exits.halt,
        Exit::Window => &mut exits.interrupt_window,
        Exit::MsrWrite { .. } | Exit::MsrRead { .. } => &mut exits.msr,
        Exit::MmioWrite { .. } | Exit::MmioRead { .. } => &mut exits.mmio,
        Exit::PortWrite { .. } | Exit::PortRead { .. } => &mut exits.io,
        Exit::Shutdown | Exit::Debug(_) | Exit::Unsupported(_) => &mut exits.other,
    };
    *reason += 1;
    exits.total += 1;
}

/// Returns whether `exit` concerns its own processor only. Others have an effect that the rest of
/// the machine can see, and take place in the order of virtual time.
pub fn is_local(exit: &Exit) -> bool {
    match *exit {
        Exit::Interrupted | Exit::Halt | Exit::Window | Exit::Debug(_) | Exit::MsrRead { .. } => {
            true
        }
        Exit::MsrWrite { number, .. } => {
            number == TSC_DEADLINE
                || pvclock::MSRS.contains(&number)
                || X2APIC.contains(&number) && apic::is_local(apic::register_of(number))
        }
        Exit::MmioWrite { address, .. } | Exit::MmioRead { address } => {
            let offset = address.wrapping_sub(layout::LOCAL_APIC);
            offset < layout::APIC_SIZE && apic::is_local(apic::register_at(offset))
        }
        Exit::PortWrite { .. } | Exit::PortRead { .. } | Exit::Shutdown | Exit::Unsupported(_) => {
            false
        }
    }
}
