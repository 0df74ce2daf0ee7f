//! Protection information against the simplest reference: fields by hand, CRCs bit by bit.

use proptest::prelude::*;

use super::crc::tests::bitwise;
use super::*;
use crate::controller_id::ControllerId;
use crate::metadata::{Guard, LBA_FORMATS};

/// A command of these Dwords, by their places in the queue's entry.
fn command(dwords: &[(usize, u32)]) -> SubmissionEntry {
    let mut raw = [0; 64];
    for &(dword, value) in dwords {
        raw[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
    }
    SubmissionEntry::parse(ControllerId(0), 1, &raw)
}

/// A format with metadata, and how a host uses it.
fn formats() -> impl Strategy<Value = BlockFormat> {
    let with_metadata: Vec<_> =
        LBA_FORMATS.into_iter().filter(|format| format.metadata > 0).collect();
    let kinds =
        [Protection::None, Protection::Type1, Protection::Type2, Protection::Type3].to_vec();
    let parts = (prop::sample::select(with_metadata), any::<(bool, bool)>());
    (parts, prop::sample::select(kinds)).prop_map(|((format, (extended, first)), protection)| {
        let size = format.metadata.into();
        let metadata = Metadata { size, extended, protection, guard: format.guard, first };
        BlockFormat { size: format.size, metadata: Some(metadata) }
    })
}

/// A block as the reference keeps it: its data, and its metadata in the clear.
type Block = (Vec<u8>, Vec<u8>);

/// The tags of a command.
#[derive(Debug, Clone, Copy)]
struct Tags {
    prinfo: u32,
    application: u16,
    mask: u16,
    reference: u64,
}

struct Reference(BlockFormat);

impl Reference {
    fn metadata(&self) -> Metadata {
        self.0.metadata.unwrap()
    }

    fn tuple(&self) -> usize {
        if self.metadata().guard == Guard::Crc16 {
            8
        } else {
            16
        }
    }

    fn start(&self) -> usize {
        let metadata = self.metadata();
        if metadata.first {
            0
        } else {
            metadata.size as usize - self.tuple()
        }
    }

    fn guard(&self, (data, metadata): &Block) -> Vec<u8> {
        let mut covered = data.clone();
        covered.extend(&metadata[..self.start()]);
        match self.metadata().guard {
            Guard::Crc16 => (bitwise(16, 0x8bb7, 0, false, &covered) as u16).to_be_bytes().to_vec(),
            Guard::Crc32 => {
                let sum = bitwise(32, 0x1edc_6f41, u64::from(u32::MAX), true, &covered);
                (!(sum as u32)).to_be_bytes().to_vec()
            }
            Guard::Crc64 => {
                let sum = bitwise(64, 0xad93_d235_94c9_3659, u64::MAX, true, &covered);
                (!sum).to_be_bytes().to_vec()
            }
        }
    }

    /// The bytes of guard, application tag, storage tag and reference tag in the metadata.
    fn fields(&self) -> [Range<usize>; 4] {
        let lengths = match self.metadata().guard {
            Guard::Crc16 => [2, 2, 0, 4],
            Guard::Crc32 => [4, 2, 2, 8],
            Guard::Crc64 => [8, 2, 0, 6],
        };
        let mut at = self.start();
        lengths.map(|length| {
            at += length;
            at - length..at
        })
    }

    /// The tag in `bytes` bytes that block `index` of a command has.
    fn reference(&self, tags: Tags, index: u64, bytes: usize) -> Vec<u8> {
        let step = if self.metadata().protection == Protection::Type3 { 0 } else { index };
        tags.reference.wrapping_add(step).to_be_bytes()[8 - bytes..].to_vec()
    }

    fn insert(&self, block: &mut Block, tags: Tags, index: u64) {
        let [guard, application, storage, reference] = self.fields();
        let sum = self.guard(block);
        let tag = self.reference(tags, index, reference.len());
        block.1[guard].copy_from_slice(&sum);
        block.1[application].copy_from_slice(&tags.application.to_be_bytes());
        block.1[storage].fill(0);
        block.1[reference].copy_from_slice(&tag);
    }

    fn check(&self, block: &Block, tags: Tags, index: u64) -> Option<StatusCode> {
        let protection = self.metadata().protection;
        if protection == Protection::None {
            return None;
        }
        let [guard, application, _, reference] = self.fields();
        let of_block =
            u16::from_be_bytes([block.1[application.start], block.1[application.end - 1]]);
        let ones = block.1[reference.clone()].iter().all(|&byte| byte == 0xff);
        if of_block == 0xffff && (protection != Protection::Type3 || ones) {
            return None;
        }
        if tags.prinfo & 4 != 0 && block.1[guard] != self.guard(block) {
            return Some(StatusCode::GuardCheckError);
        }
        if tags.prinfo & 2 != 0 && (of_block ^ tags.application) & tags.mask != 0 {
            return Some(StatusCode::ApplicationTagCheckError);
        }
        let tag = self.reference(tags, index, reference.len());
        if tags.prinfo & 1 != 0 && block.1[reference] != tag {
            return Some(StatusCode::ReferenceTagCheckError);
        }
        None
    }
}

const LBA: u64 = 0xffff_fffe;

fn passage(format: BlockFormat, tags: Tags, purpose: Use) -> Result<Passage, Failure> {
    let dwords = [
        (3, (tags.reference >> 32) as u32),
        (12, tags.prinfo << 26),
        (14, tags.reference as u32),
        (15, u32::from(tags.mask) << 16 | u32::from(tags.application)),
    ];
    Passage::of(&command(&dwords), format, LBA, purpose).map(|passage| passage.unwrap())
}

/// Values that meet the edges often.
fn tags() -> impl Strategy<Value = Tags> {
    let tag = prop_oneof![Just(0u16), Just(0xffff), any::<u16>()];
    let reference = prop_oneof![Just(LBA), Just(u64::MAX), Just(0), any::<u64>()];
    (0..16u32, tag, any::<u16>(), reference).prop_map(|(prinfo, application, mask, reference)| {
        Tags { prinfo, application, mask, reference }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A write, damage, and a read: each as the reference does it.
    #[test]
    fn blocks_come_and_go_as_the_reference_has_them(
        format in formats(),
        count in 1..4usize,
        seed in any::<u8>(),
        write in tags(),
        read in tags(),
        damage in prop::option::of((0..3usize, 0..20_000usize)),
    ) {
        let reference = Reference(format);
        let metadata = format.metadata.unwrap();
        let bytes = metadata.size as usize;
        let byte = |at: usize| (at as u8).wrapping_mul(31).wrapping_add(seed);
        let mut blocks: Vec<Block> = (0..count)
            .map(|block| {
                let data = (0..format.size as usize).map(|at| byte(at + 7 * block)).collect();
                (data, (0..bytes).map(|at| byte(at * 3 + block)).collect())
            })
            .collect();
        // Half of the hosts make the protection information that the controller checks.
        if seed & 1 == 0 && metadata.protection != Protection::None {
            let all = blocks.iter_mut().enumerate();
            all.for_each(|(index, block)| reference.insert(block, write, index as u64));
        }
        let impossible = |tags: Tags| {
            let wrong = match metadata.protection {
                Protection::Type1 => {
                    (tags.reference ^ LBA) & metadata.guard.reference_mask() != 0
                }
                Protection::Type3 => true,
                _ => false,
            };
            tags.prinfo & 1 != 0 && wrong
        };
        let going = passage(format, write, Use::Transfer);
        if impossible(write) {
            let status = going.map_err(|failure| failure.status);
            prop_assert_eq!(status, Err(StatusCode::InvalidProtectionInformation));
            return Ok(());
        }
        let going = going.unwrap();
        let whole = metadata.protection != Protection::None
            && write.prinfo & 8 != 0
            && bytes == reference.tuple();
        let (mut host, mut apart) = (Vec::new(), Vec::new());
        for (data, of_block) in &blocks {
            host.extend(data);
            match (whole, metadata.extended) {
                (true, _) => {}
                (false, true) => host.extend(of_block),
                (false, false) => apart.extend(of_block),
            }
        }
        prop_assert_eq!(going.data_bytes(count), host.len());
        prop_assert_eq!(going.metadata_bytes(count), apart.len());
        let stride = format.stride() as usize;
        let mut stored = vec![0; count * stride];
        let packed = going.pack(&host, &apart, &mut stored);
        let inserts = write.prinfo & 8 != 0 && metadata.protection != Protection::None;
        let expected = match inserts {
            true => None,
            false => (0..count).find_map(|index| {
                let status = reference.check(&blocks[index], write, index as u64)?;
                Some(Flaw { status, block: index as u64 })
            }),
        };
        prop_assert_eq!(packed.err(), expected);
        if expected.is_some() {
            return Ok(());
        }
        if inserts {
            let all = blocks.iter_mut().enumerate();
            all.for_each(|(index, block)| reference.insert(block, write, index as u64));
        }

        // A bit goes wrong, perhaps in the unused part of a sector.
        if let Some((block, bit)) = damage.filter(|(block, _)| *block < count) {
            let bit = bit % (8 * stride);
            stored[block * stride + bit / 8] ^= 1 << (bit % 8);
            let (data, of_block) = &mut blocks[block];
            match (bit / 8).checked_sub(data.len()) {
                None => data[bit / 8] ^= 1 << (bit % 8),
                Some(at) => of_block[at % bytes] ^= 1 << (bit % 8),
            }
        }

        let coming = passage(format, read, Use::Transfer);
        if impossible(read) {
            prop_assert!(coming.is_err());
            return Ok(());
        }
        let coming = coming.unwrap();
        let expected = (0..count).find_map(|index| {
            let status = reference.check(&blocks[index], read, index as u64)?;
            Some(Flaw { status, block: index as u64 })
        });
        let mut host = vec![0xee; coming.data_bytes(count)];
        let mut apart = vec![0xee; coming.metadata_bytes(count)];
        let unpacked = coming.unpack(&stored, &mut host, &mut apart);
        prop_assert_eq!(unpacked.err(), expected);
        prop_assert_eq!(coming.verify(&stored).err(), expected);
        if expected.is_some() {
            return Ok(());
        }
        let strips = metadata.protection != Protection::None
            && read.prinfo & 8 != 0
            && bytes == reference.tuple();
        let step = format.size as usize + if metadata.extended && !strips { bytes } else { 0 };
        for (index, (data, of_block)) in blocks.iter().enumerate() {
            let block = &host[index * step..][..step];
            prop_assert_eq!(&block[..data.len()], &data[..]);
            let metadata_read = if metadata.extended { &block[data.len()..] } else { &apart[..] };
            let metadata_read = match (strips, metadata.extended) {
                (true, _) => continue,
                (false, true) => metadata_read,
                (false, false) => &metadata_read[index * bytes..][..bytes],
            };
            prop_assert_eq!(metadata_read, &of_block[..]);
        }

        // A comparison finds them equal, whatever their protection information is.
        if let Ok(comparing) = passage(format, Tags { prinfo: 0, ..read }, Use::Check) {
            let mut host = vec![0; comparing.data_bytes(count)];
            let mut apart = vec![0; comparing.metadata_bytes(count)];
            comparing.unpack(&stored, &mut host, &mut apart).unwrap();
            let protected = metadata.protection != Protection::None;
            let (first, other) = (host.len() - 1, apart.len().wrapping_sub(1));
            let in_tuple = |from_end: usize| {
                let at = bytes - 1 - from_end;
                protected && (reference.start()..reference.start() + reference.tuple()).contains(&at)
            };
            let places = [(&mut host, metadata.extended.then_some(0), first)];
            for (buffer, in_metadata, at) in places {
                buffer[at] ^= 1;
                let differs = !in_metadata.is_some_and(in_tuple);
                let compared = comparing.compare(&stored, buffer, &apart);
                let block = count as u64 - 1;
                let flaw = Flaw { status: StatusCode::CompareFailure, block };
                prop_assert_eq!(compared.err(), differs.then_some(flaw));
                buffer[at] ^= 1;
            }
            if !apart.is_empty() {
                apart[other] ^= 1;
                let compared = comparing.compare(&stored, &host, &apart);
                prop_assert_eq!(compared.is_err(), !in_tuple(0));
                apart[other] ^= 1;
            }
            prop_assert_eq!(comparing.compare(&stored, &host, &apart), Ok(()));
        }
    }

    /// Blocks that were never written, or that Write Zeroes has made.
    #[test]
    fn blocks_of_zeroes_pass_every_check(format in formats(), read in tags(), write in tags()) {
        let reference = Reference(format);
        let protected = format.metadata.unwrap().protection != Protection::None;
        let mut stored = vec![0; 2 * format.stride() as usize];
        if let Ok(coming) = passage(format, read, Use::Transfer) {
            prop_assert_eq!(coming.verify(&stored), Ok(()));
        }
        if let Ok(comparing) = passage(format, Tags { prinfo: 0, ..read }, Use::Check) {
            let mut host = vec![0xee; comparing.data_bytes(2)];
            let mut apart = vec![0xee; comparing.metadata_bytes(2)];
            comparing.unpack(&stored, &mut host, &mut apart).unwrap();
            let ones = host.iter().chain(&apart).filter(|&&byte| byte == 0xff).count();
            let zeroes = host.iter().chain(&apart).filter(|&&byte| byte == 0).count();
            prop_assert_eq!(ones, if protected { 2 * reference.tuple() } else { 0 });
            prop_assert_eq!(ones + zeroes, host.len() + apart.len());
        }
        if let Ok(zeroes) = passage(format, Tags { prinfo: 8, ..write }, Use::Zeroes) {
            zeroes.pack_zeroes(&mut stored);
            let checks = Tags { prinfo: 6, mask: 0xffff, ..write };
            let checking = passage(format, checks, Use::Check).unwrap();
            prop_assert_eq!(checking.verify(&stored), Ok(()));
        }
    }
}

#[test]
fn what_a_command_must_not_ask_is_refused() {
    let format = |protection| {
        let metadata = Metadata { protection, ..Metadata::new(8) };
        BlockFormat { size: 512, metadata: Some(metadata) }
    };
    let tags = |prinfo, reference| Tags { prinfo, application: 1, mask: 0, reference };
    let refused = |protection, tags, purpose| {
        let found = passage(format(protection), tags, purpose).map(|_| ());
        found.map_err(|failure| (failure.status as u16, failure.location))
    };
    let wrong = Err((0x181, 51));
    let (first, third) = (Protection::Type1, Protection::Type3);
    assert_eq!(refused(first, tags(8, LBA), Use::Check), wrong, "Compare and Verify");
    assert_eq!(refused(first, tags(4, LBA), Use::Zeroes), wrong, "Write Zeroes");
    assert_eq!(refused(first, tags(1, LBA + 1), Use::Transfer), wrong, "another block's tag");
    assert_eq!(refused(first, tags(1, LBA), Use::Transfer), Ok(()));
    assert_eq!(refused(first, tags(8, LBA + 1), Use::Transfer), Ok(()), "it is not checked");
    assert_eq!(refused(third, tags(1, LBA), Use::Transfer), wrong, "a tag of the host's own");
    assert_eq!(refused(Protection::None, tags(15, 0), Use::Check), Ok(()), "there is none");
    let plain = BlockFormat { size: 512, metadata: None };
    assert_eq!(Passage::of(&command(&[(12, 15 << 26)]), plain, 0, Use::Check), Ok(None));
}

#[test]
fn a_wrong_bit_anywhere_in_a_sector_is_wrong_in_the_metadata() {
    for bytes in [8, 64] {
        let format = BlockFormat { size: 512, metadata: Some(Metadata::new(bytes)) };
        let passage =
            passage(format, Tags { prinfo: 0, application: 0, mask: 0, reference: 0 }, Use::Check);
        let passage = passage.unwrap();
        let written = vec![0x55; bytes as usize];
        let mut stored = vec![0; 1024];
        passage.pack(&[0; 512], &written, &mut stored).unwrap();
        for bit in 0..8 * 512 {
            let (byte, mask) = (bit / 8, 1 << (bit % 8));
            stored[512 + byte] ^= mask;
            let mut unpacked = vec![0; bytes as usize];
            passage.unpack(&stored, &mut [0; 512], &mut unpacked).unwrap();
            unpacked[byte % bytes as usize] ^= mask;
            assert_eq!(unpacked, written, "{bit}");
            stored[512 + byte] ^= mask;
        }
    }
}

#[test]
fn checks_are_disabled_as_the_type_has_it() {
    // The application tag alone, but of type 3 the reference tag too.
    let checked = |protection, reference: u32| {
        let metadata = Metadata { protection, ..Metadata::new(8) };
        let format = BlockFormat { size: 512, metadata: Some(metadata) };
        let tags = Tags { prinfo: 4, application: 0, mask: 0, reference: LBA };
        let passage = passage(format, tags, Use::Transfer).unwrap();
        let mut tuple = [0x12, 0x34, 0xff, 0xff, 0, 0, 0, 0];
        tuple[4..].copy_from_slice(&reference.to_be_bytes());
        let packed = passage.pack(&[0; 512], &tuple, &mut [0; 1024]);
        packed.map_err(|flaw| flaw.status)
    };
    let wrong = Err(StatusCode::GuardCheckError);
    assert_eq!(checked(Protection::Type1, 0), Ok(()));
    assert_eq!(checked(Protection::Type2, 0), Ok(()));
    assert_eq!(checked(Protection::Type3, 0), wrong);
    assert_eq!(checked(Protection::Type3, u32::MAX), Ok(()));
}
