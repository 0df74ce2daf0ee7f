//! The guest's registers by their numbers.

use super::enter::Context;
use super::vmcb::{Vmcb, RAX, RSP};

/// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15: as instructions number them.
pub(super) const RAX_NUMBER: usize = 0;
pub(super) const RCX_NUMBER: usize = 1;
pub(super) const RDX_NUMBER: usize = 2;
pub(super) const RBX_NUMBER: usize = 3;
pub(super) const RSI_NUMBER: usize = 6;
pub(super) const RDI_NUMBER: usize = 7;

pub(super) fn get(context: &Context, vmcb: &Vmcb, number: usize) -> u64 {
    match number {
        0 => vmcb.get(RAX),
        4 => vmcb.get(RSP),
        1..=3 => context.registers[number - 1],
        _ => context.registers[(number - 2) % 14],
    }
}

pub(super) fn set(context: &mut Context, vmcb: &mut Vmcb, number: usize, value: u64) {
    match number {
        0 => vmcb.set(RAX, value),
        4 => vmcb.set(RSP, value),
        1..=3 => context.registers[number - 1] = value,
        _ => context.registers[(number - 2) % 14] = value,
    }
}

/// Writes `size` bytes of a register: 4 clear its upper half, fewer leave the
/// rest as it is (AMD64 APM vol. 1, 3.1.2).
pub(super) fn set_sized(
    context: &mut Context,
    vmcb: &mut Vmcb,
    number: usize,
    size: usize,
    value: u64,
) {
    let old = get(context, vmcb, number);
    let value = match size {
        8 => value,
        4 => value & 0xffff_ffff,
        _ => {
            let mask = (1 << (8 * size)) - 1;
            old & !mask | value & mask
        }
    };
    set(context, vmcb, number, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_a_register_of_its_own() {
        let mut vmcb = Vmcb::new();
        let mut context = Context::new(0);
        for number in 0..16 {
            set(&mut context, &mut vmcb, number, 100 + number as u64);
        }
        for number in 0..16 {
            assert_eq!(get(&context, &vmcb, number), 100 + number as u64);
        }
        set(&mut context, &mut vmcb, 3, u64::MAX);
        set_sized(&mut context, &mut vmcb, 3, 1, 0);
        assert_eq!(get(&context, &vmcb, 3), u64::MAX - 0xff);
        set_sized(&mut context, &mut vmcb, 3, 4, 5);
        assert_eq!(get(&context, &vmcb, 3), 5);
    }
}
