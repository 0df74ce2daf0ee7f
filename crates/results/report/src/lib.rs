//! Results of a run for its reader: a page with tables and plots, a few lines for the terminal, and tests for
//! continuous integration.
//!
//! * [`ResultsWriter`] takes I/O records during the run and streams them to `ios.csv`;
//!   [`ResultsWriter::finish`] writes `summary.json` and `report.html`.
//! * [`KeptMoments`] reads what the machines of a run that is over said and sent.
//! * [`text_summary`] has the same in a few lines of text; [`why`] has one I/O's.
//! * [`published_vs_measured`] sets measured figures beside published ones.
//! * [`junit`] has results as tests.
//! * [`page`] and [`plot`] are the page and the plots, for any report.
//!
//! Promises:
//! * An I/O that has been given to [`ResultsWriter::record`] is in the file when the call returns,
//!   so that a killed run keeps its I/Os; other formats than CSV do not promise that (`Ios` of `results`).
//! * Names and texts may hold anything. They are quoted for the page.

mod awaited;
mod cluster;
mod escape;
mod failed;
mod faults_page;
mod flash_page;
pub mod inspect;
mod jobs_page;
pub mod junit;
mod late;
mod means_page;
mod networks_page;
pub mod page;
pub mod plot;
mod profile;
mod provenance;
pub mod published_vs_measured;
mod repeat;
mod results_writer;
mod run_page;
mod scheduler;
mod several;
mod shared_page;
mod slowest_page;
mod table;
mod text;
mod thresholds_page;
pub mod verdict;
mod waited;
pub mod why;

pub use cluster::{KeptMoments, Moment, MomentKind};
pub use escape::shell_word;
pub use provenance::section as provenance;
pub use repeat::{InputFile, Repeat};
pub use results_writer::ResultsWriter;
pub use slowest_page::Waits;
pub use table::{Align, Column, Table, Tone};
pub use text::{figures as latency_figures, text_summary};
pub use thresholds_page::to_junit;
