//! Parameters of any kind, and the registration of a kind.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};
use stasis_block::Model;
use stasis_config::{self as config, tagged, AnyParameters, Erased, Tag};

use super::{LogShape, Parameters};
use crate::spec::{BuildContext, BuildError, ResolveError, SpecError};

/// A kind of model with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelKind(Erased<dyn AnyModel>);

impl ModelKind {
    /// Reads these parameters.
    pub fn of(parameters: impl Parameters) -> Self {
        Self(Erased::new(Arc::new(parameters)))
    }

    /// The word of the key `kind`.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The parameters, if they are of type `P`.
    pub fn get<P: Parameters>(&self) -> Option<&P> {
        self.0.get()
    }

    /// The parameters, for a model that knows their type ([`Model::adapt`]).
    pub fn parameters(&self) -> Arc<dyn Any + Send + Sync> {
        self.0.shared()
    }

    /// Returns whether the parameters are of type `P`.
    pub fn is<P: Parameters>(&self) -> bool {
        self.get::<P>().is_some()
    }

    /// [`Parameters::needs_capacity`].
    pub fn needs_capacity(&self) -> bool {
        self.0.needs_capacity()
    }

    /// [`Parameters::ADAPTS`].
    pub(crate) fn adapts(&self) -> Option<&'static [&'static str]> {
        self.0.adapts()
    }

    /// [`Parameters::seeks`].
    pub fn seeks(&self) -> bool {
        self.0.seeks()
    }

    /// [`Parameters::begins_by_seed`].
    pub fn begins_by_seed(&self) -> bool {
        self.0.begins_by_seed()
    }

    /// [`Parameters::zone`].
    pub fn zone(&self, capacity: u64) -> Option<u64> {
        self.0.zone(capacity)
    }

    /// [`Parameters::for_pairs`].
    #[must_use]
    pub(crate) fn for_pairs(&self) -> Self {
        self.0.for_pairs()
    }

    /// [`Parameters::log_shape`].
    pub fn log_shape(&self, capacity: u64) -> Option<LogShape> {
        self.0.log_shape(capacity)
    }

    /// [`Parameters::state_file`].
    pub fn state_file(&self) -> Option<&Path> {
        self.0.state_file().map(Path::new)
    }

    pub(crate) fn capacity(&self) -> Option<u64> {
        self.0.capacity()
    }

    pub(crate) fn resolve(&mut self, base: &Path) -> Result<(), ResolveError> {
        *self = self.0.resolved(base)?;
        Ok(())
    }

    pub(crate) fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        self.0.fits(label, capacity)
    }

    pub(crate) fn build(
        &self,
        label: &str,
        context: &BuildContext,
    ) -> Result<Box<dyn Model>, BuildError> {
        self.0.build(label, context)
    }

    /// The keys and their values.
    pub(crate) fn table(&self) -> serde_json::Result<Map<String, Value>> {
        self.0.table()
    }
}

/// [`Parameters`] whose type is not known any more.
trait AnyModel: AnyParameters {
    fn name(&self) -> &'static str;
    fn adapts(&self) -> Option<&'static [&'static str]>;
    fn capacity(&self) -> Option<u64>;
    fn needs_capacity(&self) -> bool;
    fn seeks(&self) -> bool;
    fn begins_by_seed(&self) -> bool;
    fn zone(&self, capacity: u64) -> Option<u64>;
    fn for_pairs(&self) -> ModelKind;
    fn log_shape(&self, capacity: u64) -> Option<LogShape>;
    fn state_file(&self) -> Option<&str>;
    fn resolved(&self, base: &Path) -> Result<ModelKind, ResolveError>;
    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError>;
    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError>;
}

impl<P: Parameters> AnyModel for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn adapts(&self) -> Option<&'static [&'static str]> {
        P::ADAPTS
    }

    fn capacity(&self) -> Option<u64> {
        Parameters::capacity(self)
    }

    fn needs_capacity(&self) -> bool {
        Parameters::needs_capacity(self)
    }

    fn seeks(&self) -> bool {
        Parameters::seeks(self)
    }

    fn begins_by_seed(&self) -> bool {
        Parameters::begins_by_seed(self)
    }

    fn zone(&self, capacity: u64) -> Option<u64> {
        Parameters::zone(self, capacity)
    }

    fn for_pairs(&self) -> ModelKind {
        ModelKind::of(Parameters::for_pairs(self.clone()))
    }

    fn log_shape(&self, capacity: u64) -> Option<LogShape> {
        Parameters::log_shape(self, capacity)
    }

    fn state_file(&self) -> Option<&str> {
        Parameters::state_file(self)
    }

    fn resolved(&self, base: &Path) -> Result<ModelKind, ResolveError> {
        let mut parameters = self.clone();
        parameters.resolve(base)?;
        Ok(ModelKind::of(parameters))
    }

    fn fits(&self, label: &str, capacity: u64) -> Result<(), BuildError> {
        Parameters::fits(self, label, capacity)
    }

    fn build(&self, label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        Parameters::build(self, label, context)
    }
}

/// A kind that descriptions can name.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// The word of the key `kind`.
    pub name: &'static str,
    /// An example of a word that stands for a table of this kind, where one does.
    pub word: Option<&'static str>,
    pub(crate) read: fn(Map<String, Value>) -> Result<ModelKind, SpecError>,
    pub(crate) of_word: fn(&str) -> Result<ModelKind, String>,
    pub(crate) keys: fn() -> Vec<String>,
    pub(crate) schema: fn(&mut SchemaGenerator, &Tag, &Map<String, Value>) -> Schema,
}

impl Registered {
    /// The kind that has these parameters.
    pub const fn of<P: Parameters>() -> Self {
        Self {
            name: P::NAME,
            word: P::WORD,
            read: read::<P>,
            of_word: of_word::<P>,
            keys: config::keys_read::<P>,
            schema: tagged::<P>,
        }
    }
}

/// Reads the keys of a kind.
fn read<P: Parameters>(table: Map<String, Value>) -> Result<ModelKind, SpecError> {
    let read = config::read::<P>(table.into());
    let mut parameters = read.map_err(|error| SpecError::of_table(P::NAME, &error))?;
    parameters.check().map_err(|problem| SpecError::of_check(P::NAME, problem))?;
    Ok(ModelKind::of(parameters))
}

fn of_word<P: Parameters>(value: &str) -> Result<ModelKind, String> {
    P::of_word(value).map(ModelKind::of)
}
