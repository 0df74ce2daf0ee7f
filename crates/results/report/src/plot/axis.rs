//! Axes: from values to places, and the marks beside them.

use stasis_results::units::{self, TimeUnit};

/// Values beyond this limit stand at an axis's end: it is more than any quantity is, and far enough
/// from the ends of `f64` for computations.
const MAX_VALUE: f64 = 1e30;

/// Spread of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero where that is near.
    Linear,
    /// Evenly, always from zero: for lengths of bars, rates, amounts.
    FromZero,
    /// By their logarithm. Values below 1 stand at 1.
    Log,
    /// For shares, the upper end stretched: 90 %, 99 %, 99.9 % and so on are equally far
    /// from each other.
    Tail,
}

/// The quantity that values measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Times in ns.
    Time,
    /// Amounts in bytes, shown in binary units.
    Bytes,
    /// Bytes a second, shown in decimal units.
    Bandwidth,
    /// Shares from 0 to 1, shown in percent.
    Share,
    /// Anything else, in this unit (which may be empty).
    Number(&'static str),
}

impl Quantity {
    /// A single value, for a reader.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Time => units::duration(value),
            // Not negative, and less than a byte counts for nothing.
            Self::Bytes => units::bytes(value as u64),
            Self::Bandwidth => units::bandwidth(value),
            Self::Share => format!("{} %", units::significant(value * 100.0, 5)),
            Self::Number("") => units::significant(value, 5),
            // A rate has no space before its unit.
            Self::Number(unit) if unit.starts_with('/') => {
                format!("{}{unit}", units::significant(value, 5))
            }
            Self::Number(unit) => format!("{} {unit}", units::significant(value, 5)),
        }
    }
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Its label, without the unit.
    pub label: String,
    /// Spread of values.
    pub scale: Scale,
    /// The quantity that they measure.
    pub quantity: Quantity,
    /// From zero to this value at least, the same on all plots of a page: their cursors are linked.
    pub common: Option<u64>,
}

impl Axis {
    /// An axis with its own scale.
    pub fn new(label: impl Into<String>, scale: Scale, quantity: Quantity) -> Self {
        Self { label: label.into(), scale, quantity, common: None }
    }

    /// Makes the axis common to the plots of a page, from zero to `end`.
    #[must_use]
    pub fn common(mut self, end: u64) -> Self {
        self.common = Some(end);
        self
    }

    /// Fits the axis to values, of which those that are not finite are ignored.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Fitted {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            let value = value.clamp(-MAX_VALUE, MAX_VALUE);
            low = low.min(value);
            high = high.max(value);
        }
        if let Some(end) = self.common {
            (low, high) = (low.min(0.0), high.max(end as f64));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        let shares = self.quantity == Quantity::Share && low >= 0.0 && high <= 1.0;
        match self.scale {
            Scale::Linear | Scale::FromZero if shares => self.whole(),
            Scale::Linear => self.linear(low, high),
            Scale::FromZero => self.linear(low.min(0.0), high.max(0.0)),
            Scale::Log => self.log(low.max(1.0), high.max(1.0)),
            Scale::Tail => self.tail(high),
        }
    }

    /// All shares, from 0 to 1.
    pub(super) fn whole(&self) -> Fitted {
        let tick = |value: f64| Tick { value, label: self.quantity.show(value) };
        let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(tick).into();
        self.fitted([0.0, 1.0], Scale::Linear, ticks, self.label.clone())
    }

    fn fitted(
        &self,
        [low, high]: [f64; 2],
        scale: Scale,
        ticks: Vec<Tick>,
        caption: String,
    ) -> Fitted {
        Fitted { axis: self.clone(), low, high, scale, ticks, caption, fixed: false }
    }

    /// Up to the rarest share below 1.
    fn tail(&self, rarest: f64) -> Fitted {
        let high = (nines(rarest).max(1.0) + 0.3).min(MAX_NINES);
        let tick = |count: i32| Tick { value: share(count.into()), label: nines_label(count) };
        let ticks = (0..=high.floor() as i32).map(tick).collect();
        self.fitted([0.0, share(high)], Scale::Tail, ticks, self.label.clone())
    }

    fn linear(&self, low: f64, high: f64) -> Fitted {
        // Lengths mislead without their zero: it is left out only where the
        // differences would vanish.
        let low = if low > 0.0 && (low < high * 0.8 || low == high) { 0.0 } else { low };
        let (low, high) = if low == high { around(low) } else { (low, high) };
        let largest = low.abs().max(high.abs());
        let (scale, unit) = match self.quantity {
            Quantity::Time => {
                let unit = TimeUnit::of(largest);
                (unit.ns(), unit.symbol())
            }
            Quantity::Bytes => units::bytes_unit(largest),
            Quantity::Bandwidth => units::bandwidth_unit(largest),
            Quantity::Share => (0.01, "%"),
            Quantity::Number(unit) => (1.0, unit),
        };
        let step = nice_step((high - low) / 5.0 / scale) * scale;
        let (low, high) = ((low / step).floor() * step, high + (high - low) * 0.03);
        let places = places_of(step / scale);
        let ticks = steps(low, high, step)
            .map(|value| Tick { value, label: units::decimals(value / scale, places) })
            .collect();
        let caption = match unit {
            "" => self.label.clone(),
            unit => format!("{} ({unit})", self.label),
        };
        self.fitted([low, high], Scale::Linear, ticks, caption)
    }

    fn log(&self, low: f64, high: f64) -> Fitted {
        let margin = (high / low).powf(0.04).max(1.02);
        let (mut low, mut high) = (low / margin, high * margin);
        if high / low < 1.3 {
            let middle = (low * high).sqrt();
            (low, high) = (middle / 1.15, middle * 1.15);
        }
        low = low.max(0.9);
        let ratio = high / low;
        let values: Vec<f64> = if ratio >= 300.0 {
            let every = ((ratio.log10() / 8.0).ceil() as i32).max(1);
            decades(low, high, &[1.0]).filter(|v| v.log10().round() as i32 % every == 0).collect()
        } else if ratio >= 30.0 {
            decades(low, high, &[1.0, 2.0, 5.0]).collect()
        } else if ratio >= 4.0 {
            decades(low, high, &[1.0, 2.0, 3.0, 5.0, 7.0]).collect()
        } else {
            let step = nice_step((high - low) / 5.0);
            steps((low / step).ceil() * step, high, step).collect()
        };
        let ticks = values.into_iter().map(|value| Tick { value, label: self.mark(value) });
        let ticks = ticks.collect();
        self.fitted([low, high], Scale::Log, ticks, format!("{} (log scale)", self.label))
    }

    fn mark(&self, value: f64) -> String {
        match self.quantity {
            Quantity::Number(_) => short(value),
            other => other.show(value),
        }
    }
}

pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// An axis with its ends and marks.
pub(super) struct Fitted {
    axis: Axis,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) scale: Scale,
    pub(super) ticks: Vec<Tick>,
    pub(super) caption: String,
    /// True if the page's script leaves the scale as it is.
    fixed: bool,
}

impl Fitted {
    /// Fixes the axis to this one scale: another one would mislead.
    pub(super) fn fixed(mut self) -> Self {
        self.fixed = true;
        self
    }

    /// The axis for the page's script, as JSON.
    pub(super) fn described(&self) -> String {
        // From one mark to the next, where that is the same along the axis.
        let step = match (self.scale, &self.ticks[..]) {
            (Scale::Linear, [first, second, ..]) => second.value - first.value,
            _ => 0.0,
        };
        let (quantity, unit) = match self.axis.quantity {
            Quantity::Time => ("time", ""),
            Quantity::Bytes => ("bytes", ""),
            Quantity::Bandwidth => ("bandwidth", ""),
            Quantity::Share => ("share", ""),
            Quantity::Number(unit) => ("number", unit),
        };
        let scale = match self.scale {
            Scale::Linear | Scale::FromZero => "linear",
            Scale::Log => "log",
            Scale::Tail => "tail",
        };
        serde_json::json!({
            "label": self.axis.label, "quantity": quantity, "unit": unit, "scale": scale,
            "low": self.low, "high": self.high, "fixed": self.fixed, "step": step,
            "common": self.axis.common.is_some(),
        })
        .to_string()
    }

    /// Returns the place of a value, 0 to 1 from end to end; values outside stand at an end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear | Scale::FromZero => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            // The maximum, of share 1, would stand at infinity: it stands at the top.
            Scale::Tail => nines(value) / nines(self.high),
        };
        place.clamp(0.0, 1.0)
    }
}

/// The rarest share that the stretched scale distinguishes from 1, in nines.
const MAX_NINES: f64 = 12.0;

/// Returns the number of nines of a share: 1 for 90 %, 2 for 99 %.
fn nines(share: f64) -> f64 {
    if share < 1.0 {
        -(1.0 - share).log10()
    } else {
        2.0 * MAX_NINES
    }
}

/// The share with so many nines.
fn share(nines: f64) -> f64 {
    1.0 - 10f64.powf(-nines)
}

/// 0 %, 90 %, 99 %, 99.9 %, ...
fn nines_label(count: i32) -> String {
    match count {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

/// A range around a single value.
fn around(value: f64) -> (f64, f64) {
    if value == 0.0 {
        (0.0, 1.0)
    } else {
        (value - value.abs() * 0.5, value + value.abs() * 0.5)
    }
}

/// 1, 2 or 5 times a power of ten, not below `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let factor = rough / power;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|&nice| factor <= nice * 1.000_001);
    power * nice.unwrap_or(10.0)
}

fn steps(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let count = ((high - low) / step * 1.000_001).floor().clamp(0.0, 50.0) as u32;
    // Multiples of the step, not sums: these stay round.
    let first = (low / step).round();
    (0..=count).map(move |index| (first + f64::from(index)) * step)
}

fn decades(low: f64, high: f64, within: &'static [f64]) -> impl Iterator<Item = f64> {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(move |decade| within.iter().map(move |factor| factor * 10f64.powi(decade)))
        .filter(move |value| (low..=high).contains(value))
}

fn places_of(step: f64) -> usize {
    (-step.log10().floor()).clamp(0.0, 9.0) as usize
}

/// A large number in few characters.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{}G", units::significant(v / 1e9, 4)),
        v if v >= 1e6 => format!("{}M", units::significant(v / 1e6, 4)),
        v if v >= 1e3 => format!("{}k", units::significant(v / 1e3, 4)),
        v => units::significant(v, 4),
    }
}
