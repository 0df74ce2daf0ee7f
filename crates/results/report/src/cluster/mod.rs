//! Course of a cluster's machines: their output, messages, I/Os and faults, as the page shows them.
//! All that is kept in memory is bounded.

mod density;
mod lines;
mod messages;
mod moments;
mod section;
mod verdict;

use std::path::PathBuf;

use stasis_block::clock::Nanos;
use stasis_results::faults::{FaultCourse, FaultSummary, PlannedFault};
use stasis_results::history::{History, Witnessed};
use stasis_results::sink::{Entry, Footer, Records, Sink};
use stasis_results::ResultsError;
use stasis_run_events::{FaultRecord, IoRecord, Outcome, PacketRecord};

use density::Density;
use lines::Lines;
use messages::Messages;
use moments::MomentFile;
pub use moments::{KeptMoments, Moment, MomentKind};
pub(crate) use section::sections;
pub(crate) use verdict::Answer;

/// Limit on the faults of a machine that are marked.
const MAX_MARKS: usize = 200;

/// A machine.
#[derive(Debug, Default)]
struct Machine {
    name: String,
    /// I/Os of its drives that count, by their completion: those of the drives' figures.
    ios: Density,
    lines: Lines,
    /// Commands of its drives and moments that faults befell: when, and which.
    faults: Vec<(Nanos, String)>,
    /// Times in which it had a fault: from, to, and which.
    spans: Vec<(Nanos, Nanos, String)>,
}

/// A fault that can happen.
#[derive(Debug)]
struct Fault {
    /// The machines that it befalls.
    machines: Vec<usize>,
    /// Its name for a reader.
    name: String,
    course: FaultCourse,
}

/// The machines of a run, of which there are several.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    machines: Vec<Machine>,
    /// The machine of each drive that one has for itself.
    drives: Vec<Option<usize>>,
    /// The machine at each port of each network.
    ports: Vec<Vec<Option<usize>>>,
    faults: Vec<Fault>,
    messages: Messages,
    /// The operations of clients, if their commands write them.
    history: Option<History>,
    /// Every moment, on disk.
    file: Option<MomentFile>,
}

impl Cluster {
    /// Machines of these names; `drives`: the machine of each drive, by its number.
    ///
    /// # Errors
    /// If the file of moments cannot be written.
    pub(crate) fn new(
        names: Vec<String>,
        drives: Vec<Option<usize>>,
        path: PathBuf,
    ) -> Result<Self, ResultsError> {
        let file = Some(MomentFile::create(path, &names)?);
        let machine = |name| Machine { name, ..Machine::default() };
        let machines = names.into_iter().map(machine).collect();
        Ok(Self { machines, drives, file, ..Self::default() })
    }

    /// Lines of output are looked at for operations of clients, which are kept at `path`.
    pub(crate) fn keep_history(&mut self, path: PathBuf) {
        self.history = Some(History::new(path));
    }

    /// Gives faults what clients saw of them, of a run that ended at `end` (ns), and the machines their
    /// times. Returns what clients saw in all of the run.
    pub(crate) fn settle(&mut self, faults: &mut [FaultSummary], end: Nanos) -> Option<Witnessed> {
        self.machines.iter_mut().for_each(|machine| machine.spans.clear());
        // Whoever asks a machine that boots again asks it in vain.
        let times = faults.iter().flat_map(|fault| &fault.intervals);
        let times: Vec<_> = times.map(|one| (one.begin_ns, one.over_ns())).collect();
        let history = self.history.as_ref();
        let by_fault = history.map(|history| history.by_fault(&times, end)).unwrap_or_default();
        let mut by_fault = by_fault.into_iter();
        for fault in faults.iter_mut() {
            fault.intervals.iter_mut().for_each(|one| one.operations = by_fault.next());
        }
        for (fault, planned) in faults.iter().zip(&self.faults) {
            for one in &fault.intervals {
                if planned.course == FaultCourse::Befalls {
                    continue;
                }
                for machine in &planned.machines {
                    if let Some(machine) = self.machines.get_mut(*machine) {
                        machine.spans.push((one.begin_ns, one.end_ns, planned.name.clone()));
                        let boot = one.back_ns.filter(|back| *back > one.end_ns);
                        let boot = boot.map(|back| {
                            (one.end_ns, back, format!("boot after the {}", planned.name))
                        });
                        machine.spans.extend(boot);
                    }
                }
            }
        }
        history?.witnessed(end)
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.machines.iter().position(|machine| machine.name == name)
    }

