//! The examples of `docs/guides/ftl.md` are these files, and do what it says.

mod direct;

use stasis_block::{Command, Completion, Health, Model, Operation, VendorCommand};
use stasis_flash::spec::{GcSpec, Precondition};
use stasis_flash::{Spec, Ssd};

const MIB: u64 = 1 << 20;

fn small() -> Spec {
    let mut spec =
        Spec { channels: 2, luns: 2, pages: Some(16), page_size: 4096, ..Spec::default() };
    (spec.buffer, spec.over_provisioning) = (0, Some(0.28));
    spec.precondition = Some(Precondition::None);
    spec
}

fn until_idle(ssd: &mut Ssd) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
    }
    done
}

#[test]
fn the_page_shows_the_files() {
    let page = include_str!("../../../../../docs/guides/ftl.md");
    for (name, code) in [
        ("direct", include_str!("direct.rs")),
        ("oldest", include_str!("../../src/gc/oldest.rs")),
        ("health", include_str!("../../src/vendor/health.rs")),
    ] {
        assert!(page.contains(&format!("```rust\n{code}```")), "{name} is not as in the page");
    }
}

#[test]
fn a_translation_layer_of_ones_own_runs() {
    let mut ssd = Ssd::with_ftl(&small(), 16 * MIB, 1, direct::build).unwrap();
    ssd.submit(0, 0, &Command::new(Operation::Write, 0, 16 * 4096));
    ssd.submit(0, 1, &Command::new(Operation::Read, 0, 4096));
    let done = until_idle(&mut ssd);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|completion| completion.at > small().controller));
}

#[test]
fn a_policy_of_ones_own_collects() {
    let amplification = |policy: &str| {
        let gc = GcSpec { policy: policy.into(), ..GcSpec::default() };
        let mut ssd = Ssd::new(&Spec { gc, ..small() }, 16 * MIB, 1).unwrap();
        let mut state = 1u64;
        for tag in 0..16_384 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = (state >> 33) % 4096;
            ssd.submit(
                u64::from(tag) * 1_000_000,
                tag,
                &Command::new(Operation::Write, unit * 4096, 4096),
            );
            ssd.advance(u64::from(tag) * 1_000_000, &mut Vec::new());
        }
        until_idle(&mut ssd);
        ssd.report(0).write_amplification
    };
    let (greedy, oldest) = (amplification("greedy"), amplification("oldest"));
    assert!(1.0 < greedy && greedy < oldest, "{greedy} {oldest}");
}

#[test]
fn a_vendor_command_of_ones_own_answers() {
    let mut ssd = Ssd::new(&small(), 16 * MIB, 1).unwrap();
    let mut command = VendorCommand { opcode: 0xCA, dwords: [0; 6], data: vec![0; 512] };
    let length = ssd.vendor(0, &mut command).unwrap() as usize;
    let health: Health = serde_json::from_slice(&command.data[..length]).unwrap();
    assert_eq!(health, ssd.health());
}
