//! The controller's side of an authentication on one queue (NVMe 2.0 section 8.13.5).

use std::fmt;
use std::sync::Arc;

use crate::group::{Group, EXPONENT};
use crate::hash::Hash;
use crate::message::{self, Failure, Negotiate, Received, Reply};
use crate::power::{Computed, Power};
use crate::secret::Secret;

/// Limit on the negotiations of a host before it has authenticated, since each costs an exponent.
const MAX_NEGOTIATIONS: u8 = 4;

/// The secrets that a subsystem has for a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    /// The host's secret.
    pub host: Secret,
    /// The subsystem's own towards that host, if the host may ask for it.
    pub subsystem: Option<Secret>,
}

/// Source of unpredictable numbers, for all queues of a subsystem.
pub struct Randomness {
    fill: Fill,
    /// The last sequence number of a challenge.
    sequence: u32,
}

/// Fills a buffer; whether it could.
type Fill = Box<dyn FnMut(&mut [u8]) -> bool + Send>;

impl Randomness {
    /// Randomness by `fill`, which fills a buffer with unpredictable bytes, and returns whether it
    /// could.
    pub fn new(mut fill: impl FnMut(&mut [u8]) -> bool + Send + 'static) -> Self {
        let mut first = [0; 4];
        fill(&mut first);
        Self { fill: Box::new(fill), sequence: u32::from_le_bytes(first) }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let mut bytes = [0; N];
        (self.fill)(&mut bytes).then_some(bytes).ok_or(Failure::Failed)
    }

    /// A sequence number: the one after the last, and not 0 (NVMe 2.0 section 8.13.5.3).
    fn sequence(&mut self) -> u32 {
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        self.sequence
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Randomness").finish_non_exhaustive()
    }
}

/// End of an authentication that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The host is not who it says, or broke the protocol.
    Refused(Failure),
    /// The host says that the controller is not.
    ByHost,
}

/// A challenge that a host is to answer.
struct Challenge {
    hash: Hash,
    group: Group,
    sequence: u32,
    bytes: Vec<u8>,
    exponent: [u8; EXPONENT],
}

/// A host's answer to a challenge.
struct Answer {
    response: Vec<u8>,
    /// The host's challenge, and its sequence number.
    challenge: Option<(Vec<u8>, u32)>,
}

/// Progress of an authentication.
enum State {
    /// None is under way.
    Idle,
    /// The value of the group to send with the challenge is being computed.
    Challenging(Box<Challenge>),
    Challenged(Box<Challenge>),
    /// The key that both sides share is being computed.
    Checking(Box<Challenge>, Answer),
    /// The host is authenticated once it takes this; then, if it has challenged the controller, it
    /// has the last word.
    Answered {
        is_mutual: bool,
    },
    Ending(Ended),
    Ended(Ended),
}

/// The controller's side of an authentication on one queue, which the host may repeat.
pub struct Verifier {
    secrets: Arc<Secrets>,
    groups: Arc<[Group]>,
    host: String,
    subsystem: String,
    state: State,
    transaction: u16,
    /// Since it last authenticated.
    negotiations: u8,
    /// To be computed before it goes on.
    power: Option<Power>,
    /// For the host to take.
    outgoing: Option<Vec<u8>>,
    is_authenticated: bool,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Verifier");
        debug.field("host", &self.host).field("is_authenticated", &self.is_authenticated);
        debug.finish_non_exhaustive()
    }
}

impl Verifier {
    /// Makes the verifier of a queue of the host with the name `host`, at the subsystem with the
    /// name `subsystem`. `groups`: those that are taken, in the order in which they are preferred.
    pub fn new(secrets: Arc<Secrets>, groups: Arc<[Group]>, host: &str, subsystem: &str) -> Self {
        Self {
            secrets,
            groups,
            host: host.to_owned(),
            subsystem: subsystem.to_owned(),
            state: State::Idle,
            transaction: 0,
            negotiations: 0,
            power: None,
            outgoing: None,
            is_authenticated: false,
        }
    }

