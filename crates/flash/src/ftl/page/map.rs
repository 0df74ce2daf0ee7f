//! Where each unit lies, and which unit each slot holds.

/// Both directions. Untouched parts of a large drive take no memory: nothing is
/// written as zero.
#[derive(Debug)]
pub(crate) struct Map {
    // One more than the slot; 0 for none.
    slots: Vec<u32>,
    // One more than the unit; 0 where a slot holds nothing that counts.
    units: Vec<u32>,
}

impl Map {
    pub fn new(units: u32, slots: u64) -> Self {
        Self { slots: vec![0; units as usize], units: vec![0; slots as usize] }
    }

    /// Where a unit lies.
    pub fn slot(&self, unit: u32) -> Option<u32> {
        self.slots[unit as usize].checked_sub(1)
    }

    /// What a slot holds.
    pub fn unit(&self, slot: u32) -> Option<u32> {
        self.units[slot as usize].checked_sub(1)
    }

    /// The unit lies there now; where it lay before.
    pub fn set(&mut self, unit: u32, slot: u32) -> Option<u32> {
        self.units[slot as usize] = unit + 1;
        let old = std::mem::replace(&mut self.slots[unit as usize], slot + 1).checked_sub(1)?;
        self.units[old as usize] = 0;
        Some(old)
    }

    /// The unit lies nowhere now; where it lay before.
    pub fn clear(&mut self, unit: u32) -> Option<u32> {
        let old = std::mem::take(&mut self.slots[unit as usize]).checked_sub(1)?;
        self.units[old as usize] = 0;
        Some(old)
    }

    /// Units and slots name one another.
    pub fn check(&self) {
        for (unit, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot.checked_sub(1) {
                assert_eq!(self.units[slot as usize], unit as u32 + 1, "unit {unit}");
            }
        }
        let held = self.units.iter().filter(|&&unit| unit > 0).count();
        let mapped = self.slots.iter().filter(|&&slot| slot > 0).count();
        assert_eq!(held, mapped, "each unit lies in one slot at most");
    }
}
