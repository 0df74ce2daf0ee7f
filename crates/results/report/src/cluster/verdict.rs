//! The answer of several machines: what their experiment is for.

use super::Cluster;
use crate::run_page::Time;
use crate::summary::Summary;
use crate::verdict::Verdict;

/// The answer, which the page begins with; none where nothing is to be said but of the drives.
pub(crate) fn verdict(
    _cluster: Option<&Cluster>,
    _summary: &Summary,
    _time: &Time,
) -> Option<Verdict> {
    None
}
