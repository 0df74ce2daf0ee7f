//! Measured figures beside published ones.

mod head;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plot::{Axis, Bar, Bars, Dot, Dots, Markup, Quantity, Row, Scale, Segment};
use crate::table::{Column, Table, Tone};
use stasis_results::files::{make_folder, write_whole};
use stasis_results::latency::error_percent;
use stasis_results::units;
use stasis_results::{ResultsError, FIGURES_FILE};

pub use head::head;

/// Relation of a published figure to the measured one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Its value.
    #[default]
    Value,
    /// An upper bound.
    AtMost,
    /// A lower bound.
    AtLeast,
    /// Nothing: it is of another system, or of another machine's speed.
    Incomparable,
}

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
    /// Relation of the published figure to the measured one.
    #[serde(default)]
    pub relation: Relation,
    /// Value of a formula that does not depend on the measurement; `null` where there is none.
    #[serde(default)]
    pub closed_form: Option<f64>,
    /// As measured; `null` where it could not be.
    pub measured: Option<f64>,
    /// Why it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl Figure {
    /// Marks the published figure as an upper bound.
    #[must_use]
    pub fn at_most(self) -> Self {
        Self { relation: Relation::AtMost, ..self }
    }

    /// Marks the published figure as a lower bound.
    #[must_use]
    pub fn at_least(self) -> Self {
        Self { relation: Relation::AtLeast, ..self }
    }

    /// Marks the figure as not comparable with the published one.
    #[must_use]
    pub fn incomparable(self) -> Self {
        Self { relation: Relation::Incomparable, ..self }
    }

    /// Returns whether what the publication bounds holds here; none where it bounds nothing, or
    /// nothing was measured.
    pub fn holds(&self) -> Option<bool> {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let (published, measured) = (finite(self.published)?, finite(self.measured)?);
        match self.relation {
            Relation::AtMost => Some(measured <= published),
            Relation::AtLeast => Some(measured >= published),
            Relation::Value | Relation::Incomparable => None,
        }
    }

    /// Returns the distance of the measured figure from the published value, or where there is none
    /// from the formula's, in percent; none for bounds, and for what cannot be compared.
    pub fn deviation_percent(&self) -> Option<f64> {
        let published = match self.relation {
            Relation::Value => self.published,
            _ => None,
        };
        let deviation = error_percent(self.measured?, published.or(self.closed_form)?)?;
        Some(deviation).filter(|percent| percent.is_finite())
    }

    /// The published figure for a reader.
    fn show_published(&self) -> String {
        let sign = match self.relation {
            Relation::AtMost => "≤ ",
            Relation::AtLeast => "≥ ",
            Relation::Value | Relation::Incomparable => "",
        };
        match self.published.is_some_and(f64::is_finite) {
            true => format!("{sign}{}", self.show(self.published)),
            false => self.show(None),
        }
    }

    /// The verdict for a reader, and its judgement.
    fn verdict(&self) -> (String, Tone) {
        if self.measured.is_none() {
            return match &self.missing {
                Some(why) => (format!("not finished: {why}"), Tone::Bad),
                None => ("not measured".to_owned(), Tone::Neutral),
            };
        }
        match (self.holds(), self.relation) {
            (Some(true), _) => ("holds".to_owned(), Tone::Good),
            (Some(false), _) => ("does not hold".to_owned(), Tone::Bad),
            (None, Relation::Incomparable) if self.published.is_some() => {
                ("not comparable".to_owned(), Tone::Neutral)
            }
            _ => (units::deviation(self.deviation_percent()), Tone::Neutral),
        }
    }

    /// Returns the length of its unit (ns), where it is one of time.
    fn time_unit(&self) -> Option<f64> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        units.into_iter().find(|(name, _)| *name == self.unit).map(|(_, ns)| ns)
    }

    /// Returns the figure's unit for a reader, where it is not in [`Self::show`] already.
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

