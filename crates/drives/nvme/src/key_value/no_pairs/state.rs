//! Types of which there is no value, and the functions of them.

use stasis_block::Status;
use stasis_key_value::KeptPairs;
use stasis_nvme_layout::command_sets;

use crate::config::Namespace;
use crate::identity::NamespaceIdentity;
use crate::slots::Slot;
use crate::status::StatusCode;

#[derive(Debug)]
pub enum Pair {}

impl Pair {
    pub fn length(&self) -> u32 {
        match *self {}
    }
}

#[derive(Debug)]
pub enum KeyValueNamespace {}

impl KeyValueNamespace {
    pub fn new(_namespace: &Namespace, _transfer: u32) -> Option<Self> {
        None
    }

    pub fn kept(&self) -> Option<KeptPairs> {
        match *self {}
    }

    pub fn restore(&mut self, _kept: &KeptPairs) -> Result<(), &'static str> {
        match *self {}
    }

    pub fn clear(&mut self) {
        match *self {}
    }

    pub fn forget(&mut self, _count: usize) -> bool {
        match *self {}
    }

    pub fn leave(&mut self, _slot: &Slot, _status: Status) -> Option<StatusCode> {
        match *self {}
    }
}

pub fn fill_key_value_namespace(
    _page: &mut command_sets::KeyValueNamespace,
    pairs: &KeyValueNamespace,
    _identity: &NamespaceIdentity,
) {
    match *pairs {}
}
