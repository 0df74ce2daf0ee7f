//! The kind `profile`: latencies as measured.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stasis_block::{Model, Operation};

use super::operation_times::operation_times;
use super::Parameters;
use crate::cached::behind;
use crate::empirical::Empirical;
use crate::profile::Profile;
use crate::span::Span;
use crate::spec::{
    check_protection, is_false, BuildContext, BuildError, CacheSpec, Problem, ResolveError,
};

operation_times! {
    /// The kind `profile`: latencies as measured. A profile without writes refuses writes if `write`
    /// is not given.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ProfileSpec {
        /// The profile's file, relative to the experiment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub file: Option<String>,
        /// Its content; [`ModelSpec::resolve`](crate::ModelSpec::resolve) puts it here.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub profile: Option<Profile>,
    }
}

impl ProfileSpec {
    fn costs(&self) -> [Option<Span>; Operation::ALL.len()] {
        let [read, write, flush, discard, write_zeroes] = self.times();
        [read, write, flush, discard, write_zeroes, None, None, None]
    }
}

impl Parameters for ProfileSpec {
    const NAME: &'static str = "profile";
    const WORD: Option<&'static str> = Some("profile:my-drive.json");

    fn of_word(file: &str) -> Result<Self, String> {
        if file.is_empty() {
            return Err("a file is missing: `profile:my-drive.json`".into());
        }
        Ok(Self { file: Some(file.into()), ..Self::default() })
    }

    fn check(&mut self) -> Result<(), Problem> {
        if self.profile.is_none() && self.file.is_none() {
            return Err(Problem::Missing("file"));
        }
        let checked = self.profile.as_mut().map_or(Ok(()), Profile::check);
        checked.map_err(|error| Problem::value("profile", error.to_string()))?;
        self.check_service()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what is read becomes part of the description, before a model is built"
    )]
    fn resolve(&mut self, base: &Path) -> Result<(), ResolveError> {
        let (Some(file), None) = (&self.file, &self.profile) else { return Ok(()) };
        let path = base.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| ResolveError::Read { path: path.clone(), cause })?;
        let profile = Profile::from_json(&text);
        self.profile = Some(profile.map_err(|cause| ResolveError::Profile { path, cause })?);
        Ok(())
    }

    fn build(&self, _label: &str, context: &BuildContext) -> Result<Box<dyn Model>, BuildError> {
        let Some(profile) = &self.profile else {
            let file = self.file.clone().unwrap_or_default();
            return Err(BuildError::Unresolved { file });
        };
        let parallelism = self.parallelism.or(profile.depth);
        let mut empirical = Empirical::new(profile, context.path, self.costs(), context.seed);
        if parallelism == Some(1) {
            // One at a time is as fast as its latencies.
            empirical = empirical.without_limits();
        }
        Ok(behind(self.cache.as_ref(), self.plp, empirical, parallelism, context.seed))
    }
}
