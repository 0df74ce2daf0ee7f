//! Frames of a network as `NAME.pcapng`, which Wireshark and tcpdump read: an interface for each
//! machine's port, times in ns of virtual time.
//!
//! The format is "PCAP Next Generation (pcapng) Capture File Format",
//! draft-ietf-opsawg-pcapng-02, sections 4.1 (header), 4.2 (interface) and 4.3 (packet).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use stasis_run_events::{Outcome, PacketRecord};

use crate::sink::{Entry, Footer, Records, Sink};
use crate::ResultsError;

/// Types of blocks.
const HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Types of options: `opt_endofopt`, `if_name`, `if_tsresol`, `shb_userappl`, `epb_flags`.
const END: u16 = 0;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const APPLICATION: u16 = 4;
const FLAGS: u16 = 2;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// In `epb_flags`: the frame came in, or went out.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A file of frames.
#[derive(Debug)]
pub struct PacketFile {
    path: PathBuf,
    network: u16,
    file: BufWriter<File>,
    /// The block that is being written.
    block: Vec<u8>,
    ports: usize,
}

impl PacketFile {
    /// A file of no frames yet, of the network of this number with these machines at its ports.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: PathBuf, network: u16, machines: &[String]) -> Result<Self, ResultsError> {
        let file = File::create(&path).map_err(ResultsError::write(&path))?;
        let (file, ports) = (BufWriter::new(file), machines.len());
        let mut packets = Self { path, network, file, block: Vec::new(), ports };
        packets.begin(machines).map_err(ResultsError::write(&packets.path))?;
        Ok(packets)
    }

    fn begin(&mut self, machines: &[String]) -> io::Result<()> {
        // Byte order, version 1.0, length unknown.
        self.block.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        self.block.extend_from_slice(&[1, 0, 0, 0]);
        self.block.extend_from_slice(&[0xff; 8]);
        self.option(APPLICATION, b"Stasis");
        self.option(END, &[]);
        self.end(HEADER)?;
        for machine in machines {
            self.block.extend_from_slice(&ETHERNET.to_le_bytes());
            self.block.extend_from_slice(&[0; 2]);
            // No limit on a frame's length.
            self.block.extend_from_slice(&0u32.to_le_bytes());
            self.option(NAME, machine.as_bytes());
            // 10^-9 s.
            self.option(RESOLUTION, &[9]);
            self.option(END, &[]);
            self.end(INTERFACE)?;
        }
        Ok(())
    }

    /// Appends a frame.
    fn packet(&mut self, packet: &PacketRecord) -> io::Result<()> {
        if usize::from(packet.port) >= self.ports {
            return Err(io::Error::other("a frame at a port that its network does not have"));
        }
        let block = &mut self.block;
        let [low, high] = [packet.at as u32, (packet.at >> 32) as u32];
        for number in [u32::from(packet.port), high, low, packet.bytes.len() as u32, packet.length]
        {
            block.extend_from_slice(&number.to_le_bytes());
        }
        self.padded(&packet.bytes);
        let direction = if packet.outgoing { OUTBOUND } else { INBOUND };
        self.option(FLAGS, &direction.to_le_bytes());
        self.option(END, &[]);
        self.end(PACKET)
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, kind: u16, value: &[u8]) {
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    /// Writes the block: type, length, body, length.
    fn end(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        self.file.write_all(&kind.to_le_bytes())?;
        self.file.write_all(&length)?;
        self.file.write_all(&self.block)?;
        self.file.write_all(&length)?;
        self.block.clear();
        Ok(())
    }
}

impl Sink for PacketFile {
    fn take(&mut self, records: Records) -> Result<(), ResultsError> {
        let Records::Packets(packets) = records else { return Ok(()) };
        let network = self.network;
        let mut own = packets.iter().filter(|packet| packet.network == network);
        let taken = own.try_for_each(|packet| self.packet(packet));
        taken.and_then(|()| self.file.flush()).map_err(ResultsError::write(&self.path))
    }

    /// All is written already.
    fn end(&mut self, _: &Footer, _: Option<&Outcome>) -> Result<Entry, ResultsError> {
        Ok(None)
    }
}
