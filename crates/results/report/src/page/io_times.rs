//! Parts of the time of single I/Os: one that is folded for each, which a click on its point opens.

use stasis_block::clock::Nanos;

use crate::escape::escape;
use crate::plot::COLOURS;
use stasis_results::units;

/// An I/O, with those that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoTimes {
    /// Their numbers among the submissions to the drive.
    pub orders: Vec<u64>,
    /// Operation, number, time.
    pub title: String,
    /// Each part of the time with its name, in the order of time where that is known (ns).
    pub parts: Vec<(&'static str, Nanos)>,
    /// Sentences below.
    pub note: String,
}

/// Writes all of the I/Os, folded together.
pub(super) fn to_html(all: &[IoTimes], out: &mut String) {
    out.push_str("<details class=\"ios\"><summary>Where the time of each of them went</summary>\n");
    for io in all {
        let orders: Vec<String> = io.orders.iter().map(u64::to_string).collect();
        let whole = io.parts.iter().map(|(_, time)| time).sum::<Nanos>().max(1);
        out.push_str(&format!(
            "<details data-orders=\"{}\"><summary>{}</summary>\n<div class=\"parts\" \
             aria-hidden=\"true\">",
            orders.join(" "),
            escape(&io.title)
        ));
        let parts = || io.parts.iter().filter(|(_, time)| *time > 0).enumerate();
        for (number, (name, time)) in parts() {
            let (grow, colour) = (*time as f64 / whole as f64, number % COLOURS);
            let name = escape(name);
            out.push_str(&format!(
                "<span class=\"c{colour}\" style=\"flex-grow:{grow:.4}\" title=\"{name}\"></span>"
            ));
        }
        out.push_str("</div>\n<ol>");
        for (_, (name, time)) in parts() {
            let share = 100.0 * *time as f64 / whole as f64;
            out.push_str(&format!(
                "<li>{}: {}, {} %</li>",
                escape(name),
                units::duration(*time as f64),
                units::significant(share, 3)
            ));
        }
        out.push_str(&format!("</ol>\n<p>{}</p></details>\n", escape(&io.note)));
    }
    out.push_str("</details>\n");
}
