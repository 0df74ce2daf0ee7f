//! A map of figures: one axis down, the other across, the greater the darker, with each figure in
//! its cell where there is room.

use super::axis::Quantity;
use super::canvas::{shortened, text_width, Canvas, Shade};
use super::Markup;

/// Figures by two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The plot's title.
    pub title: String,
    /// Names of the axes: down, across.
    pub names: [String; 2],
    /// Labels of the rows, from the top, and of the columns.
    pub labels: [Vec<String>; 2],
    /// The quantity of the figures.
    pub quantity: Quantity,
    /// The figures by row and column; none where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Height of a cell.
const TALL: f64 = 24.0;
/// Room above the first row, and below the last for the labels of columns and the axis' name.
const AROUND: f64 = 60.0;
/// Characters of a label that are shown.
const LABEL: usize = 24;
/// Number of distinct shades, and the palest: a figure is not nothing.
const SHADES: f64 = 16.0;
const PALEST: f64 = 0.06;
/// Above it a figure on a cell is black on dark pages too: there WCAG 2.1's contrast of 4.5 (1.4.3)
/// ends for white on the first colour.
const FULL: f64 = 0.635;

impl Grid {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let [rows, columns] = &self.labels;
        let values = || self.values.iter().flatten().flatten().copied().filter(|v| v.is_finite());
        let (low, high) = values()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        // Figures that differ by more than this are told apart by their logarithm.
        const WIDE: f64 = 20.0;
        let log = low > 0.0 && high > WIDE * low;
        let place = |value: f64| match (high > low, log) {
            (false, _) => 1.0,
            (true, true) => (value / low).ln() / (high / low).ln(),
            (true, false) => (value - low) / (high - low),
        };
        let opacity =
            |value: f64| PALEST + (0.9 - PALEST) * (place(value) * SHADES).round() / SHADES;
        let shown = |label: &str| shortened(label, LABEL);
        let margin = rows.iter().map(|label| text_width(&shown(label))).fold(40.0, f64::max) + 34.0;
        let height = AROUND + rows.len().max(1) as f64 * TALL;
        let legend: Vec<Shade> = match low <= high {
            true => [low, if log { (low * high).sqrt() } else { (low + high) / 2.0 }, high]
                .map(|value| (self.quantity.show(value), opacity(value)))
                .into(),
            false => Vec::new(),
        };
        let description = format!("by {} and {}", self.names[0], self.names[1]);
        let mut canvas = Canvas::shaded(&self.title, &description, &legend, height, margin);
        if rows.is_empty() || columns.is_empty() {
            canvas.nothing();
            return canvas.finish();
        }
        let (top, wide) = (canvas.y(1.0), (canvas.x(1.0) - margin) / columns.len() as f64);
        for (row, label) in rows.iter().enumerate() {
            let y = top + row as f64 * TALL;
            canvas.text(margin - 6.0, y + TALL / 2.0 + 4.0, "end", &shown(label));
            for (column, head) in columns.iter().enumerate() {
                let value = self.values.get(row).and_then(|row| row.get(column));
                let Some(value) = value.copied().flatten().filter(|value| value.is_finite()) else {
                    continue;
                };
                let x = margin + column as f64 * wide;
                let figure = self.quantity.show(value);
                let [down, across] = &self.names;
                let text = format!("{down} {label}, {across} {head}: {figure}");
                let place = [x, y, wide - 1.0, TALL - 1.0];
                canvas.cell(place, None, opacity(value), &text);
                if text_width(&figure) < wide - 4.0 {
                    let class = if opacity(value) > FULL { "middle on" } else { "middle pale" };
                    canvas.text(x + wide / 2.0, y + TALL / 2.0 + 4.0, class, &figure);
                }
            }
        }
        let bottom = top + rows.len() as f64 * TALL;
        let mut free_from = f64::NEG_INFINITY;
        for (column, label) in columns.iter().enumerate() {
            let (x, label) = (margin + (column as f64 + 0.5) * wide, shown(label));
            let half = text_width(&label) / 2.0;
            if x - half > free_from {
                canvas.text(x, bottom + 15.0, "middle", &label);
                free_from = x + half + 6.0;
            }
        }
        canvas.text((margin + canvas.x(1.0)) / 2.0, height - 7.0, "axis middle", &self.names[1]);
        canvas.upright(11.0, (top + bottom) / 2.0, &self.names[0]);
        canvas.finish()
    }
}
