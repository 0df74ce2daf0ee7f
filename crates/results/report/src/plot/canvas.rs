//! Parts that all plots share: the frame with its grid and axes, the legend, and numbers as SVG
//! wants them.

use super::axis::{Axis, Fitted};
use super::{Markup, COLOURS};
use crate::escape::escape;

/// Size in units of the drawing, which are about CSS pixels.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
/// Room for the labels of the vertical axis at least, and for its title beside them.
const LEFT: f64 = 64.0;
const TITLE: f64 = 22.0;
/// Room at the right; a label at the axis' end takes half of its width there.
const RIGHT: f64 = 14.0;
/// Between the vertical axis and its labels.
const GAP: f64 = 6.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;

/// An entry of a legend: name, colour, CSS class of its sample.
pub(super) type Key<'a> = (&'a str, usize, &'static str);

/// A shade of a map: its meaning, and its opacity.
pub(super) type Shade = (String, f64);

/// Kind of a series, by which the page's script draws it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Points joined by straight lines.
    Line,
    /// Up at each point, level between them.
    Steps,
    /// Round dots.
    Dots,
}

/// A box for values of the horizontal axis.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Span {
    /// The values at its ends.
    pub(super) from: f64,
    pub(super) to: f64,
    /// The entry of the legend that hides it.
    pub(super) series: Option<usize>,
    /// Its row, where boxes of a row stand one behind the other.
    pub(super) row: Option<usize>,
}

impl Span {
    fn attributes(&self) -> String {
        let series = self.series.map_or(String::new(), |series| format!(" data-s=\"{series}\""));
        let row = self.row.map_or(String::new(), |row| format!(" data-row=\"{row}\""));
        format!("{series}{row} data-x=\"{} {}\"", exact(self.from), exact(self.to))
    }
}

/// Characters that a label beside its row has at most; longer ones stand above it.
const BESIDE: usize = 36;
/// Height of a label above its row.
const ABOVE: f64 = 17.0;

/// The labels of rows: beside them, or, where one is long, above them.
pub(super) struct Labels {
    /// Room at the left of the frame.
    pub(super) margin: f64,
    /// Room above each row.
    pub(super) above: f64,
}

impl Labels {
    pub(super) fn of<'a>(labels: impl Iterator<Item = &'a str> + Clone) -> Self {
        if labels.clone().any(|label| label.chars().count() > BESIDE) {
            return Self { margin: 14.0, above: ABOVE };
        }
        Self { margin: labels.map(text_width).fold(40.0, f64::max) + 14.0, above: 0.0 }
    }

    /// Draws the label of a row that takes `tall` below the label's own room, which begins at `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, label: &str, top: f64, tall: f64) {
        match self.above {
            0.0 => canvas.text(self.margin - 8.0, top + tall / 2.0 + 4.0, "end", label),
            above => {
                let most = (WIDTH - self.margin) / CHARACTER;
                let (x, y) = (canvas.x(0.0) + 2.0, top + above - 5.0);
                canvas.text(x, y, "label", &shortened(label, most as usize));
            }
        }
    }
}

/// A drawing under way.
pub(super) struct Canvas {
    out: String,
    title: String,
    is_empty: bool,
    width: f64,
    height: f64,
    margin: f64,
    bottom: f64,
}

