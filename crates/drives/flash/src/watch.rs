//! The work of the drive's parts, as spans for an observer ([`stasis_block::Model::watch`]).

use stasis_block::clock::Nanos;
use stasis_block::command_log::CommandSpans;
use stasis_block::timeline::{Cause, Span, Spans, Track, TrackKind, Tracks, What};
use stasis_nand::{Activity, Array, OpKind, Part, PlaneId, Priority};

use crate::owners::Owners;

/// The tracks of a drive: its channels, then its planes or LUNs, then the collection of each
/// plane.
#[derive(Debug)]
pub(crate) struct Watch {
    channels: u32,
    units: u32,
    collections: u32,
    ended: Spans,
    /// The host's commands.
    pub(crate) commands: CommandSpans,
    /// For whom each operation is.
    pub(crate) owners: Owners,
}

impl Watch {
    /// Announces the tracks, and lets the array record its activities.
    pub(crate) fn new(owner: &str, array: &mut Array, tracks: &mut Tracks) -> Self {
        array.watch();
        let geometry = *array.geometry();
        let track = |kind, name: String| Track::new(kind, owner, name);
        let channel = |number: u32| Track {
            channel: Some(number),
            ..track(TrackKind::Channel, format!("channel {number}"))
        };
        let on_plane = |kind, number: u32, whole: bool| {
            let (channel, lun) = (geometry.channel(PlaneId(number)), geometry.lun(PlaneId(number)));
            let plane = (!whole).then_some(geometry.place(PlaneId(number)).2);
            let below = plane.map(|plane| format!(", plane {plane}")).unwrap_or_default();
            let name = format!("channel {channel}, LUN {lun}{below}");
            Track { channel: Some(channel), lun: Some(lun), plane, ..track(kind, name) }
        };
        let planes = array.planes_of_unit();
        let channels = all(tracks, geometry.channels, channel);
        let whole = planes == geometry.planes;
        let units =
            all(tracks, array.units(), |unit| on_plane(TrackKind::Nand, unit * planes, whole));
        let collections = all(tracks, geometry.total_planes(), |plane| {
            on_plane(TrackKind::Collection, plane, geometry.planes == 1)
        });
        let commands = CommandSpans::new(owner, tracks);
        let owners = Owners::new(geometry.total_planes(), array.submitted());
        Self { channels, units, collections, ended: Spans::default(), commands, owners }
    }

    /// A block of a plane was emptied between two times.
    pub(crate) fn collected(&mut self, plane: u32, block: u32, times: (Nanos, Nanos)) {
        self.emptied(What::Collection, plane, block, times);
    }

    /// A block of a plane in SLC mode was folded between two times.
    pub(crate) fn folded(&mut self, plane: u32, block: u32, times: (Nanos, Nanos)) {
        self.emptied(What::Fold, plane, block, times);
    }

    fn emptied(&mut self, kind: What, plane: u32, block: u32, (begin, end): (Nanos, Nanos)) {
        let span = Span::new(self.collections + plane, kind, begin, end);
        let whom = self.owners.end_collection(plane);
        self.ended.push(Span { cause: Cause::Housekeeping, block, whom, ..span });
    }

    /// Hands over the drive's spans.
    pub(crate) fn take(&mut self, array: &mut Array, spans: &mut Spans) {
        self.owners.join(array);
        let lost = array.take_activities(|activity| spans.push(self.span(&activity)));
        spans.lose(lost);
        self.owners.forget_ended();
        spans.append(&mut self.ended);
        self.commands.take(spans);
    }

    fn span(&self, activity: &Activity) -> Span {
        let track = match activity.part {
            Part::Channel(channel) => self.channels + channel,
            Part::Unit(unit) => self.units + unit,
        };
        let kind = match activity.kind {
            OpKind::Read => What::Read,
            OpKind::Program => What::Program,
            OpKind::Erase => What::Erase,
            OpKind::Copyback => What::Copyback,
        };
        Span {
            step: activity.step,
            cause: cause(activity.priority),
            number: activity.number,
            block: activity.at.block,
            page: activity.at.page,
            bytes: activity.bytes.into(),
            whom: self.owners.of(activity.number),
            ..Span::new(track, kind, activity.begin, activity.end)
        }
    }
}

/// For whom an operation of this priority is.
pub(crate) fn cause(priority: Priority) -> Cause {
    match priority {
        Priority::Read => Cause::HostRead,
        Priority::Write => Cause::HostWrite,
        Priority::Gc => Cause::Housekeeping,
    }
}

/// Announces `count` tracks; the number of the first.
fn all(tracks: &mut Tracks, count: u32, track: impl Fn(u32) -> Track) -> u32 {
    let mut numbers = (0..count).map(|number| tracks.add(track(number)));
    let first = numbers.next().unwrap_or_default();
    numbers.for_each(drop);
    first
}
