//! Tests of the tree itself: its words, layers, documents, recipes and packages.

mod conformance;
mod described_once;
mod documents;
mod ignored;
mod install;
mod knots;
mod layers;
#[path = "documents/markdown.rs"]
mod markdown;
#[path = "documents/pages.rs"]
mod pages;
mod planted_faults;
mod profiles;
mod schema;
mod words;
