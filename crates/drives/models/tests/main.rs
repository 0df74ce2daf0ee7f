//! Tests of the models and their kept sheets.

mod common;
mod cuts;
mod fio;
mod kept_sheets;
mod key_value;
mod mqsim;
mod named;
mod properties;
mod reseed;
mod volumes;
