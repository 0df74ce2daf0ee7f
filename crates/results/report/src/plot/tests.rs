//! Every kind of plot with every kind of values.

use super::*;
use proptest::prelude::*;

fn axes() -> impl Strategy<Value = Axis> {
    (
        prop_oneof![Just(Scale::Linear), Just(Scale::Log)],
        prop_oneof![Just(Quantity::Time), Just(Quantity::Number("")), Just(Quantity::Number("/s"))],
    )
        .prop_map(|(scale, quantity)| Axis::new("<axis>", scale, quantity))
}

fn values() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), Just(0.0), 1.0..2.0, 0.0..1e12, Just(f64::NAN), Just(1e5)]
}

/// Well-formed as XML goes: every element closed, no number that is none.
fn check(markup: &Markup) {
    let text = markup.as_str();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag is closed");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap().to_owned();
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_ref(), Some(&name), "{text}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let drawn = text.split(" d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    for coordinate in drawn.flat_map(|data| data.split(|c: char| c.is_alphabetic() || c == ' ')) {
        if !coordinate.is_empty() {
            let place: f64 = coordinate.parse().expect("a number");
            assert!((0.0..=10_000.0).contains(&place), "{coordinate} is outside of the drawing");
        }
    }
}

fn figures_of(points: &[(f64, f64)]) -> Vec<f64> {
    points.iter().map(|point| point.1).collect()
}

proptest! {
    #[test]
    fn any_values_can_be_drawn(
        x in axes(),
        y in axes(),
        points in prop::collection::vec((values(), values()), 0..40),
        name in "[<>&\"'a]{0,40}",
        tail in any::<bool>(),
    ) {
        let title = "a \"title\" & <more>".to_owned();
        let figures = points.iter().map(|point| point.1).collect();
        let detail = Detail { name: "LBA", quantity: Quantity::Bytes, values: figures };
        let strip = |origin| Strip { origin, width: 1e3, values: figures_of(&points) };
        let mark = |&(at, _): &(f64, f64)| Mark { at, series: 7, text: name.clone() };
        let stretch = |&(from, to): &(f64, f64)| Stretch { from, to, series: 1, text: name.clone() };
        let lane = Lane {
            name: name.clone(),
            load: strip(0.0),
            bars: strip(-5e3),
            marks: points.iter().map(mark).collect(),
            bands: points.iter().map(stretch).collect(),
            work: points.iter().map(stretch).collect(),
        };
        let arrow = |(number, &(sent, arrived)): (usize, &(f64, f64))| Arrow {
            from: number % 3,
            to: number % 2,
            sent,
            arrived,
            series: number,
            text: name.clone(),
        };
        check(&Lanes {
            title: title.clone(),
            x: x.clone(),
            series: vec![(name.clone(), 7); points.len() % 9],
            lanes: vec![lane; points.len() % 4],
            arrows: points.iter().enumerate().map(arrow).collect(),
        }.draw());
        let series = ScatterSeries {
            name: name.clone(),
            colour: 9,
            points: points.clone(),
            details: vec![detail],
            is_of_times: false,
        };
        check(&Scatter { title: title.clone(), x: x.clone(), y: y.clone(), series: vec![series] }.draw());
        let line = Line { name: name.clone(), colour: 1, stroke: Stroke::Dashed, points: points.clone() };
        check(&Lines { title: title.clone(), x: x.clone(), y, lines: vec![line] }.draw());
        let segments = points
            .iter()
            .map(|&(value, _)| Segment { name: name.clone(), colour: 2, value: value.min(1e300) })
            .collect();
        let bars = vec![Bar { label: name.clone(), segments }];
        check(&Bars { title: title.clone(), axis: x.clone(), stacked: tail, bars }.draw());
        let values: Vec<f64> = points.iter().map(|point| point.0).collect();
        let groups = Group::of(name.clone(), 7, &values).into_iter();
        let groups = groups.map(|group| group.shaded([-1.0, 1e300])).collect();
        let shade = name.clone();
        check(&Boxes { title: title.clone(), axis: x.clone(), shade, groups }.draw());
        let mut sorted: Vec<f64> = points.iter().map(|point| point.0).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let points: Vec<_> =
            sorted.iter().enumerate().map(|(i, &v)| (v, (i + 1) as f64 / count)).collect();
        let marks = points.iter().map(|&(v, share)| ("p".to_owned(), v, share)).collect();
        let series = vec![CdfSeries { name, colour: 3, stroke: Stroke::Band, points, marks }];
        check(&Cdf { title, x, tail, series }.draw());
    }
}

fn labels(axis: Axis, values: &[f64]) -> Vec<String> {
    axis.fit(values.iter().copied()).ticks.into_iter().map(|tick| tick.label).collect()
}

#[test]
fn marks_of_axes_are_round() {
    let log = Axis::new("", Scale::Log, Quantity::Time);
    let ticks = labels(log.clone(), &[100_000.0, 100_000.0]);
    assert_eq!(ticks, ["90 µs", "100 µs", "110 µs"]);
    assert_eq!(labels(log.clone(), &[1e3, 1e6]), ["1 µs", "10 µs", "100 µs", "1 ms"]);
    assert_eq!(
        labels(log, &[2e5, 3e6]),
        ["200 µs", "300 µs", "500 µs", "700 µs", "1 ms", "2 ms", "3 ms"]
    );
    let linear = Axis::new("", Scale::Linear, Quantity::Time);
    assert_eq!(labels(linear.clone(), &[5e4, 5e4]), ["0", "10", "20", "30", "40", "50"]);
    assert_eq!(labels(linear.clone(), &[95.0, 100.0]), ["95", "96", "97", "98", "99", "100"]);
    assert_eq!(labels(linear, &[1e8, 2.2e9]), ["0", "0.5", "1", "1.5", "2"]);
}

#[test]
fn a_line_of_one_point_is_seen() {
    let axis = || Axis::new("x", Scale::Linear, Quantity::Number(""));
    let line = |points| Line { name: "a".into(), colour: 0, stroke: Stroke::Thin, points };
    let (x, y) = (axis(), axis());
    let lines = vec![line(vec![(1.0, 1.0)]), line(vec![(0.0, 0.0), (2.0, 2.0)])];
    let drawn = Lines { title: "t".into(), x, y, lines }.draw();
    let lines = drawn.as_str().split("<path").filter(|path| path.contains("class=\"stroke"));
    let way =
        |path: &str| path.split(" d=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let ways: Vec<_> = lines.map(way).collect();
    assert_eq!(ways.len(), 2, "{}", drawn.as_str());
    assert!(ways[0].contains('H') && ways[1].contains('L'), "{ways:?}");
}