    /// One more network, with these machines at its ports.
    pub(crate) fn network(&mut self, machines: &[String]) {
        let ports = machines.iter().map(|name| self.place(name)).collect();
        self.ports.push(ports);
    }

    /// The run's faults; `drives`: the drives' names, by their numbers.
    pub(crate) fn faults(&mut self, faults: &[PlannedFault], drives: &[String]) {
        let machines_of = |target: &str| {
            // The machines on the one side of a network.
            let named: Vec<usize> = target.split(',').filter_map(|name| self.place(name)).collect();
            if !named.is_empty() {
                return named;
            }
            let drive = drives.iter().position(|name| name == target);
            drive.and_then(|drive| self.drives.get(drive).copied().flatten()).into_iter().collect()
        };
        let named = |PlannedFault { kind, target, course }: &PlannedFault| Fault {
            machines: machines_of(target),
            name: format!("{kind} of {target}"),
            course: *course,
        };
        self.faults = faults.iter().map(named).collect();
    }

    fn ios(&mut self, ios: &[IoRecord]) {
        for io in ios.iter().filter(|io| !io.boot && !io.refused()) {
            let owner = self.drives.get(usize::from(io.drive)).copied().flatten();
            if let Some(machine) = owner.and_then(|owner| self.machines.get_mut(owner)) {
                machine.ios.add(io.delivered);
            }
        }
    }

    fn packets(&mut self, packets: &[PacketRecord]) -> Result<(), ResultsError> {
        for packet in packets {
            let Some(message) = self.messages.packet(packet) else { continue };
            let at = |port: u16| {
                let ports = self.ports.get(usize::from(message.network))?;
                ports.get(usize::from(port)).copied().flatten()
            };
            let Some((from, to)) = at(message.from).zip(at(message.to)) else { continue };
            let kind = &self.messages.kinds()[message.kind].0;
            if let Some(file) = &mut self.file {
                let arrival = Some((to, message.arrived, message.length));
                file.row(from, MomentKind::Message, message.sent, kind.as_bytes(), arrival)?;
            }
        }
        Ok(())
    }

    fn happened(&mut self, faults: &[FaultRecord]) -> Result<(), ResultsError> {
        for record in faults {
            let Some(fault) = self.faults.get(usize::from(record.fault)) else { continue };
            let Some(&owner) = fault.machines.first() else { continue };
            if let Some(file) = &mut self.file {
                file.row(owner, MomentKind::Fault, record.at, fault.name.as_bytes(), None)?;
            }
            // Others are shown as the time that they last.
            if fault.course != FaultCourse::Befalls {
                continue;
            }
            if let Some(machine) = self.machines.get_mut(owner) {
                if machine.faults.len() < MAX_MARKS {
                    machine.faults.push((record.at, fault.name.clone()));
                }
            }
        }
        Ok(())
    }

    /// A machine's command has written `bytes`, of whole lines.
    fn output(
        &mut self,
        machine: usize,
        at: Nanos,
        error: bool,
        bytes: &[u8],
    ) -> Result<(), ResultsError> {
        let kind = if error { MomentKind::Error } else { MomentKind::Output };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(file) = &mut self.file {
                file.row(machine, kind, at, line, None)?;
            }
            let Some(writer) = self.machines.get_mut(machine) else { continue };
            let history = self.history.as_mut();
            let operation = history.map(|history| history.line((machine, &writer.name), at, line));
            if !operation.transpose()?.unwrap_or(false) {
                writer.lines.add(at, error, line);
            }
        }
        Ok(())
    }
}

impl Sink for Cluster {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        match records {
            Records::Ios(ios) => self.ios(ios),
            Records::Packets(packets) => self.packets(packets)?,
            Records::Faults(faults) => self.happened(faults)?,
            Records::Output(machine, at, error, lines) => self.output(machine, at, error, lines)?,
            _ => {}
        }
        Ok(())
    }

    /// Its entry is settled with the faults ([`Self::settle`]).
    fn end(&mut self, footer: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        let history = self.history.as_mut().map_or(Ok(()), History::finish);
        let moments = self.file.as_mut().map_or(Ok(()), |file| file.finish(footer));
        moments.and(history).map(|()| None)
    }
}
