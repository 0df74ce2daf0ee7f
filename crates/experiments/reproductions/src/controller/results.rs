//! The publication's tables with our figures.

use stasis_report::page::{Block, Section};
use stasis_report::published_vs_measured::Figure;

use super::measured::{Measured, Variant};
use super::published::PUBLISHED;
use crate::published_data::figure;
use crate::reproduction::Findings;

/// The measurements, beside the publication's figures.
pub fn findings(measured: &Measured, quick: bool) -> Findings {
    let parts = [
        latency(measured),
        exits(measured),
        throughput(measured),
        network(measured),
        server(measured),
    ];
    let mut figures = Vec::new();
    let mut sections =
        vec![Section::new("How it was measured").with(Block::Prose(about(measured)))];
    for (title, part) in parts {
        sections.push(Section::new(title).with(Block::Figures(part.clone())));
        figures.extend(part);
    }
    let subtitle = format!(
        "The publication's figures beside ours, on {}{}.",
        measured.place,
        if quick { "; the quick form, for checks" } else { "" }
    );
    let title = "Storage controller functions in a virtual machine";
    Findings { title, subtitle, sections, figures, failed: Vec::new() }
}

fn about(measured: &Measured) -> String {
    let mut text = format!(
        "Each table in one run, on one machine with {} processors. \"Initial\" is trap and interrupt: QEMU's own virtio-blk on a thread of QEMU's, \
         a guest whose processor halts, vhost-net with interrupts. \"Optimized\" polls: `stasis serve` with a thread that never \
         waits, a guest with idle=poll that polls its block queue, sockets that busy-poll. Both use the same RAM disk of the host, as \
         does the bare drive. The publication's machines have four and more processors, a second machine for the load, and \
         device assignment for the network; here the client runs on the host, and the bare network is a pair of veth interfaces.",
        measured.processors
    );
    if measured.emulated {
        text += "\n\nThe processor is emulated. It runs some tens of millions of the guest's instructions a second, and an exit costs \
                 hundreds of us where a processor takes one or two: what polling saves is larger than published, and what takes exits \
                 with it too (packets, the file server's own I/O) is worse. The exits are counted. Where other work wants the two \
                 processors, those that poll wait for each other's turn, milliseconds at a time: medians tell more than means.";
    }
    for part in &measured.again {
        text += &format!(
            "\n\nBegun again, as the virtual machine had ended by itself or hung, or it was no measurement: {part}."
        );
    }
    for failure in &measured.failed {
        text += &format!("\n\nNot measured: {failure}");
    }
    text
}

fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    Some(above? / below?).filter(|ratio| ratio.is_finite())
}

/// A time of a way.
type Time = fn(&Variant) -> Option<f64>;

/// Time that the guest adds to the bare drive's.
fn added(measured: &Measured, way: &Variant, time: Time) -> Option<f64> {
    Some(time(way)? - time(&measured.bare)?)
}

fn latency(measured: &Measured) -> (&'static str, Vec<Figure>) {
    let [initial, optimized] = PUBLISHED.write_added;
    let kinds: [(&str, Time, bool); 2] = [
        ("Block latency", |way| way.write_us, true),
        ("Block latency, median", |way| way.write_median_us, false),
    ];
    let mut all = Vec::new();
    for (id, time, is_mean) in kinds {
        all.push(figure(id, "the bare drive", "us", None, time(&measured.bare)));
        for (name, way, place) in [
            ("initial", &measured.trap, Some(0)),
            ("optimized", &measured.polled, Some(1)),
            ("optimized, the server's memory", &measured.own, None),
        ] {
            let published_at =
                |figures: [f64; 2]| place.filter(|_| is_mean).map(|place| figures[place]);
            let total = published_at(PUBLISHED.write_total);
            all.push(figure(id, format!("{name}: total"), "us", total, time(way)).incomparable());
            let more = added(measured, way, time);
            let title = format!("{name}: added");
            all.push(
                figure(id, title, "us", published_at(PUBLISHED.write_added), more).incomparable(),
            );
        }
        let times = |way| ratio(added(measured, &measured.trap, time), added(measured, way, time));
        let published = is_mean.then_some(initial / optimized);
        let title = "added: initial against optimized";
        all.push(figure(id, title, "times", published, times(&measured.polled)));
        let title = "the same, the server's memory";
        all.push(figure(id, title, "times", None, times(&measured.own)));
    }
    ("Block latency: 4 KiB synchronous writes", all)
}

/// Exits, which polling avoids: a figure that does not depend on a processor's speed.
fn exits(measured: &Measured) -> (&'static str, Vec<Figure>) {
    let ways = [
        ("initial", &measured.trap),
        ("optimized", &measured.polled),
        ("optimized, the server's memory", &measured.own),
    ];
    let mut all =
        Vec::from(ways.map(|(name, way)| figure("Exits", name, "a write", None, way.exits)));
    for (name, way) in &ways[..2] {
        let title = format!("file server, {name}");
        all.push(figure("Exits", title, "a read", None, way.read_exits));
    }
    ("Exits from guest mode, for a 4 KiB synchronous write and a read of the file server", all)
}

