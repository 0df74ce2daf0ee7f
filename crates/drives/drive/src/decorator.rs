//! Layers that change a little of the one below.

use std::time::Duration;

use stasis_block::timeline::{Spans, Tracks};
use stasis_block::{Command, Health, PowerLoss, Status, VendorCommand, VendorError};
use stasis_clock::Nanos;
use stasis_media::MediumError;

use crate::{Done, Layer, Statistics, Submission};

/// A layer on another one, to which it forwards every method that it does not define itself. So no
/// part of a layer gets lost on the way through one that only observes or disturbs.
#[allow(missing_docs)] // each method is that of `Layer`
pub trait Decorator {
    /// The layer below.
    fn lower(&self) -> &dyn Layer;

    /// The layer below, to be changed.
    fn lower_mut(&mut self) -> &mut dyn Layer;

    fn index(&self) -> u16 {
        self.lower().index()
    }

    fn name(&self) -> &str {
        self.lower().name()
    }

    fn capacity(&self) -> u64 {
        self.lower().capacity()
    }

    fn discard_zeroes(&self) -> bool {
        self.lower().discard_zeroes()
    }

    fn barrier(&self) -> Option<Nanos> {
        self.lower().barrier()
    }

    fn power_loss(&self) -> PowerLoss {
        self.lower().power_loss()
    }

    fn in_flight(&self) -> usize {
        self.lower().in_flight()
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        self.lower_mut().submit(now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.lower().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.lower_mut().advance(now, done);
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        self.lower_mut().instant(command, data)
    }

    fn frozen(&self) -> Duration {
        self.lower().frozen()
    }

    fn statistics(&self) -> &Statistics {
        self.lower().statistics()
    }

    fn take_error(&mut self) -> Option<MediumError> {
        self.lower_mut().take_error()
    }

    fn health(&self) -> Health {
        self.lower().health()
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        self.lower_mut().vendor(now, command)
    }

    fn help(&mut self, now: Nanos, on: bool) {
        self.lower_mut().help(now, on);
    }

    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        self.lower_mut().urge(sectors);
    }

    fn start(&mut self, now: Nanos) {
        self.lower_mut().start(now);
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        self.lower().inside(now)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        self.lower_mut().watch(tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        self.lower_mut().take_spans(spans);
    }
}

impl<D: Decorator> Layer for D {
    fn index(&self) -> u16 {
        Decorator::index(self)
    }

    fn name(&self) -> &str {
        Decorator::name(self)
    }

    fn capacity(&self) -> u64 {
        Decorator::capacity(self)
    }

    fn discard_zeroes(&self) -> bool {
        Decorator::discard_zeroes(self)
    }

    fn barrier(&self) -> Option<Nanos> {
        Decorator::barrier(self)
    }

    fn power_loss(&self) -> PowerLoss {
        Decorator::power_loss(self)
    }

    fn in_flight(&self) -> usize {
        Decorator::in_flight(self)
    }

    fn submit(&mut self, now: Nanos, submission: Submission) {
        Decorator::submit(self, now, submission);
    }

    fn next_event(&self) -> Option<Nanos> {
        Decorator::next_event(self)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        Decorator::advance(self, now, done);
    }

    fn instant(&mut self, command: Command, data: Vec<u8>) -> (Status, Vec<u8>) {
        Decorator::instant(self, command, data)
    }

    fn frozen(&self) -> Duration {
        Decorator::frozen(self)
    }

    fn statistics(&self) -> &Statistics {
        Decorator::statistics(self)
    }

    fn take_error(&mut self) -> Option<MediumError> {
        Decorator::take_error(self)
    }

    fn health(&self) -> Health {
        Decorator::health(self)
    }

    fn vendor(&mut self, now: Nanos, command: &mut VendorCommand) -> Result<u32, VendorError> {
        Decorator::vendor(self, now, command)
    }

    fn help(&mut self, now: Nanos, on: bool) {
        Decorator::help(self, now, on);
    }

    fn urge(&mut self, sectors: &mut dyn Iterator<Item = u64>) {
        Decorator::urge(self, sectors);
    }

    fn start(&mut self, now: Nanos) {
        Decorator::start(self, now);
    }

    fn inside(&self, now: Nanos) -> Option<String> {
        Decorator::inside(self, now)
    }

    fn watch(&mut self, tracks: &mut Tracks) {
        Decorator::watch(self, tracks);
    }

    fn take_spans(&mut self, spans: &mut Spans) {
        Decorator::take_spans(self, spans);
    }
}
