//! The machines of a cluster: a track for each, with its lines, its faults, and its messages as flows
//! from their sending to their arrival.

use std::collections::BTreeMap;
use std::io;

use stasis_report::{KeptMoments, MomentKind};

use super::packets::{Flow, Note, Trace};

/// The process of the tracks.
const PROCESS: &str = "Cluster";

/// Which of the moments of a run are wanted.
#[derive(Debug)]
pub struct ClusterMoments {
    /// The moments.
    pub kept: KeptMoments,
    /// Moments before this time are left out (ns).
    pub from: u64,
}

/// Writes the moments. Returns their number.
pub(super) fn write(cluster: &mut ClusterMoments, trace: &mut Trace<'_>) -> io::Result<u64> {
    let ClusterMoments { kept, from } = cluster;
    let (mut tracks, mut written) = (BTreeMap::new(), 0);
    let mut track = |name: &str, trace: &mut Trace<'_>| -> io::Result<u64> {
        if let Some(known) = tracks.get(name) {
            return Ok(*known);
        }
        let uuid = trace.track(PROCESS, name, tracks.len() as u64)?;
        tracks.insert(name.to_owned(), uuid);
        Ok(uuid)
    };
    while let Some(moment) = kept.next_moment().map_err(io::Error::other)? {
        if moment.at < *from {
            continue;
        }
        written += 1;
        let own = track(&moment.machine, trace)?;
        let (category, text) = (moment.kind.name(), moment.text.as_str());
        match (moment.kind, &moment.arrival) {
            (MomentKind::Message, Some((to, arrived, bytes))) => {
                let other = track(to, trace)?;
                let notes = [Note::Text("to", to), Note::Number("bytes", *bytes)];
                trace.flow((own, moment.at), (category, text), &notes, Flow::Begins(written))?;
                let notes = [Note::Text("from", &moment.machine), Note::Number("bytes", *bytes)];
                trace.flow((other, *arrived), (category, text), &notes, Flow::Ends(written))?;
            }
            _ => trace.instant((own, moment.at), (category, text), &[])?,
        }
    }
    Ok(written)
}
