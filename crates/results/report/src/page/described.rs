//! A page from its description in JSON: for programs that have something to show and draw no plots,
//! such as the Python package.

use serde::de::Error as _;
use serde::Deserialize;

use super::{Block, Head, Page, Section};
use crate::repeat::Repeat;
use crate::{
    plot::Axis, plot::Cdf, plot::CdfSeries, plot::Dot, plot::Dots, plot::Grid, plot::Line,
    plot::Lines, plot::Markup, plot::Quantity, plot::Row, plot::Scale, plot::Stroke, plot::COLOURS,
};
use crate::{table::Column, table::Table, table::Tone};
use crate::{verdict::State, verdict::Study, verdict::StudyPoint, verdict::Verdict};

impl Page {
    /// The page that a text in JSON describes (docs/reference/results.md#pages-of-your-own).
    ///
    /// # Errors
    /// With line and column, if the text is no JSON or no page.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        // An error of meaning has no place of its own.
        let described = serde_json::from_str::<Described>(text)?;
        Self::try_from(described).map_err(serde_json::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    title: String,
    #[serde(default)]
    subtitle: String,
    head: Option<DescribedHead>,
    sections: Vec<DescribedSection>,
}

/// The answer is in the describer's words, or made here of the facts of a study.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedHead {
    sentence: Option<String>,
    verdict: Option<String>,
    #[serde(default)]
    tone: DescribedTone,
    study: Option<DescribedStudy>,
    tiles: [(String, String); 2],
    #[serde(default)]
    remarks: Vec<String>,
    repeat: Option<Repeat>,
    table: Option<DescribedTable>,
}

/// The facts of a study.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedStudy {
    /// How many points failed, gave other results when they were computed again, and are missing.
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    differing: u64,
    /// Points that miss thresholds.
    #[serde(default)]
    unmet: u64,
    #[serde(default)]
    missing: u64,
    /// The figure that is looked at, such as `p99 of reads of ssd`: a time in ns.
    figure: String,
    /// The axes with several values, without seeds.
    axes: Vec<String>,
    /// The values of the axes, the seeds as one text, and the figure.
    points: Vec<(Vec<String>, String, f64)>,
}

