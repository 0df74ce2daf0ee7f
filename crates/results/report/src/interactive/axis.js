// Figures as texts, and axes: what units.rs and plot/axis.rs do, for a part of an axis or another scale.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const UNITS = {
  time: [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]],
  bytes: BINARY.map((unit, power) => [unit, 1024 ** power]),
  bandwidth: [["B/s", 1], ["kB/s", 1e3], ["MB/s", 1e6], ["GB/s", 1e9]],
  share: [["%", 0.01]],
};
const DIGITS = { time: 5, number: 5, bytes: 4, bandwidth: 4 };

function decimals(value, places) {
  const [digits, after = ""] = value.toFixed(places).split(".");
  const whole = digits.replace(/\B(?=(\d{3})+$)/g, ",");
  const fraction = after.replace(/0+$/, "");
  const out = fraction ? `${whole}.${fraction}` : whole;
  return out === "-0" ? "0" : out;
}

function significant(value, digits) {
  const size = Math.abs(value);
  const whole = size < 1 ? 0 : Math.floor(Math.log10(size)) + 1;
  const leading = size > 0 && size < 1 ? Math.min(Math.floor(-Math.log10(size)), 12) : 0;
  return decimals(value, Math.max(digits - whole, 0) + leading);
}

/** The unit in which the largest value is at least 1, and its length. */
function unitOf({ quantity, unit }, largest) {
  const units = UNITS[quantity] ?? [[unit, 1]];
  return units.reduce((best, each) => (Math.abs(largest) >= each[1] ? each : best), units[0]);
}

/** A value with its unit. */
function show(axis, value) {
  if (axis.quantity === "share") {
    // As many places as tell the share from 1.
    const nines = value < 1 ? Math.ceil(-Math.log10(1 - value)) : 0;
    return `${decimals(value * 100, Math.min(Math.max(nines - 1, 1), 12))} %`;
  }
  const [unit, length] = unitOf(axis, value);
  return `${significant(value / length, DIGITS[axis.quantity])} ${unit}`.trim();
}

/** A value beside a logarithmic axis: large numbers in few characters. */
function mark(axis, value) {
  if (axis.quantity !== "number") return show(axis, value);
  const [letter, length] = [["G", 1e9], ["M", 1e6], ["k", 1e3]].find((each) => value >= each[1]) ?? ["", 1];
  return significant(value / length, 4) + letter;
}

const TO = { linear: (value) => value, log: Math.log, tail: (value) => -Math.log10(1 - value) };
const FROM = { linear: (place) => place, log: Math.exp, tail: (place) => 1 - 10 ** -place };
const OTHER = { linear: "log", log: "linear", tail: "linear" };

class Axis {
  /** From what the plot says of its axis. */
  constructor(described) {
    Object.assign(this, described);
    this.first = { scale: this.scale, low: this.low, high: this.high };
  }

  get other() {
    return this.quantity === "share" && this.scale === "linear" ? "tail" : OTHER[this.scale];
  }

  /** Where a value stands, 0 to 1 within the axis; not far beyond its ends. */
  place(value) {
    const to = TO[this.scale];
    // The largest share would stand at infinity, as would the logarithm of nothing.
    if (this.scale === "tail" && value >= 1) return 1;
    const place = (to(value) - to(this.low)) / (to(this.high) - to(this.low));
    return Number.isNaN(place) ? 0 : Math.min(Math.max(place, -20), 20);
  }

  value(place) {
    const to = TO[this.scale];
    return FROM[this.scale](to(this.low) + place * (to(this.high) - to(this.low)));
  }

  /** Its ends as at first, or around values where it has another scale. Whether there are any. */
  fit(values) {
    if (this.scale === this.first.scale) {
      Object.assign(this, this.first);
      return true;
    }
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) {
      if (this.scale === "log" && value <= 0) continue;
      if (this.scale === "tail" && value >= 1) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) return false;
    if (this.scale === "log") {
      const margin = Math.max((high / low) ** 0.04, 1.02);
      [low, high] = [low / margin, high * margin];
    } else if (this.scale === "tail") {
      [low, high] = [0, 1 - Math.min((1 - high) / 2, 0.05)];
    } else if (this.quantity === "share") {
      [low, high] = [0, 1];
    } else {
      low = low > 0 && (low < high * 0.8 || low === high) ? 0 : low;
      high = high > low ? high + (high - low) * 0.03 : low + 1;
    }
    [this.low, this.high] = [low, high];
    return true;
  }

  /** Narrower; not narrower than numbers can tell apart. */
  zoom(from, to) {
    const [low, high] = [this.value(from), this.value(to)];
    const least = Math.max(Math.abs(low), Math.abs(high)) * 1e-9;
    if (high - low > least) [this.low, this.high] = [low, high];
  }

  get caption() {
    if (this.scale === "log") return `${this.label} (log scale)`;
    if (this.quantity === "share") return this.label;
    const [unit] = this.largest();
    return unit ? `${this.label} (${unit})` : this.label;
  }

  largest() {
    return unitOf(this, Math.max(Math.abs(this.low), Math.abs(this.high)));
  }

  /** Round values between the ends, with their labels. */
  ticks() {
    const { low, high } = this;
    const inside = (value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
    const named = (values, name = show) => values.filter(inside).map((value) => [value, name(this, value)]);
    if (this.scale === "log" && high / low >= 4) return named(decades(low, high), mark);
    if (this.scale === "tail") {
      const shares = named(Array.from({ length: 13 }, (_, nines) => 1 - 10 ** -nines));
      if (shares.length > 1) return shares;
    }
    if (this.quantity === "share" && low === 0 && high === 1) return named([0, 0.25, 0.5, 0.75, 1]);
    const [unit, length] = this.largest();
    // As the program chose it, unless this is another part or scale of the axis.
    const { scale, low: left, high: right } = this.first;
    const same = this.step > 0 && scale === this.scale && left === low && right === high;
    const step = same ? this.step : niceStep((high - low) / 5 / length) * length;
    const places = Math.min(Math.max(-Math.floor(Math.log10(step / length)), 0), 9);
    const label = (value) => {
      if (this.quantity === "share") return `${decimals(value / length, places)} ${unit}`;
      return this.scale === "log" ? mark(this, value) : decimals(value / length, places);
    };
    const ticks = [];
    const first = Math.ceil(low / step - 1e-6);
    for (let count = first; count * step <= high && ticks.length < 50; count += 1) {
      ticks.push([count * step, label(count * step)]);
    }
    return ticks;
  }
}

/** Round values of a logarithmic axis. */
function decades(low, high) {
  const ratio = high / low;
  const within = ratio >= 300 ? [1] : ratio >= 30 ? [1, 2, 5] : [1, 2, 3, 5, 7];
  const every = Math.max(Math.ceil(Math.log10(ratio) / 8), 1);
  const values = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    if (power % every === 0) values.push(...within.map((factor) => factor * 10 ** power));
  }
  return values;
}

/** 1, 2 or 5 times a power of ten, not below `rough`. */
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((nice) => rough / power <= nice * 1.000001) ?? 10);
}
