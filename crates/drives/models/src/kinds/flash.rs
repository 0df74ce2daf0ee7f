//! The kind `flash`: a flash SSD from its cells to its translation layer.

use stasis_block::Model;
use stasis_flash::{Spec, Ssd};

use super::Parameters;
use crate::spec::{BuildContext, BuildError};

/// A flash SSD is checked where its size is known.
impl Parameters for Spec {
    const NAME: &'static str = "flash";

    fn needs_capacity(&self) -> bool {
        true
    }

    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        self.check(capacity).map_err(|cause| BuildError::flash(label, cause))
    }

    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let ssd = Ssd::new(self, context.capacity, context.seed);
        Ok(Box::new(ssd.map_err(|cause| BuildError::flash(label, cause))?))
    }
}
