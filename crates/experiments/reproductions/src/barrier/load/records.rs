//! Mobibench's writes: records one after the other, each made durable by
//! fdatasync.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::outcome::Outcome;

/// Arguments of `records`.
#[derive(Debug, clap::Args)]
pub struct Records {
    /// The file
    pub file: PathBuf,
    /// Number of records
    #[arg(long)]
    pub count: u64,
    /// Bytes of a record
    #[arg(long)]
    pub size: usize,
    /// Overwrite the existing records of the file
    #[arg(long)]
    pub overwrite: bool,
}

pub fn run(records: &Records) -> Result<Outcome> {
    let name = || records.file.display().to_string();
    let mut options = OpenOptions::new();
    options.write(true);
    if !records.overwrite {
        options.create_new(true);
    }
    let mut file = options.open(&records.file).with_context(name)?;
    let record = vec![0xA5u8; records.size];
    let begun = Instant::now();
    for _ in 0..records.count {
        file.write_all(&record).with_context(name)?;
        file.sync_data().with_context(name)?;
    }
    let ns = u64::try_from(begun.elapsed().as_nanos())?;
    let written = records.count * records.size as u64;
    Ok(Outcome { operations: records.count, syncs: records.count, written, ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_appended_or_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut records = Records { file: file.clone(), count: 3, size: 1000, overwrite: true };
        assert!(run(&records).is_err(), "there is nothing to write over");
        records.overwrite = false;
        let outcome = run(&records).unwrap();
        assert_eq!((outcome.operations, outcome.syncs, outcome.written), (3, 3, 3000));
        assert!(run(&records).is_err(), "it is there already");
        std::fs::write(&file, [0; 5000]).unwrap();
        records.overwrite = true;
        run(&records).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.len() == 5000 && bytes[..3000].iter().all(|byte| *byte == 0xA5));
        assert!(bytes[3000..].iter().all(|byte| *byte == 0));
    }
}