    /// Returns whether the host has authenticated, and the controller to it if it wanted that.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Returns its end: the queue is to end as well.
    pub fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// The message that the host is to take by Authentication Receive.
    pub fn outgoing(&self) -> Option<&[u8]> {
        self.outgoing.as_deref()
    }

    /// The host has taken it.
    pub fn taken(&mut self) {
        self.outgoing = None;
        match self.state {
            State::Answered { is_mutual: false } => self.succeed(),
            State::Ending(ended) => self.end(ended),
            _ => {}
        }
    }

    fn succeed(&mut self) {
        self.is_authenticated = true;
        self.negotiations = 0;
        self.state = State::Idle;
    }

    fn end(&mut self, ended: Ended) {
        self.is_authenticated = false;
        self.state = State::Ended(ended);
    }

    /// Takes what it waits for after a message: to be computed, and given to
    /// [`Verifier::computed`]. Nothing else is to be asked of it before.
    pub fn take_power(&mut self) -> Option<Power> {
        self.power.take()
    }

    /// Goes on with a power that was computed.
    pub fn computed(&mut self, Computed(power): Computed) {
        let outcome = match std::mem::replace(&mut self.state, State::Idle) {
            State::Challenging(challenge) => {
                self.challenge(challenge, &power.unwrap_or_default());
                Ok(())
            }
            State::Checking(asked, answer) => {
                power.ok_or(Failure::Group).and_then(|key| self.check(&asked, &answer, Some(&key)))
            }
            // Nobody has asked for it.
            state => {
                self.state = state;
                return;
            }
        };
        self.refuse(outcome);
    }

    /// Takes a message of the host, of Authentication Send; its answer is
    /// [outgoing](Verifier::outgoing) then, or once [a power](Verifier::take_power) is computed.
    pub fn send(&mut self, bytes: &[u8], random: &mut Randomness) {
        if matches!(self.state, State::Ending(_) | State::Ended(_)) {
            return;
        }
        let outcome = self.handle(bytes, random);
        self.refuse(outcome);
    }

