//! The head of a page of measured figures beside published ones.

use crate::page::Head;
use crate::table::{Column, Table, Tone};
use crate::verdict::Published;
use stasis_results::units;

use super::{Figure, Relation};

/// The head of the page of figures: how many of the bounds hold, how far values are off, and which
/// table or figure of the publication has what.
pub fn head(figures: &[Figure], failed: &[(String, String)]) -> Head {
    let held = |all: &[&Figure]| all.iter().filter(|one| one.holds() == Some(true)).count();
    let bounds: Vec<&Figure> = figures.iter().filter(|one| one.holds().is_some()).collect();
    let broken = bounds.len() - held(&bounds);
    let deviations = |all: &[&Figure]| {
        let mut all: Vec<f64> =
            all.iter().filter_map(|one| one.deviation_percent()).map(f64::abs).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let all: Vec<&Figure> = figures.iter().collect();
    let off = deviations(&all);
    let percent = |value: Option<f64>| match value {
        Some(value) => format!("{} %", units::significant(value, 3)),
        None => "–".to_owned(),
    };
    let verdict = Published {
        bounds: bounds.len(),
        broken,
        values: off.len(),
        median: median(&off).unwrap_or_default(),
        unfinished: failed.len(),
    };
    let tiles = [
        ("Bounds that hold", format!("{} of {}", bounds.len() - broken, bounds.len())),
        ("Median deviation", percent(median(&off))),
    ];
    let mut table = Table::new(vec![
        Column::left("part"),
        Column::right("bounds that hold"),
        Column::right("values compared"),
        Column::right("median deviation"),
        Column::right("largest"),
        Column::right("not comparable"),
        Column::right("not measured"),
    ]);
    let mut ids: Vec<&str> = Vec::new();
    for figure in figures {
        if !ids.contains(&figure.id.as_str()) {
            ids.push(&figure.id);
        }
    }
    for id in ids {
        let part: Vec<&Figure> = figures.iter().filter(|figure| figure.id == id).collect();
        let bounds: Vec<&Figure> =
            part.iter().copied().filter(|one| one.holds().is_some()).collect();
        let off = deviations(&part);
        let count = |is: fn(&Figure) -> bool| {
            let count = part.iter().filter(|figure| is(figure)).count();
            units::count(count as u64)
        };
        table.push(vec![
            id.to_owned(),
            match bounds.len() {
                0 => "–".to_owned(),
                all => format!("{} of {all}", held(&bounds)),
            },
            units::count(off.len() as u64),
            percent(median(&off)),
            percent(off.last().copied()),
            count(|one| one.relation == Relation::Incomparable && one.published.is_some()),
            count(|one| one.measured.is_none()),
        ]);
        if !bounds.is_empty() {
            let tone = if held(&bounds) == bounds.len() { Tone::Good } else { Tone::Bad };
            table.judge(1, tone);
        }
    }
    let mut head = Head::answering(verdict.verdict(), tiles)
        .with("By the publication's tables and figures", table);
    head.notes = claimed(figures);
    let shown = failed.iter().take(MAX_TOLD);
    head.remarks = shown.map(|(name, why)| format!("Not finished: {name}: {why}.")).collect();
    if failed.len() > MAX_TOLD {
        let more = failed.len() - MAX_TOLD;
        head.remarks.push(format!("{more} more experiments are not finished."));
    }
    head
}

/// Claims and unfinished experiments that a page tells at its top.
const MAX_TOLD: usize = 6;

/// Each claim with its verdict: those that do not hold first.
fn claimed(figures: &[Figure]) -> Vec<String> {
    let is_claim = |figure: &&Figure| {
        matches!(figure.relation, Relation::AtMost | Relation::AtLeast)
            && figure.published.is_some()
    };
    let mut all: Vec<_> = figures.iter().filter(is_claim).collect();
    all.sort_by_key(|figure| match figure.holds() {
        Some(false) => 0,
        None => 1,
        Some(true) => 2,
    });
    let sentences = all.iter().take(MAX_TOLD).map(|figure| {
        let unit = match figure.shown_unit() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        format!(
            "{}, {}: {} ({}{unit}, published {}).",
            figure.id,
            figure.what,
            figure.verdict().0,
            figure.show(figure.measured),
            figure.show_published()
        )
    });
    let mut sentences: Vec<_> = sentences.collect();
    if all.len() > MAX_TOLD {
        sentences.push(format!("{} more claims are below.", all.len() - MAX_TOLD));
    }
    sentences
}

/// The median of sorted values: of an even number the mean of the two in the middle.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}
