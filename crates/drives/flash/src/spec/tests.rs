use super::*;

#[test]
fn what_cannot_work_is_refused_with_the_nearest_that_does() {
    let base = Spec::default;
    for (spec, capacity, wanted) in [
        (Spec { ftl: "pages".into(), ..base() }, 1 << 30, "did you mean `page`"),
        (Spec { mapping_unit: 3_000, ..base() }, 1 << 30, "`mapping_unit` = 3kB"),
        (Spec { mapping_unit: 32 << 10, ..base() }, 1 << 30, "nearest that works is 16KiB"),
        (Spec { mapping_unit: 512, ..base() }, 8 << 40, "nearest that works is 4KiB"),
        (Spec { stripe: "channel,lun".into(), ..base() }, 1 << 30, "`stripe`"),
        (Spec { registers: 3, ..base() }, 1 << 30, "nearest that works is 2"),
        (Spec { blocks: Some(10), ..base() }, 64 << 30, "`blocks` = 10"),
        (Spec { cells: "LLx(".into(), ..base() }, 1 << 30, "`cells`"),
        (Spec { over_provisioning: Some(-1.0), ..base() }, 1 << 30, "`over_provisioning`"),
        (
            Spec { over_provisioning: Some(0.07), blocks: Some(800), ..base() },
            64 << 30,
            "leave one of the two out",
        ),
        (Spec { gc: GcSpec { foreground: 0, ..GcSpec::default() }, ..base() }, 1 << 30, "is 3"),
        (Spec { channels: 0, ..base() }, 1 << 30, "`channels`"),
        (base(), 0, "`capacity`"),
    ] {
        let error = spec.check(capacity).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let refused = Spec { blocks: Some(10), ..base() }.check(64 << 30).unwrap_err();
    let SpecError::Value { nearest, .. } = refused else { panic!("{refused}") };
    let right = Spec { blocks: Some(nearest.parse().unwrap()), ..base() };
    assert_eq!(right.check(64 << 30), Ok(()));
}

/// Collections have the over-provisioning asked for, to half a block, by smaller blocks on small
/// drives; else it is refused.
#[test]
fn over_provisioning_is_as_asked_or_refused() {
    let effective = |spec: &Spec, capacity: u64| {
        let geometry = spec.geometry(capacity);
        let flash = geometry.total_pages() * u64::from(geometry.page_size);
        flash as f64 / capacity as f64 - 1.0
    };
    let asked = |share| Spec { over_provisioning: Some(share), ..Spec::default() };
    for (capacity, pages) in [(1 << 30, 8), (4 << 30, 16), (16 << 30, 64), (64u64 << 30, 256)] {
        for spec in [Spec::default(), asked(0.07)] {
            spec.check(capacity).unwrap();
            assert_eq!(spec.pages(capacity), pages, "{capacity}");
            // Beside the blocks that are open and kept free: nearly two free ones, and two open
            // ones, which are half full.
            let planes = u64::from(spec.channels * spec.luns * spec.planes);
            let block = (planes * u64::from(pages) * spec.page_size) as f64 / capacity as f64;
            let share = effective(&spec, capacity) - (1.75 + 2.0 - 1.07) * block;
            assert!((share - 0.07).abs() <= block / 2.0 + 1e-9, "{capacity}: {share}");
        }
    }
    // Smaller still: as much as the geometry needs, unless something else was asked for.
    let needed = effective(&Spec::default(), 256 << 20);
    assert!((0.2..0.25).contains(&needed), "{needed}");
    let blocks = |share| Spec { pages: Some(256), ..asked(share) };
    for (spec, capacity) in
        [(asked(0.07), 256 << 20), (blocks(0.07), 4 << 30), (blocks(0.3), 1 << 30)]
    {
        let refused = spec.check(capacity).unwrap_err();
        let SpecError::Value { key, nearest, .. } = &refused else { panic!("{refused}") };
        assert_eq!(*key, "over_provisioning");
        let right = Spec { over_provisioning: Some(nearest.parse().unwrap()), ..spec };
        assert_eq!(right.check(capacity), Ok(()), "{refused}");
    }
    let refused = blocks(0.07).check(4 << 30).unwrap_err().to_string();
    assert!(refused.contains("with `pages` = 32 it has room"), "{refused}");
    // A pattern of page types limits how small a block is.
    let femu = Spec { cells: "LLLLLuLLu(LLuu)*".into(), ..Spec::default() };
    femu.check(1 << 30).unwrap();
}

#[test]
fn stripes_go_round_in_the_order_of_their_words() {
    let order = |stripe: &str| {
        let spec =
            Spec { channels: 2, luns: 2, planes: 2, stripe: stripe.into(), ..Spec::default() };
        spec.stripe_order().unwrap()
    };
    // Planes are numbered plane by plane, LUN by LUN, channel by channel.
    assert_eq!(order("plane,lun,channel"), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(order("channel,lun,plane"), [0, 4, 2, 6, 1, 5, 3, 7]);
    assert_eq!(order("lun, plane, channel"), [0, 2, 1, 3, 4, 6, 5, 7]);
}
