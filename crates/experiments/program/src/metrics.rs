//! Metrics as Prometheus reads them: its text exposition format, version 0.0.4.
//!
//! [`Text`] is written by the source of the metrics, and [`answer`] sends it to those who ask, from
//! a dedicated thread.
//!
//! Promises: a label's value may be any text; an asker that stalls delays the
//! next by two seconds at most, and nobody else.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// Limit on the time of one exchange.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that grows and shrinks.
    Gauge,
    /// Quantiles, a sum and a count.
    Summary,
}

/// A metric of things of one sort: its name, its kind, its meaning, and its value.
pub type Metric<T> = (&'static str, Kind, &'static str, fn(&T) -> f64);

/// Metrics as text.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric, whose [`Text::value`]s follow.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        };
        // To a string: nothing can fail.
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
    }

    /// A value.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0 += name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    /// Metrics of `things`, each with its label's value; names begin with `prefix`.
    pub fn table<T>(
        &mut self,
        prefix: &str,
        metrics: &[Metric<T>],
        label: (&str, fn(&T) -> &str),
        things: &[T],
    ) {
        for (name, kind, help, value) in metrics {
            let name = format!("{prefix}{name}");
            self.begin(&name, *kind, help);
            for thing in things {
                self.value(&name, &[(label.0, label.1(thing))], value(thing));
            }
        }
    }

    /// Returns the whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

/// A label's value: a backslash, a quotation mark and a line's end are escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Answers requests at `address` with a text, from a dedicated thread.
///
/// # Errors
/// If the address cannot be listened on.
pub fn answer(address: &str, text: impl Fn() -> String + Send + 'static) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let answer = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.set_read_timeout(Some(TIMEOUT));
            let _ = stream.set_write_timeout(Some(TIMEOUT));
            // For any request there is one answer.
            let _ = stream.read(&mut [0; 4096]);
            let body = text();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ =
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    };
    std::thread::Builder::new().name("metrics".into()).spawn(answer)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_lines_of_names_labels_and_numbers() {
        let mut text = Text::default();
        let metrics: [Metric<(String, u64)>; 2] = [
            ("reads_total", Kind::Counter, "Reads", |drive| drive.1 as f64),
            ("half", Kind::Gauge, "Half of them", |drive| drive.1 as f64 / 2.0),
        ];
        let drives = [("a\"b\\\n".to_owned(), 3), ("c".into(), 4)];
        text.table("x_", &metrics, ("drive", |drive| &drive.0), &drives);
        text.value("y", &[("a", "1"), ("b", "2")], 5.0);
        text.value("z", &[], 6.0);
        let wanted = "# HELP x_reads_total Reads.\n# TYPE x_reads_total counter\n\
            x_reads_total{drive=\"a\\\"b\\\\\\n\"} 3\nx_reads_total{drive=\"c\"} 4\n\
            # HELP x_half Half of them.\n# TYPE x_half gauge\n\
            x_half{drive=\"a\\\"b\\\\\\n\"} 1.5\nx_half{drive=\"c\"} 2\n\
            y{a=\"1\",b=\"2\"} 5\nz 6\n";
        assert_eq!(text.finish(), wanted);
    }

    #[test]
    fn whoever_asks_is_told() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        answer(&free.to_string(), || "x 1\n".into()).unwrap();
        let mut stream = std::net::TcpStream::connect(free).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nx 1\n"));
        assert!(answer(&free.to_string(), String::new).is_err(), "the address is taken");
    }
}