fn throughput(measured: &Measured) -> (&'static str, Vec<Figure>) {
    let id = "Block throughput";
    let mut all = Vec::new();
    for (index, kind) in ["read", "write"].into_iter().enumerate() {
        for (name, way, published) in [
            ("the bare drive", &measured.bare, None),
            ("initial", &measured.trap, None),
            ("optimized", &measured.polled, Some(PUBLISHED.iops[index])),
            ("optimized, the server's memory", &measured.own, None),
        ] {
            all.push(
                figure(id, format!("{kind}, {name}"), "I/Os a s", published, way.iops[index])
                    .incomparable(),
            );
        }
        let more = ratio(measured.polled.iops[index], measured.trap.iops[index]);
        let published = PUBLISHED.improvement[index];
        all.push(figure(
            id,
            format!("{kind}: optimized against initial"),
            "times",
            published,
            more,
        ));
        let more = ratio(measured.own.iops[index], measured.trap.iops[index]);
        all.push(figure(id, format!("{kind}: the same, the server's memory"), "times", None, more));
    }
    ("Block throughput: 4 KiB synchronous I/Os, four threads", all)
}

fn network(measured: &Measured) -> (&'static str, Vec<Figure>) {
    let (bare, trap, polled) = (&measured.bare, &measured.trap, &measured.polled);
    let [bare_ping, _] = PUBLISHED.ping_bare;
    let [halting, polling] = PUBLISHED.ping_guest;
    let mut all = vec![
        figure("Ping flood", "bare", "us", bare_ping, bare.ping_us).incomparable(),
        figure("Ping flood", "guest, halting", "us", halting, trap.ping_us).incomparable(),
        figure("Ping flood", "guest, polling", "us", polling, polled.ping_us).incomparable(),
        figure(
            "Ping flood",
            "halting against polling",
            "times",
            halting / polling,
            ratio(trap.ping_us, polled.ping_us),
        ),
    ];
    type Get = fn(&Variant) -> Option<f64>;
    let kinds: [(&str, &str, Get); 3] = [
        ("Request-response", "a s", |way| way.requests),
        ("TCP send", "Mbit/s", |way| way.send),
        ("TCP receive", "Mbit/s", |way| way.receive),
    ];
    for (id, unit, get) in kinds {
        for (name, way) in [("bare", bare), ("guest, halting", trap), ("guest, polling", polled)] {
            all.push(figure(id, name, unit, None, get(way)));
        }
        all.push(figure(
            id,
            "polling against halting",
            "times",
            None,
            ratio(get(polled), get(trap)),
        ));
    }
    ("Network", all)
}

fn server(measured: &Measured) -> (&'static str, Vec<Figure>) {
    let id = "File server";
    let (bare, trap, polled) = (&measured.bare, &measured.trap, &measured.polled);
    let mut all = Vec::new();
    for (name, way) in [("bare host", bare), ("guest, initial", trap), ("guest, optimized", polled)]
    {
        all.push(figure(id, name, "reads a s", None, way.reads));
    }
    all.push(figure(id, "initial against bare", "times", None, ratio(trap.reads, bare.reads)));
    all.push(figure(id, "optimized against bare", "times", None, ratio(polled.reads, bare.reads)));
    ("File server: 4 KiB reads that miss its cache, NFS v4, four threads", all)
}

#[cfg(test)]
mod tests {
    use stasis_report::page::Page;

    use super::*;

    fn way(write_us: f64, iops: f64) -> Variant {
        Variant { write_us: Some(write_us), iops: [Some(iops); 2], ..Variant::default() }
    }

    #[test]
    fn figures_are_ratios_of_what_was_measured() {
        let measured = Measured {
            bare: way(1.0, 1e6),
            trap: way(50.0, 10.0),
            polled: way(8.0, 73.0),
            failed: vec!["x: y".into()],
            ..Measured::default()
        };
        let Findings { sections, figures, .. } = findings(&measured, true);
        let page = Page { sections, ..Page::default() };
        let figure_of = |title: &str| figures.iter().find(|f| f.what == title).unwrap().clone();
        assert_eq!(figure_of("added: initial against optimized").measured, Some(7.0));
        assert_eq!(figure_of("optimized: added").measured, Some(7.0));
        assert_eq!(figure_of("optimized: added").published, Some(6.6));
        assert_eq!(figure_of("optimized: added").deviation_percent(), None);
        assert_eq!(figure_of("read: optimized against initial").measured, Some(7.3));
        assert_eq!(figure_of("optimized against bare").measured, None);
        assert!(page.to_html().contains("Not measured: x: y"));
    }
}
