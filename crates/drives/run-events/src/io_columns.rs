//! One I/O as the results keep it: the one description of its columns.
//!
//! Everything that writes or reads rows of I/Os follows from [`IoRecord::COLUMNS`]: frames of the
//! event stream, `ios.csv`, `ios.parquet`, traces that are replayed, `stasis schema results` and with it
//! the Python package and the reference. A new column is a line of the table below.

use stasis_block::clock::Nanos;
use stasis_block::{Command, Operation, Refused};

/// Bytes of an LBA in rows.
pub const BLOCK: u64 = 512;

/// The end of an I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IoStatus {
    /// The I/O ended well.
    #[default]
    Ok = 0,
    /// The I/O failed.
    Error = 1,
    /// Its controller refused it: no drive was asked, and no model set a time.
    Refused = 2,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The index of a drive, 16 bits; files have the drive's name.
    Drive,
    /// One of these words, by its index.
    Word(&'static [&'static str]),
    /// An unsigned number of 64 bits.
    Long,
    /// An unsigned number of 16 bits.
    Short,
    /// An unsigned number of 16 bits, in hexadecimal where it is text.
    Code,
    /// Yes or no; 1 or 0 where it is text.
    Flag,
}

impl Kind {
    /// Bytes of a value in a frame.
    const fn size(self) -> usize {
        match self {
            Self::Word(_) | Self::Flag => 1,
            Self::Drive | Self::Short | Self::Code => 2,
            Self::Long => 8,
        }
    }
}

/// A column of a row.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name in files.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit; empty for none.
    pub unit: &'static str,
    /// True if nearly every value differs from the one before, so that differences are small.
    pub differs: bool,
    /// True if files of older versions lack it; its value is then 0.
    pub recent: bool,
    /// Its meaning, in Markdown.
    pub meaning: &'static str,
}

impl Column {
    /// A column without a name, of which each file has values that follow no other.
    const PLAIN: Self =
        Self { name: "", kind: Kind::Long, unit: "", differs: false, recent: false, meaning: "" };
}

/// A field's value as the number that rows keep: of a word the index, of a flag 0 or 1.
trait Field: Sized {
    fn number(self) -> u64;
    /// `None` if no such value exists.
    fn from_number(number: u64) -> Option<Self>;
}