    /// Tells the host of a failure, if there is one.
    fn refuse(&mut self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.is_authenticated = false;
            self.outgoing = Some(message::failure(self.transaction, failure));
            self.state = State::Ending(Ended::Refused(failure));
        }
    }

    fn handle(&mut self, bytes: &[u8], random: &mut Randomness) -> Result<(), Failure> {
        let (transaction, received) = message::parse(bytes)?;
        if let Received::Negotiate(offer) = received {
            self.transaction = transaction;
            self.negotiations += 1;
            if self.negotiations > MAX_NEGOTIATIONS {
                return Err(Failure::Message);
            }
            return self.negotiate(&offer, random);
        }
        if transaction != self.transaction {
            return Err(Failure::Payload);
        }
        let state = std::mem::replace(&mut self.state, State::Idle);
        match (received, state) {
            (Received::Reply(reply), State::Challenged(challenge)) if self.outgoing.is_none() => {
                self.answer(&reply, challenge)
            }
            (Received::Success2, State::Answered { is_mutual: true })
                if self.outgoing.is_none() =>
            {
                self.succeed();
                Ok(())
            }
            (Received::Failure2, _) => {
                self.end(Ended::ByHost);
                Ok(())
            }
            _ => Err(Failure::Message),
        }
    }

    /// Chooses of what the host offers.
    fn negotiate(&mut self, offer: &Negotiate, random: &mut Randomness) -> Result<(), Failure> {
        if !offer.has_protocol {
            return Err(Failure::Protocol);
        }
        if offer.channel != 0 {
            return Err(Failure::Channel);
        }
        let hash = Hash::ALL.into_iter().find(|hash| offer.hashes.contains(&hash.id()));
        let hash = hash.ok_or(Failure::Hash)?;
        let group = self.groups.iter().find(|group| offer.groups.contains(&group.id()));
        let group = *group.ok_or(Failure::Group)?;
        let exponent = random.bytes::<EXPONENT>()?;
        let mut bytes = random.bytes::<64>()?.to_vec();
        bytes.truncate(hash.length());
        let sequence = random.sequence();
        let challenge = Box::new(Challenge { hash, group, sequence, bytes, exponent });
        // The answer that was to be taken is none any more.
        self.outgoing = None;
        match group {
            Group::Null => self.challenge(challenge, &[]),
            group => {
                self.power = Some(Power::public(group, exponent));
                self.state = State::Challenging(challenge);
            }
        }
        Ok(())
    }

    /// Challenges the host. `value`: of the group.
    fn challenge(&mut self, challenge: Box<Challenge>, value: &[u8]) {
        let Challenge { hash, group, sequence, ref bytes, .. } = *challenge;
        let chosen = (hash, group);
        self.outgoing = Some(message::challenge(self.transaction, chosen, sequence, bytes, value));
        self.state = State::Challenged(challenge);
    }

    /// Takes the host's response.
    fn answer(&mut self, reply: &Reply, asked: Box<Challenge>) -> Result<(), Failure> {
        let Challenge { hash, group, exponent, .. } = *asked;
        if reply.response.len() != hash.length() || reply.value.len() != group.length() {
            return Err(Failure::Payload);
        }
        let challenge = reply.challenge.map(|(bytes, sequence)| (bytes.to_vec(), sequence));
        let answer = Answer { response: reply.response.to_vec(), challenge };
        if group == Group::Null {
            return self.check(&asked, &answer, None);
        }
        self.power = Some(Power::shared(group, exponent, reply.value));
        self.state = State::Checking(asked, answer);
        Ok(())
    }

    /// Compares the host's response, and answers its challenge. `shared`: the key that both sides
    /// have.
    fn check(
        &mut self,
        asked: &Challenge,
        answer: &Answer,
        shared: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let hash = asked.hash;
        let (host, subsystem) = (self.host.as_str(), self.subsystem.as_str());
        let theirs = Response {
            challenge: augmented(hash, shared, &asked.bytes),
            sequence: asked.sequence.to_le_bytes(),
            transaction: self.transaction.to_le_bytes(),
            role: "HostHost",
            names: [host, subsystem],
        };
        if !hash.verify(&self.secrets.host.key(host), &theirs.parts(), &answer.response) {
            return Err(Failure::Failed);
        }
        // A sequence number of 0 wants no response (NVMe 2.0 section 8.13.5.4).
        let wanted = answer.challenge.as_ref().filter(|&&(_, sequence)| sequence != 0);
        let ours = match wanted {
            None => None,
            Some((challenge, sequence)) => {
                let secret = self.secrets.subsystem.as_ref().ok_or(Failure::Failed)?;
                let ours = Response {
                    challenge: augmented(hash, shared, challenge),
                    sequence: sequence.to_le_bytes(),
                    transaction: self.transaction.to_le_bytes(),
                    role: "Controller",
                    names: [subsystem, host],
                };
                Some(hash.hmac(&secret.key(subsystem), &ours.parts()))
            }
        };
        self.outgoing = Some(message::success(self.transaction, hash, ours.as_deref()));
        self.state = State::Answered { is_mutual: ours.is_some() };
        Ok(())
    }
}

/// A challenge as it is answered: with the shared key in it, where there is one (NVMe 2.0 section
/// 8.13.5.4).
fn augmented(hash: Hash, shared: Option<&[u8]>, challenge: &[u8]) -> Vec<u8> {
    match shared {
        None => challenge.to_vec(),
        Some(shared) => hash.hmac(&hash.digest(shared), &[challenge]),
    }
}

/// The input of the HMAC that is a response (NVMe 2.0 sections 8.13.5.4 and 8.13.5.5).
struct Response<'a> {
    challenge: Vec<u8>,
    sequence: [u8; 4],
    transaction: [u8; 2],
    role: &'static str,
    /// Names of who responds, and of the other.
    names: [&'a str; 2],
}

impl Response<'_> {
    fn parts(&self) -> [&[u8]; 8] {
        let [own, other] = self.names;
        let Self { challenge, sequence, transaction, role, .. } = self;
        // Behind the transaction the secure channel: none.
        let channel: &[u8] = &[0];
        let end: &[u8] = &[0];
        [
            challenge,
            sequence,
            transaction,
            channel,
            role.as_bytes(),
            own.as_bytes(),
            end,
            other.as_bytes(),
        ]
    }
}
