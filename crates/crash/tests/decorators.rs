//! A layer that lies loses nothing of the one below.

#[path = "../../drive/tests/common/probe.rs"]
mod probe;

use probe::{every_method_reaches_the_layer_below, Probe};
use stasis_crash::{Plant, Planted};

#[test]
fn a_planted_mistake_loses_nothing() {
    for plant in Plant::ALL {
        let (probe, asked) = Probe::new();
        let mut planted = Planted::new(Box::new(probe), plant);
        every_method_reaches_the_layer_below(&mut planted, &asked);
    }
}
