//! Horizontal bars, beside or behind each other.

use super::axis::Axis;
use super::canvas::{Canvas, Key, Labels, Span};
use super::Markup;

/// One bar, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its name: bars of the same name are one entry of the legend.
    pub name: String,
    /// Its colour, see [`super::COLOURS`].
    pub colour: usize,
    /// Its length; not negative. A value that is not finite has no length and is shown as an X: the
    /// measurement failed.
    pub value: f64,
}

/// The bars of one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Their label.
    pub label: String,
    /// The bars.
    pub segments: Vec<Segment>,
}

/// Bars in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// The plot's title.
    pub title: String,
    /// The axis of the values.
    pub axis: Axis,
    /// True if a label's bars stand behind each other rather than below.
    pub stacked: bool,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

/// Height of a bar, and of the room between two labels.
const THICK: f64 = 15.0;
const GAP: f64 = 11.0;
/// Room for the frame above the first and below the last.
const AROUND: f64 = 60.0;

impl Bars {
    /// Draws them.
    pub fn draw(&self) -> Markup {
        let mut keys: Vec<Key<'_>> = Vec::new();
        for segment in self.bars.iter().flat_map(|bar| &bar.segments) {
            if !segment.name.is_empty() && !keys.iter().any(|key| key.0 == segment.name) {
                keys.push((&segment.name, segment.colour, "fill"));
            }
        }
        let rows = |bar: &Bar| if self.stacked { 1 } else { bar.segments.len().max(1) };
        let labels = Labels::of(self.bars.iter().map(|bar| bar.label.as_str()));
        let each = |bar: &Bar| labels.above + rows(bar) as f64 * THICK + GAP;
        let height = AROUND + self.bars.iter().map(each).sum::<f64>();
        let mut canvas = Canvas::sized(&self.title, &self.axis.label, &keys, height, labels.margin);
        let lengths = self.bars.iter().flat_map(|bar| {
            let values = bar.segments.iter().map(|segment| length(segment.value));
            if self.stacked {
                vec![values.sum()]
            } else {
                values.collect()
            }
        });
        // Room for the figure beside the longest bar.
        let axis = self.axis.fit(lengths.map(|value: f64| value * 1.25).chain([0.0]));
        // Parts of a logarithm are not the parts of the whole.
        let axis = if self.stacked { axis.fixed() } else { axis };
        canvas.x_axis(&axis);
        let mut y = canvas.y(1.0) + GAP / 2.0;
        for (number, bar) in self.bars.iter().enumerate() {
            let tall = rows(bar) as f64 * THICK;
            labels.draw(&mut canvas, &bar.label, y, tall);
            y += labels.above;
            let mut from = 0.0;
            let mut shown = 0.0;
            for (index, segment) in bar.segments.iter().enumerate() {
                let value = length(segment.value);
                let row = if self.stacked { 0 } else { index };
                let top = y + row as f64 * THICK;
                let begin = canvas.x(axis.place(from));
                let end = canvas.x(axis.place(from + value));
                let figure = if segment.value.is_finite() {
                    self.axis.quantity.show(value)
                } else {
                    "X".to_owned()
                };
                let name = [bar.label.as_str(), &segment.name].join(" ");
                // A bar that is there is seen, however short.
                let wide = if value > 0.0 { (end - begin).max(1.0) } else { 0.0 };
                let series = keys.iter().position(|key| key.0 == segment.name);
                let row = self.stacked.then_some(number);
                let span = Span { from, to: from + value, series, row };
                canvas.bar(
                    [begin, top, wide, THICK - 2.0],
                    span,
                    segment.colour,
                    &format!("{name}: {figure}"),
                );
                shown += value;
                if self.stacked {
                    from += value;
                } else {
                    canvas.value(end + 5.0, top + THICK - 4.0, span, &figure);
                }
            }
            if self.stacked {
                let end = canvas.x(axis.place(from));
                let span = Span { from: 0.0, to: from, series: None, row: Some(number) };
                canvas.value(end + 5.0, y + THICK - 4.0, span, &self.axis.quantity.show(shown));
            }
            y += tall + GAP;
        }
        if self.bars.is_empty() {
            canvas.nothing();
        }
        canvas.finish()
    }
}

/// The length of a value's bar; 0 for a value that cannot be a length.
fn length(value: f64) -> f64 {
    if value.is_finite() {
        value.max(0.0)
    } else {
        0.0
    }
}
