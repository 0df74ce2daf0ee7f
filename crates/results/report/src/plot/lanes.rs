//! Lanes over time: what several did, and the messages between them.

use super::axis::Axis;
use super::canvas::{Canvas, Key, Labels, Span};
use super::Markup;

/// Values in steps of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Strip {
    /// Beginning of the first step; what lies before 0 is left out.
    pub origin: f64,
    /// Length of a step.
    pub width: f64,
    /// The values.
    pub values: Vec<f64>,
}

/// Something that happened at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When.
    pub at: f64,
    /// Its entry of the legend.
    pub series: usize,
    /// Its description.
    pub text: String,
}

/// Something that lasted.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its entry of the legend.
    pub series: usize,
    /// Its description.
    pub text: String,
}

/// One lane.
#[derive(Debug, Clone, PartialEq)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Shares from 0 to 1, the fuller the darker.
    pub load: Strip,
    /// Amounts, as bars.
    pub bars: Strip,
    /// Moments.
    pub marks: Vec<Mark>,
    /// Times that are shaded, over the whole lane.
    pub bands: Vec<Stretch>,
    /// Work, as thin bars; later ones lie above.
    pub work: Vec<Stretch>,
}

/// A message from one lane to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrow {
    /// Index of the lane that it comes from.
    pub from: usize,
    /// Index of the lane that it goes to.
    pub to: usize,
    /// Time at which it left the one.
    pub sent: f64,
    /// Time at which it arrived at the other.
    pub arrived: f64,
    /// Its entry of the legend.
    pub series: usize,
    /// Its description.
    pub text: String,
}

/// Lanes below each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// The plot's title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// Entries of the legend, with their colours; lines of the first are short.
    pub series: Vec<(String, usize)>,
    /// The lanes, from the top.
    pub lanes: Vec<Lane>,
    /// The messages.
    pub arrows: Vec<Arrow>,
}

/// Heights of a lane, of the strip of its load, and of its bars; the rest is for arrows.
const LANE: f64 = 66.0;
const LOAD: f64 = 9.0;
const BARS: f64 = 22.0;
/// Room between the parts of a lane.
const GAP: f64 = 3.0;
/// Room for the frame above the first lane and below the last.
const AROUND: f64 = 56.0;
/// Number of distinct shades.
const SHADES: f64 = 10.0;
/// Colour of the bars.
const BARS_COLOUR: usize = 2;
/// Height of a bar of work, and its least width.
const WORK: f64 = 7.0;
const MIN_WORK: f64 = 1.5;

impl Lanes {
    /// Draws them.
    pub fn draw(&self) -> Markup {
        let colour = |series: usize| self.series.get(series).map_or(0, |(_, colour)| *colour);
        let named = self.series.iter();
        let keys: Vec<Key<'_>> = named.map(|(name, colour)| (name.as_str(), *colour, "")).collect();
        let labels = Labels::of(self.lanes.iter().map(|lane| lane.name.as_str()));
        let step = labels.above + LANE;
        let height = AROUND + self.lanes.len().max(1) as f64 * step;
        let mut canvas = Canvas::sized(&self.title, &self.x.label, &keys, height, labels.margin);
        let axis = self.x.fit(self.ends().filter(|end| end.is_finite() && *end >= 0.0)).fixed();
        canvas.x_axis(&axis);
        if self.lanes.is_empty() {
            canvas.nothing();
            return canvas.finish();
        }
        let place = |canvas: &Canvas, value: f64| {
            canvas.x(axis.place(if value.is_finite() { value.max(0.0) } else { 0.0 }))
        };
        let first = canvas.y(1.0);
        let top = |lane: usize| first + lane as f64 * step + labels.above;
        canvas.arrowhead();
        // Arrows lie below all else.
        for arrow in &self.arrows {
            let known = self.lanes.len();
            if arrow.from >= known || arrow.to >= known || !arrow.sent.is_finite() {
                continue;
            }
            let middle = |lane: usize| top(lane) + GAP + LOAD + GAP + BARS;
            let y = if arrow.to > arrow.from {
                [middle(arrow.from), top(arrow.to)]
            } else {
                [top(arrow.from), middle(arrow.to)]
            };
            let span =
                Span { from: arrow.sent, to: arrow.arrived, series: Some(arrow.series), row: None };
            let x = [place(&canvas, arrow.sent), place(&canvas, arrow.arrived)];
            let places = [x[0], y[0], x[1], y[1]];
            canvas.segment("message", places, span, colour(arrow.series), &arrow.text);
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            let top = top(index);
            labels.draw(&mut canvas, &lane.name, top - labels.above, LANE);
            for band in lane.bands.iter().filter(|band| band.is_shown()) {
                let [left, right] = [band.from, band.to].map(|at| place(&canvas, at));
                let box_ = [left, top, (right - left).max(1.0), LANE - GAP];
                canvas.shade(box_, band.span(), colour(band.series), &band.text);
            }
            self.load(&mut canvas, lane, top + GAP, &place);
            self.bars(&mut canvas, lane, top + GAP + LOAD + GAP, &place);
            for work in lane.work.iter().filter(|work| work.is_shown()) {
                let [left, right] = [work.from, work.to].map(|at| place(&canvas, at));
                let y = top + GAP + LOAD + GAP + BARS + GAP;
                let box_ = [left, y, (right - left).max(MIN_WORK), WORK];
                canvas.bar(box_, work.span(), colour(work.series), &work.text);
            }
            for mark in lane.marks.iter().filter(|mark| mark.at.is_finite() && mark.at >= 0.0) {
                let x = place(&canvas, mark.at);
                let span =
                    Span { from: mark.at, to: mark.at, series: Some(mark.series), row: None };
                let (from, to) = match mark.series {
                    0 => (top + GAP + LOAD + GAP + BARS, top + LANE - 3.0 * GAP),
                    _ => (top, top + LANE - GAP),
                };
                canvas.segment("moment", [x, from, x, to], span, colour(mark.series), &mark.text);
            }
        }
        canvas.finish()
    }

