//! The I/Os of a run, one by one, from its `ios.csv`.

use std::path::Path;

use anyhow::{ensure, Context, Result};
use stasis_report::{CSV_HEADER, IOS_FILE};

/// Delivered latencies (ns) of one operation while the command ran, in the order
/// of completion.
pub fn delivered(folder: &Path, operation: &str) -> Result<Vec<f64>> {
    let path = folder.join(IOS_FILE);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read the I/Os {}", path.display()))?;
    parse(&text, operation).with_context(|| format!("{}", path.display()))
}

fn parse(text: &str, operation: &str) -> Result<Vec<f64>> {
    let mut lines = text.lines();
    ensure!(lines.next() == Some(CSV_HEADER), "is no table of I/Os");
    let mut latencies = Vec::new();
    for (index, line) in lines.enumerate() {
        // From the end: a drive's name may hold commas.
        let mut fields = line.rsplit(',');
        let mut field = || fields.next().unwrap_or_default();
        let _order_to_fua: [&str; 5] = std::array::from_fn(|_| field());
        let (_status, delivered, _target, submit) = (field(), field(), field(), field());
        let (_queue, _bytes, _lba, kind, phase) = (field(), field(), field(), field(), field());
        if kind != operation || phase != "command" {
            continue;
        }
        let number = |text: &str| {
            text.parse::<u64>().with_context(|| format!("line {}: `{text}`", index + 2))
        };
        latencies.push(number(delivered)?.saturating_sub(number(submit)?) as f64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_operation_and_the_command_count() {
        let rows = format!(
            "{CSV_HEADER}\n\"a,b\",boot,read,0,512,1,0,5,9,ok,0,0,0,0,0\na,command,read,8,512,1,10,20,30,ok,0,0,0,0,0\n\
             a,command,write,8,512,1,10,20,50,ok,0,0,0,0,0\n\"x,y\",command,read,8,512,1,11,20,40,ok,0,0,0,0,0\n"
        );
        assert_eq!(parse(&rows, "read").unwrap(), [20.0, 29.0]);
        assert_eq!(parse(&rows, "write").unwrap(), [40.0]);
        assert!(parse("a,b\n", "read").is_err());
        let broken = format!("{CSV_HEADER}\na,command,read,8,512,1,x,20,30,ok,0,0,0,0,0\n");
        let error = format!("{:#}", parse(&broken, "read").unwrap_err());
        assert!(error.contains("line 2"), "{error}");
    }
}
