//! Measured figures beside published ones.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{make_folder, write_whole};
use crate::latency::error_percent;
use crate::plot::{Axis, Bar, Bars, Markup, Quantity, Scale, Segment};
use crate::table::{Column, Table};
use crate::units;
use crate::{ReportError, FIGURES_FILE};

/// A figure of a publication beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The number of the table or figure in the publication, such as `Table 2`.
    pub id: String,
    /// Description of the quantity.
    pub what: String,
    /// Its unit, such as `us`; empty for a plain number.
    pub unit: String,
    /// As published; `null` where the publication gives none.
    pub published: Option<f64>,
    /// Value of a formula that does not depend on the measurement; `null` where there is none.
    #[serde(default)]
    pub closed_form: Option<f64>,
    /// As measured; `null` where it could not be.
    pub measured: Option<f64>,
}

impl Figure {
    /// How far the measured figure lies from the published one, or where there is none
    /// from the formula's, in percent.
    pub fn deviation_percent(&self) -> Option<f64> {
        error_percent(self.measured?, self.published.or(self.closed_form)?)
    }

    /// How long its unit is (ns), where it is one of time.
    fn time_unit(&self) -> Option<f64> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        units.into_iter().find(|(name, _)| *name == self.unit).map(|(_, ns)| ns)
    }

    /// Its unit for a reader, where it is not in [`Self::show`] already.
    pub fn shown_unit(&self) -> &str {
        if self.time_unit().is_some() {
            ""
        } else {
            &self.unit
        }
    }

    /// A value of it for a reader: times with a unit that suits them, others without one.
    pub fn show(&self, value: Option<f64>) -> String {
        match (value.filter(|value| value.is_finite()), self.time_unit()) {
            (None, _) => "–".to_owned(),
            (Some(value), Some(ns)) => units::duration(value * ns),
            (Some(value), None) => units::significant(value, 5),
        }
    }
}

/// Writes the figures as `figures.json` into `folder`, which is created if it does not exist. A
/// value that is not a number (NaN, infinite) becomes `null`.
///
/// # Errors
/// Where the folder or the file cannot be written.
pub fn write_figures(folder: &Path, figures: &[Figure]) -> Result<(), ReportError> {
    make_folder(folder)?;
    let path = folder.join(FIGURES_FILE);
    let mut json = serde_json::to_vec_pretty(figures)
        .map_err(|error| ReportError::Write { path: path.clone(), source: error.into() })?;
    json.push(b'\n');
    write_whole(&path, &json)
}

/// The figures as a table, see [`Table::to_text`].
pub fn figures_table(figures: &[Figure]) -> Table {
    // Most publications' tables have no formulas beside them.
    let formulas = figures.iter().any(|figure| figure.closed_form.is_some());
    let mut columns = vec![Column::left("id"), Column::left("what"), Column::right("published")];
    columns.extend(formulas.then(|| Column::right("closed form")));
    columns.push(Column::right("measured"));
    let units = figures.iter().any(|figure| !figure.shown_unit().is_empty());
    columns.extend(units.then(|| Column::left("unit")));
    columns.push(Column::right("deviation"));
    let mut table = Table::new(columns);
    for figure in figures {
        let mut cells = vec![figure.id.clone(), figure.what.clone(), figure.show(figure.published)];
        cells.extend(formulas.then(|| figure.show(figure.closed_form)));
        cells.push(figure.show(figure.measured));
        cells.extend(units.then(|| figure.shown_unit().to_owned()));
        let deviation = figure.deviation_percent().filter(|percent| percent.is_finite());
        cells.push(units::deviation(deviation));
        table.push(cells);
    }
    table
}

/// Published figures are drawn in this colour, measured ones in the first.
const PUBLISHED: usize = 4;
/// Values further apart than this stand on a logarithmic axis.
const WIDE: f64 = 50.0;

/// The figures that were published and measured as bars, a plot for each table or figure
/// of the publication and each kind of quantity in it.
pub fn figures_plots(figures: &[Figure]) -> Vec<Markup> {
    let mut groups: BTreeMap<(usize, &str), Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        let both = [figure.published, figure.measured];
        if both.iter().any(|value| value.is_none_or(|value| !value.is_finite() || value < 0.0)) {
            continue;
        }
        let unit = if figure.time_unit().is_some() { "time" } else { &figure.unit };
        // In the order of their first figures.
        let first = figures.iter().position(|other| other.id == figure.id).unwrap_or(0);
        groups.entry((first, unit)).or_default().push(figure);
    }
    groups.into_values().map(|group| plot(&group).draw()).collect()
}

