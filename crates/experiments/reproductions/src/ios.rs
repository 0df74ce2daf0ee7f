//! The I/Os of a run, one by one, in whichever form it has kept them.

use std::path::Path;

use anyhow::Result;
use stasis_results::KeptIos;

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Io {
    pub drive: String,
    pub operation: &'static str,
    pub bytes: u64,
    /// Time of submission (ns).
    pub submit: u64,
    /// Time from submission to delivery (ns).
    pub latency: f64,
}

/// The I/Os while the command ran, in the order of completion.
pub fn read(folder: &Path) -> Result<Vec<Io>> {
    let (mut kept, mut ios) = (KeptIos::open(folder)?, Vec::new());
    while let Some(record) = kept.next() {
        let record = record?;
        if record.boot {
            continue;
        }
        ios.push(Io {
            drive: kept.drives()[usize::from(record.drive)].clone(),
            operation: record.operation.name(),
            bytes: record.bytes,
            submit: record.submit,
            latency: record.delivered.saturating_sub(record.submit) as f64,
        });
    }
    Ok(ios)
}

/// Delivered latencies (ns) of one operation while the command ran, in the order
/// of completion.
pub fn delivered(folder: &Path, operation: &str) -> Result<Vec<f64>> {
    Ok(latencies(&read(folder)?, operation))
}

fn latencies(ios: &[Io], operation: &str) -> Vec<f64> {
    ios.iter().filter(|io| io.operation == operation).map(|io| io.latency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stasis_results::IOS_FILE;
    use stasis_run_events::text::heading;

    #[test]
    fn rows_of_the_operation_and_the_command_count() {
        let folder = tempfile::tempdir().unwrap();
        let rows = format!(
            "{}\n\"a,b\",boot,read,0,512,1,0,5,9,ok,0,0,0,0,0,0x0,0,0,0,0\na,command,read,8,512,1,10,20,30,ok,0,0,0,0,0,0x0,0,0,0,0\n\
             a,command,write,8,512,1,10,20,50,ok,0,0,0,0,0,0x0,0,0,0,0\n\"x,y\",command,read,8,512,1,11,20,40,ok,0,0,0,0,0,0x0,0,0,0,0\n",
            heading()
        );
        std::fs::write(folder.path().join(IOS_FILE), rows).unwrap();
        let ios = read(folder.path()).unwrap();
        assert_eq!(latencies(&ios, "read"), [20.0, 29.0]);
        assert_eq!(latencies(&ios, "write"), [40.0]);
        let drives: Vec<_> = ios.iter().map(|io| (io.drive.as_str(), io.bytes)).collect();
        assert_eq!(drives, [("a", 512), ("a", 512), ("x,y", 512)]);
        let broken =
            format!("{}\na,command,read,8,512,1,x,20,30,ok,0,0,0,0,0,0x0,0,0,0,0\n", heading());
        std::fs::write(folder.path().join(IOS_FILE), broken).unwrap();
        let error = format!("{:#}", read(folder.path()).unwrap_err());
        assert!(error.contains("line 2"), "{error}");
    }
}
