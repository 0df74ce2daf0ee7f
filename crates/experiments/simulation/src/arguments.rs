//! Words of `stasis sim`.

use std::path::{Path, PathBuf};

use stasis_results::Ios;

use clap::Args as _;

use crate::model;
use crate::seeds::Seeds;

/// The models and loads of `stasis sim`, and its options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "MODEL is a word as --drive takes it, a table such as \"{ kind = 'fixed', read = '80us' }\", or a
TOML file with a [model] table or one [[drive]].

Examples:
  stasis sim fixed:100us --workload job.fio
  stasis sim jpt39c --trace sdb.blkparse.txt --results replay
  stasis sim flash-tlc --workload pairs.toml --size 2GiB
  stasis sim my-ssd.toml --workload job.fio --size 1TiB --ios none
  stasis sim samsung-980-pro jpt39c --workload job.fio --seed 1-10 --results both

Several models, loads or seeds are simulations of their own, each model with each load and
each seed, on all processors. Each has its results in a folder of its own in DIR, as it has them
alone; a table of all is printed at the end, and is in DIR/simulations.csv.

Exit status: 0; 99 if a threshold was not met, 124 if --limit was reached, 125 if something is wrong, 130 if it was stopped; of
several simulations the greatest."
)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["workload", "trace"]))]
pub struct Arguments {
    /// The model, or several
    #[arg(value_name = "MODEL", required = true)]
    pub model: Vec<String>,
    /// The synthetic load of a fio job file, or of a TOML file with [pairs], keys and values; again for
    /// another
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
    /// Expect a figure of each simulation to keep within a value, such as 'read.p99 < 1ms'; again
    /// for another
    #[arg(long, value_name = "THRESHOLD")]
    pub expect: Vec<String>,
    /// Write the simulations and their thresholds as tests in JUnit's XML to this file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
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
        let models = self.model.iter().filter_map(|word| model::file(word));
        models.chain(self.workload.iter().cloned()).chain(self.trace.iter().cloned()).collect()
    }

    /// The words for one of the simulations that `words` ask for, of this model, source and seed:
    /// the others' models, loads and seeds are left out.
    pub(crate) fn words_of(
        &self,
        words: Vec<String>,
        model: &str,
        source: &Path,
        seed: u64,
    ) -> Vec<String> {
        let command = Self::augment_args(clap::Command::new("sim"));
        let options = |name: &str| {
            let long = name.strip_prefix("--");
            let short = name.strip_prefix('-').and_then(|name| name.chars().next());
            command.get_arguments().find(move |one| match long {
                Some(long) => one.get_long() == Some(long),
                None => one.get_short().is_some() && one.get_short() == short,
            })
        };
        const EACH: [&str; 5] = ["workload", "trace", "seed", "jobs", "junit"];
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        // The program, its options for all commands, and `sim`.
        for word in words.by_ref() {
            let is_command = word == "sim" && !kept.is_empty();
            kept.push(word);
            if is_command {
                break;
            }
        }
        let option = if self.workload.is_empty() { "--trace" } else { "--workload" };
        kept.push(model.to_owned());
        kept.extend([option.to_owned(), source.display().to_string()]);
        // Without one each run has the usual one.
        let is_of_seed = |word: &String| word.split('=').next() == Some("--seed");
        if words.clone().any(|word| is_of_seed(&word)) {
            kept.extend(["--seed".to_owned(), seed.to_string()]);
        }
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                // A model: all other values go with their options below.
                continue;
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            let known = options(&name);
            let is_joined = value.is_some() || !name.starts_with("--") && name.len() > 2;
            let takes = known.is_some_and(|one| one.get_action().takes_values());
            let value = (takes && !is_joined).then(|| words.next()).flatten();
            if known.is_some_and(|one| EACH.contains(&one.get_id().as_str())) {
                continue;
            }
            kept.push(word);
            kept.extend(value);
        }
        kept
    }
}

/// A factor above 0.
fn factor(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor.is_finite() => Ok(factor),
        _ => Err("must be a number above 0, such as 0.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::points::Point;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn words_of(arguments: &Arguments, words: Vec<String>, point: &Point) -> String {
        arguments.words_of(words, point.model, point.source, point.seed).join(" ")
    }

    #[test]
    fn each_of_several_simulations_has_its_own_words() {
        let line = "stasis --quiet sim fixed:1us --limit 10s --workload a.fio --workload=b.fio \
                    --seed 1-3 -j2 --ios=none fixed:2us --size 1GiB --timeline";
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let own = words.iter().filter(|word| *word != "sim" && *word != "--quiet");
        let arguments = Program::parse_from(own).arguments;
        let points = Point::all(&arguments).unwrap();
        assert_eq!(points.len(), 12);
        let own_line = words_of(&arguments, words, &points[10]);
        assert_eq!(
            own_line,
            "stasis --quiet sim fixed:2us --workload b.fio --seed 2 --limit 10s --ios=none \
             --size 1GiB --timeline"
        );
        let own = own_line.split(' ').filter(|word| *word != "sim" && *word != "--quiet");
        let again = Program::parse_from(own).arguments;
        let [one] = &Point::all(&again).unwrap()[..] else { panic!("{own_line}") };
        let same = |point: &Point| (point.model.to_owned(), point.source.to_owned(), point.seed);
        assert_eq!(same(one), same(&points[10]));
        // A seed that nobody gave is not shown.
        let words: Vec<_> =
            "stasis sim null fixed:1us --workload a.fio".split(' ').map(str::to_owned).collect();
        let own = words.iter().filter(|word| *word != "sim");
        let arguments = Program::parse_from(own).arguments;
        let point = &Point::all(&arguments).unwrap()[1];
        let own_line = words_of(&arguments, words, point);
        assert_eq!(own_line, "stasis sim fixed:1us --workload a.fio");
    }
}
