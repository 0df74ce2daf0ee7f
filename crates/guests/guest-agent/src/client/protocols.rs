//! The protocols there are.

use super::protocol::Protocol;
use super::{http, lines, mysql, postgresql, redis};

macro_rules! protocol {
    ($module:ident, $port:expr) => {
        Protocol {
            name: stringify!($module),
            port: $port,
            greet: $module::greet,
            ask: $module::ask,
            answer: $module::answer,
        }
    };
}

/// All of them.
pub(super) const PROTOCOLS: [Protocol; 5] = [
    protocol!(redis, Some(6379)),
    protocol!(postgresql, Some(5432)),
    protocol!(mysql, Some(3306)),
    protocol!(http, Some(80)),
    protocol!(lines, None),
];