    /// The times that the axis has to hold.
    fn ends(&self) -> impl Iterator<Item = f64> + '_ {
        let strips = self.lanes.iter().flat_map(|lane| [&lane.load, &lane.bars]);
        let strips = strips.map(|strip| strip.origin + strip.width * strip.values.len() as f64);
        let marks = self.lanes.iter().flat_map(|lane| lane.marks.iter().map(|mark| mark.at));
        let arrows = self.arrows.iter().map(|arrow| arrow.arrived);
        let lasting = self.lanes.iter().flat_map(|lane| lane.bands.iter().chain(&lane.work));
        let lasting = lasting.map(|one| one.to);
        [0.0].into_iter().chain(strips).chain(marks).chain(arrows).chain(lasting)
    }

    fn load(&self, canvas: &mut Canvas, lane: &Lane, y: f64, place: &impl Fn(&Canvas, f64) -> f64) {
        let shade = |share: f64| (share.clamp(0.0, 1.0) * SHADES).round() / SHADES;
        for (from, to, share) in lane.load.runs(shade) {
            let [left, right] = [from, to].map(|at| place(canvas, at));
            let show = |at: f64| self.x.quantity.show(at);
            let text = format!(
                "{}, {} to {}: processors ran for {:.0} % of the time",
                lane.name,
                show(from),
                show(to),
                share * 100.0
            );
            let span = Span { from, to, ..Span::default() };
            canvas.cell([left, y, (right - left).max(0.0), LOAD], Some(span), share, &text);
        }
    }

    fn bars(&self, canvas: &mut Canvas, lane: &Lane, y: f64, place: &impl Fn(&Canvas, f64) -> f64) {
        let largest = self.lanes.iter().flat_map(|lane| &lane.bars.values);
        let largest = largest.copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        for (from, to, value) in lane.bars.runs(|value| value) {
            let tall = (value / largest * BARS).max(1.0);
            let [left, right] = [from, to].map(|at| place(canvas, at));
            let show = |at: f64| self.x.quantity.show(at);
            let each = to - from > lane.bars.width * 1.5;
            let text = format!(
                "{}, {} to {}: {value} {}{}",
                lane.name,
                show(from),
                show(to),
                if value == 1.0 { "I/O" } else { "I/Os" },
                if each { " in each step" } else { "" }
            );
            let span = Span { from, to, ..Span::default() };
            let box_ = [left, y + BARS - tall, (right - left).max(0.5), tall];
            canvas.bar(box_, span, BARS_COLOUR, &text);
        }
    }
}

impl Stretch {
    fn is_shown(&self) -> bool {
        self.from.is_finite() && self.to.is_finite() && self.to >= 0.0
    }

    fn span(&self) -> Span {
        Span { from: self.from, to: self.to, series: Some(self.series), row: None }
    }
}

impl Strip {
    /// Neighbours of one `shade` together, without those of none: from, to, shade.
    fn runs(&self, shade: impl Fn(f64) -> f64) -> Vec<(f64, f64, f64)> {
        let mut runs: Vec<(f64, f64, f64)> = Vec::new();
        for (index, value) in self.values.iter().enumerate() {
            let from = self.origin + index as f64 * self.width;
            let to = from + self.width;
            let value = shade(if value.is_finite() { *value } else { 0.0 });
            if value <= 0.0 || to <= 0.0 || !to.is_finite() {
                continue;
            }
            match runs.last_mut() {
                Some((_, end, last))
                    if *last == value && (*end - from).abs() < self.width / 2.0 =>
                {
                    *end = to;
                }
                _ => runs.push((from.max(0.0), to, value)),
            }
        }
        runs
    }
}
