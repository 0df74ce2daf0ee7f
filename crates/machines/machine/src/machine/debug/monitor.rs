//! `monitor` words: what gdb cannot know of a run.

use std::fmt::Write;

use stasis_block::Command;
use stasis_drive::{InFlight, Look};

use super::super::common::Common;
use super::super::vm::Machine;
use super::modules;
use super::target::{task_thread, Debuggee};
use crate::memory::Purpose;
use crate::vcpu::ProcessorState;

const HELP: &str = "\
monitor time        virtual time
monitor processors  each processor: its state, and where it is in virtual time
monitor tasks       the guest's tasks: gdb's number, name, pid, state (off, on: not as threads, and again)
monitor mappings N  the files that the program of thread N (gdb's number behind `1.`) is mapped from
monitor modules N   the modules of the kernel of thread N: addresses of the code, and name
monitor module N NAME    a module's symbols and frames, as a file in hexadecimal (gdb's `kernel-modules` reads it)
monitor events      what comes next: timers, completions, packets
monitor breakpoints each breakpoint that is set, and whose it is
monitor regions     each machine: gdb's numbers of its processors, and the parts of its memory
monitor memory      each machine's memory: its length, and a digest of all its bytes
monitor drives      each drive: its next event, and the insides of its model as JSON
monitor queues      each drive's queue pairs: heads, tails, what waits
monitor commands    each drive's commands in flight, and when they are delivered where that is known
monitor ftl DRIVE LBA    where a flash drive holds a block: page, state, a newer version in the buffer
monitor cache DRIVE      what waits in the drive's write cache or buffer
monitor power-cut DRIVE  what a power cut at this moment can take of what the drive was given
";

/// The answer to a `monitor` command.
pub(super) fn answer(debuggee: &mut Debuggee, command: &str) -> String {
    let mut text = String::new();
    match command.trim() {
        "time" => {
            let (now, began) = (debuggee.now, debuggee.began);
            let _ = writeln!(
                text,
                "{now} ns since power-on, {} ns since the commands have begun",
                now.saturating_sub(began)
            );
        }
        "tasks" => {
            for task in debuggee.look_at_tasks() {
                let _ = writeln!(text, "{}: {}", task_thread(task), task.text());
            }
            if text.is_empty() {
                text.push_str("none is known: the kernel's types are not, or it has not begun\n");
            }
        }
        "tasks on" | "tasks off" => {
            debuggee.hides_tasks = command.ends_with("off");
            let shown = if debuggee.hides_tasks { "processors" } else { "processors and tasks" };
            let _ = writeln!(text, "threads are {shown}");
        }
        "processors" => {
            debuggee.look_at_tasks();
            for place in 0..debuggee.processors.len() {
                let _ = writeln!(text, "{}: {}", place + 1, processor(debuggee, place));
            }
        }
        "regions" => {
            for number in 0..debuggee.machines.len() {
                let _ = writeln!(text, "{}", regions(debuggee, number));
            }
        }
        "memory" => {
            for machine in &debuggee.machines {
                let (length, digest) = digest(machine);
                let _ = writeln!(text, "{}: {length} bytes, digest {digest:016x}", machine.name);
            }
        }
        "breakpoints" => {
            let lines = debuggee.lines();
            match lines.is_empty() {
                true => text.push_str("none is set\n"),
                false => lines.iter().for_each(|line| text.extend([line, "\n"])),
            }
        }
        "events" => text.push_str(&debuggee.events),
        "drives" => {
            let now = debuggee.now;
            for machine in &mut debuggee.machines {
                for drive in machine.drives.own_mut() {
                    let next = drive.next_event().map_or("none".into(), |at| format!("at {at} ns"));
                    let name = drive.name().to_owned();
                    let inside = serde_json::to_string(&drive.control().inside(now));
                    let inside = inside.unwrap_or_default();
                    let _ = writeln!(text, "{name}: next event {next}; inside: {inside}");
                }
            }
        }
        "queues" => {
            for machine in &mut debuggee.machines {
                for drive in machine.drives.own_mut() {
                    for line in drive.queues() {
                        let _ = writeln!(text, "{}: {line}", drive.name());
                    }
                }
            }
        }
        "commands" => {
            for machine in &mut debuggee.machines {
                for drive in machine.drives.own_mut() {
                    let name = drive.name().to_owned();
                    for command in drive.control().commands() {
                        let _ = writeln!(text, "{name}: {}", in_flight(&command));
                    }
                }
            }
            if text.is_empty() {
                text.push_str("no command is in flight\n");
            }
        }
        other if other.starts_with("mappings ") => {
            let number = other.rsplit(' ').next().and_then(|word| word.parse().ok());
            match number.and_then(|number| debuggee.mapped_files(number)) {
                Some(files) => {
                    for file in files {
                        let (begin, end) = (file.addresses.start, file.addresses.end);
                        let may =
                            |bit: u32, word| if file.flags >> bit & 1 != 0 { word } else { '-' };
                        let may: String = [may(0, 'r'), may(1, 'w'), may(2, 'x')].iter().collect();
                        let (offset, path) = (file.offset, file.path);
                        let _ = writeln!(text, "{begin:#x} {end:#x} {offset:#x} {may} {path}");
                    }
                }
                None => text.push_str("no such thread runs a program\n"),
            }
        }
        other if other.starts_with("modules ") || other.starts_with("module ") => {
            let words: Vec<&str> = other.split_whitespace().collect();
            let found = match words[..] {
                ["modules", number] => {
                    number.parse().ok().and_then(|number| modules::list(debuggee, number))
                }
                ["module", number, name] => {
                    number.parse().ok().and_then(|number| modules::file(debuggee, number, name))
                }
                _ => None,
            };
            let unknown =
                "there is no such thread or module, or the kernel's types are not known\n";
            text.push_str(found.as_deref().unwrap_or(unknown));
        }
        "" | "help" => text.push_str(HELP),
        other => match look(debuggee, other) {
            Some(found) => text = found,
            None => {
                let _ = write!(text, "there is no `monitor {other}`; there are:\n{HELP}");
            }
        },
    }
    text
}

