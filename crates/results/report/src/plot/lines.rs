//! Lines.

use super::axis::Axis;
use super::canvas::{number, Canvas, Key, Kind};
use super::{Markup, Stroke, COLOURS};

/// Points of all lines up to which each shows its figures without a script.
const MARKED: usize = 400;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its colour, see [`COLOURS`].
    pub colour: usize,
    /// Stroke with which it is drawn.
    pub stroke: Stroke,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// Lines in one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The plot's title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, later ones on top.
    pub lines: Vec<Line>,
}

impl Lines {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let keys: Vec<Key<'_>> = self
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.colour, line.stroke.class().trim_start()))
            .collect();
        let all = self.lines.iter().flat_map(|line| line.points.iter());
        let (mut canvas, x, y) =
            Canvas::of_points(&self.title, &keys, (&self.x, &self.y), all.clone());
        for (index, line) in self.lines.iter().enumerate() {
            let finite = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let finite: Vec<_> = finite.copied().collect();
            let place = |(across, up)| (canvas.x(x.place(across)), canvas.y(y.place(up)));
            let places: Vec<_> = finite.iter().copied().map(place).collect();
            let mut data = String::new();
            for (cx, cy) in &places {
                data.push(if data.is_empty() { 'M' } else { 'L' });
                data.push_str(&format!("{} {}", number(*cx), number(*cy)));
            }
            if let [(cx, cy)] = places[..] {
                // A point alone would not be seen: a dash, as in marks.js.
                data = format!("M{} {}H{}", number(cx - 3.0), number(cy), number(cx + 3.0));
            }
            let class = format!("stroke c{}{}", line.colour % COLOURS, line.stroke.class());
            canvas.series(&class, index, Kind::Line, &finite, "", &data);
            if all.clone().count() > MARKED {
                continue;
            }
            for (place, &(across, up)) in places.into_iter().zip(&finite) {
                let (at, value) = (self.x.quantity.show(across), self.y.quantity.show(up));
                let text = format!("{}: {value} at {at}", line.name);
                canvas.hit(place, (across, up), line.colour, index, &text);
            }
        }
        canvas.finish()
    }
}
