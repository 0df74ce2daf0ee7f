//! Small drives for the parts' tests.

use stasis_nand::{Array, ArrayConfig};

use crate::ftl::{Context, Shape};
use crate::spec::Spec;
use crate::statistics::Temperature;

/// Bytes of a unit, and of a page.
pub(super) const UNIT: u64 = 4096;

/// `spec` with `planes` planes, whose blocks have `pages` pages of one slot, and room for `units`
/// units.
pub(super) fn drive(spec: Spec, planes: u32, pages: u32, units: u64) -> (Spec, Shape) {
    let spec = Spec { channels: planes, luns: 1, planes: 1, pages: Some(pages), ..spec };
    let spec = Spec { page_size: UNIT, mapping_unit: UNIT, cells: "slc".into(), ..spec };
    let shape = Shape::new(&spec, units * UNIT);
    (spec, shape)
}

/// A context with an array without faults.
pub(super) fn context(spec: &Spec, shape: &Shape) -> Context {
    let pattern = spec.pattern(shape.geometry.pages).unwrap();
    let timing = spec.timing.timing(&spec.cells, &pattern).unwrap();
    let config = ArrayConfig {
        variation: spec.variation.variation(),
        ..ArrayConfig::new(shape.geometry, pattern, timing)
    };
    let temperature = Temperature::new(0, spec.mapping_unit as u32);
    Context::new(Array::new(config, spec.options()), temperature)
}