impl Field for u64 {
    fn number(self) -> u64 {
        self
    }

    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl Field for u16 {
    fn number(self) -> u64 {
        self.into()
    }

    fn from_number(number: u64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Field for bool {
    fn number(self) -> u64 {
        self.into()
    }

    fn from_number(number: u64) -> Option<Self> {
        (number < 2).then_some(number == 1)
    }
}

impl Field for Operation {
    fn number(self) -> u64 {
        self as u64
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::from_number(number.try_into().ok()?)
    }
}

impl Field for IoStatus {
    fn number(self) -> u64 {
        self as u64
    }

    fn from_number(number: u64) -> Option<Self> {
        [Self::Ok, Self::Error, Self::Refused].get(usize::try_from(number).ok()?).copied()
    }
}

/// The record, its columns, and its way to numbers and back, from one table:
/// `name: Kind, "unit", flags => field: type [/ scale]`. The field is the column's value times the
/// scale.
macro_rules! columns {
    ($($(#[doc = $meaning:literal])+
       $name:ident: $kind:expr, $unit:literal $(, $flag:ident)*
           => $field:ident: $type:ty $(, in $scale:ident)?;)+) => {
        /// One I/O. All times are virtual, in ns since the machine was created.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct IoRecord {
            $($(#[doc = $meaning])+ pub $field: $type,)+
        }

        /// The number of columns.
        pub const COLUMN_COUNT: usize = [$(stringify!($name)),+].len();

        impl IoRecord {
            /// Every column, in the order of files.
            pub const COLUMNS: [Column; COLUMN_COUNT] = [$(Column {
                name: stringify!($name),
                kind: $kind,
                unit: $unit,
                meaning: concat!($($meaning),+),
                $($flag: true,)*
                ..Column::PLAIN
            }),+];

            /// The value of each column: of a word its index, of a flag 0 or 1.
            pub fn numbers(&self) -> [u64; COLUMN_COUNT] {
                [$(Field::number(self.$field) $(/ $scale)?),+]
            }

            /// The record of these values; the first column whose value is impossible is the
            /// error.
            pub fn from_numbers(numbers: &[u64; COLUMN_COUNT]) -> Result<Self, &'static Column> {
                let mut all = numbers.iter().zip(&Self::COLUMNS);
                Ok(Self {
                    $($field: {
                        let (&number, column) = all.next().expect("as many as columns");
                        let number = Some(number) $(.and_then(|number| number.checked_mul($scale)))?;
                        number.and_then(Field::from_number).ok_or(column)?
                    },)+
                })
            }
        }
    };
}

const PHASES: &[&str] = &["command", "boot"];
const STATUSES: &[&str] = &["ok", "error", "refused"];
const OPERATIONS: &[&str] = &{
    let mut names = [""; Operation::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Operation::ALL[index].name();
        index += 1;
    }
    names
};

columns! {
    /// the drive's name
    drive: Kind::Drive, "" => drive: u16;
    /// `boot` until the command begins, then `command`
    phase: Kind::Word(PHASES), "" => boot: bool;
    /// `read`, `write`, `flush`, ...
    operation: Kind::Word(OPERATIONS), "" => operation: Operation;
    /// first block of the range
    lba: Kind::Long, "512 B", differs => offset: u64, in BLOCK;
    /// length
    bytes: Kind::Long, "B" => bytes: u64;
    /// number of the I/O queue; of NVMe the submission queue's identifier
    queue: Kind::Short, "" => queue: u16;
    /// virtual time since the machine was created at which the command was taken from its queue
    submit_ns: Kind::Long, "ns", differs => submit: Nanos;
    /// when the model let it complete
    target_ns: Kind::Long, "ns", differs => target: Nanos;
    /// when the guest could see it complete
    delivered_ns: Kind::Long, "ns", differs => delivered: Nanos;
    /// `ok`, `error`, or `refused` where the controller ended the command itself
    status: Kind::Word(STATUSES), "" => status: IoStatus;
    /// whether a write is durable before it is acknowledged
    fua: Kind::Flag, "" => fua: bool;
    /// a write's stream or placement identifier, 0 for none
    stream: Kind::Short, "" => stream: u16;
    /// the I/O priority as Linux numbers it, 0 for none
    priority: Kind::Short, "" => priority: u16;
    /// first block of the range that a copy takes its contents from
    source_lba: Kind::Long, "512 B" => source: u64, in BLOCK;
    /// the I/O's number among the submissions to its drive, from 0; rows are in the order of
    /// completion
    order: Kind::Long, "", differs => order: u64;
    /// the status that the guest got: on NVMe the status code and its type (`0x1bc`, `0x281`; NVMe
    /// 1.4, 4.6.1: type in bits 10:8), on virtio the request's status byte (virtio 1.2, 5.2.6);
    /// `0x0` for success
    code: Kind::Code, "", recent => code: u16;
    /// of the time to `target_ns`: in a disk image, before the drive gets the command that ends it
    image_ns: Kind::Long, "ns", recent => image: Nanos;
    /// then for the limit of its virtual disk
    limited_ns: Kind::Long, "ns", recent => limited: Nanos;
    /// then for the host's scheduler, or behind a barrier that the host keeps
    scheduled_ns: Kind::Long, "ns", recent => scheduled: Nanos;
    /// and by which an injected fault made it later; the rest of the time to `target_ns` is the model's
    fault_ns: Kind::Long, "ns", recent => fault: Nanos;
}

impl IoRecord {
    /// The record of a command: what is not of the command is 0.
    pub fn of(command: &Command) -> Self {
        let Command { operation, offset, length, fua, source, stream, priority } = *command;
        Self {
            drive: 0,
            boot: false,
            operation,
            offset,
            bytes: length,
            queue: 0,
            submit: 0,
            target: 0,
            delivered: 0,
            status: IoStatus::Ok,
            fua,
            stream,
            priority,
            source,
            order: 0,
            code: 0,
            image: 0,
            limited: 0,
            scheduled: 0,
            fault: 0,
        }
    }

    /// The record of a command that its controller refused at `now` (ns), which is all its times.
    pub fn of_refused(refused: &Refused, now: Nanos) -> Self {
        let Refused { queue, command, code } = *refused;
        let (submit, target, delivered, status) = (now, now, now, IoStatus::Refused);
        Self { queue, submit, target, delivered, status, code, ..Self::of(&command) }
    }

    /// The command that was asked.
    pub fn command(&self) -> Command {
        let Self { operation, offset, bytes, fua, source, stream, priority, .. } = *self;
        Command { operation, offset, length: bytes, fua, source, stream, priority }
    }

    /// Returns the time when the model got its command, as far as the layers' times tell (ns).
    pub fn model_begin(&self) -> Nanos {
        let before = self.image.saturating_add(self.limited).saturating_add(self.scheduled);
        self.submit.saturating_add(before)
    }

    /// Returns the time when the model completed its command, likewise (ns).
    pub fn model_end(&self) -> Nanos {
        self.target.saturating_sub(self.fault)
    }

    /// Returns whether it did not end well; refused ones are among these.
    pub fn failed(&self) -> bool {
        self.status != IoStatus::Ok
    }

    /// Returns whether its controller refused it.
    pub fn refused(&self) -> bool {
        self.status == IoStatus::Refused
    }

    /// Length of a record in an event stream's frames.
    pub(crate) const ENCODED: usize = {
        let (mut sum, mut index) = (0, 0);
        while index < COLUMN_COUNT {
            sum += Self::COLUMNS[index].kind.size();
            index += 1;
        }
        sum
    };

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (column, number) in Self::COLUMNS.iter().zip(self.numbers()) {
            out.extend_from_slice(&number.to_le_bytes()[..column.kind.size()]);
        }
    }

    /// `None` if a value is impossible.
    pub(crate) fn decode(bytes: &[u8; Self::ENCODED]) -> Option<Self> {
        let (mut numbers, mut rest) = ([0; COLUMN_COUNT], &bytes[..]);
        for (column, number) in Self::COLUMNS.iter().zip(&mut numbers) {
            let (value, after) = rest.split_at(column.kind.size());
            (*number, rest) = (stasis_layout::number(value), after);
        }
        Self::from_numbers(&numbers).ok()
    }
}
