//! From a file's call frame information to rows.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, Operation, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, X86_64,
};
use object::elf::PT_GNU_EH_FRAME;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::read::{Object, ObjectSection, ObjectSegment};
use object::{Architecture, Endianness};

use crate::rule::{Address, Base, Rule};

/// Limit on the bytes of instructions that are read of a file, those of a CIE once for each function of
/// its own: a file that repeats a long one for ever has no table.
const MAX_INSTRUCTIONS: usize = 256 << 20;
/// Limit on the places of a table at which the rule changes: LLVM's library, of 110 MiB, has a million.
pub(crate) const MAX_PLACES: usize = 1 << 21;
/// Bytes of an entry of a procedure linkage table.
const STUB: u64 = 16;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Part of a file that is mapped.
#[derive(Debug, Clone, Copy)]
struct Part {
    address: u64,
    length: u64,
    /// From where in the file.
    from: u64,
}

impl Part {
    fn has(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|behind| behind < self.length)
    }

    /// The place in the file.
    fn place(&self, address: u64) -> Option<u32> {
        let behind = address.checked_sub(self.address).filter(|behind| *behind <= self.length)?;
        u32::try_from(self.from.checked_add(behind)?).ok()
    }
}

/// The rows of a program or a library for x86-64; None where the file is neither.
pub(crate) fn rows(bytes: &[u8]) -> Option<Vec<(u32, u32, Rule)>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    if file.architecture() != Architecture::X86_64 || file.endian() != Endianness::Little {
        return None;
    }
    let parts = file.segments().map(|segment| {
        let (from, length) = segment.file_range();
        Part { address: segment.address(), length, from }
    });
    let parts: Vec<Part> = parts.collect();
    let (begin, data) = match file.section_by_name(".eh_frame") {
        Some(section) => (section.address(), section.data().ok()?),
        None => without_sections(&file, bytes, &parts)?,
    };
    let address = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default().set_eh_frame(begin);
    let bases = bases.set_text(address(".text")).set_got(address(".got"));
    Some(of_section(data, &bases, &parts))
}

/// The address and the bytes of the call frame information of a file that was stripped of its sections,
/// and what is mapped behind it.
fn without_sections<'a>(
    file: &ElfFile64<'_, Endianness>,
    bytes: &'a [u8],
    parts: &[Part],
) -> Option<(u64, &'a [u8])> {
    let mapped = |address: u64| {
        let part = parts.iter().find(|part| part.has(address))?;
        let from = part.from.checked_add(address - part.address)?;
        let until = part.from.checked_add(part.length)?;
        bytes.get(usize::try_from(from).ok()?..usize::try_from(until).ok()?)
    };
    let endian = file.endian();
    let is = |header: &&object::elf::ProgramHeader64<Endianness>| {
        header.p_type(endian) == PT_GNU_EH_FRAME
    };
    let header = file.elf_program_headers().iter().find(is)?.p_vaddr(endian);
    let bases = BaseAddresses::default().set_eh_frame_hdr(header);
    let parsed = EhFrameHdr::new(mapped(header)?, LittleEndian).parse(&bases, 8).ok()?;
    let begin = parsed.eh_frame_ptr().direct().ok()?;
    Some((begin, mapped(begin)?))
}

fn of_section(data: &[u8], bases: &BaseAddresses, parts: &[Part]) -> Vec<(u32, u32, Rule)> {
    let mut frames = EhFrame::new(data, LittleEndian);
    frames.set_address_size(8);
    let mut context = UnwindContext::new();
    let (mut rows, mut read) = (Vec::new(), 0);
    let mut entries = frames.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(entry) = entry else { continue };
        let Ok(function) = entry.parse(EhFrame::cie_from_offset) else { continue };
        read += function.entry_len() + function.cie().entry_len();
        if read > MAX_INSTRUCTIONS || rows.len() > MAX_PLACES {
            return Vec::new();
        }
        let begin = function.initial_address();
        if let Some(part) = parts.iter().find(|part| part.has(begin)) {
            // Rows before an instruction that is not understood stay.
            let _ = of_function(&frames, bases, &mut context, &function, part, &mut rows);
        }
    }
    rows
}