/// A machine's processors and the parts of its memory, by guest-physical address and length.
fn regions(debuggee: &Debuggee, number: usize) -> String {
    let processors = debuggee.processors.iter().enumerate();
    let own = processors.filter(|(_, (machine, _))| *machine == number);
    let own: Vec<String> = own.map(|(place, _)| (place + 1).to_string()).collect();
    let machine = &debuggee.machines[number];
    // The root's image is no memory of the kernel's.
    let regions = machine.memory.regions().iter().filter(|region| region.purpose != Purpose::Root);
    let regions: Vec<String> =
        regions.map(|region| format!("{:#x}+{:#x}", region.base, region.length)).collect();
    let name = if machine.name.is_empty() { "machine" } else { &machine.name };
    format!("{name}: processors={} memory={}", own.join(","), regions.join(","))
}

/// The number of bytes of a machine's memory, and a digest by which two of them can be told apart.
fn digest(machine: &Machine) -> (u64, u64) {
    const PIECE: usize = 64 << 10;
    // An odd number with as many ones as zeros: the fraction of the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut piece = vec![0; PIECE];
    let (mut length, mut digest) = (0, 0u64);
    for region in machine.memory.regions() {
        length += region.length;
        for at in (0..region.length).step_by(PIECE) {
            let part = (region.length - at).min(PIECE as u64) as usize;
            if machine.memory.read(region.base + at, &mut piece[..part]).is_err() {
                continue;
            }
            for word in piece[..part].chunks(size_of::<u64>()) {
                digest = (digest ^ stasis_layout::number(word)).wrapping_mul(FACTOR);
                digest ^= digest >> 32;
            }
        }
    }
    (length, digest)
}

