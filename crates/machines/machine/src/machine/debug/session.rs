//! gdb's side of a stop: bytes in, bytes out, until the run goes on, forward or back.

use std::collections::VecDeque;

use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;
use stasis_run_events::Debugger;

use super::asked::Asked;
use super::plan::{Back, Plan};
use super::target::{thread, Debuggee};
use super::Cause;

/// Room for one of gdb's packets. Those that write memory are as long as this lets them.
const PACKET: usize = 16 << 10;

/// The run's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// With the debugger.
    Continue,
    /// Backwards: another run is to go there.
    Back(Back),
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
    /// Made at the first stop of each gdb; None once gdb has gone.
    stub: Option<Stub>,
    begun: bool,
    /// True while there is no gdb, and one may come.
    is_away: bool,
    incoming: VecDeque<u8>,
    /// The packet that comes.
    packet: Vec<u8>,
    /// gdb's packets by which both ends have agreed on the protocol.
    hello: Vec<u8>,
    /// Lines for the user, before gdb is told of a stop.
    lines: Vec<String>,
}

/// By which packets both ends agree on the protocol.
const HELLO: [&[u8]; 2] = [b"$qSupported", b"$QStartNoAckMode"];
/// Lets the run go on.
const CONTINUE: &[u8] = b"$vCont;c#a8";

impl Session {
    /// With a gdb that has said `hello` before, to another run of this.
    pub(in super::super) fn new(wire: Box<dyn Debugger>, hello: Vec<u8>) -> Self {
        let (incoming, packet, lines) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { wire, stub: None, begun: false, is_away: false, incoming, packet, hello, lines }
    }

    /// Returns whether gdb has gone.
    pub(in super::super) fn is_away(&self) -> bool {
        self.is_away
    }

    /// Bytes of gdb's that another run has not looked at.
    pub(in super::super) fn came(&mut self, bytes: &[u8]) {
        self.incoming.extend(bytes);
    }