impl Canvas {
    /// A canvas of the usual size, with room for the labels of `y`.
    pub(super) fn new(title: &str, description: &str, keys: &[Key<'_>], y: &Fitted) -> Self {
        let labels = y.ticks.iter().map(|tick| text_width(&tick.label));
        let margin = labels.fold(0.0, f64::max) + TITLE + GAP;
        Self::sized(title, description, keys, HEIGHT, margin.max(LEFT))
    }

    /// A canvas for points: its axes, fitted to them, are drawn, with a message to the reader where
    /// there are none.
    pub(super) fn of_points<'a>(
        title: &str,
        keys: &[Key<'_>],
        (x, y): (&Axis, &Axis),
        mut points: impl Iterator<Item = &'a (f64, f64)> + Clone,
    ) -> (Self, Fitted, Fitted) {
        let kind = format!("{} over {}", y.label, x.label);
        let (x, y) = (x.fit(points.clone().map(|p| p.0)), y.fit(points.clone().map(|p| p.1)));
        let mut canvas = Self::new(title, &kind, keys, &y);
        canvas.x_axis(&x);
        canvas.y_axis(&y);
        if points.next().is_none() {
            canvas.nothing();
        }
        (canvas, x, y)
    }

    /// A canvas of another height and left margin.
    pub(super) fn sized(
        title: &str,
        description: &str,
        keys: &[Key<'_>],
        height: f64,
        margin: f64,
    ) -> Self {
        let mut legend = String::new();
        if !keys.is_empty() {
            legend.push_str("<div class=\"legend\">");
            for (series, (name, colour, class)) in keys.iter().enumerate() {
                let (name, colour) = (escape(name), colour % COLOURS);
                legend.push_str(&format!(
                    "<span class=\"c{colour}\" data-s=\"{series}\"><i class=\"{class}\"></i>{name}</span>"
                ));
            }
            legend.push_str("</div>");
        }
        Self::framed(title, description, &legend, height, margin)
    }

    /// A canvas whose legend tells what shades mean.
    pub(super) fn shaded(
        title: &str,
        description: &str,
        shades: &[Shade],
        height: f64,
        margin: f64,
    ) -> Self {
        let shade = |(name, opacity): &Shade| {
            let name = escape(name);
            format!("<span class=\"c0\"><i class=\"fill\" style=\"opacity:{opacity:.2}\"></i>{name}</span>")
        };
        let all: String = shades.iter().map(shade).collect();
        Self::framed(
            title,
            description,
            &format!("<div class=\"legend\">{all}</div>"),
            height,
            margin,
        )
    }

    fn framed(title: &str, description: &str, legend: &str, height: f64, margin: f64) -> Self {
        let out = format!("<figure><figcaption>{}</figcaption>{legend}", escape(title));
        let (title_of, is_empty) = (title.to_owned(), false);
        let mut canvas =
            Self { out, title: title_of, is_empty, width: WIDTH, height, margin, bottom: BOTTOM };
        let frame = [canvas.x(0.0), canvas.y(1.0), canvas.x(1.0), canvas.y(0.0)].map(number);
        canvas.out.push_str(&format!(
            "\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" data-frame=\"{}\">\n",
            escape(&format!("{title}: {description}")),
            frame.join(" "),
        ));
        canvas
    }

    pub(super) fn x(&self, place: f64) -> f64 {
        self.margin + place * (self.width - self.margin - RIGHT)
    }

    pub(super) fn y(&self, place: f64) -> f64 {
        self.height - self.bottom - place * (self.height - TOP - self.bottom)
    }

    /// The horizontal axis with its grid.
    pub(super) fn x_axis(&mut self, axis: &Fitted) {
        let (top, bottom) = (self.y(1.0), self.y(0.0));
        self.open_axis("x-axis", axis);
        let mut free_from = f64::NEG_INFINITY;
        for tick in &axis.ticks {
            let x = self.x(axis.place(tick.value));
            self.path("grid", &format!("M{} {}V{}", number(x), number(bottom), number(top)));
            // A label stands only where the one before leaves room.
            let half = text_width(&tick.label) / 2.0;
            if x - half > free_from {
                let x = x.min(self.width - half - 1.0);
                self.text(x, bottom + 16.0, "middle", &tick.label);
                free_from = x + half + 6.0;
            }
        }
        let (x, y) = (self.x(0.5), self.height - 7.0);
        self.text(x, y, "axis middle", &axis.caption);
        let (left, right) = (self.x(0.0), self.x(1.0));
        self.path("frame", &format!("M{} {}H{}", number(left), number(bottom), number(right)));
        self.out.push_str("</g>\n");
    }

    fn open_axis(&mut self, class: &str, axis: &Fitted) {
        let described = escape(&axis.described());
        self.out.push_str(&format!("<g class=\"{class}\" data-axis=\"{described}\">\n"));
    }

    /// The vertical axis with its grid.
    pub(super) fn y_axis(&mut self, axis: &Fitted) {
        let (left, right) = (self.x(0.0), self.x(1.0));
        self.open_axis("y-axis", axis);
        for tick in &axis.ticks {
            let y = self.y(axis.place(tick.value));
            self.path("grid", &format!("M{} {}H{}", number(left), number(y), number(right)));
            self.text(left - GAP, y + 4.0, "end", &tick.label);
        }
        self.upright(11.0, self.y(0.5), &axis.caption);
        self.out.push_str("</g>\n");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        self.out.push_str(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// The name of an axis, upwards.
    pub(super) fn upright(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (number(x), number(y), escape(text));
        self.out.push_str(&format!(
            "<text class=\"axis middle\" transform=\"translate({x} {y}) rotate(-90)\">{text}</text>\n"
        ));
    }

    pub(super) fn path(&mut self, class: &str, data: &str) {
        self.out.push_str(&format!("<path class=\"{class}\" d=\"{data}\"/>\n"));
    }

    /// A figure beside a bar that ends at `value`.
    pub(super) fn value(&mut self, x: f64, y: f64, span: Span, text: &str) {
        let (x, y, text, span) = (number(x), number(y), escape(text), span.attributes());
        self.out
            .push_str(&format!("<text class=\"value\"{span} x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// The path of a series, with what it is drawn from. `details` are of a scatter's points.
    pub(super) fn series(
        &mut self,
        class: &str,
        series: usize,
        kind: Kind,
        points: &[(f64, f64)],
        details: &str,
        data: &str,
    ) {
        let kind = match kind {
            Kind::Line => "line",
            Kind::Steps => "steps",
            Kind::Dots => "dots",
        };
        let mut values = String::with_capacity(points.len() * 16);
        let mut last = 0.0;
        for &(x, y) in points {
            // From one point to the next takes fewer digits.
            let gap = if values.is_empty() { "" } else { " " };
            values.push_str(&format!("{gap}{} {}", exact(x - last), exact(y)));
            last = x;
        }
        let details = match details {
            "" => String::new(),
            details => format!(" data-d=\"{}\"", escape(details)),
        };
        self.out.push_str(&format!(
            "<path class=\"{class}\" data-s=\"{series}\" data-kind=\"{kind}\" data-v=\"{values}\"{details} d=\"{data}\"/>\n"
        ));
    }

    /// A place that shows `text` when pointed at.
    pub(super) fn hit(
        &mut self,
        (x, y): (f64, f64),
        value: (f64, f64),
        colour: usize,
        series: usize,
        text: &str,
    ) {
        let (x, y, colour, text) = (number(x), number(y), colour % COLOURS, escape(text));
        let (across, up) = (exact(value.0), exact(value.1));
        self.out.push_str(&format!(
            "<circle class=\"hit c{colour}\" data-s=\"{series}\" data-v=\"{across} {up}\" cx=\"{x}\" cy=\"{y}\" \
             r=\"6\"><title>{text}</title></circle>\n"
        ));
    }

    /// A dot that shows `text` when pointed at.
    pub(super) fn dot(
        &mut self,
        (x, y): (f64, f64),
        radius: f64,
        span: Span,
        colour: usize,
        text: &str,
    ) {
        let (x, y, text, span) = (number(x), number(y), escape(text), span.attributes());
        self.out.push_str(&format!(
            "<circle class=\"dot c{colour}\"{span} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\">\
             <title>{text}</title></circle>\n"
        ));
    }

    /// The head of the lines of class `message` (page.css).
    pub(super) fn arrowhead(&mut self) {
        self.out.push_str(
            "<defs><marker id=\"arrow\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" \
             orient=\"auto\" markerUnits=\"userSpaceOnUse\"><path class=\"head\" d=\"M0 0L6 3L0 6z\"/>\
             </marker></defs>\n",
        );
    }

    /// A line that shows `text` when pointed at, from one place to another: `[x, y, x, y]`.
    pub(super) fn segment(
        &mut self,
        class: &str,
        places: [f64; 4],
        span: Span,
        colour: usize,
        text: &str,
    ) {
        let ([x1, y1, x2, y2], colour) = (places.map(number), colour % COLOURS);
        let (text, span) = (escape(text), span.attributes());
        self.out.push_str(&format!(
            "<line class=\"{class} c{colour}\"{span} x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\">\
             <title>{text}</title></line>\n"
        ));
    }

    /// A filled box that shows `text` when pointed at.
    pub(super) fn bar(&mut self, place: [f64; 4], span: Span, colour: usize, text: &str) {
        self.rectangle(&format!("fill c{}", colour % COLOURS), "", place, Some(span), text);
    }

    /// Like [`Self::bar`], but so pale that marks behind and before the box are visible.
    pub(super) fn shade(&mut self, place: [f64; 4], span: Span, colour: usize, text: &str) {
        self.rectangle(&format!("fill shade c{}", colour % COLOURS), "", place, Some(span), text);
    }

    /// A box of the first colour, with a given opacity; without a span it stays where it is.
    pub(super) fn cell(&mut self, place: [f64; 4], span: Option<Span>, opacity: f64, text: &str) {
        self.rectangle("fill c0", &format!(" fill-opacity=\"{opacity:.2}\""), place, span, text);
    }

    fn rectangle(
        &mut self,
        class: &str,
        style: &str,
        place: [f64; 4],
        span: Option<Span>,
        text: &str,
    ) {
        let [x, y, width, height] = place.map(number);
        let (text, span) = (escape(text), span.as_ref().map_or_else(String::new, Span::attributes));
        self.out.push_str(&format!(
            "<rect class=\"{class}\"{style}{span} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\">\
             <title>{text}</title></rect>\n"
        ));
    }

    /// A box from the second to the fourth place with a line at the third, and lines to the
    /// first and the last, at the heights of its top, middle and bottom.
    pub(super) fn whiskers(
        &mut self,
        class: &str,
        values: [f64; 5],
        places: [f64; 5],
        heights: [f64; 3],
    ) {
        let values = values.map(exact).join(" ");
        let [low, first, median, third, high] = places.map(number);
        let [top, middle, bottom] = heights.map(number);
        self.out.push_str(&format!(
            "<path class=\"{class}\" data-box=\"{values}\" data-y=\"{top} {middle} {bottom}\" \
             d=\"M{low} {middle}H{first}M{third} {middle}H{high}M{first} {top}V{bottom}H{third}V{top}H{first}\
             M{median} {top}V{bottom}M{low} {top}V{bottom}M{high} {top}V{bottom}\"/>\n"
        ));
    }

    /// A line in the middle of an empty plot.
    pub(super) fn nothing(&mut self) {
        self.is_empty = true;
        let (x, y) = (self.x(0.5), self.y(0.5));
        self.text(x, y, "middle", "nothing recorded");
    }

    pub(super) fn finish(mut self) -> Markup {
        self.out.push_str("</svg></figure>\n");
        let without = self.is_empty.then_some(self.title);
        Markup { html: self.out, without }
    }
}

/// A coordinate in as few characters as a tenth of a pixel takes.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A value for the page's script: whole numbers as they are, others to nine digits.
pub(super) fn exact(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    // Not finite is not there; `{:e}` of a number is one.
    let rounded = format!("{value:.8e}").parse::<f64>().unwrap_or(0.0);
    match rounded.abs() {
        size if !size.is_finite() => "0".to_owned(),
        size if (1e-6..1e15).contains(&size) => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

/// About how wide a character of a label is.
const CHARACTER: f64 = 6.5;

/// About how wide a label is.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// A text of at most `limit` characters.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}
