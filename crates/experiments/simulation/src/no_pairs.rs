//! In place of loads of key-value pairs in a program that is built without them: none is opened.

use std::path::Path;

use anyhow::{bail, Result};
use serde_json::Value;
use stasis_block::clock::Nanos;
use stasis_block::Fate;
use stasis_workload::{Io, TraceError, Workload};

use crate::drive_info::DriveInfo;

pub enum PairLoad {}

impl PairLoad {
    pub fn is_over(&self) -> bool {
        match *self {}
    }
}

impl Workload for PairLoad {
    fn next_at(&self) -> Option<Nanos> {
        match *self {}
    }

    fn take(&mut self) -> Result<Option<Io>, TraceError> {
        match *self {}
    }

    fn complete(&mut self, _at: Nanos, _io: &Io, _fate: Fate) {
        match *self {}
    }

    fn fraction(&self, _now: Nanos) -> Option<f64> {
        match *self {}
    }
}

pub fn open(path: &Path, _drive: DriveInfo, _seed: u64) -> Result<PairLoad> {
    bail!(
        "{}: this program was built without key-value pairs (feature `key-value`); take one that has \
         them, or another load",
        path.display()
    )
}

pub fn segment(load: &PairLoad) -> u64 {
    match *load {}
}

pub fn counts(load: &PairLoad) -> Value {
    match *load {}
}
