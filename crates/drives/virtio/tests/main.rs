//! Tests of virtio's devices as a guest's driver meets them.

mod driver;
mod hostile;
mod io;
mod net;
mod support;
