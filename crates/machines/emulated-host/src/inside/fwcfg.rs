//! QEMU's fw_cfg device (docs/specs/fw_cfg.txt): named items, transferred by
//! DMA within one port write.

use super::memory::PageMap;
use super::{port, InsideError};
use stasis_layout::big_endian::{U16, U32};
use stasis_layout::{layout, IntoBytes};
use std::collections::HashMap;
use std::io;

/// The DMA address register: the upper half; the lower half, 4 further, starts
/// the transfer. Both big endian.
const DMA_PORT: u16 = 0x514;
/// The item that lists all others.
const DIRECTORY: u16 = 0x19;
/// Bits of a transfer's control word.
const ERROR: u32 = 1;
const READ: u32 = 2;
const SKIP: u32 = 4;
const SELECT: u32 = 8;
/// Longest directory read: QEMU has at most 32 + 16 items by default
/// (FW_CFG_FILE_SLOTS_DFLT and traditional ones).
const MAX_ITEMS: usize = 1024;

layout! {
    /// An entry of the directory.
    struct Entry: 64 {
        [0] size: U32,
        [4] selector: U16,
        [6] reserved6: [u8; 2],
        /// Ends with its first 0.
        [8] name: [u8; 56],
    }
}

/// A transfer's description, all big endian.
#[repr(C, align(16))]
struct Transfer {
    control: u32,
    length: u32,
    address: u64,
}

#[derive(Clone, Copy)]
struct Item {
    selector: u16,
    length: u64,
}

/// An open fw_cfg device.
pub(super) struct FwCfg {
    items: HashMap<String, Item>,
    pages: PageMap,
    /// Lies within one page (it is aligned to its size).
    transfer: Box<Transfer>,
    /// The selected item and how far it was read.
    position: Option<(u16, u64)>,
}

impl FwCfg {
    /// Reads the directory.
    pub(super) fn open() -> Result<Self, InsideError> {
        let start = |source| InsideError::Start { step: "read QEMU's fw_cfg".into(), source };
        let transfer = Box::new(Transfer { control: 0, length: 0, address: 0 });
        let pages = PageMap::open().map_err(start)?;
        let mut device = Self { items: HashMap::new(), pages, transfer, position: None };
        let mut count = U32::ZERO;
        device.transfer(DIRECTORY, 0, count.as_mut_bytes()).map_err(start)?;
        let mut entries = vec![Entry::default(); (count.get() as usize).min(MAX_ITEMS)];
        device.transfer(DIRECTORY, 4, entries.as_mut_bytes()).map_err(start)?;
        device.items = entries
            .iter()
            .map(|entry| {
                let name = entry.name.split(|byte| *byte == 0).next().unwrap_or_default();
                let item = Item { selector: entry.selector.get(), length: entry.size.get().into() };
                (String::from_utf8_lossy(name).into_owned(), item)
            })
            .collect();
        Ok(device)
    }

    pub(super) fn length(&self, name: &str) -> Option<u64> {
        self.items.get(name).map(|item| item.length)
    }

    /// Reads the whole item `name`; empty if there is none.
    pub(super) fn whole(&mut self, name: &str) -> Result<Vec<u8>, InsideError> {
        let mut bytes = vec![0; self.length(name).unwrap_or(0) as usize];
        if !bytes.is_empty() {
            self.read(name, 0, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Fills `into` with the item `name` from `offset` on.
    pub(super) fn read(
        &mut self,
        name: &str,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), InsideError> {
        let item = *self.items.get(name).ok_or_else(|| InsideError::NoInput(name.to_owned()))?;
        let asked = offset.saturating_add(into.len() as u64);
        if asked > item.length {
            // QEMU would fill the rest with zeros.
            return Err(InsideError::PastEnd { name: name.to_owned(), length: item.length, asked });
        }
        self.transfer(item.selector, offset, into)
            .map_err(|_| InsideError::Transfer(name.to_owned()))
    }

    fn transfer(&mut self, selector: u16, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let Self { pages, transfer, position, .. } = self;
        let at = match *position {
            Some((selected, at)) if selected == selector && at <= offset => at,
            _ => {
                start(pages, transfer, SELECT | u32::from(selector) << 16, 0, 0)?;
                0
            }
        };
        *position = None;
        if at < offset {
            // Items are below 4 GiB.
            start(pages, transfer, SKIP, 0, (offset - at) as u32)?;
        }
        pages
            .pieces(into, |address, length| start(pages, transfer, READ, address, length as u32))?;
        *position = Some((selector, offset + into.len() as u64));
        Ok(())
    }
}

/// Makes one transfer; it is complete when the port write returns.
fn start(
    pages: &PageMap,
    transfer: &mut Transfer,
    control: u32,
    address: u64,
    length: u32,
) -> io::Result<()> {
    *transfer =
        Transfer { control: control.to_be(), length: length.to_be(), address: address.to_be() };
    let size = std::mem::size_of::<Transfer>();
    // SAFETY: the bytes of `transfer`, which has no padding, as bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut((transfer as *mut Transfer).cast(), size) };
    let mut physical = 0;
    pages.pieces(bytes, |address, _| {
        physical = address;
        Ok::<(), io::Error>(())
    })?;
    // SAFETY: `physical` is where `transfer` lies, and (address, length) is a
    // piece of memory that the caller has borrowed mutably; the transfer is
    // over when the second write returns.
    unsafe {
        port::write_long(DMA_PORT, ((physical >> 32) as u32).to_be());
        port::write_long(DMA_PORT + 4, (physical as u32).to_be());
    }
    // SAFETY: QEMU has written the control word behind the compiler's back.
    let control = unsafe { std::ptr::read_volatile(&transfer.control) };
    if u32::from_be(control) & ERROR != 0 {
        return Err(io::Error::other("QEMU reports an error"));
    }
    Ok(())
}
