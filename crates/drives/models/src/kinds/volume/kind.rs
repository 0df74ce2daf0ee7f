//! The kind of model: its checks, and how it is made.

use stasis_block::{units, Model};

use super::service::{Service, Volume};
use super::spec::{VolumeSpec, MAX_TIERS};
use crate::cached::behind;
use crate::kinds::Parameters;
use crate::spec::{BuildContext, BuildError, Problem};

/// No number is 0, and none is higher than another that bounds it.
fn check_order(
    key: &'static str,
    value: Option<u64>,
    most: (&str, Option<u64>),
) -> Result<(), Problem> {
    match (value, most) {
        (Some(0), _) => Err(Problem::value(key, "must be at least 1")),
        (Some(value), (bound, Some(most))) if value > most => {
            Err(Problem::value(key, format!("is {value}: must be at most `{bound}`, {most}")))
        }
        _ => Ok(()),
    }
}

impl Parameters for VolumeSpec {
    const NAME: &'static str = "volume";

    fn check(&mut self) -> Result<(), Problem> {
        check_order("iops", self.iops, ("max_iops", self.max_iops))?;
        check_order("min_iops", self.min_iops, ("max_iops", self.max_iops))?;
        for (key, value) in [
            ("iops_per_gib", self.iops_per_gib),
            ("max_iops", self.max_iops),
            ("max_iops_per_gib", self.max_iops_per_gib),
            ("burst_iops", self.burst_iops),
            ("iops_credits", self.iops_credits),
            ("io_size", self.io_size),
            ("bandwidth_credits_per_gib", self.bandwidth_credits_per_gib),
        ] {
            check_order(key, value, ("", None))?;
        }
        let sizes = self.min_size.zip(self.max_size);
        if sizes.is_some_and(|(smallest, largest)| smallest > largest) {
            return Err(Problem::value("min_size", "must be at most `max_size`"));
        }
        if self.size.is_some_and(|size| self.min_size.is_some_and(|smallest| size < smallest)) {
            let smallest = units::format_size(self.min_size.unwrap_or(0));
            return Err(Problem::value("size", format!("must be at least {smallest}")));
        }
        if self.tiers.len() > MAX_TIERS {
            return Err(Problem::value("tiers", format!("must be at most {MAX_TIERS}")));
        }
        if !self.tiers.windows(2).all(|pair| pair[0].size < pair[1].size) {
            return Err(Problem::value("tiers", "must ascend by `size`"));
        }
        let most = self.max_bandwidth.zip(self.bandwidth);
        if let Some((most, _)) =
            most.filter(|(most, rate)| rate.bytes_per_second() > most.bytes_per_second())
        {
            return Err(Problem::value("bandwidth", format!("must be at most {most}")));
        }
        self.check_burst()
    }

    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        let error = |problem| BuildError::Volume { model: label.into(), problem };
        self.check_size(capacity).map_err(error)
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let service = Service {
            read: self.read.draw(),
            write: self.write.draw(),
            flush: self.flush,
            discard: self.discard,
            io_size: self.io_size.unwrap_or(u64::MAX),
            merge: self.merge,
        };
        let volume = Volume::new(service, &self.limits(context.capacity), context.seed);
        // Acknowledged data is on several machines: a volume outlives a power cut of its user's.
        Ok(behind(None, true, volume, None, context.seed))
    }
}
