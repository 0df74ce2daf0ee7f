//! Tests of commands that start no server.

mod archive;
mod call;
mod cli;
mod compare;
mod completion;
mod examples;
mod export;
mod json;
mod misuse;
mod old_results;
mod pages;
mod probes;
mod rescue;
mod sim;
mod thresholds;