impl From<DescribedStudy> for Study {
    fn from(described: DescribedStudy) -> Self {
        let DescribedStudy { failed, differing, unmet, missing, figure, axes, points } = described;
        let state = match (failed, differing, unmet, missing) {
            (1.., ..) => State::Failed(failed),
            (0, 1.., ..) => State::NotRepeating(differing),
            (0, 0, 1.., _) => State::Unmet(unmet),
            (0, 0, 0, 1..) => State::Unfinished,
            (0, 0, 0, 0) => State::Complete,
        };
        let point = |(design, seed, figure)| StudyPoint { design, seed, figure };
        let points = points.into_iter().map(point).collect();
        Self { state, figure, axes, points }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DescribedTone {
    #[default]
    Neutral,
    Good,
    Bad,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedSection {
    #[serde(default)]
    heading: String,
    #[serde(default)]
    folded: bool,
    blocks: Vec<DescribedBlock>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DescribedBlock {
    Prose(String),
    Facts(Vec<(String, String)>),
    Table(DescribedTable),
    Plots(Vec<DescribedPlot>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedTable {
    #[serde(default)]
    caption: String,
    columns: Vec<String>,
    /// Number of columns, from the first, that are words; the others are figures.
    #[serde(default = "one")]
    words: usize,
    rows: Vec<Vec<String>>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum DescribedPlot {
    /// Points are a value and the share of values not above it, both rising.
    Distribution {
        title: String,
        x: DescribedAxis,
        series: Vec<Series>,
    },
    Lines {
        title: String,
        x: DescribedAxis,
        y: DescribedAxis,
        series: Vec<Series>,
    },
    /// Figures with their intervals, in rows.
    Dots {
        title: String,
        x: DescribedAxis,
        rows: Vec<DescribedRow>,
    },
    /// Figures by two axes.
    Map {
        title: String,
        /// Names of the axes: down, across.
        axes: [String; 2],
        rows: Vec<String>,
        columns: Vec<String>,
        #[serde(default)]
        quantity: DescribedQuantity,
        /// By row and column; null where there is none.
        values: Vec<Vec<Option<f64>>>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedRow {
    label: String,
    dots: Vec<DescribedDot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedDot {
    name: String,
    value: f64,
    interval: Option<[f64; 2]>,
    #[serde(default)]
    about: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedAxis {
    label: String,
    #[serde(default)]
    quantity: DescribedQuantity,
    #[serde(default)]
    scale: DescribedScale,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DescribedQuantity {
    /// In ns.
    Time,
    Bytes,
    /// In bytes a second.
    Bandwidth,
    /// From 0 to 1.
    Share,
    #[default]
    Number,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum DescribedScale {
    #[default]
    Linear,
    FromZero,
    Log,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl TryFrom<Described> for Page {
    type Error = &'static str;

    fn try_from(described: Described) -> Result<Self, Self::Error> {
        let section = |DescribedSection { heading, folded, blocks }| Section {
            heading,
            blocks: blocks.into_iter().map(Block::from).collect(),
            folded,
            anchor: String::new(),
        };
        let mut sections: Vec<_> = described.sections.into_iter().map(section).collect();
        let mut head = None;
        if let Some(mut described) = described.head {
            let study = described.study.take().map(Study::from);
            // The effects come first.
            if let Some((caption, table)) = study.as_ref().and_then(Study::table) {
                let section = Section::new("The effect of each axis");
                sections.insert(0, section.with(Block::Table(caption, table)));
            }
            head = Some(described.head(study)?);
        }
        Ok(Self { title: described.title, subtitle: described.subtitle, head, sections })
    }
}

impl DescribedHead {
    fn head(self, study: Option<Study>) -> Result<Head, &'static str> {
        let Self { sentence, verdict, tone, tiles, remarks, repeat, table, .. } = self;
        let tone = match tone {
            DescribedTone::Neutral => Tone::Neutral,
            DescribedTone::Good => Tone::Good,
            DescribedTone::Bad => Tone::Bad,
        };
        let verdict = match (study, verdict, sentence) {
            (Some(study), None, None) => study.verdict(),
            (None, Some(word), Some(sentence)) => Verdict { word, tone, sentence },
            (Some(_), ..) => {
                return Err("`head` has both a `study` and an answer in words; give one of the two")
            }
            (None, ..) => return Err("`head` needs a `sentence` and a `verdict`, or a `study`"),
        };
        let (caption, table) = table.map(DescribedTable::table).unwrap_or_default();
        let mut head = Head::answering(verdict, [("", String::new()), ("", String::new())]);
        head.tiles = tiles;
        Ok(Head { remarks, repeat, caption, table, ..head })
    }
}

impl DescribedTable {
    /// The caption and the table.
    fn table(self) -> (String, Table) {
        let named = self.columns.into_iter().enumerate().map(|(index, name)| {
            if index < self.words {
                Column::left(name)
            } else {
                Column::right(name)
            }
        });
        let mut table = Table::new(named.collect());
        table.rows = self.rows;
        (self.caption, table)
    }
}

impl From<DescribedBlock> for Block {
    fn from(described: DescribedBlock) -> Self {
        match described {
            DescribedBlock::Prose(text) => Self::Prose(text),
            DescribedBlock::Facts(facts) => Self::Facts(facts),
            DescribedBlock::Table(described) => {
                let (caption, table) = described.table();
                Self::Table(caption, table)
            }
            DescribedBlock::Plots(plots) => {
                Self::Plots(plots.into_iter().map(DescribedPlot::draw).collect())
            }
        }
    }
}

impl DescribedPlot {
    fn draw(self) -> Markup {
        match self {
            Self::Distribution { title, x, series } => {
                let series = series.into_iter().enumerate().map(|(index, one)| CdfSeries {
                    name: one.name,
                    colour: index % COLOURS,
                    stroke: stroke(index),
                    points: one.points,
                    marks: Vec::new(),
                });
                Cdf { title, x: x.into(), tail: false, series: series.collect() }.draw()
            }
            Self::Lines { title, x, y, series } => {
                let lines = series.into_iter().enumerate().map(|(index, one)| Line {
                    name: one.name,
                    colour: index % COLOURS,
                    stroke: stroke(index),
                    points: one.points,
                });
                Lines { title, x: x.into(), y: y.into(), lines: lines.collect() }.draw()
            }
            Self::Dots { title, x, rows } => {
                let mut names: Vec<String> = Vec::new();
                let mut row = |DescribedRow { label, dots }| {
                    let dots =
                        dots.into_iter().map(|DescribedDot { name, value, interval, about }| {
                            let place = names.iter().position(|each| *each == name);
                            let colour = place.unwrap_or_else(|| {
                                names.push(name.clone());
                                names.len() - 1
                            });
                            Dot { name, colour: colour % COLOURS, value, interval, about }
                        });
                    Row { label, dots: dots.collect() }
                };
                let rows = rows.into_iter().map(&mut row).collect();
                Dots { title, axis: x.into(), apart: true, rows }.draw()
            }
            Self::Map { title, axes: names, rows, columns, quantity, values } => {
                let (labels, quantity) = ([rows, columns], quantity.into());
                Grid { title, names, labels, quantity, values }.draw()
            }
        }
    }
}

/// Series of the same colour differ in their stroke.
fn stroke(index: usize) -> Stroke {
    if (index / COLOURS).is_multiple_of(2) {
        Stroke::Thin
    } else {
        Stroke::Dashed
    }
}

impl From<DescribedQuantity> for Quantity {
    fn from(quantity: DescribedQuantity) -> Self {
        match quantity {
            DescribedQuantity::Time => Self::Time,
            DescribedQuantity::Bytes => Self::Bytes,
            DescribedQuantity::Bandwidth => Self::Bandwidth,
            DescribedQuantity::Share => Self::Share,
            DescribedQuantity::Number => Self::Number(""),
        }
    }
}

impl From<DescribedAxis> for Axis {
    fn from(DescribedAxis { label, quantity, scale }: DescribedAxis) -> Self {
        let scale = match scale {
            DescribedScale::Linear => Scale::Linear,
            DescribedScale::FromZero => Scale::FromZero,
            DescribedScale::Log => Scale::Log,
        };
        Self::new(label, scale, quantity.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"{"title": "A <study>", "head": {"sentence": "b is <faster>.", "verdict": "faster",
        "tone": "good", "tiles": [["points", "2 of 2"], ["axes", "seed"]],
        "table": {"columns": ["point", "p99"], "rows": [["b", "1 µs"]]}}, "sections": [{"heading": "ssd: read", "blocks": [
        {"prose": "Two points."}, {"facts": [["points", "2"]]},
        {"table": {"caption": "by seed", "columns": ["seed", "why", "p99"], "words": 2, "rows": [["1", "x", "2 µs"]]}},
        {"plots": [
            {"distribution": {"title": "latency", "x": {"label": "Latency", "quantity": "time", "scale": "log"},
                "series": [{"name": "seed = 1", "points": [[100, 0.5], [200, 1]]}]}},
            {"lines": {"title": "by depth", "x": {"label": "depth"},
                "y": {"label": "p99", "quantity": "time", "scale": "from-zero"},
                "series": [{"name": "p99", "points": [[1, 10.5], [2, 1e6]]}]}},
            {"dots": {"title": "seeds", "x": {"label": "p99", "quantity": "time"},
                "rows": [{"label": "b", "dots": [{"name": "p99", "value": 1000, "interval": [900, 1100]}]}]}},
            {"map": {"title": "two axes", "axes": ["ftl", "depth"], "rows": ["page", "dftl"], "columns": ["1", "2"],
                "quantity": "time", "values": [[1000, 2000], [null, 4000]]}}]}]}]}"#;

    #[test]
    fn a_page_is_what_its_description_says() {
        let html = Page::from_json(PAGE).unwrap().to_html();
        for part in [
            "<h1>A &lt;study&gt;</h1>",
            "<p>Two points.</p>",
            "<dt>points</dt><dd>2</dd>",
            "<td>x</td><td class=\"figure\">2 µs</td>",
            "data-kind=\"steps\" data-v=\"100 0.5 100 1\"",
            "data-kind=\"line\" data-v=\"1 10.5 1 1000000\"",
            "<p class=\"sentence\">b is &lt;faster&gt;.</p>",
            "<dl class=\"facts tiles good\">",
            "<dt>Verdict</dt><dd>faster</dd>",
            "<th scope=\"row\">b</th><td class=\"figure\">1 µs</td>",
            "b p99: 1 µs [900 ns, 1.1 µs]",
            "ftl page, depth 2: 2 µs",
            "<script>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }

    #[test]
    fn what_is_no_page_is_told_with_its_place() {
        for (from, to, message) in [
            ("\"prose\"", "\"verse\"", "unknown variant `verse`, expected one of `prose`"),
            ("\"title\": \"A", "\"name\": \"A", "unknown field `name`"),
            ("[[1, 10.5]", "[[1]", "invalid length 1"),
            ("\"log\"", "\"bog\"", "unknown variant `bog`"),
            ("[[1, 10.5]", "[[1, NaN]", "expected value at line 11"),
        ] {
            assert!(PAGE.contains(from));
            let error = Page::from_json(&PAGE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains(" line "), "{error}");
        }
    }

    #[test]
    fn the_answer_of_a_study_is_made_of_its_facts() {
        let study = r#""study": {"figure": "p99 of reads of ssd", "axes": ["depth"], "points": [
            [["1"], "1", 100000], [["1"], "2", 100100], [["8"], "1", 300000], [["8"], "2", 300100]]}"#;
        let words = r#""sentence": "b is <faster>.", "verdict": "faster",
        "tone": "good""#;
        assert!(PAGE.contains(words));
        let html = Page::from_json(&PAGE.replace(words, study)).unwrap().to_html();
        for part in [
            "Of 2 designs, depth = 1 has the least p99 of reads of ssd, 100.05 µs",
            "The effect of each axis",
            "<dd>complete</dd>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let both = PAGE.replace(words, &format!("{words}, {study}"));
        assert!(Page::from_json(&both).unwrap_err().to_string().contains("one of the two"));
        let neither = PAGE.replace(words, r#""tone": "good""#);
        assert!(Page::from_json(&neither).unwrap_err().to_string().contains("needs a `sentence`"));
    }

    #[test]
    fn colours_that_come_again_are_dashed() {
        let series: Vec<_> =
            (0..8).map(|index| format!(r#"{{"name": "s{index}", "points": [[1, 1]]}}"#)).collect();
        let text = format!(
            r#"{{"title": "", "sections": [{{"blocks": [{{"plots": [{{"lines": {{"title": "",
            "x": {{"label": ""}}, "y": {{"label": ""}}, "series": [{}]}}}}]}}]}}]}}"#,
            series.join(",")
        );
        let html = Page::from_json(&text).unwrap().to_html();
        assert_eq!(html.matches("class=\"stroke c0 dashed\"").count(), 1);
        assert_eq!(html.matches("class=\"stroke c0\"").count(), 1);
    }
}
