//! Box plots: where the middle half of each group lies, and how far the rest.

use super::axis::Axis;
use super::canvas::{Canvas, Key, Labels, Span};
use super::{Markup, COLOURS};

/// The figures of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The group's label.
    pub label: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Ends of the lower and the upper whisker.
    pub whiskers: [f64; 2],
    /// Quartiles: the box from the first to the third, and the median in it.
    pub quartiles: [f64; 3],
    /// A range to compare with, shaded behind the box.
    pub shade: Option<[f64; 2]>,
}

impl Group {
    /// The figures of `values`, in any order: quartiles by nearest rank, whiskers
    /// to the farthest values within 1.5 times the box's length of it (Tukey,
    /// "Exploratory Data Analysis", 1977, section 2D). `None` without values.
    pub fn of(label: impl Into<String>, colour: usize, values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quartiles = [1, 2, 3].map(|quarter| {
            let rank = (sorted.len() * quarter).div_ceil(4);
            sorted[rank.saturating_sub(1).min(last)]
        });
        let reach = 1.5 * (quartiles[2] - quartiles[0]);
        let low = sorted.iter().find(|value| **value >= quartiles[0] - reach);
        let high = sorted.iter().rfind(|value| **value <= quartiles[2] + reach);
        let whiskers = [*low?, *high?];
        Some(Self { label: label.into(), colour, whiskers, quartiles, shade: None })
    }

    /// Adds a range to compare with.
    #[must_use]
    pub fn shaded(mut self, range: [f64; 2]) -> Self {
        self.shade = Some(range);
        self
    }

    fn figures(&self) -> impl Iterator<Item = f64> + '_ {
        let shade = self.shade.into_iter().flatten();
        self.whiskers.into_iter().chain(self.quartiles).chain(shade)
    }
}

/// Box plots in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Boxes {
    /// The plot's title.
    pub title: String,
    /// The axis of the values.
    pub axis: Axis,
    /// Label of the shaded ranges; empty where there are none.
    pub shade: String,
    /// The groups, from the top.
    pub groups: Vec<Group>,
}

/// Height of a box, of a shade, and of a group with the room around it.
const THICK: f64 = 16.0;
const SHADE: f64 = 30.0;
const STEP: f64 = 38.0;
/// Room for the frame above the first and below the last.
const AROUND: f64 = 60.0;
/// The shade's colour: grey.
const GREY: usize = 4;

impl Boxes {
    /// Draws them.
    pub fn draw(&self) -> Markup {
        let keys: Vec<Key<'_>> =
            if self.shade.is_empty() { Vec::new() } else { vec![(&self.shade, GREY, "band")] };
        let labels = Labels::of(self.groups.iter().map(|group| group.label.as_str()));
        let step = labels.above + STEP;
        let height = AROUND + self.groups.len().max(1) as f64 * step;
        let mut canvas = Canvas::sized(&self.title, &self.axis.label, &keys, height, labels.margin);
        let axis = self.axis.fit(self.groups.iter().flat_map(Group::figures));
        canvas.x_axis(&axis);
        if self.groups.is_empty() {
            canvas.nothing();
        }
        let mut middle = canvas.y(1.0) + labels.above + STEP / 2.0;
        for group in &self.groups {
            let top = middle - STEP / 2.0 - labels.above;
            labels.draw(&mut canvas, &group.label, top, STEP);
            let place = |value: f64| {
                let value = if value.is_finite() { value } else { 0.0 };
                axis.place(value)
            };
            let show = |value: f64| self.axis.quantity.show(value);
            if let Some(shade) = group.shade {
                let [from, to] = shade.map(|value| canvas.x(place(value)));
                let text = format!("{}: {} to {}", self.shade, show(shade[0]), show(shade[1]));
                let wide = (to - from).max(1.0);
                let span =
                    Span { from: shade[0], to: shade[1], series: Some(0), ..Span::default() };
                canvas.shade([from, middle - SHADE / 2.0, wide, SHADE], span, GREY, &text);
            }
            let [low, high] = group.whiskers.map(|value| canvas.x(place(value)));
            let [first, median, third] = group.quartiles.map(|value| canvas.x(place(value)));
            let (top, bottom) = (middle - THICK / 2.0, middle + THICK / 2.0);
            let text = format!(
                "{}: {} to {}, quartiles {}, {}, {}",
                group.label,
                show(group.whiskers[0]),
                show(group.whiskers[1]),
                show(group.quartiles[0]),
                show(group.quartiles[1]),
                show(group.quartiles[2]),
            );
            // A box without length is still seen.
            let wide = (third - first).max(1.0);
            let span = Span { from: group.quartiles[0], to: group.quartiles[2], ..Span::default() };
            canvas.shade([first, top, wide, THICK], span, group.colour, &text);
            let places = [low, first, median, third.max(first + 1.0), high];
            let [low_, high_] = group.whiskers;
            let [first_, median_, third_] = group.quartiles;
            let values = [low_, first_, median_, third_, high_];
            let class = format!("stroke c{}", group.colour % COLOURS);
            canvas.whiskers(&class, values, places, [top, middle, bottom]);
            middle += step;
        }
        canvas.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiskers_end_at_values_and_leave_out_what_is_far() {
        let mut values: Vec<f64> = (1..=100).map(f64::from).collect();
        values.extend([1000.0, -1000.0, f64::NAN]);
        let group = Group::of("g", 0, &values).unwrap();
        assert_eq!(group.quartiles, [25.0, 50.0, 76.0]);
        assert_eq!(group.whiskers, [1.0, 100.0]);
        assert_eq!(Group::of("g", 0, &[f64::INFINITY]), None);
        assert_eq!(Group::of("g", 0, &[7.0]).unwrap().whiskers, [7.0, 7.0]);
    }
}
