//! Turns of a host's scheduler, and each tenant's requests at the drive, as spans.

use stasis_block::clock::Nanos;
use stasis_block::timeline::{Span, Spans, Track, TrackKind, Tracks, What, Whom};
use stasis_block::Command;

/// An open turn: the requests that the scheduler sends for one tenant until it sends one of another
/// tenant, or the drive is empty and the scheduler waits for nobody.
#[derive(Debug, Clone, Copy)]
struct Turn {
    tenant: usize,
    begin: Nanos,
}

/// A request that the drive has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Time at which it was sent (ns).
    at: Nanos,
    /// Its number among all that were sent.
    number: u64,
    /// One of those that no other request has meanwhile.
    lane: u16,
}

/// The turns of a drive's tenants.
#[derive(Debug)]
pub(crate) struct Turns {
    // Tracks of each tenant's turns and of its requests, by its number.
    tracks: Vec<Option<(u32, u32)>>,
    turn: Option<Turn>,
    // Lanes that are taken.
    lanes: Vec<bool>,
    sent: u64,
    ended: Spans,
}

impl Turns {
    /// Makes the turns of these tenants of a drive, by number and name.
    pub(crate) fn new(owner: &str, tenants: &[(usize, String)], tracks: &mut Tracks) -> Self {
        let places = tenants.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let mut own = vec![None; places];
        for (number, name) in tenants {
            let turn = tracks.add(Track::new(TrackKind::Turn, owner, name.clone()));
            let request = tracks.add(Track::new(TrackKind::Request, owner, name.clone()));
            own[*number] = Some((turn, request));
        }
        Self { tracks: own, turn: None, lanes: Vec::new(), sent: 0, ended: Spans::default() }
    }

    fn tracks(&self, tenant: usize) -> Option<(u32, u32)> {
        self.tracks.get(tenant).copied().flatten()
    }

    /// The scheduler sends a request of a tenant's.
    pub(crate) fn sent(&mut self, now: Nanos, tenant: usize) -> Sent {
        if self.turn.is_none_or(|turn| turn.tenant != tenant) {
            self.over(now);
            self.turn = Some(Turn { tenant, begin: now });
        }
        let free = self.lanes.iter().position(|taken| !taken);
        let lane = free.unwrap_or_else(|| {
            self.lanes.push(false);
            self.lanes.len() - 1
        });
        self.lanes[lane] = true;
        self.sent += 1;
        let number = self.sent - 1;
        Sent { at: now, number, lane: u16::try_from(lane).unwrap_or(u16::MAX) }
    }

    /// Ends the present turn: no tenant is served any more.
    pub(crate) fn over(&mut self, now: Nanos) {
        let Some(Turn { tenant, begin }) = self.turn.take() else { return };
        if let Some((track, _)) = self.tracks(tenant) {
            self.ended.push(Span::new(track, What::Turn, begin, now));
        }
    }

    /// A tenant's request of this number has ended.
    pub(crate) fn ended(
        &mut self,
        now: Nanos,
        (tenant, number): (usize, u64),
        sent: Sent,
        command: &Command,
    ) {
        if let Some(taken) = self.lanes.get_mut(usize::from(sent.lane)) {
            *taken = false;
        }
        if let Some((_, track)) = self.tracks(tenant) {
            let span = Span::new(track, command.operation.into(), sent.at, now);
            let whom = Whom { number: sent.number, commands: 1, ..span.whom };
            self.ended.push(Span { lane: sent.lane, number, bytes: command.length, whom, ..span });
        }
    }

    /// Hands over the spans that have ended.
    pub(crate) fn take(&mut self, spans: &mut Spans) {
        spans.append(&mut self.ended);
    }
}
