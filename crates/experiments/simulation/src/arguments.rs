//! Words of `stasis sim`.

use std::path::PathBuf;

use stasis_report::Ios;

use crate::points::Seeds;

/// The models and loads of `stasis sim`, and its options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "MODEL is a word as --drive takes it, a table such as \"{ kind = 'fixed', read = '80us' }\", or a
TOML file with a [model] table or one [[drive]].

Examples:
  stasis sim fixed:100us --workload job.fio
  stasis sim jpt39c --trace sdb.blkparse.txt --results replay
  stasis sim my-ssd.toml --workload job.fio --size 1TiB --ios none
  stasis sim samsung-980-pro jpt39c --workload job.fio --seed 1-10 --results both

Several models, loads or seeds are simulations of their own, each model with each load and
each seed, on all processors. Each has its results in a folder of its own in DIR, as it has them
alone; a table of all is printed at the end, and is in DIR/simulations.csv.

Exit status: 0; 124 if --limit was reached, 125 if something is wrong, 130 if it was stopped; of
several simulations the greatest."
)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["workload", "trace"]))]
pub struct Arguments {
    /// The model, or several
    #[arg(value_name = "MODEL", required = true)]
    pub model: Vec<String>,
    /// The synthetic load of a fio job file; again for another
    #[arg(long, value_name = "JOB.fio")]
    pub workload: Vec<PathBuf>,
    /// A trace: blktrace's events, blkparse's text, CSV of MSR Cambridge, Alibaba or Tencent,
    /// compressed by zstd or not, or the I/Os of a run: its folder, or its ios.parquet or
    /// ios.csv; of blktrace's files sda.blktrace.0, sda.blktrace.1 and so on also sda; - reads
    /// standard input; again for another
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// The drive to replay, of a trace of several: 8,0, or host.1, or a number, or a name
    #[arg(long, value_name = "NAME", conflicts_with = "workload")]
    pub trace_drive: Option<String>,
    /// Stretch the trace's times, or its think times, by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, conflicts_with = "workload")]
    pub scale: f64,
    /// Submit as fast as possible, with so many I/Os in flight, not at the trace's times
    #[arg(long, value_name = "DEPTH", conflicts_with_all = ["workload", "scale", "exact_times"],
          value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub closed: Option<u32>,
    /// Keep the trace's think times: submit each I/O after the completions that it followed in
    /// the trace, in its process, and as long after them
    #[arg(long, conflicts_with_all = ["workload", "closed", "exact_times"])]
    pub think_times: bool,
    /// Submit at the very times of a run's I/Os, its boot included
    #[arg(long, conflicts_with_all = ["workload", "scale"])]
    pub exact_times: bool,
    /// Bring I/Os beyond the drive back to its beginning
    #[arg(long, conflicts_with = "workload")]
    pub wrap: bool,
    /// Size of the drive [default: the model's own, or what the load needs]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Logical block size: 512 or 4096
    #[arg(long, value_name = "SIZE", default_value = "512")]
    pub block_size: String,
    /// Seed of everything random, or several: 1,2,10-19
    #[arg(long, value_name = "N", default_value = "0", allow_hyphen_values = true)]
    pub seed: Seeds,
    /// Number of simulations that run at a time [default: one for each processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Time that software adds to each I/O of a thread, such as 4us
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub path: String,
    /// Limit on virtual time, such as 10s
    #[arg(long, value_name = "TIME")]
    pub limit: Option<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    /// File format of the I/Os: parquet (ios.parquet), csv (ios.csv, which a killed run keeps,
    /// too), zst (ios.csv.zst), or none
    #[arg(long, value_name = "FORM", default_value = "parquet")]
    pub ios: Ios,
    /// Write the activity of a flash drive's channels and LUNs to timeline.parquet
    #[arg(long)]
    pub timeline: bool,
}

impl Arguments {
    /// The files and folders that are read: of models, loads and traces.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let models = self.model.iter().map(PathBuf::from);
        models.chain(self.workload.iter().cloned()).chain(self.trace.iter().cloned()).collect()
    }
}

/// A factor above 0.
fn factor(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(factor),
        _ => Err("must be a number above 0, such as 0.5".into()),
    }
}
