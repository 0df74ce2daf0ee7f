//! Measured figures beside published ones.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{make_folder, write_whole};
use crate::latency::error_percent;
use crate::table::{Column, Table};
use crate::units;
use crate::{ReportError, FIGURES_FILE};

/// A figure of a publication beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The number of the table or figure in the publication, such as `Table 2`.
    pub id: String,
    /// What it is a figure of.
    pub what: String,
    /// Its unit, such as `us`; empty for a plain number.
    pub unit: String,
    /// As published; `null` where the publication gives none.
    pub published: Option<f64>,
    /// What a formula gives that does not depend on the measurement; `null` where there
    /// is none.
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
}

/// Writes the figures as `figures.json` into `folder`, which is made if it is
/// not there. What is not a number (NaN, infinite) becomes `null`.
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
    columns.extend([Column::right("measured"), Column::left("unit"), Column::right("deviation")]);
    let mut table = Table::new(columns);
    for figure in figures {
        let value =
            |value: Option<f64>| value.map_or("–".to_owned(), |v| units::significant(v, 5));
        let mut cells = vec![figure.id.clone(), figure.what.clone(), value(figure.published)];
        cells.extend(formulas.then(|| value(figure.closed_form)));
        cells.extend([
            value(figure.measured),
            figure.unit.clone(),
            units::deviation(figure.deviation_percent().filter(|percent| percent.is_finite())),
        ]);
        table.push(cells);
    }
    table
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
        let expected = ["id", "what", "published", "closed form", "measured", "unit", "deviation"];
        assert_eq!(columns, expected, "{text}");
        let row = text.lines().find(|line| line.contains("+5.00 %")).unwrap();
        assert!(row.contains('–'), "{text}");
        assert!(!figures_table(&[figure(None, None)]).to_text().contains("closed form"));
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
