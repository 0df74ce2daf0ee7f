//! Write amplification of greedy collection under uniformly random writes,
//! beside the published curve:
//! `cargo run --release -p stasis-flash --example write_amplification`.
//!
//! Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR 2012: of T
//! blocks of flash and U of data, with the spare factor (T - U) / T and
//! a = T / U, cleaning in the order of writing amplifies by
//! A(a) = a / (a + W(-a exp(-a))) (equation 4), greedy cleaning of blocks of n
//! pages by A(k a) / k with k = 1 + 1 / 2n (equation 12). W is Lambert's.
//!
//! The drive is really written, from empty: in order, then at random four times
//! over, then twice while it is measured. T is everything, also what the drive
//! keeps free.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stasis_block::{Command, Model, Operation};
use stasis_flash::spec::{GcSpec, Precondition};
use stasis_flash::{Spec, Ssd};

const PAGE: u64 = 4096;
const PAGES: u32 = 64;
const BLOCKS: u32 = 8192;

/// A(a) of equation 4: with u the valid share of a victim, u = exp(-a (1 - u)).
fn in_order(a: f64) -> f64 {
    let mut u = 0.5;
    for _ in 0..10_000 {
        u = f64::exp(-a * (1.0 - u));
    }
    1.0 / (1.0 - u)
}

/// Equation 12.
fn greedy(a: f64, pages: f64) -> f64 {
    let k = 1.0 + 1.0 / (2.0 * pages);
    in_order(k * a) / k
}

fn write(ssd: &mut Ssd, now: &mut u64, count: u64, random: &mut Xoshiro256PlusPlus) {
    let units = ssd.capacity() / PAGE;
    let mut next = || {
        let unit = ((u128::from(random.next_u64()) * u128::from(units)) >> 64) as u64;
        Command::new(Operation::Write, unit * PAGE, PAGE)
    };
    let (mut sent, mut flying, mut done) = (0, 0, Vec::new());
    while sent < count.min(16) {
        ssd.submit(*now, sent as u32, &next());
        (sent, flying) = (sent + 1, flying + 1);
    }
    while flying > 0 {
        let Some(at) = ssd.next_event() else { return };
        ssd.advance(at, &mut done);
        *now = at;
        for completion in done.drain(..) {
            flying -= 1;
            if sent < count {
                ssd.submit(at, completion.tag, &next());
                (sent, flying) = (sent + 1, flying + 1);
            }
        }
    }
}

fn main() {
    println!("spare  measured  greedy (eq. 12)   off   in order (eq. 4)");
    for spare in [0.07, 0.15, 0.28] {
        let blocks = (f64::from(BLOCKS) * (1.0 - spare)).round();
        let capacity = blocks as u64 * u64::from(PAGES) * PAGE;
        let spec = Spec {
            channels: 1,
            luns: 1,
            planes: 1,
            blocks: Some(BLOCKS),
            pages: Some(PAGES),
            page_size: PAGE,
            mapping_unit: PAGE,
            cells: "slc".into(),
            buffer: 0,
            precondition: Some(Precondition::Sequential),
            gc: GcSpec { foreground: 3, ..GcSpec::default() },
            ..Spec::default()
        };
        let mut ssd = match Ssd::new(&spec, capacity, 1) {
            Ok(ssd) => ssd,
            Err(refusal) => return println!("{refusal}"),
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut now, units) = (0, capacity / PAGE);
        write(&mut ssd, &mut now, 4 * units, &mut random);
        let before = ssd.context().statistics.clone();
        write(&mut ssd, &mut now, 2 * units, &mut random);
        let after = &ssd.context().statistics;
        let moved = (after.moved_units - before.moved_units) as f64;
        let host = (after.programmed_units - before.programmed_units) as f64;
        let measured = 1.0 + moved / host;
        let a = f64::from(BLOCKS) / blocks;
        let theory = greedy(a, f64::from(PAGES));
        println!(
            "{:>4.0} %  {measured:>8.3}  {theory:>15.3} {:>+5.1} % {:>17.3}",
            spare * 100.0,
            (measured / theory - 1.0) * 100.0,
            in_order(a)
        );
    }
}
