//! Device Self-test (NVMe 2.0 section 5.9): begins a test, or aborts the one under way.

use crate::command::{location, Dword, SubmissionEntry, ALL_NAMESPACES};
use crate::context::{AdminCommand, ControllerMut};
use crate::registered::{always, OF_CONTROLLER, OF_NAMESPACE, SUPPORTED};
use crate::self_test::code;
use crate::status::{Failure, Outcome, StatusCode};
use crate::Memory;

pub const DEVICE_SELF_TEST: AdminCommand = AdminCommand {
    opcode: 0x14,
    effects: SUPPORTED | OF_NAMESPACE | OF_CONTROLLER,
    announced: always,
    identify: 1 << 4,
    counts_as: None,
    during_sanitize: false,
    execute: self_test,
};

fn self_test(
    controller: &mut ControllerMut,
    _memory: &dyn Memory,
    command: &SubmissionEntry,
) -> Result<Outcome, Failure> {
    let io = &mut *controller.io;
    let nsids = match command.nsid {
        // The controller only.
        0 => Vec::new(),
        ALL_NAMESPACES => io.access.attachments.namespaces(command.controller).collect(),
        nsid => {
            io.namespace(nsid)?;
            vec![nsid]
        }
    };
    match command.cdw10.byte(0) & 0xf {
        code::SHORT | code::EXTENDED if io.background.self_test.is_under_way() => {
            return Err(StatusCode::SelfTestInProgress.into());
        }
        test @ (code::SHORT | code::EXTENDED) => {
            io.begin_self_test(command.controller, test, nsids);
        }
        code::ABORT => io.abort_self_test(),
        _ => return Err(StatusCode::InvalidField.at(location::CDW10)),
    }
    Ok(Outcome::Done(0))
}
