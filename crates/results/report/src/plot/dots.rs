//! Dots in rows: figures with their intervals, or instants of several kinds.

use super::axis::{Axis, Scale};
use super::canvas::{Canvas, Key, Labels, Span};
use super::{Markup, COLOURS};

/// One dot.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// Its name: dots of the same name are one entry of the legend.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Its value; one that is not finite is left out.
    pub value: f64,
    /// The interval around the value.
    pub interval: Option<[f64; 2]>,
    /// More about it, shown when it is pointed at; may be empty.
    pub about: String,
}

/// The dots of one label.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Their label.
    pub label: String,
    /// The dots.
    pub dots: Vec<Dot>,
}

/// Rows of dots in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// The plot's title.
    pub title: String,
    /// The axis of the values.
    pub axis: Axis,
    /// True if dots of different names stand below each other within their row.
    pub apart: bool,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// Height of a line of dots, and of the room between two rows.
const LINE: f64 = 13.0;
const GAP: f64 = 9.0;
/// Room for the frame above the first row and below the last.
const AROUND: f64 = 60.0;
/// Radius of a dot, and height of the bar that shows an interval.
const RADIUS: f64 = 4.0;
const BAR: f64 = 3.0;

impl Dots {
    /// Draws them.
    pub fn draw(&self) -> Markup {
        let mut keys: Vec<Key<'_>> = Vec::new();
        for dot in self.rows.iter().flat_map(|row| &row.dots) {
            if !dot.name.is_empty() && !keys.iter().any(|key| key.0 == dot.name) {
                keys.push((&dot.name, dot.colour, "dot"));
            }
        }
        let series = |dot: &Dot| keys.iter().position(|key| key.0 == dot.name);
        let line = |dot: &Dot| match self.apart {
            true => series(dot).unwrap_or(0),
            false => 0,
        };
        let lines = |row: &Row| row.dots.iter().map(line).max().unwrap_or(0) + 1;
        let labels = Labels::of(self.rows.iter().map(|row| row.label.as_str()));
        let tall = |row: &Row| labels.above + lines(row) as f64 * LINE + GAP;
        let height = AROUND + self.rows.iter().map(tall).sum::<f64>();
        let mut canvas = Canvas::sized(&self.title, &self.axis.label, &keys, height, labels.margin);
        // An axis by factors has no 0, where an interval can end: it is drawn from the axis's begin.
        let has_place = |end: &f64| self.axis.scale != Scale::Log || *end > 0.0;
        let ends =
            |dot: &Dot| dot.interval.into_iter().flatten().filter(has_place).chain([dot.value]);
        let values = self.rows.iter().flat_map(|row| row.dots.iter().flat_map(ends));
        let axis = self.axis.fit(values.filter(|value| value.is_finite()));
        canvas.x_axis(&axis);
        if self.rows.is_empty() {
            canvas.nothing();
        }
        let mut top = canvas.y(1.0) + GAP / 2.0;
        for row in &self.rows {
            let begin = top + labels.above;
            labels.draw(&mut canvas, &row.label, top, lines(row) as f64 * LINE);
            for dot in row.dots.iter().filter(|dot| dot.value.is_finite()) {
                let middle = begin + line(dot) as f64 * LINE + LINE / 2.0;
                let show = |value: f64| self.axis.quantity.show(value);
                let mut text = [&row.label, &dot.name].map(String::as_str).join(" ");
                text = format!("{}: {}", text.trim_end(), show(dot.value));
                let series = series(dot);
                let interval = dot.interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
                if let Some([low, high]) = interval {
                    text += &format!(" [{}, {}]", show(low), show(high));
                    let place = |end: f64| if has_place(&end) { axis.place(end) } else { 0.0 };
                    let [from, to] = [low, high].map(|value| canvas.x(place(value)));
                    let place = [from, middle - BAR / 2.0, (to - from).max(1.0), BAR];
                    let span = Span { from: low, to: high, series, ..Span::default() };
                    // The dot of an interval without width is all there is to see.
                    if high > low {
                        canvas.bar(place, span, dot.colour, &text);
                    }
                }
                if !dot.about.is_empty() {
                    text += &format!("\n{}", dot.about);
                }
                let at = (canvas.x(axis.place(dot.value)), middle);
                let span = Span { from: dot.value, to: dot.value, series, ..Span::default() };
                canvas.dot(at, RADIUS, span, dot.colour % COLOURS, &text);
            }
            top += tall(row);
        }
        canvas.finish()
    }
}
