//! Conditions of the read cache, bit errors, scrubbing, and the parts before the translation layer
//! on a description.

use stasis_block::clock::MILLISECOND;
use stasis_block::units::{format_duration, format_size};
use stasis_block::Rate;
use stasis_nand::{Ecc, EccStep, ErrorRate};

use super::front::GENERATIONS;
use super::{FaultKind, Spec, SpecError};

impl Spec {
    /// Returns whether a drive of `capacity` bytes can have such a cache.
    pub(super) fn check_read_cache(&self, capacity: u64) -> Result<(), SpecError> {
        let Some(cache) = &self.read_cache else { return Ok(()) };
        let (least, most) = (self.mapping_unit, capacity.max(self.mapping_unit));
        if !(least..=most).contains(&cache.size) {
            let reason = format!(
                "it holds a mapping unit at least, and no more than the drive: {} to {}",
                format_size(least),
                format_size(most)
            );
            let nearest = format_size(cache.size.clamp(least, most));
            return Err(SpecError::value(
                "read_cache.size",
                format_size(cache.size),
                reason,
                nearest,
            ));
        }
        if cache.read_ahead > cache.size / 2 {
            let reason =
                "data that is read ahead would replace itself: it is half of the cache at most";
            let (value, nearest) = (format_size(cache.read_ahead), format_size(cache.size / 2));
            return Err(SpecError::value("read_cache.read_ahead", value, reason, nearest));
        }
        Ok(())
    }

    /// Returns whether pages can be corrected like that.
    pub(super) fn check_ecc(&self) -> Result<(), SpecError> {
        if self.unpowered > 0 && self.state.is_none() {
            let reason = "it is the time since the run before, which only a drive with `state` has";
            let value = format_duration(self.unpowered);
            return Err(SpecError::value("unpowered", value, reason, "0s"));
        }
        let Some(ecc) = &self.ecc else { return Ok(()) };
        if self.variation.retry.is_some() {
            let reason = "`ecc` says when reads are repeated; leave one of them out";
            return Err(SpecError::value("variation.retry", "given", reason, "none"));
        }
        ecc.ecc().check(u32::try_from(self.page_size).unwrap_or(u32::MAX))?;
        Ok(())
    }

    /// Bit errors as the array wants them; none, with the age of data alone, where only scrubbing
    /// asks for that.
    pub(crate) fn array_ecc(&self) -> Option<Ecc> {
        let none = ErrorRate { base: 0.0, wear: [0.0; 2], retention: [0.0; 3], disturb: [0.0; 3] };
        let ages = || Ecc {
            rate: none,
            codeword: u32::try_from(self.page_size).unwrap_or(u32::MAX),
            steps: vec![EccStep { bits: 0, errors: 1.0, reads: 0, latency: 0 }],
            age: 0,
            erases: 0,
        };
        let given = self.ecc.as_ref().map(|ecc| ecc.ecc());
        given.or_else(|| self.scrub.is_some().then(ages))
    }

    /// Returns whether a drive can be scrubbed like that.
    pub(super) fn check_scrub(&self) -> Result<(), SpecError> {
        let Some(scrub) = &self.scrub else { return Ok(()) };
        if !matches!(self.ftl.as_str(), "page" | "dftl") {
            let reason = "`scrub` moves data where units lie anywhere";
            return Err(SpecError::value("ftl", format!("\"{}\"", self.ftl), reason, "\"page\""));
        }
        if scrub.period < MILLISECOND {
            let reason = "each block is visited once in a millisecond at most";
            let value = format_duration(scrub.period);
            return Err(SpecError::value("scrub.period", value, reason, "1ms"));
        }
        if scrub.age.is_none() && scrub.step.is_none() {
            let reason = "nothing would be moved; give `scrub.age`, `scrub.step` or both";
            return Err(SpecError::value("scrub.age", "none", reason, "\"720h\""));
        }
        let steps = self.ecc.as_ref().map_or(0, |ecc| ecc.steps.len());
        if let Some(step) = scrub.step.filter(|&step| step < 2 || usize::from(step) > steps) {
            let reason = match steps {
                0 | 1 => "only a drive with `ecc` has steps after the first".to_owned(),
                _ => format!("`ecc` has {steps} steps, and the first moves nothing"),
            };
            return Err(SpecError::value("scrub.step", step, reason, 2));
        }
        // A command that never completes keeps the drive awake, which then visits blocks for ever.
        if self.faults.iter().any(|fault| fault.kind == FaultKind::StuckCommand) {
            let reason = "a drive with a stuck command would be scrubbed without end";
            return Err(SpecError::value("faults.kind", "\"stuck-command\"", reason, "none"));
        }
        Ok(())
    }

    /// The rates of the host interface: to the host, and to the drive.
    pub(crate) fn interface(&self) -> [Option<Rate>; 2] {
        match &self.pcie {
            Some(pcie) => [Some(pcie.to_host()), Some(pcie.to_drive())],
            None => [self.interface_rate, self.interface_rate],
        }
    }

    /// Returns whether a drive can have such parts.
    pub(super) fn check_front(&self) -> Result<(), SpecError> {
        if let Some(processors) = &self.processors {
            if !(1..=256).contains(&processors.cores) {
                let nearest = processors.cores.clamp(1, 256);
                let reason = "the firmware runs on 1 to 256 processors";
                return Err(SpecError::value(
                    "processors.cores",
                    processors.cores,
                    reason,
                    nearest,
                ));
            }
        }
        if let Some(dram) = &self.dram {
            if !(1..=16).contains(&dram.passes) {
                let nearest = dram.passes.clamp(1, 16);
                let reason = "data crosses the memory 1 to 16 times";
                return Err(SpecError::value("dram.passes", dram.passes, reason, nearest));
            }
        }
        let Some(pcie) = &self.pcie else { return Ok(()) };
        if let Some(rate) = self.interface_rate {
            let reason = "`pcie` says the rate of the interface; leave one of them out";
            return Err(SpecError::value("interface_rate", rate, reason, "none"));
        }
        if pcie.link.generation() > GENERATIONS {
            let reason = "the packets of PCIe 6.0 are not framed one by one";
            let nearest = format!("PCIe {GENERATIONS}.0 x{}", pcie.link.lanes());
            return Err(SpecError::value("pcie.link", pcie.link, reason, nearest));
        }
        let payload = pcie.payload;
        if !payload.is_power_of_two() || !(128..=4_096).contains(&payload) {
            let reason = "a packet has 128, 256, 512, 1024, 2048 or 4096 bytes of data at most";
            let nearest = payload.clamp(128, 4_096).next_power_of_two();
            return Err(SpecError::value("pcie.payload", payload, reason, nearest));
        }
        Ok(())
    }
}
