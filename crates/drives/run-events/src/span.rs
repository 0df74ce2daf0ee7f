//! Spans as event streams have them.

use stasis_block::timeline::{Cause, Purpose, Span, Step, What, Whom};

/// Length of a span in an event stream's frames.
pub(crate) const ENCODED: usize = 70;

/// Appends a span.
pub(crate) fn encode(span: &Span, out: &mut Vec<u8>) {
    let &Span { track, lane, activity, step, cause, begin, end, number, .. } = span;
    let &Span { block, page, bytes, offset, whom, .. } = span;
    for field in [begin, end, number, bytes, offset, whom.number] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    for field in [track, block, page, whom.commands] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&lane.to_le_bytes());
    out.extend_from_slice(&[activity as u8, step as u8, cause as u8, whom.purpose as u8]);
}

/// The span of these bytes; `None` if a number in it names nothing.
pub(crate) fn decode(bytes: &[u8; ENCODED]) -> Option<Span> {
    let long = |index: usize| {
        let at = 8 * index;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    let word = |index: usize| {
        let at = 48 + 4 * index;
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    Some(Span {
        track: word(0),
        lane: u16::from_le_bytes([bytes[64], bytes[65]]),
        activity: What::ALL.get(usize::from(bytes[66])).copied()?,
        step: Step::ALL.get(usize::from(bytes[67])).copied()?,
        cause: Cause::ALL.get(usize::from(bytes[68])).copied()?,
        begin: long(0),
        end: long(1),
        number: long(2),
        block: word(1),
        page: word(2),
        bytes: long(3),
        offset: long(4),
        whom: Whom {
            purpose: Purpose::ALL.get(usize::from(bytes[69])).copied()?,
            number: long(5),
            commands: word(3),
        },
    })
}
