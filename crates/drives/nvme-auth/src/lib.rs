//! DH-HMAC-CHAP: how an NVMe host and a subsystem prove to each other that they know a secret, on
//! each queue that Connect makes.
//!
//! The carrier (a transport's connection) gives [`Verifier`] the messages that come by
//! Authentication Send, computes the [`Power`] that one may need, and gives its answers to
//! Authentication Receive. It lets no other command pass
//! before [`Verifier::is_authenticated`], and ends the connection once the verifier
//! [has ended](Verifier::ended).
//!
//! Promises:
//! - Linux's own host authenticates (`CONFIG_NVME_HOST_AUTH`), and the subsystem to it.
//! - Pure: no threads, no wall clock, no I/O. Randomness is an argument.
//! - Nothing that a host sends can make it panic, loop without bound, or use memory without bound.
//! - A response is compared in a time that does not depend on where it differs, secrets are not
//!   printed, and the arithmetic on a private exponent takes the same time for each.
//!
//! References are to the "NVM Express Base Specification, revision 2.0" of 2021-05-13, cited as
//! "NVMe 2.0" with the section.

mod group;
mod hash;
mod message;
mod power;
mod secret;
mod verifier;

pub use group::Group;
pub use hash::Hash;
pub use message::Failure;
pub use power::{Computed, Power};
pub use secret::{Secret, SecretError};
pub use verifier::{Ended, Randomness, Secrets, Verifier};
