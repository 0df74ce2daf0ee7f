//! The kind `flash`: a flash SSD from its cells to its translation layer.

use std::io::ErrorKind;
use std::path::Path;

use stasis_block::Model;
use stasis_flash::{Spec, Ssd};

use super::{LogShape, Parameters};
use crate::spec::{BuildContext, BuildError, ResolveError};

/// A flash SSD is checked where its size is known.
impl Parameters for Spec {
    const NAME: &'static str = "flash";
    const ADAPTS: Option<&'static [&'static str]> = Some(&stasis_flash::ADAPTS);

    fn needs_capacity(&self) -> bool {
        true
    }

    fn zone(&self, capacity: u64) -> Option<u64> {
        (self.ftl == "zoned").then(|| Spec::zone(self, capacity))
    }

    fn for_pairs(self) -> Self {
        Spec::for_pairs(self)
    }

    fn log_shape(&self, capacity: u64) -> Option<LogShape> {
        matches!(self.ftl.as_str(), "page" | "dftl").then(|| LogShape {
            erased: self.superblock(capacity),
            page: (!self.plp || self.buffer == 0).then_some(self.page_size),
        })
    }

    /// Where bad blocks are, and what is written where.
    fn begins_by_seed(&self) -> bool {
        true
    }

    fn state_file(&self) -> Option<&str> {
        self.state.as_deref()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what is read becomes part of the description, before a model is built"
    )]
    fn resolve(&mut self, base: &Path) -> Result<(), ResolveError> {
        let (Some(file), None) = (&self.state, &self.kept) else { return Ok(()) };
        let path = base.join(file);
        let path = std::path::absolute(&path)
            .map_err(|cause| ResolveError::Read { path: path.clone(), cause })?;
        match std::fs::read_to_string(&path) {
            Ok(text) => self.kept = Some(text),
            // The first run with it makes it.
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(ResolveError::Read { path, cause }),
        }
        self.state = Some(path.to_string_lossy().into_owned());
        Ok(())
    }

    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        self.check(capacity).map_err(|cause| BuildError::flash(label, cause))
    }

    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let ssd = Ssd::new(self, context.capacity, context.seed);
        Ok(Box::new(ssd.map_err(|cause| BuildError::flash(label, cause))?))
    }
}
