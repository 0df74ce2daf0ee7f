//! A layer that lies loses nothing of the one below.

#[path = "../../../drives/drive/tests/common/probe.rs"]
mod probe;

use probe::{every_method_reaches_the_layer_below, Probe};
use stasis_crash::{Fault, FaultInjector};

#[test]
fn an_injected_fault_loses_nothing() {
    for fault in Fault::ALL {
        let (probe, asked) = Probe::new();
        let mut injector = FaultInjector::new(Box::new(probe), fault, 512);
        every_method_reaches_the_layer_below(&mut injector, &asked);
    }
}