/// Notes in the figures that were not measured why: an experiment failed, or was not finished.
pub fn explain_missing(figures: &mut [Figure], failed: &[(String, String)]) {
    let why = match failed {
        // This set-up does not measure them.
        [] => return,
        [(name, why)] => format!("{name}: {why}"),
        [(name, why), others @ ..] => {
            let others = match others.len() {
                1 => "one more experiment".to_owned(),
                many => format!("{many} more experiments"),
            };
            format!("{name}: {why}; and {others}")
        }
    };
    for figure in figures.iter_mut().filter(|figure| figure.measured.is_none()) {
        figure.missing.get_or_insert_with(|| why.clone());
    }
}

/// Writes the figures as `figures.json` into `folder`, which is created if it does not exist. A
/// value that is not a number (NaN, infinite) becomes `null`.
///
/// # Errors
/// Where the folder or the file cannot be written.
pub fn write_figures(folder: &Path, figures: &[Figure]) -> Result<(), ResultsError> {
    make_folder(folder)?;
    let path = folder.join(FIGURES_FILE);
    let mut json = serde_json::to_vec_pretty(figures)
        .map_err(|error| ResultsError::Write { path: path.clone(), source: error.into() })?;
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
    columns.push(Column::right("verdict"));
    let mut table = Table::new(columns);
    for figure in figures {
        let mut cells = vec![figure.id.clone(), figure.what.clone(), figure.show_published()];
        cells.extend(formulas.then(|| figure.show(figure.closed_form)));
        cells.push(figure.show(figure.measured));
        cells.extend(units.then(|| figure.shown_unit().to_owned()));
        let (verdict, tone) = figure.verdict();
        cells.push(verdict);
        table.push(cells);
        if tone != Tone::Neutral {
            table.judge(table.columns.len() - 1, tone);
        }
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
    groups.into_values().map(|group| plot(&group)).collect()
}

fn plot(figures: &[&Figure]) -> Markup {
    let values = |figure: &Figure| {
        let scale = figure.time_unit().unwrap_or(1.0);
        [figure.published, figure.measured].map(|value| value.unwrap_or(0.0) * scale)
    };
    let all = || figures.iter().flat_map(|figure| values(figure));
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let first = figures[0];
    let (label, quantity) = match (first.time_unit(), first.unit.as_str()) {
        (Some(_), _) => ("Time".to_owned(), Quantity::Time),
        (None, "") => ("Value".to_owned(), Quantity::Number("")),
        (None, unit) => (unit.to_owned(), Quantity::Number("")),
    };
    let title = format!("{}: published and measured", first.id);
    let parts = |figure: &&Figure| {
        let [published, measured] = values(figure);
        [("published", PUBLISHED, published), ("measured", 0, measured)]
    };
    // A logarithmic axis begins at 1, and the length of a bar on it means nothing.
    if low >= 1.0 && high > WIDE * low {
        let rows = figures.iter().map(|figure| Row {
            label: figure.what.clone(),
            dots: Vec::from(parts(figure).map(|(name, colour, value)| Dot {
                name: name.to_owned(),
                colour,
                value,
                interval: None,
                about: String::new(),
            })),
        });
        let axis = Axis::new(label, Scale::Log, quantity);
        return Dots { title, axis, apart: false, rows: rows.collect() }.draw();
    }
    let bars = figures.iter().map(|figure| Bar {
        label: figure.what.clone(),
        segments: Vec::from(parts(figure).map(|(name, colour, value)| Segment {
            name: name.to_owned(),
            colour,
            value,
        })),
    });
    let axis = Axis::new(label, Scale::FromZero, quantity);
    Bars { title, axis, stacked: false, bars: bars.collect() }.draw()
}

#[cfg(test)]
mod tests {
    use super::head::median;
    use super::*;

    fn figure(published: Option<f64>, measured: Option<f64>) -> Figure {
        let [id, title, unit] = ["Table 2", "read, p50", "us"].map(str::to_owned);
        let relation = Relation::Value;
        Figure {
            id,
            what: title,
            unit,
            published,
            relation,
            closed_form: None,
            measured,
            missing: None,
        }
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
        let expected = ["id", "what", "published", "closed form", "measured", "verdict"];
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
        assert_eq!(last, ["verdict", "+5.00 %", "–", "–", "–"]);
    }

    #[test]
    fn what_was_not_finished_says_why_and_each_claim_has_its_verdict() {
        let mut all = [
            figure(Some(2.0), Some(1.0)).at_most(),
            figure(Some(2.0), Some(3.0)).at_most(),
            figure(Some(2.0), None).at_least(),
            figure(None, None),
        ];
        explain_missing(&mut all, &[]);
        let verdicts = |all: &[Figure]| all.iter().map(|one| one.verdict().0).collect::<Vec<_>>();
        assert_eq!(verdicts(&all)[2..], ["not measured", "not measured"]);
        let failed = [("a".to_owned(), "stopped".to_owned()), ("b".to_owned(), "x".to_owned())];
        explain_missing(&mut all, &failed);
        let expected =
            ["holds", "does not hold", "not finished: a: stopped; and one more experiment"];
        assert_eq!(verdicts(&all)[..3], expected);
        let head = head(&all, &failed);
        assert_eq!(head.verdict, "does not hold; not finished");
        let begins: Vec<_> =
            head.notes.iter().map(|note| note.split(": ").nth(1).unwrap()).collect();
        assert!(begins[0].starts_with("does not hold (3 µs, published ≤ 2 µs)"), "{begins:?}");
        assert_eq!(begins[1], "not finished");
        assert!(begins[2].starts_with("holds (1 µs"), "{begins:?}");
        assert_eq!(head.remarks, ["Not finished: a: stopped.", "Not finished: b: x."]);
    }

    #[test]
    fn a_bound_holds_or_does_not_and_other_systems_have_no_deviation() {
        let all = [
            figure(Some(2.0), Some(1.0)).at_most(),
            figure(Some(2.0), Some(2.5)).at_most(),
            figure(Some(80.0), Some(80.0)).at_least(),
            figure(Some(2.0), None).at_least(),
            figure(Some(2.0), Some(1.0)).incomparable(),
            figure(Some(4.0), Some(5.0)),
        ];
        assert_eq!(
            all.each_ref().map(Figure::holds),
            [Some(true), Some(false), Some(true), None, None, None]
        );
        let table = figures_table(&all);
        let verdicts: Vec<_> =
            table.rows.iter().map(|row| [row[2].as_str(), row.last().unwrap()].join("|")).collect();
        assert_eq!(
            verdicts,
            [
                "≤ 2 µs|holds",
                "≤ 2 µs|does not hold",
                "≥ 80 µs|holds",
                "≥ 2 µs|not measured",
                "2 µs|not comparable",
                "4 µs|+25.00 %"
            ]
        );
        let head = head(&all, &[]);
        let sentence =
            "1 of 3 bounds of the publication does not hold here; one value can be compared, and is \
                        off by 25 %.";
        assert_eq!((head.sentence.as_str(), head.tone), (sentence, Tone::Bad));
        let row = ["Table 2", "2 of 3", "1", "25 %", "25 %", "1", "1"].map(str::to_owned);
        assert_eq!(head.table.rows, [row]);
        let json = serde_json::to_value(&all[0]).unwrap();
        assert_eq!(json["relation"], "at-most");
    }

    #[test]
    fn values_far_apart_are_dots_with_whole_labels() {
        let label = "a label that is longer than what stands beside a bar";
        let mut all = [figure(Some(1.0), Some(2.0)), figure(Some(900.0), Some(1.0))];
        all[0].what = label.into();
        let plots = figures_plots(&all);
        let drawn = plots[0].as_str();
        assert!(drawn.contains("class=\"dot c0\"") && !drawn.contains("<rect"), "{drawn}");
        assert!(drawn.contains(&format!(">{label}</text>")), "{drawn}");
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }
}
