//! Types of which there is no value, and the functions of them.

use stasis_block::{Operation, Status};

use crate::ocssd::config::Ocssd;
use crate::ocssd::kept::KeptChunks;
use crate::slots::Slot;
use crate::status::{Failure, StatusCode};

#[derive(Debug)]
pub enum ChunkSet {}

impl ChunkSet {
    pub fn new(_config: Option<&Ocssd>) -> Option<Self> {
        None
    }

    pub fn changes(&self) -> u64 {
        match *self {}
    }

    pub fn lba_of(&self, _sector: u64) -> u64 {
        match *self {}
    }

    pub fn kept(&self) -> Vec<KeptChunks> {
        match *self {}
    }

    pub fn restore(&mut self, _kept: &[KeptChunks]) -> Result<(), &'static str> {
        match *self {}
    }
}

#[derive(Debug)]
pub enum About {}

#[derive(Debug, Default)]
pub struct Notifications {}

impl Notifications {
    pub fn add(&mut self, _nsid: u32, _lba: u64, about: About) {
        match about {}
    }

    pub fn to_page(&self) -> Vec<u8> {
        Vec::new()
    }
}

pub fn leave(
    set: &mut ChunkSet,
    _block: u64,
    _slot: &Slot,
    _status: Status,
    _data: &mut [u8],
) -> Option<(u64, About)> {
    match *set {}
}

pub fn write_failure(_operation: Operation) -> StatusCode {
    StatusCode::WriteFault
}

pub fn chunk_information(set: &ChunkSet, _offset: u64, _length: usize) -> Result<Vec<u8>, Failure> {
    match *set {}
}