fn of_function<'a>(
    frames: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    function: &FrameDescriptionEntry<Slice<'a>>,
    part: &Part,
    rows: &mut Vec<(u32, u32, Rule)>,
) -> gimli::Result<()> {
    let mut table = function.rows(frames, bases, context)?;
    while let Some(row) = table.next_row()? {
        if rows.len() > MAX_PLACES {
            break;
        }
        let (begin, end) = (row.start_address(), row.end_address());
        let reader = Reader { frames, function };
        let returns = function.cie().return_address_register();
        let rule_of = |register: Register| row.register(register);
        let rest = reader.returns(rule_of(returns)).zip(reader.saved(rule_of(X86_64::RBP)));
        let Some((returns, rbp)) = rest else { continue };
        let is_signal = function.is_signal_trampoline();
        let mut push = |begin: u64, end: u64, frame: Address, indirect: bool| {
            if let Some((begin, end)) = part.place(begin).zip(part.place(end)) {
                rows.push((begin, end, Rule { frame, indirect, returns, rbp, is_signal }));
            }
        };
        match reader.frame(row.cfa()) {
            Some(Frame::Address(frame)) => push(begin, end, frame, false),
            Some(Frame::Indirect(place)) => push(begin, end, place, true),
            Some(Frame::Stub { offset, pushed }) => {
                let bytes = end.saturating_sub(begin);
                for stub in (0..bytes.min(MAX_PLACES as u64)).step_by(STUB as usize) {
                    let begin = begin + stub;
                    let (middle, next) = (begin.saturating_add(pushed), begin.saturating_add(STUB));
                    let end = end.min(next);
                    let frame = |more: i32| Address { base: Base::Rsp, offset: offset + more };
                    push(begin, middle.min(end), frame(0), false);
                    push(middle.min(end), end, frame(8), false);
                }
            }
            None => {}
        }
    }
    Ok(())
}

/// The frame's address.
enum Frame {
    Address(Address),
    /// The address of the frame's address.
    Indirect(Address),
    /// Each 16 bytes are an entry of a procedure linkage table, which has pushed a word from the byte
    /// `pushed` on.
    Stub {
        offset: i32,
        pushed: u64,
    },
}

struct Reader<'f, 'a> {
    frames: &'f EhFrame<Slice<'a>>,
    function: &'f FrameDescriptionEntry<Slice<'a>>,
}