    /// A line for the user, at the next stop.
    pub(in super::super) fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Has another run go on by `plan`, in place of this one. Returns the reason if no run does.
    pub(in super::super) fn again(&mut self, mut plan: Plan) -> String {
        plan.hello.clone_from(&self.hello);
        plan.incoming = self.incoming.iter().copied().collect();
        match serde_json::to_vec(&plan) {
            Ok(bytes) => self.wire.again(&bytes, plan.goal.end().first_turn()).to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// The run has stopped; returns how it goes on.
    pub(in super::super) fn stop(&mut self, debuggee: &mut Debuggee, cause: Cause) -> Step {
        let step = self.converse(debuggee, cause);
        if matches!(step, Step::Detached | Step::Killed) {
            debuggee.release();
            (self.stub, self.begun, self.is_away) = (None, false, true);
            self.incoming.clear();
            self.hello.clear();
            self.lines.clear();
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
                let greeted = match made {
                    Ok(stub) if self.hello.is_empty() => Some(stub),
                    Ok(stub) => self
                        .greet(stub, debuggee)
                        .and_then(|stub| self.report(stub, debuggee, cause)),
                    Err(()) => None,
                };
                match greeted {
                    Some(stub) => stub,
                    None => return Step::Detached,
                }
            }
            Some(running @ Stub::Running(_)) => match self.report(running, debuggee, cause) {
                Some(stub) => stub,
                None => return Step::Detached,
            },
            Some(other) => other,
            None => return Step::Detached,
        };
        loop {
            let next = match stub {
                Stub::Idle(mut inner) => {
                    if !self.wait(&mut inner.borrow_conn().0) {
                        return Step::Detached;
                    }
                    if let Some(asked) = self.asked_for_memory() {
                        debuggee.read_memory(asked, &mut inner.borrow_conn().0);
                        stub = Stub::Idle(inner);
                        continue;
                    }
                    let Some(byte) = self.next(&mut inner.borrow_conn().0) else {
                        return Step::Detached;
                    };
                    inner.incoming_data(debuggee, byte)
                }
                Stub::Running(mut inner) => {
                    let sent = self.send(&mut inner.borrow_conn().0, false);
                    self.stub = Some(Stub::Running(inner));
                    return match (sent, debuggee.back.take()) {
                        (false, _) => Step::Detached,
                        (true, Some(back)) => Step::Back(back),
                        (true, None) => Step::Continue,
                    };
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

    /// Brings a new stub to where gdb is, which has agreed on the protocol and waits for a stop.
    fn greet(&mut self, stub: Stub, debuggee: &mut Debuggee) -> Option<Stub> {
        let mut stub = stub;
        for &byte in self.hello.iter().chain(CONTINUE) {
            stub = match stub {
                Stub::Idle(inner) => inner.incoming_data(debuggee, byte).ok()?,
                _ => return None,
            };
        }
        match stub {
            Stub::Running(mut inner) => {
                // gdb has had the answers.
                inner.borrow_conn().0.clear();
                Some(Stub::Running(inner))
            }
            _ => None,
        }
    }

    /// Tells gdb of a stop.
    fn report(&mut self, stub: Stub, debuggee: &mut Debuggee, cause: Cause) -> Option<Stub> {
        let Stub::Running(mut inner) = stub else { return None };
        for line in self.lines.drain(..) {
            let hex: String = line.bytes().map(|byte| format!("{byte:02x}")).collect();
            let body = format!("O{hex}0a");
            let sum = body.bytes().fold(0u8, u8::wrapping_add);
            inner.borrow_conn().0.extend(format!("${body}#{sum:02x}").bytes());
        }
        inner.report_stop(debuggee, reason(debuggee, cause)).ok()
    }

    /// Returns whether gdb wants the run to stop, or has come again.
    pub(in super::super) fn poll(&mut self, debuggee: &mut Debuggee) -> bool {
        let mut nothing = Vec::new();
        if self.is_away {
            self.is_away = !self.send(&mut nothing, false) || self.incoming.is_empty();
            return !self.is_away;
        }
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

    /// Waits for bytes of gdb's, which is sent what waits for it. Returns whether gdb is there.
    fn wait(&mut self, outgoing: &mut Vec<u8>) -> bool {
        while self.incoming.is_empty() {
            if !self.send(outgoing, true) {
                return false;
            }
        }
        true
    }

    /// Takes a packet by which somebody asks for memory as it is.
    fn asked_for_memory(&mut self) -> Option<Asked> {
        let (asked, length) = Asked::read(self.incoming.make_contiguous())?;
        self.incoming.drain(..length);
        Some(asked)
    }

    /// The next byte of gdb's, which is sent what waits for it; None where it has gone.
    fn next(&mut self, outgoing: &mut Vec<u8>) -> Option<u8> {
        if !self.wait(outgoing) {
            return None;
        }
        let byte = self.incoming.pop_front()?;
        self.notice(byte);
        Some(byte)
    }

    /// Keeps the packets that a later run needs.
    fn notice(&mut self, byte: u8) {
        const MAX_PACKET: usize = 4096;
        if byte == b'$' {
            self.packet.clear();
        }
        if self.packet.len() < MAX_PACKET {
            self.packet.push(byte);
        }
        // The sum's two digits follow.
        let complete = self.packet.iter().rev().nth(2) == Some(&b'#');
        if complete && HELLO.iter().any(|hello| self.packet.starts_with(hello)) {
            self.hello.append(&mut self.packet);
        }
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
        Cause::Begin => {
            MultiThreadStopReason::ReplayLog { tid: Some(tid), pos: ReplayLogPosition::Begin }
        }
        Cause::Breakpoint => MultiThreadStopReason::SwBreak(tid),
        Cause::Watch(number) => match debuggee.watch(number) {
            Some((addr, kind)) => MultiThreadStopReason::Watch { tid, kind, addr },
            None => trap,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::super::plan::{Goal, Plan, Position, Why};
    use super::*;

    /// A gdb that says these pieces, and what it has been told.
    #[derive(Debug, Clone, Default)]
    struct Gdb {
        says: Arc<Mutex<VecDeque<Vec<u8>>>>,
        comes: Arc<Mutex<Vec<u8>>>,
        received: Arc<Mutex<Vec<u8>>>,
        plan: Arc<Mutex<Vec<u8>>>,
    }

    impl Debugger for Gdb {
        fn exchange(&mut self, bytes: &[u8], wait: bool) -> io::Result<Option<Vec<u8>>> {
            self.received.lock().unwrap().extend_from_slice(bytes);
            match wait {
                true => Ok(self.says.lock().unwrap().pop_front()),
                false => Ok(Some(std::mem::take(&mut *self.comes.lock().unwrap()))),
            }
        }

        fn again(&mut self, plan: &[u8], _turn: u64) -> io::Error {
            *self.plan.lock().unwrap() = plan.to_vec();
            io::Error::other("it is a test")
        }
    }

    impl Gdb {
        fn says(&self, bodies: &[&str]) {
            let packet = |body: &&str| {
                let sum = body.bytes().fold(0u8, u8::wrapping_add);
                format!("${body}#{sum:02x}").into_bytes()
            };
            self.says.lock().unwrap().extend(bodies.iter().map(packet));
        }

        fn told(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.received.lock().unwrap())).unwrap()
        }
    }

    fn plan() -> Plan {
        let goal = Goal::Go(Position::BEGIN, Why::Begin);
        Plan::new(goal, (vec![], [None; 4]))
    }

    /// The gdb that has gone, and the next one.
    #[test]
    fn a_gdb_can_go_and_another_come() {
        let gdb = Gdb::default();
        let mut debuggee = Debuggee::default();
        let mut session = Session::new(Box::new(gdb.clone()), Vec::new());
        gdb.says(&["qSupported:multiprocess+;swbreak+", "QStartNoAckMode", "D;1"]);
        assert_eq!(session.stop(&mut debuggee, Cause::Moment), Step::Detached);
        assert!(session.is_away() && !session.poll(&mut debuggee));
        gdb.says(&["qSupported:multiprocess+;swbreak+"]);
        let hello = gdb.says.lock().unwrap().pop_front().unwrap();
        gdb.comes.lock().unwrap().extend(hello);
        assert!(session.poll(&mut debuggee) && !session.is_away());
        gdb.received.lock().unwrap().clear();
        gdb.says(&["?", "vCont;c"]);
        assert_eq!(session.stop(&mut debuggee, Cause::Moment), Step::Continue);
        assert!(gdb.told().contains("ReverseContinue+"));
    }

    /// Memory as it is: without machines there is none.
    #[test]
    fn memory_is_answered_beside_gdbs_packets() {
        let gdb = Gdb::default();
        let mut debuggee = Debuggee::default();
        let mut session = Session::new(Box::new(gdb.clone()), Vec::new());
        gdb.says(&["QStartNoAckMode", "qStasisMemory:0,1000,10", "?", "qStasisMemory:x", "k"]);
        assert_eq!(session.stop(&mut debuggee, Cause::Moment), Step::Killed);
        let received = gdb.told();
        let (_, rest) = received.split_once("$OK#9a").unwrap();
        // No byte; a stop; nothing that is known.
        assert!(rest.starts_with("\0\0\0\0$") && rest.contains("$#00"), "{rest:?}");
    }

    /// gdb does not see that another run has taken this one's place.
    #[test]
    fn another_run_goes_on_with_gdb() {
        let gdb = Gdb::default();
        let mut debuggee = Debuggee::default();
        let mut first = Session::new(Box::new(gdb.clone()), Vec::new());
        gdb.says(&["qSupported:multiprocess+;swbreak+", "QStartNoAckMode", "?", "bc"]);
        assert_eq!(first.stop(&mut debuggee, Cause::Moment), Step::Back(Back::Continue));
        assert!(gdb.told().contains("ReverseContinue+;ReverseStep+"));
        first.came(b"\x03");
        assert_eq!(first.again(plan()), "it is a test");
        let handed: Plan = serde_json::from_slice(&gdb.plan.lock().unwrap()).unwrap();
        assert_eq!(handed.incoming, b"\x03");

        let mut second = Session::new(Box::new(gdb.clone()), handed.hello);
        second.say("a line".into());
        gdb.says(&["g", "vCont;c"]);
        assert_eq!(second.stop(&mut debuggee, Cause::Begin), Step::Continue);
        let received = gdb.told();
        // No acknowledgement and no answer that gdb has had; the line, and then the stop.
        assert!(received.starts_with("$O61206c696e650a#"), "{received}");
        assert!(received.contains("$T05thread:p01.01;replaylog:begin;#"), "{received}");
        assert!(!received.contains('+'), "{received}");
    }
}
