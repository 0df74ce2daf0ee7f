//! Both ends of the channel against each other, and against hostile requests.

use std::io::{Read, Write};

use proptest::prelude::*;
use stasis_channel::{
    Client, ClientError, Host, Job, ProtocolError, Refusal, Request, Response, Stream, Transport,
    HEADER_SIZE, MAILBOX_SIZE, MAX_PAYLOAD,
};

/// A machine that keeps the guest's messages.
struct Machine {
    memory: Vec<u8>,
    host: Host,
    job: Job,
    input: Vec<u8>,
    given: usize,
    messages: Vec<String>,
    output: Vec<u8>,
    results: Vec<u8>,
    rings: usize,
}

impl Machine {
    fn new(input: Vec<u8>) -> Self {
        let mut job = Job::new(vec!["fio".into(), "--version".into()]);
        job.environment.insert("A".into(), "ä".into());
        job.drives = vec!["nvme0n1".into()];
        job.seed = u64::MAX;
        Self {
            memory: vec![0xee; MAILBOX_SIZE],
            host: Host::new(),
            job,
            input,
            given: 0,
            messages: Vec::new(),
            output: Vec::new(),
            results: Vec::new(),
            rings: 0,
        }
    }
}

impl Transport for Machine {
    fn mailbox(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    fn ring(&mut self) {
        self.rings += 1;
        let response = match self.host.receive(self.memory.as_mut_slice()) {
            Ok(Request::Hello | Request::Command) => Response::Job(&self.job),
            Ok(Request::ReadInput { max }) => {
                // Odd pieces, to meet the reader's edges.
                let end = self.input.len().min(self.given + max.min(1 << 20));
                let piece = &self.input[self.given..end];
                self.given = end;
                Response::Bytes(piece)
            }
            Ok(Request::Output { stream, bytes }) => {
                assert_eq!(stream, Stream::Error);
                self.output.extend_from_slice(bytes);
                Response::Done
            }
            Ok(Request::Results { bytes }) => {
                self.results.extend_from_slice(bytes);
                Response::Done
            }
            Ok(other) => {
                self.messages.push(format!("{other:?}"));
                Response::Done
            }
            Err(_) => return,
        };
        Host::respond(self.memory.as_mut_slice(), response);
    }
}

#[test]
fn a_whole_run() {
    let input: Vec<u8> = (0..3_000_001u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut client = Client::new(Machine::new(input.clone()));
    let job = client.hello().unwrap();
    assert_eq!(job, Machine::new(vec![]).job);
    assert_eq!(client.command().unwrap(), job);
    let mut fetched = Vec::new();
    client.input().read_to_end(&mut fetched).unwrap();
    assert!(fetched == input);
    client.started().unwrap();
    let sent = client.output(Stream::Error, |space| {
        space[..5].copy_from_slice(b"hello");
        Ok(5)
    });
    assert_eq!(sent.unwrap(), 5);
    assert_eq!(client.output(Stream::Error, |_| Ok(0)).unwrap(), 0);
    client.log("careful").unwrap();
    client.exited(143).unwrap();
    let mut results = client.results();
    let tar = vec![7; MAX_PAYLOAD + 12_345];
    results.write_all(&tar).unwrap();
    results.finish().unwrap();
    client.finished().unwrap();
    let error = client.finished().unwrap_err();
    assert!(matches!(error, ClientError::Refused { refusal: Refusal::OutOfOrder, .. }), "{error}");
}

#[test]
fn what_the_machine_was_told() {
    let mut machine = Machine::new(vec![]);
    // Written by hand, so that client and host cannot agree on a wrong form.
    let mut tell = |kind: u32, payload: &[u8]| {
        machine.memory[..4].copy_from_slice(&kind.to_le_bytes());
        machine.memory[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        machine.memory[8..8 + payload.len()].copy_from_slice(payload);
        machine.ring();
        u32::from_le_bytes(machine.memory[..4].try_into().unwrap())
    };
    assert_eq!(tell(3, &[]), 3, "nothing goes before the greeting");
    assert_eq!(tell(13, &[]), 3, "nothing goes before the greeting");
    assert_eq!(tell(1, &1u32.to_le_bytes()), 4, "another version");
    assert_eq!(tell(1, &2u32.to_le_bytes()), 0);
    assert_eq!(tell(1, &2u32.to_le_bytes()), 3, "only one greeting");
    assert_eq!(tell(13, &[1]), 1, "a payload where none belongs");
    assert_eq!(tell(18, &[]), 3, "nothing runs yet beside which something could");
    assert_eq!(tell(13, &[]), 0);
    assert_eq!(tell(2, &0u32.to_le_bytes()), 1, "no room for an answer");
    assert_eq!(tell(4, &[1, 0, 0, 0, b'x']), 3, "output of no command");
    assert_eq!(tell(10, &[]), 0, "it may be asked again and again");
    assert_eq!(tell(10, &[]), 0);
    assert_eq!(tell(11, &4096u64.to_le_bytes()), 0);
    assert_eq!(tell(11, &4096u32.to_le_bytes()), 1, "half an address");
    assert_eq!(tell(19, &[7; 8]), 1, "one of two addresses");
    assert_eq!(tell(19, &[[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat()), 0);
    assert_eq!(tell(3, &[1]), 1, "a payload where none belongs");
    assert_eq!(tell(3, &[]), 0);
    assert_eq!(tell(19, &[7; 16]), 3, "the command has begun");
    assert_eq!(tell(10, &[]), 3, "the command has begun");
    assert_eq!(tell(13, &[]), 3, "the command has begun");
    assert_eq!(tell(12, &1u32.to_le_bytes()), 0);
    assert_eq!(tell(12, &2u32.to_le_bytes()), 1, "neither beginning nor end");
    assert_eq!(tell(4, &[3, 0, 0, 0, b'x']), 1, "no such stream");
    assert_eq!(tell(4, &[2, 0, 0, 0, b'x']), 0);
    assert_eq!(tell(15, b"cut \xff"), 0);
    assert_eq!(tell(16, &[0]), 1, "a payload where none belongs");
    assert_eq!(tell(16, &[]), 0);
    assert_eq!(tell(17, &65_536u32.to_le_bytes()), 1, "no such fault");
    assert_eq!(tell(17, &7u32.to_le_bytes()), 0);
    assert_eq!(tell(18, &[0]), 1, "a payload where none belongs");
    assert_eq!(tell(18, &[]), 0);
    assert_eq!(tell(5, &256u32.to_le_bytes()), 1, "no such status");
    assert_eq!(tell(6, &[127, 0, 0, 0, b'n', 0xff]), 0);
    assert_eq!(tell(5, &0u32.to_le_bytes()), 3, "it has ended already");
    assert_eq!(tell(18, &[]), 0, "what it left behind runs yet");
    assert_eq!(tell(5, &0u32.to_le_bytes()), 3, "nothing else has run since");
    assert_eq!(tell(7, b"tar"), 0);
    assert_eq!(tell(7, &[]), 0);
    assert_eq!(tell(7, b"more"), 3, "after the end");
    assert_eq!(tell(14, &[]), 3, "nobody types after the end");
    assert_eq!(tell(15, b"cut"), 3, "no fault after the end");
    assert_eq!(tell(16, &[]), 3, "no orders after the end");
    assert_eq!(tell(18, &[]), 3, "everything is over");
    assert_eq!(tell(20, &1u32.to_le_bytes()), 3, "no health after the end");
    assert_eq!(tell(21, &[]), 2);
    assert_eq!(tell(u32::MAX, &[]), 2);
    assert_eq!(tell(9, &[]), 0);
    assert_eq!(tell(8, b"x"), 3);
    assert_eq!(tell(12, &0u32.to_le_bytes()), 3, "after the end");
    assert!(machine.host.is_finished());
    assert_eq!(machine.output, b"x");
    assert_eq!(machine.results, b"tar");
    assert_eq!(
        machine.messages,
        [
            "Ready",
            "Ready",
            "HelpPage { address: 4096 }",
            "Callable { call: Call { callback: 1, function: 2 } }",
            "Started",
            "Help { on: true }",
            "Fault { text: \"cut \u{fffd}\" }",
            "Orders",
            "Ordered { number: 7 }",
            "Branch",
            "NotStarted { status: 127, message: \"n\u{fffd}\" }",
            "Branch",
            "Finished"
        ]
    );
}

/// A machine that has something to run beside the command, once.
struct Branching {
    machine: Machine,
    branch: Option<Job>,
}

impl Transport for Branching {
    fn mailbox(&mut self) -> &mut [u8] {
        &mut self.machine.memory
    }

    fn ring(&mut self) {
        let memory = self.machine.memory.as_mut_slice();
        let is_wanted = self.branch.is_some();
        match self.machine.host.receive(memory) {
            Ok(Request::Branch) => match self.branch.take() {
                Some(job) => {
                    self.machine.host.branch();
                    Host::respond(memory, Response::Job(&job));
                }
                None => Host::respond(memory, Response::Done),
            },
            Ok(Request::Exited { .. }) if is_wanted => Host::respond(memory, Response::Bytes(&[1])),
            Ok(Request::Hello) => Host::respond(memory, Response::Job(&self.machine.job)),
            Ok(_) => Host::respond(memory, Response::Done),
            Err(_) => {}
        }
    }
}

#[test]
fn a_branch_runs_as_the_command_does() {
    for ends_first in [false, true] {
        let branch = Job::new(vec!["ps".into()]);
        let machine = Branching { machine: Machine::new(vec![]), branch: Some(branch.clone()) };
        let mut client = Client::new(machine);
        client.hello().unwrap();
        client.started().unwrap();
        if ends_first {
            assert!(client.exited(1).unwrap(), "something else is to run");
        }
        assert_eq!(client.branch().unwrap(), Some(branch));
        client.log("it runs").unwrap();
        assert_eq!(client.branch().unwrap(), None, "there is one only");
        assert!(!client.exited(7).unwrap());
        client.results().finish().unwrap();
        client.finished().unwrap();
    }
}

#[test]
fn lengths_beyond_the_mailbox_are_refused() {
    let mut memory = vec![0; MAILBOX_SIZE];
    for length in [MAX_PAYLOAD as u32 + 1, u32::MAX, 1 << 31] {
        memory[..4].copy_from_slice(&8u32.to_le_bytes());
        memory[4..8].copy_from_slice(&length.to_le_bytes());
        let error = Host::new().receive(memory.as_mut_slice()).unwrap_err();
        assert_eq!(error, ProtocolError::TooLong { kind: 8, length });
        assert_eq!(memory[..4], 1u32.to_le_bytes());
    }
}

#[test]
fn the_agent_checks_the_answer_too() {
    struct Broken(Vec<u8>);
    impl Transport for Broken {
        fn mailbox(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn ring(&mut self) {
            self.0[..HEADER_SIZE].copy_from_slice(&[0, 0, 0, 0, 255, 255, 255, 255]);
        }
    }
    let mut client = Client::new(Broken(vec![0; MAILBOX_SIZE]));
    assert!(matches!(client.hello(), Err(ClientError::Malformed { kind: 1, .. })));
}

proptest! {
    /// Any message of a guest gets an answer or a refusal, never a panic.
    #[test]
    fn hostile_requests(calls in prop::collection::vec(
        (0u32..20, prop_oneof![0u32..64, Just(MAX_PAYLOAD as u32), any::<u32>()],
         prop::collection::vec(any::<u8>(), 0..64)), 1..40))
    {
        let mut memory = vec![0; MAILBOX_SIZE];
        let mut host = Host::new();
        for (kind, length, bytes) in calls {
            memory[..4].copy_from_slice(&kind.to_le_bytes());
            memory[4..8].copy_from_slice(&length.to_le_bytes());
            memory[8..8 + bytes.len()].copy_from_slice(&bytes);
            match host.receive(memory.as_mut_slice()) {
                Ok(Request::Output { bytes, .. }) => prop_assert_eq!(bytes.len(), length as usize - 4),
                Ok(_) => {}
                Err(error) => {
                    let refusal = u32::from_le_bytes(memory[..4].try_into().unwrap());
                    prop_assert_eq!(refusal, error.refusal() as u32);
                }
            }
        }
    }
}
