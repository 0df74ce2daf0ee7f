//! The terms of a run's page, explained.

use super::drive::Used;
use super::kind::Kind;
use stasis_results::summary::{DriveSummary, Summary};
use stasis_results::Method;

pub(super) fn terms(summary: &Summary, kind: Kind) -> Vec<(String, String)> {
    let [target, delivered] = match kind {
        Kind::Guest | Kind::Simulation => [
            "the time from the guest's doorbell write to the completion that the drive's model \
             asked for.",
            "the virtual time from the doorbell write until the completion was visible to the \
             guest.",
        ],
        Kind::Server => [
            "the time from when the server saw the request in its ring to the completion that \
             the drive's model asked for; without a model, until the medium had done it.",
            "the time from when the server saw the request until the completion was visible in \
             the ring.",
        ],
    };
    let mut terms = vec![
        ("Target", target),
        ("Delivered", delivered),
        ("Error", "(delivered − target) / target; – where the target is 0 ns."),
        (
            "Percentile",
            "by nearest rank: the smallest recorded latency that at least so many percent of the \
             I/Os do not exceed. Nothing is interpolated. – where there are too few I/Os for one \
             to lie beyond it.",
        ),
        ("Virtual time", "the time of the guest and of the modelled drives; wall-clock time is that of this machine."),
        (
            "Exit",
            "the guest leaves guest mode, so that the machine acts for it, as at a device's register; virtual time stands \
             still meanwhile. A slice is a stretch between two exits; it ends late where the guest was left later than asked.",
        ),
        ("Skipped", "virtual time that passed at once, as every processor of the guest was idle."),
        (
            "Frozen",
            "wall-clock time in which guest time stood still, as a medium was not ready yet.",
        ),
        (
            "Files",
            "The file of the I/Os, ios.parquet or ios.csv, has each, boot included; summary.json has the figures of this page.",
        ),
        (
            "Plots",
            "pointing at a mark shows its figures. Drawing over a part shows that part, a double \
             click all again; a click on a name hides it; x and y above a plot switch between \
             linear and logarithmic. A rate over time is that of a step of it, and stands in the step's middle.",
        ),
    ];
    let tells = |drive: &DriveSummary| {
        let inside = drive.inside.as_ref();
        let flash = inside.is_some_and(|inside| !inside.flashes("").is_empty());
        !flash && drive.slowest.iter().any(|io| io.parts.is_some())
    };
    if summary.drives.iter().any(tells) {
        terms.push((
            "Where the time went",
            "of a disk's command: waiting for the arm (queue), or for room in the write cache (buffer full); the \
             arm's seek and the wait for the sector (positioning); the bytes under the head (transfer); the \
             interface and the electronics (controller). Of a model by figures: waiting for other commands \
             (queue), for room in the write cache (buffer full), or, of a flush or durable write, until the cache \
             is written out (behind writes); the latency of the command alone (service time); the bytes beyond \
             those which that latency holds (transfer).",
        ));
    }
    if kind == Kind::Simulation {
        let guests = ["Target", "Delivered", "Error", "Exit", "Skipped", "Frozen"];
        terms.retain(|(term, _)| !guests.contains(term));
        terms.insert(
            0,
            (
                "Latency",
                "the virtual time from an I/O's submission to its completion by the drive's model.",
            ),
        );
    }
    if kind == Kind::Server {
        terms.retain(|(term, _)| !["Virtual time", "Exit", "Skipped", "Frozen"].contains(term));
    }
    let used = || summary.drives.iter().flat_map(DriveSummary::used);
    if used().any(|(_, figures)| figures.delivered_ns.min.min(figures.target_ns.min) == 0) {
        let text = "a latency of 0 ns stands at 1 ns where the scale is logarithmic.";
        terms.push(("Zero", text));
    }
    let coarse = |(_, figures): Used<'_>| figures.percentiles == Method::Histogram;
    if used().any(coarse) {
        let text =
            "where an operation had more I/Os than are kept one by one, its percentiles are \
                    from a histogram with 3 significant digits; mean, min and max stay exact.";
        terms.push(("Precision", text));
    }
    terms.into_iter().map(|(term, text)| (term.to_owned(), text.to_owned())).collect()
}
