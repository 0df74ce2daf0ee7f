//! gdb's side of a stop: bytes in, bytes out, until the run goes on.

use std::collections::VecDeque;

use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use stasis_run_events::Debugger;

use super::target::{thread, Debuggee};
use super::Cause;

/// Room for one of gdb's packets. Those that write memory are as long as this lets them.
const PACKET: usize = 16 << 10;

/// How the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// With the debugger.
    Continue,
    /// Without it.
    Detached,
    /// Not at all.
    Killed,
}

/// Bytes for gdb.
#[derive(Default)]
struct Outgoing(Vec<u8>);

impl Connection for Outgoing {
    type Error = &'static str;

    fn write(&mut self, byte: u8) -> Result<(), Self::Error> {
        self.0.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

type Stub = GdbStubStateMachine<'static, Debuggee, Outgoing>;

/// The conversation with gdb.
pub(in super::super) struct Session {
    wire: Box<dyn Debugger>,
    /// Made at the first stop; None again once gdb has gone.
    stub: Option<Stub>,
    begun: bool,
    incoming: VecDeque<u8>,
}

impl Session {
    pub(in super::super) fn new(wire: Box<dyn Debugger>) -> Self {
        Self { wire, stub: None, begun: false, incoming: VecDeque::new() }
    }

    /// The run has stopped; returns how it goes on.
    pub(in super::super) fn stop(&mut self, debuggee: &mut Debuggee, cause: Cause) -> Step {
        let step = self.converse(debuggee, cause);
        if step != Step::Continue {
            debuggee.release();
        }
        step
    }

    fn converse(&mut self, debuggee: &mut Debuggee, cause: Cause) -> Step {
        let mut stub = match self.stub.take() {
            None if !self.begun => {
                self.begun = true;
                let made = GdbStub::builder(Outgoing::default())
                    .packet_buffer_size(PACKET)
                    .build()
                    .map_err(|_| ())
                    .and_then(|stub| stub.run_state_machine(debuggee).map_err(|_| ()));
                match made {
                    Ok(stub) => stub,
                    Err(()) => return Step::Detached,
                }
            }
            Some(Stub::Running(inner)) => {
                match inner.report_stop(debuggee, reason(debuggee, cause)) {
                    Ok(stub) => stub,
                    Err(_) => return Step::Detached,
                }
            }
            Some(other) => other,
            None => return Step::Detached,
        };
        loop {
            let next = match stub {
                Stub::Idle(mut inner) => {
                    let Some(byte) = self.next(&mut inner.borrow_conn().0) else {
                        return Step::Detached;
                    };
                    inner.incoming_data(debuggee, byte)
                }
                Stub::Running(mut inner) => {
                    let sent = self.send(&mut inner.borrow_conn().0, false);
                    self.stub = Some(Stub::Running(inner));
                    return if sent { Step::Continue } else { Step::Detached };
                }
                Stub::CtrlCInterrupt(inner) => {
                    let tid = thread(debuggee.current);
                    let reason =
                        MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGINT };
                    inner.interrupt_handled(debuggee, Some(reason))
                }
                Stub::Disconnected(mut inner) => {
                    self.send(&mut inner.borrow_conn().0, false);
                    return match inner.get_reason() {
                        DisconnectReason::Kill => Step::Killed,
                        _ => Step::Detached,
                    };
                }
            };
            stub = match next {
                Ok(stub) => stub,
                Err(_) => return Step::Detached,
            };
        }
    }

    /// Whether gdb wants the run to stop.
    pub(in super::super) fn poll(&mut self, debuggee: &mut Debuggee) -> bool {
        let mut nothing = Vec::new();
        if !matches!(self.stub, Some(Stub::Running(_))) || !self.send(&mut nothing, false) {
            return false;
        }
        while let Some(byte) = self.incoming.pop_front() {
            match self.stub.take() {
                Some(Stub::Running(inner)) => match inner.incoming_data(debuggee, byte) {
                    Ok(stub @ Stub::CtrlCInterrupt(_)) => {
                        self.stub = Some(stub);
                        return true;
                    }
                    Ok(stub) => self.stub = Some(stub),
                    Err(_) => return false,
                },
                other => {
                    self.stub = other;
                    self.incoming.push_front(byte);
                    return false;
                }
            }
        }
        false
    }

    /// The run has ended with this status.
    pub(in super::super) fn ended(&mut self, debuggee: &mut Debuggee, status: u8) {
        if let Some(Stub::Running(inner)) = self.stub.take() {
            let reason = MultiThreadStopReason::Exited(status);
            if let Ok(Stub::Disconnected(mut inner)) = inner.report_stop(debuggee, reason) {
                self.send(&mut inner.borrow_conn().0, false);
            }
        }
    }

    /// The next byte of gdb's, which is sent what waits for it; None where it has gone.
    fn next(&mut self, outgoing: &mut Vec<u8>) -> Option<u8> {
        while self.incoming.is_empty() {
            if !self.send(outgoing, true) {
                return None;
            }
        }
        self.incoming.pop_front()
    }

    /// Sends the bytes and takes what has come; whether gdb is there.
    fn send(&mut self, outgoing: &mut Vec<u8>, wait: bool) -> bool {
        let came = self.wire.exchange(outgoing, wait);
        outgoing.clear();
        match came {
            Ok(Some(bytes)) => {
                self.incoming.extend(bytes);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }
}

fn reason(debuggee: &Debuggee, cause: Cause) -> MultiThreadStopReason<u64> {
    let tid = thread(debuggee.current);
    let trap = MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGTRAP };
    match cause {
        Cause::Moment | Cause::Step => trap,
        Cause::Breakpoint => MultiThreadStopReason::SwBreak(tid),
        Cause::Watch(number) => match debuggee.watch(number) {
            Some((addr, kind)) => MultiThreadStopReason::Watch { tid, kind, addr },
            None => trap,
        },
    }
}
