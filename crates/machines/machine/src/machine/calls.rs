//! Calls of a guest's agent, which sleeps while its command runs: by an interrupt of the guest's kernel
//! ([`Call`]). A step of the machine: who may call is of `orders` and `branch`.

use stasis_channel::Call;

use super::vm::Machine;
use crate::error::Error;
use crate::vcpu::ProcessorState;

impl Machine {
    /// Calls the agent. Returns where in the guest's memory it has written, and what was there.
    pub(super) fn call(&mut self, call: Call) -> Result<(u64, [u8; 8]), Error> {
        const UNKNOWN: &str =
            "the guest's kernel is not the one whose symbols are kept, or has moved: \
                               it cannot be called";
        let (address, before) = self.point(call).ok_or_else(|| Error::Limit(UNKNOWN.into()))?;
        self.raise_call();
        Ok((address, before))
    }

    /// Has the kernel's pointer name the function. Returns where in the guest's memory that is, and
    /// what was there; nothing if the places are not the kernel's, or the engine cannot look.
    pub(super) fn point(&mut self, call: Call) -> Option<(u64, [u8; 8])> {
        const LENGTH: u64 = size_of::<u64>() as u64;
        let mut vcpus = self.vcpus.iter_mut().filter_map(|vcpu| vcpu.debug());
        let place = vcpus.find_map(|vcpu| vcpu.translate(None, call.callback));
        let (address, _) = place.filter(|(_, room)| *room >= LENGTH)?;
        let mut before = [0; LENGTH as usize];
        self.memory.read(address, &mut before).ok()?;
        self.memory.write(address, &call.function.to_le_bytes()).ok()?;
        Some((address, before))
    }

    /// Has the interrupt come whose handler calls that function.
    pub(super) fn raise_call(&mut self) {
        // One that has nothing else to do, or else the first, which is always there.
        let idle = |processor: &crate::vcpu::Processor| processor.state == ProcessorState::Halted;
        let index = self.processors.iter().position(idle).unwrap_or(0);
        self.processors[index].apic.raise(Call::VECTOR);
    }
}
