//! `stasis coordinate` with a stock guest under stock QEMU. Needs QEMU, and a
//! guest, which is built where it is not yet there, with the main program (`make build`):
//! `cargo test -p stasis-coordinate --test coordinate -- --ignored --test-threads=1`.

mod help;
mod start_up;
mod support;