fn plot(figures: &[&Figure]) -> Bars {
    let values = |figure: &Figure| {
        let scale = figure.time_unit().unwrap_or(1.0);
        [figure.published, figure.measured].map(|value| value.unwrap_or(0.0) * scale)
    };
    let bar = |figure: &&Figure| {
        let [published, measured] = values(figure);
        let segment = |name: &str, colour, value| Segment { name: name.to_owned(), colour, value };
        Bar {
            label: figure.what.clone(),
            segments: vec![
                segment("published", PUBLISHED, published),
                segment("measured", 0, measured),
            ],
        }
    };
    let all = || figures.iter().flat_map(|figure| values(figure));
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let first = figures[0];
    let (label, quantity) = match (first.time_unit(), first.unit.as_str()) {
        (Some(_), _) => ("Time".to_owned(), Quantity::Time),
        (None, "") => ("Value".to_owned(), Quantity::Number("")),
        (None, unit) => (unit.to_owned(), Quantity::Number("")),
    };
    // A logarithmic axis begins at 1.
    let scale = if low >= 1.0 && high > WIDE * low { Scale::Log } else { Scale::FromZero };
    Bars {
        title: format!("{}: published and measured", first.id),
        axis: Axis::new(label, scale, quantity),
        stacked: false,
        bars: figures.iter().map(bar).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(published: Option<f64>, measured: Option<f64>) -> Figure {
        let [id, what, unit] = ["Table 2", "read, p50", "us"].map(str::to_owned);
        Figure { id, what, unit, published, closed_form: None, measured }
    }

    #[test]
    fn figures_survive_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let figures =
            [figure(Some(2.0), Some(2.1)), figure(None, Some(1.0 / 3.0)), figure(Some(4.0), None)];
        write_figures(&folder.path().join("new"), &figures).unwrap();
        let text = std::fs::read(folder.path().join("new").join(FIGURES_FILE)).unwrap();
        assert_eq!(serde_json::from_slice::<Vec<Figure>>(&text).unwrap(), figures);
    }

    #[test]
    fn a_formulas_figure_is_not_a_published_one() {
        let formula = Figure { closed_form: Some(2.0), ..figure(None, Some(2.1)) };
        let json = serde_json::to_value(&formula).unwrap();
        assert_eq!(
            (&json["published"], &json["closed_form"]),
            (&serde_json::Value::Null, &2.0.into())
        );
        let text = figures_table(&[formula, figure(Some(1.0), Some(1.0))]).to_text();
        let columns: Vec<_> = text.lines().next().unwrap().split("  ").map(str::trim).collect();
        let columns: Vec<_> = columns.into_iter().filter(|name| !name.is_empty()).collect();
        let expected = ["id", "what", "published", "closed form", "measured", "deviation"];
        assert_eq!(columns, expected, "{text}");
        let row = text.lines().find(|line| line.contains("+5.00 %")).unwrap();
        assert!(row.contains('–'), "{text}");
        assert!(!figures_table(&[figure(None, None)]).to_text().contains("closed form"));
    }

    #[test]
    fn times_have_the_unit_that_suits_them_and_others_their_own() {
        let mut rate = figure(Some(6.5), Some(7.0));
        rate.unit = "times".into();
        let table = figures_table(&[figure(Some(431_227.0), Some(2.5)), rate]);
        let cells: Vec<_> = table.rows.iter().map(|row| row[2..5].join("|")).collect();
        assert_eq!(cells, ["431.23 ms|2.5 µs|", "6.5|7|times"]);
    }

    #[test]
    fn what_was_published_and_measured_is_drawn_by_its_table_and_quantity() {
        let mut other = figure(Some(3.0), Some(4.0));
        other.id = "Table 3".into();
        let mut times = other.clone();
        times.unit = "times".into();
        let all = [figure(Some(1.0), Some(2.0)), other, times, figure(None, Some(1.0))];
        let plots = figures_plots(&all);
        let drawn: Vec<_> = plots.iter().map(|plot| plot.as_str()).collect();
        assert_eq!(drawn.len(), 3);
        assert!(drawn[0].contains("Table 2: published and measured"), "{}", drawn[0]);
        assert!(drawn[0].contains("read, p50 published: 1 µs"), "{}", drawn[0]);
        assert!(drawn[0].contains("read, p50 measured: 2 µs"), "{}", drawn[0]);
        assert!(drawn.iter().any(|plot| plot.contains(">times<")));
    }

    #[test]
    fn deviations_are_of_the_published_figure() {
        let text = figures_table(&[
            figure(Some(2.0), Some(2.1)),
            figure(None, Some(1.0)),
            figure(Some(0.0), Some(1.0)),
            figure(Some(1.0), Some(f64::NAN)),
        ])
        .to_text();
        let last: Vec<_> =
            text.lines().map(|line| line.rsplit("  ").next().unwrap().trim()).collect();
        assert_eq!(last, ["deviation", "+5.00 %", "–", "–", "–"]);
    }
}