impl Reader<'_, '_> {
    fn frame(&self, rule: &CfaRule<usize>) -> Option<Frame> {
        let expression = match *rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                return address(register, offset).map(Frame::Address);
            }
            CfaRule::Expression(expression) => expression,
        };
        match *self.operations(expression)?.as_slice() {
            [Step::Register(register, offset)] => address(register, offset).map(Frame::Address),
            [Step::Register(register, offset), Step::Read] => {
                address(register, offset).map(Frame::Indirect)
            }
            // As linkers write it: RSP + 8, and 8 more where (RIP & 15) >= a number.
            [Step::Register(X86_64::RSP, offset), Step::Register(X86_64::RA, 0), Step::Number(15), Step::And, Step::Number(pushed), Step::AtLeast, Step::Number(3), Step::Shift, Step::Add]
                if pushed < STUB =>
            {
                let Address { offset, .. } = address(X86_64::RSP, offset)?;
                (offset < i32::MAX - 8).then_some(Frame::Stub { offset, pushed })
            }
            _ => None,
        }
    }

    /// Returns the place of the address that a function returns to; within, None in the outermost
    /// function.
    fn returns(&self, rule: Option<RegisterRule<usize>>) -> Option<Option<Address>> {
        match rule {
            None | Some(RegisterRule::Undefined) => Some(None),
            Some(RegisterRule::SameValue) => None,
            rule => self.saved(rule),
        }
    }

    /// Returns the place of a register's value; within, None where it is in the register.
    fn saved(&self, rule: Option<RegisterRule<usize>>) -> Option<Option<Address>> {
        match rule {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(None),
            Some(RegisterRule::Offset(offset)) => {
                Some(Some(Address { base: Base::Frame, offset: offset.try_into().ok()? }))
            }
            Some(RegisterRule::Expression(expression)) => {
                match *self.operations(expression)?.as_slice() {
                    [Step::Register(register, offset)] => address(register, offset).map(Some),
                    _ => None,
                }
            }
            Some(_) => None,
        }
    }

    /// The steps of an expression, if they are known and few.
    fn operations(&self, expression: UnwindExpression<usize>) -> Option<Vec<Step>> {
        const MAX_STEPS: usize = 12;
        let expression = expression.get(self.frames).ok()?;
        let mut all = expression.operations(self.function.cie().encoding());
        let mut steps = Vec::new();
        while let Some(operation) = all.next().ok()? {
            if steps.len() == MAX_STEPS {
                return None;
            }
            steps.push(match operation {
                Operation::RegisterOffset { register, offset, .. } => {
                    Step::Register(register, offset)
                }
                Operation::Deref { size: 8, space: false, .. } => Step::Read,
                Operation::UnsignedConstant { value } => Step::Number(value),
                Operation::And => Step::And,
                Operation::Ge => Step::AtLeast,
                Operation::Shl => Step::Shift,
                Operation::Plus => Step::Add,
                _ => return None,
            });
        }
        Some(steps)
    }
}

/// A step of an expression, of those that occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Register(Register, i64),
    Read,
    Number(u64),
    And,
    AtLeast,
    Shift,
    Add,
}

