//! The I/Os of a run, one by one, from its `ios.csv`.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use stasis_report::{CSV_HEADER, IOS_FILE};

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Io {
    pub drive: String,
    pub operation: String,
    pub bytes: u64,
    /// When it was submitted (ns).
    pub submit: u64,
    /// From submission to delivery (ns).
    pub latency: f64,
}

/// The I/Os while the command ran, in the order of completion.
pub fn read(folder: &Path) -> Result<Vec<Io>> {
    let path = folder.join(IOS_FILE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read the I/Os {}", path.display()))?;
    parse(&text).with_context(|| format!("{}", path.display()))
}

/// Delivered latencies (ns) of one operation while the command ran, in the order
/// of completion.
pub fn delivered(folder: &Path, operation: &str) -> Result<Vec<f64>> {
    Ok(latencies(&read(folder)?, operation))
}

fn latencies(ios: &[Io], operation: &str) -> Vec<f64> {
    ios.iter().filter(|io| io.operation == operation).map(|io| io.latency).collect()
}

fn parse(text: &str) -> Result<Vec<Io>> {
    let mut lines = text.lines();
    ensure!(lines.next() == Some(CSV_HEADER), "is no table of I/Os");
    let names: Vec<&str> = CSV_HEADER.split(',').collect();
    let mut ios = Vec::new();
    for (index, line) in lines.enumerate() {
        // From the end: a drive's name, the first field, may hold commas.
        let mut fields: Vec<&str> = line.rsplitn(names.len(), ',').collect();
        fields.reverse();
        let field = |name: &str| {
            let place = names.iter().position(|other| *other == name);
            place.and_then(|place| fields.get(place)).copied().unwrap_or_default()
        };
        if field("phase") != "command" {
            continue;
        }
        let number = |text: &str| {
            text.parse::<u64>().with_context(|| format!("line {}: `{text}`", index + 2))
        };
        let submit = number(field("submit_ns"))?;
        ios.push(Io {
            drive: field("drive").trim_matches('"').to_owned(),
            operation: field("operation").to_owned(),
            bytes: number(field("bytes"))?,
            submit,
            latency: number(field("delivered_ns"))?.saturating_sub(submit) as f64,
        });
    }
    Ok(ios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_operation_and_the_command_count() {
        let rows = format!(
            "{CSV_HEADER}\n\"a,b\",boot,read,0,512,1,0,5,9,ok,0,0,0,0,0,0x0\na,command,read,8,512,1,10,20,30,ok,0,0,0,0,0,0x0\n\
             a,command,write,8,512,1,10,20,50,ok,0,0,0,0,0,0x0\n\"x,y\",command,read,8,512,1,11,20,40,ok,0,0,0,0,0,0x0\n"
        );
        let ios = parse(&rows).unwrap();
        assert_eq!(latencies(&ios, "read"), [20.0, 29.0]);
        assert_eq!(latencies(&ios, "write"), [40.0]);
        let drives: Vec<_> = ios.iter().map(|io| (io.drive.as_str(), io.bytes)).collect();
        assert_eq!(drives, [("a", 512), ("a", 512), ("x,y", 512)]);
        assert!(parse("a,b\n").is_err());
        let broken = format!("{CSV_HEADER}\na,command,read,8,512,1,x,20,30,ok,0,0,0,0,0,0x0\n");
        let error = format!("{:#}", parse(&broken).unwrap_err());
        assert!(error.contains("line 2"), "{error}");
    }
}
