//! Spans as event streams have them.

use stasis_block::timeline::{Cause, Purpose, Span, Step, What, Whom};
use stasis_layout::{layout, U16, U32, U64};

layout! {
    /// A span in an event stream's frames; for words their index among all.
    pub(crate) struct RawSpan: 70 {
        [0] begin: U64,
        [8] end: U64,
        [16] number: U64,
        [24] bytes: U64,
        [32] offset: U64,
        /// Number of whom it is for.
        [40] whom: U64,
        [48] track: U32,
        [52] block: U32,
        [56] page: U32,
        /// Commands of whom it is for.
        [60] commands: U32,
        [64] lane: U16,
        [66] activity: u8,
        [67] step: u8,
        [68] cause: u8,
        [69] purpose: u8,
    }
}

impl From<&Span> for RawSpan {
    fn from(span: &Span) -> Self {
        Self {
            begin: span.begin.into(),
            end: span.end.into(),
            number: span.number.into(),
            bytes: span.bytes.into(),
            offset: span.offset.into(),
            whom: span.whom.number.into(),
            track: span.track.into(),
            block: span.block.into(),
            page: span.page.into(),
            commands: span.whom.commands.into(),
            lane: span.lane.into(),
            activity: span.activity as u8,
            step: span.step as u8,
            cause: span.cause as u8,
            purpose: span.whom.purpose as u8,
        }
    }
}

impl RawSpan {
    /// The span; `None` if a number in it names nothing.
    pub(crate) fn span(&self) -> Option<Span> {
        Some(Span {
            track: self.track.into(),
            lane: self.lane.into(),
            activity: What::ALL.get(usize::from(self.activity)).copied()?,
            step: Step::ALL.get(usize::from(self.step)).copied()?,
            cause: Cause::ALL.get(usize::from(self.cause)).copied()?,
            begin: self.begin.into(),
            end: self.end.into(),
            number: self.number.into(),
            block: self.block.into(),
            page: self.page.into(),
            bytes: self.bytes.into(),
            offset: self.offset.into(),
            whom: Whom {
                purpose: Purpose::ALL.get(usize::from(self.purpose)).copied()?,
                number: self.whom.into(),
                commands: self.commands.into(),
            },
        })
    }
}
