//! The requests that are with the drive, by the controller whose host asked for them: also those of
//! a host that has gone since.

use stasis_block::Tag;
use stasis_nvme::ControllerId;

/// Requests with the drive.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// The controller of each request, by its tag; none of one whose controller was reset before it
    /// reached the drive.
    controllers: Vec<Option<ControllerId>>,
    /// Number of those of each controller.
    counts: Vec<usize>,
    /// Number of those of none.
    orphans: usize,
}

impl UnderWay {
    fn count(&mut self, controller: Option<ControllerId>) -> &mut usize {
        let Some(ControllerId(index)) = controller else { return &mut self.orphans };
        let index = usize::from(index);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        &mut self.counts[index]
    }

    /// Counts a request that goes to the drive.
    pub(super) fn begin(&mut self, tag: Tag, controller: Option<ControllerId>) {
        let index = tag as usize;
        if self.controllers.len() <= index {
            self.controllers.resize(index + 1, None);
        }
        self.controllers[index] = controller;
        *self.count(controller) += 1;
    }

    /// Counts a request that the drive has done.
    pub(super) fn end(&mut self, tag: Tag) {
        let controller = self.controllers.get(tag as usize).copied().flatten();
        let count = self.count(controller);
        *count = count.saturating_sub(1);
    }

    /// Returns whether requests of a controller may be with the drive.
    pub(super) fn has(&self, controller: ControllerId) -> bool {
        self.orphans > 0
            || self.counts.get(usize::from(controller.0)).is_some_and(|&count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_its_controllers_until_it_ends() {
        let mut under_way = UnderWay::default();
        let (one, other) = (ControllerId(0), ControllerId(1));
        under_way.begin(7, Some(other));
        assert!(!under_way.has(one) && under_way.has(other));
        under_way.begin(0, None);
        assert!(under_way.has(one), "whose it was is not known");
        under_way.end(0);
        under_way.end(7);
        assert!(!under_way.has(one) && !under_way.has(other));
        // A tag comes again, of another controller.
        under_way.begin(7, Some(one));
        assert!(under_way.has(one) && !under_way.has(other));
    }
}