/// An address by a register that is followed from function to function.
fn address(register: Register, offset: i64) -> Option<Address> {
    let base = match register {
        X86_64::RSP => Base::Rsp,
        X86_64::RBP => Base::Rbp,
        _ => return None,
    };
    Some(Address { base, offset: offset.try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;
    use proptest::prelude::*;

    const SECTION: u64 = 0x40_0000;
    const CODE: u64 = 0x40_1000;

    /// A record behind its length, filled up to a multiple of four bytes by instructions that do
    /// nothing.
    fn record(out: &mut Vec<u8>, mut body: Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.append(&mut body);
    }

    /// A CIE of functions, or of signals' handlers: the frame is at RSP + 8, and RIP before it.
    fn common(out: &mut Vec<u8>, augmentation: &str) -> u32 {
        let place = out.len() as u32;
        let mut body = vec![0, 0, 0, 0, 1];
        body.extend_from_slice(augmentation.as_bytes());
        body.extend_from_slice(&[0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1]);
        record(out, body);
        place
    }

    fn function(out: &mut Vec<u8>, cie: u32, (begin, length): (u64, u32), instructions: &[u8]) {
        let place = out.len() as u32 + 4;
        let mut body = (place - cie).to_le_bytes().to_vec();
        let own = SECTION + u64::from(place) + 4;
        body.extend_from_slice(&(begin.wrapping_sub(own) as u32).to_le_bytes());
        body.extend_from_slice(&length.to_le_bytes());
        body.push(0);
        body.extend_from_slice(instructions);
        record(out, body);
    }

    /// A function that keeps a frame pointer, one that only moves RSP, one whose frame is realigned,
    /// the linkage table, a signal's handler, and the outermost function.
    fn section() -> Vec<u8> {
        let mut out = Vec::new();
        let cie = common(&mut out, "zR");
        let keeps = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x6c, 0x0c, 7, 8];
        function(&mut out, cie, (CODE, 0x40), &keeps);
        function(&mut out, cie, (CODE + 0x40, 0x40), &[0x44, 0x0e, 0xa0, 0x02, 0x50, 0x0e, 8]);
        let realigned =
            [0x45, 0x0c, 10, 0, 0x49, 0x10, 6, 2, 0x76, 0, 0x45, 0x0f, 3, 0x76, 0x78, 6];
        function(&mut out, cie, (CODE + 0x80, 0x40), &realigned);
        let stubs = [0x0e, 16, 0x46, 0x0e, 24, 0x4a, 0x0f, 11]
            .into_iter()
            .chain([0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]);
        function(&mut out, cie, (CODE + 0xc0, 0x40), &stubs.collect::<Vec<_>>());
        function(&mut out, cie, (CODE + 0x100, 0x10), &[0x07, 16]);
        let signal = common(&mut out, "zRS");
        let handler = [0x0f, 4, 0x77, 0xa0, 1, 6, 0x10, 6, 3, 0x77, 0xf8, 0]
            .into_iter()
            .chain([0x10, 16, 3, 0x77, 0xa8, 1]);
        function(&mut out, signal, (CODE + 0x110, 0x10), &handler.collect::<Vec<_>>());
        out
    }

    const PART: Part = Part { address: SECTION, length: 0x2000, from: 0x100 };

    fn table(section: &[u8]) -> Table {
        let bases = BaseAddresses::default().set_eh_frame(SECTION);
        Table::from_rows(of_section(section, &bases, &[PART]))
    }

    #[test]
    fn a_functions_instructions_have_their_rules() {
        let section = section();
        let table = table(&section);
        let rule_at = |at: u64| {
            let rule = table.rule(CODE + at - SECTION + 0x100);
            rule.map_or("none".to_owned(), |rule| rule.to_string())
        };
        for (at, rule) in [
            (0, "rsp+8 u c-8"),
            (1, "rsp+16 c-16 c-8"),
            (3, "rsp+16 c-16 c-8"),
            (4, "rbp+16 c-16 c-8"),
            (0x2f, "rbp+16 c-16 c-8"),
            (0x30, "rsp+8 c-16 c-8"),
            (0x40, "rsp+8 u c-8"),
            (0x44, "rsp+288 u c-8"),
            (0x54, "rsp+8 u c-8"),
            (0x7f, "rsp+8 u c-8"),
            (0x80, "rsp+8 u c-8"),
            // The frame is at R10, which is not followed.
            (0x85, "none"),
            (0x8e, "none"),
            (0x93, "[rbp-8] rbp+0 c-8"),
            (0xc0, "rsp+16 u c-8"),
            (0xc6, "rsp+24 u c-8"),
            (0xcf, "rsp+24 u c-8"),
            (0xd0, "rsp+8 u c-8"),
            (0xda, "rsp+8 u c-8"),
            (0xdb, "rsp+16 u c-8"),
            (0xfb, "rsp+16 u c-8"),
            (0x100, "rsp+8 u u"),
            (0x110, "[rsp+160] rsp+120 rsp+168"),
            (0x120, "none"),
        ] {
            assert_eq!(rule_at(at), rule, "{at:#x}");
        }
        assert_eq!(table.rule(0), None);
        assert_eq!(table.rule(u64::MAX), None);
    }

    proptest! {
        /// A section that somebody has changed, and one that never was any.
        #[test]
        fn noise_never_panics(
            changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..9),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut section = section();
            for (place, byte) in changes {
                let place = place.index(section.len());
                section[place] = byte;
            }
            table(&section);
            table(&noise);
            prop_assert_eq!(rows(&noise), None);
        }
    }

    /// A short file that would take for ever has no table.
    #[test]
    fn a_files_work_has_a_limit() {
        let mut section = Vec::new();
        let cie = common(&mut section, "zR");
        // Each byte is a row.
        let rows = vec![0x41; MAX_PLACES / 4];
        for number in 0..9 {
            function(&mut section, cie, (CODE + number, 1 << 30), &rows);
        }
        let bases = BaseAddresses::default().set_eh_frame(SECTION);
        let part = Part { length: 1 << 30, ..PART };
        assert_eq!(of_section(&section, &bases, &[part]), []);
    }
}