/// Answers a command that names a drive; None where there is no such command.
fn look(debuggee: &mut Debuggee, command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let (word, name, place) = (words.next()?, words.next(), words.next());
    let wants_place = match word {
        "ftl" => true,
        "cache" | "power-cut" => false,
        _ => return None,
    };
    let now = debuggee.now;
    let names = |machine: &Machine| -> Vec<String> {
        machine.drives.own().iter().map(|drive| drive.name().to_owned()).collect()
    };
    let all: Vec<_> = debuggee.machines.iter().flat_map(names).collect();
    let usage = match wants_place {
        true => format!("monitor {word} DRIVE LBA"),
        false => format!("monitor {word} DRIVE"),
    };
    let wrong = |why: &str| Some(format!("{why}: {usage}; there is {}\n", all.join(", ")));
    let (Some(name), None, true) = (name, words.next(), wants_place == place.is_some()) else {
        return wrong("a word is missing, or is too much");
    };
    let found = debuggee.machines.iter_mut().find_map(|machine| {
        let index = machine.drives.own().iter().position(|drive| drive.name() == name)?;
        Some((machine, index))
    });
    let Some((machine, index)) = found else { return wrong("there is no such drive") };
    let at = match (word, place) {
        ("cache", _) => Look::Cache,
        ("power-cut", _) => Look::PowerCut,
        (_, place) => {
            let Some(block) = place.and_then(|place| place.parse::<u64>().ok()) else {
                return wrong("the block is no number");
            };
            let (start, size, count) = machine.drives.blocks_of(index);
            if block >= count {
                return Some(format!("the drive's first namespace has {count} blocks\n"));
            }
            Look::Entry(start + block * size)
        }
    };
    let drive = &mut machine.drives[index];
    let answer = drive.control().look(now, at);
    let answer = answer.unwrap_or_else(|| match at {
        Look::Entry(_) => "its model knows no places of blocks".to_owned(),
        _ => "its model has no write cache".to_owned(),
    });
    Some(format!("{answer}\n"))
}

/// A command in flight, in a few words.
fn in_flight(command: &InFlight) -> String {
    let InFlight { order, queue, command, submit, target } = command;
    let Command { operation, offset, length, .. } = command;
    let target = target.map_or("not known".to_owned(), |at| format!("at {at} ns"));
    format!(
        "{order}: {} of {length} bytes at {offset}, by queue {queue} since {submit} ns; delivery {target}",
        operation.name()
    )
}

/// The processor at `place`, in a few words.
pub(super) fn processor(debuggee: &Debuggee, place: usize) -> String {
    let found = debuggee.processors.get(place).and_then(|&(machine, index)| {
        let machine = debuggee.machines.get(machine)?;
        Some((machine, index, machine.processors.get(index)?))
    });
    let Some((machine, index, processor)) = found else { return String::new() };
    let state = match processor.state {
        ProcessorState::Waiting => "not started",
        ProcessorState::Runnable => "runs",
        ProcessorState::Halted => "idle",
        ProcessorState::Paused => "paused",
    };
    let name = match debuggee.machines.len() {
        1 => String::new(),
        _ => format!("{} ", machine.name),
    };
    let task = debuggee.running(place).map_or(String::new(), |task| format!(": {}", task.text()));
    format!("{name}CPU {index}, {state}{task}")
}

/// The next events of each machine.
pub(super) fn events(machines: &[Machine], common: &Common) -> String {
    let scale = common.clock.scale();
    let mut all = Vec::new();
    for machine in machines {
        for index in 0..machine.processors.len() {
            if let Some(at) = machine.timer(common, index) {
                all.push((scale.to_ns(at), format!("{}: timer of CPU {index}", machine.name)));
            }
        }
        for drive in machine.drives.all() {
            if let Some(at) = drive.next_event() {
                all.push((at, format!("{}: drive {}", machine.name, drive.name())));
            }
        }
    }
    all.sort();
    let mut text = String::new();
    for (at, event) in all {
        let _ = writeln!(text, "{at} ns  {event}");
    }
    match text.is_empty() {
        true => "nothing\n".into(),
        false => text,
    }
}
