//! Namespaces that a host creates, attaches, detaches and deletes.

use std::collections::BTreeMap;

use crate::support::*;
use proptest::prelude::*;
use stasis_block::{Operation, Status};
use stasis_nvme::{Config, KeptState, Namespace};

const WRITE: u8 = 1;
const READ: u8 = 2;
const MANAGEMENT: u8 = 0x0d;
const ATTACHMENT: u8 = 0x15;
const TOTAL: u64 = 3 << 20;

/// Three namespaces of 1 MiB.
fn three() -> Config {
    let namespace = |index: u64| Namespace { start: index << 20, ..Namespace::new(2048, 512) };
    Config { namespaces: (0..3).map(namespace).collect(), ..config() }
}

/// The fields that a host gives of a new namespace.
fn fields(size: u64, capacity: u64, format: u8) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(&size.to_le_bytes());
    page[8..16].copy_from_slice(&capacity.to_le_bytes());
    page[26] = format;
    page
}

fn create_of(driver: &mut Driver, page: &[u8]) -> Cqe {
    driver.ram.set(SCRATCH, page);
    driver.admin(Sqe { opcode: MANAGEMENT, prp1: SCRATCH, ..Default::default() })
}

fn create(driver: &mut Driver, blocks: u64, format: u8) -> Cqe {
    create_of(driver, &fields(blocks, blocks, format))
}

fn delete(driver: &mut Driver, nsid: u32) -> u16 {
    driver.submit(0, Sqe { opcode: MANAGEMENT, nsid, cdw10: 1, ..Default::default() });
    driver.serve();
    let all = driver.reap(0);
    assert_eq!(all.len(), 1);
    all[0].status
}

/// Attaches a namespace to the controller, which is number 0, or detaches it.
fn attach(driver: &mut Driver, nsid: u32, on: bool) -> u16 {
    let mut list = vec![0; 4096];
    list[0] = 1;
    driver.ram.set(SCRATCH, &list);
    let cdw10 = u32::from(!on);
    driver
        .admin(Sqe { opcode: ATTACHMENT, nsid, prp1: SCRATCH, cdw10, ..Default::default() })
        .status
}

fn listed(driver: &mut Driver, structure: u32) -> Vec<u32> {
    let page = driver.identify(structure, 0).1;
    let entries = page.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().unwrap()));
    entries.take_while(|&nsid| nsid != 0).collect()
}

/// TNVMCAP and UNVMCAP.
fn capacity(driver: &mut Driver) -> (u64, u64) {
    let page = driver.identify(1, 0).1;
    let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
    (long(280), long(296))
}

fn transfer(opcode: u8, nsid: u32, lba: u64) -> Sqe {
    Sqe { nsid, ..Sqe::io(opcode, lba, 1, DATA, 0) }
}

#[test]
fn a_namespace_is_created_attached_used_and_deleted() {
    let mut driver = Driver::with_queues(three(), 1, 8);
    assert_eq!(driver.identify(1, 0).1[256] & 1 << 3, 1 << 3, "OACS");
    assert_eq!(capacity(&mut driver), (TOTAL, 0));
    assert_eq!(create(&mut driver, 1, 0).status, 0x115, "no capacity");
    driver.ram.set(DATA, &[7; 4096]);
    assert_eq!(driver.io(transfer(WRITE, 2, 0)).status, 0);
    let before = driver.identify(0, 2).1;
    assert_eq!(driver.set_feature(0x0b, 1 << 8).status, 0);
    driver.submit(0, Sqe { opcode: 0x0c, ..Default::default() });
    driver.submit(0, Sqe { opcode: MANAGEMENT, nsid: 2, cdw10: 1, ..Default::default() });
    driver.serve();
    let completions = driver.reap(0);
    assert_eq!(completions.len(), 2, "the event and the command");
    assert!(completions.iter().any(|cqe| cqe.result == 0x04_00_02), "Namespace Attribute Changed");
    assert_eq!(driver.log(4, 4096)[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((listed(&mut driver, 2), listed(&mut driver, 0x10)), (vec![1, 3], vec![1, 3]));
    assert_eq!(capacity(&mut driver), (TOTAL, 1 << 20));
    assert_eq!(driver.io(transfer(READ, 2, 0)).status, 0x002, "an unallocated one");
    assert_eq!(driver.identify(0, 2), (0, vec![0; 4096]));

    // 512 KiB in blocks of 4 KiB, where the second was.
    let made = create(&mut driver, 128, 1);
    assert_eq!((made.status, made.result), (0, 2));
    assert_eq!(listed(&mut driver, 2), [1, 3], "attached to nobody");
    assert_eq!(listed(&mut driver, 0x10), [1, 2, 3]);
    assert_eq!(driver.io(transfer(READ, 2, 0)).status, 0x002);
    assert_eq!(attach(&mut driver, 2, true), 0);
    let page = driver.identify(0, 2).1;
    assert_eq!((page[0], page[26], page[30]), (128, 1, 0), "NSZE, FLBAS, NMIC");
    assert_eq!(page[48..56], (512u64 << 10).to_le_bytes(), "NVMCAP");
    assert_ne!(page[104..128], before[104..128], "no deleted one's identifiers");
    driver.ram.set(DATA, &[9; 4096]);
    assert_eq!(driver.io(transfer(READ, 2, 0)).status, 0);
    assert_eq!(driver.ram.get(DATA, 4096), [0; 4096], "nothing of the deleted one's data");
    assert_eq!(driver.io(transfer(READ, 2, 128)).status, 0x080);
    driver.ram.set(DATA, &[5; 4096]);
    assert_eq!(driver.io(transfer(WRITE, 2, 127)).status, 0);
    assert_eq!(driver.disk[(1 << 20) + 127 * 4096], 5);
    assert_eq!(create(&mut driver, 128, 1).result, 4);
    assert_eq!(capacity(&mut driver), (TOTAL, 0));
}

#[test]
fn what_cannot_be_created_has_its_reason() {
    let mut driver = Driver::with_queues(three(), 1, 8);
    assert_eq!(delete(&mut driver, 3), 0);
    let with = |at: usize, value: u8| {
        let mut page = fields(8, 8, 0);
        page[at] = value;
        page
    };
    for (page, status, why) in [
        (fields(0, 0, 0), 0x002, "no size"),
        (fields(8, 9, 0), 0x002, "more capacity than size"),
        (fields(9, 8, 0), 0x11b, "thin"),
        (fields(8, 8, 3), 0x10a, "no such format"),
        (fields(8, 8, 0x20), 0x10a, "format 16"),
        (with(29, 1), 0x10a, "protection"),
        (with(30, 2), 0x002, "NMIC"),
        (with(92, 9), 0x124, "ANA group"),
        (with(100, 1), 0x002, "NVM set"),
        (with(102, 1), 0x002, "endurance group"),
        (with(392, 1), 0x002, "placement handles"),
        (fields(2049, 2049, 0), 0x115, "capacity"),
        (fields(u64::MAX, u64::MAX, 1), 0x115, "capacity beyond counting"),
    ] {
        assert_eq!(create_of(&mut driver, &page).status, status, "{why}");
    }
    let base = Sqe { opcode: MANAGEMENT, prp1: SCRATCH, ..Default::default() };
    driver.ram.set(SCRATCH, &fields(8, 8, 0));
    assert_eq!(driver.admin(Sqe { nsid: 1, ..base }).status, 0x002, "an NSID");
    assert_eq!(driver.admin(Sqe { cdw11: 2 << 24, ..base }).status, 0x129, "of zones");
    assert_eq!(driver.admin(Sqe { cdw10: 2, ..base }).status, 0x002, "select");
    assert_eq!(delete(&mut driver, 3), 0x002, "it is not there");
    assert_eq!(delete(&mut driver, 129), 0x00b, "nor can be");
    assert_eq!(attach(&mut driver, 1, true), 0x118);
    assert_eq!((listed(&mut driver, 0x10), capacity(&mut driver).1), (vec![1, 2], 1 << 20));
    // All at once, and as many as there can be.
    assert_eq!(delete(&mut driver, u32::MAX), 0);
    assert_eq!((listed(&mut driver, 0x10), capacity(&mut driver).1), (vec![], TOTAL));
    (1..=128).for_each(|nsid| assert_eq!(create(&mut driver, 8, 0).result, nsid));
    assert_eq!(create(&mut driver, 8, 0).status, 0x116);
}

#[test]
fn a_deletion_waits_for_what_is_under_way() {
    let mut driver = Driver::with_queues(three(), 1, 8);
    let cid = driver.submit(1, transfer(READ, 2, 0));
    let request = driver.controller.pop_request().unwrap();
    driver.submit(0, Sqe { opcode: MANAGEMENT, nsid: 2, cdw10: 1, ..Default::default() });
    assert!(driver.controller.pop_request().is_none() && driver.reap(0).is_empty());
    driver.submit(1, transfer(READ, 2, 1));
    assert_eq!(driver.reap(1)[0].status, 0x084, "meanwhile");
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    assert_eq!(driver.reap(1)[0].cid, cid);
    let erase = driver.controller.pop_request().unwrap();
    assert_eq!(erase.command.operation, Operation::WriteZeroes);
    assert_eq!((erase.command.offset, erase.command.length), (1 << 20, 1 << 20));
    driver.controller.complete(&driver.ram, erase.tag, Status::WriteError, Vec::new());
    assert_eq!(driver.reap(0)[0].status, 0x280, "what cannot be erased stays");
    assert_eq!(listed(&mut driver, 2), [1, 2, 3]);
    // An aborted command's request ends in no later namespace either.
    let cid = driver.submit(1, transfer(WRITE, 2, 0));
    let request = driver.controller.pop_request().unwrap();
    let abort = Sqe { opcode: 8, cdw10: u32::from(cid) << 16 | 1, ..Default::default() };
    assert_eq!(driver.admin(abort).result, 0);
    driver.submit(0, Sqe { opcode: MANAGEMENT, nsid: 2, cdw10: 1, ..Default::default() });
    assert!(driver.controller.pop_request().is_none());
    driver.controller.complete(&driver.ram, request.tag, Status::Ok, request.data);
    driver.serve();
    assert_eq!(driver.reap(0)[0].status, 0);
    assert_eq!(listed(&mut driver, 2), [1, 3]);
}

#[test]
fn damaged_states_are_refused() {
    let mut driver = Driver::with_queues(three(), 1, 8);
    assert_eq!(delete(&mut driver, 3), 0);
    assert_eq!(create(&mut driver, 16, 0).result, 3);
    let good = driver.controller.kept_state();
    assert!(Controller::with_state(three(), &good).is_ok());
    let changes: [fn(&mut KeptState); 5] = [
        |state| state.created[0].nsid = 1,
        |state| state.created[0].nsid = 200,
        |state| state.created[0].namespace.made.start = 1 << 20,
        |state| state.created[0].namespace.made.blocks = u64::MAX,
        |state| state.created[0].namespace.made.block_size = 0,
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(Controller::with_state(three(), &bad).is_err(), "{bad:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Create(u64, u8),
    Delete(u32),
    Attach(u32, bool),
    Write(u32, u8),
    PowerCycle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let nsid = 1..7u32;
    let step = prop_oneof![
        (1..300u64, 0..2u8).prop_map(|(blocks, format)| Step::Create(blocks, format)),
        nsid.clone().prop_map(Step::Delete),
        (nsid.clone(), any::<bool>()).prop_map(|(nsid, on)| Step::Attach(nsid, on)),
        (nsid, 1..=255u8).prop_map(|(nsid, value)| Step::Write(nsid, value)),
        Just(Step::PowerCycle),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    /// Against a map: which namespaces there are and who has them, and that what is written to the
    /// last block of one is there alone, whatever is created, deleted and restarted.
    #[test]
    fn namespaces_are_where_and_what_a_host_made_them(steps in steps()) {
        let mut driver = Driver::with_queues(three(), 1, 8);
        // By NSID: bytes, the size of a block, whether it is attached, and its last block's bytes.
        let mut model: BTreeMap<u32, (u64, u64, bool, u8)> =
            (1..=3).map(|nsid| (nsid, (1 << 20, 512, true, 0))).collect();
        for step in steps {
            match step {
                Step::Create(blocks, format) => {
                    let size = [512, 4096][usize::from(format)];
                    let made = create(&mut driver, blocks, format);
                    if made.status == 0 {
                        prop_assert!(!model.contains_key(&made.result));
                        model.insert(made.result, (blocks * size, size, false, 0));
                    } else {
                        // There may be room, in pieces.
                        prop_assert_eq!(made.status, 0x115);
                        prop_assert!(!model.is_empty());
                    }
                }
                Step::Delete(nsid) => {
                    let expected = if model.remove(&nsid).is_some() { 0 } else { 0x002 };
                    prop_assert_eq!(delete(&mut driver, nsid), expected);
                }
                Step::Attach(nsid, on) => {
                    let expected = match model.get_mut(&nsid) {
                        None => 0x002,
                        Some(modelled) if modelled.2 == on => if on { 0x118 } else { 0x11a },
                        Some(modelled) => { modelled.2 = on; 0 }
                    };
                    prop_assert_eq!(attach(&mut driver, nsid, on), expected);
                }
                Step::Write(nsid, value) => {
                    driver.ram.set(DATA, &[value; 4096]);
                    let Some(modelled) = model.get_mut(&nsid) else { continue };
                    let status = driver.io(transfer(WRITE, nsid, modelled.0 / modelled.1 - 1)).status;
                    prop_assert_eq!(status, if modelled.2 { 0 } else { 0x002 });
                    if modelled.2 {
                        modelled.3 = value;
                    }
                }
                Step::PowerCycle => driver = driver.power_cycle(three()),
            }
            let used: u64 = model.values().map(|modelled| modelled.0).sum();
            prop_assert_eq!(capacity(&mut driver), (TOTAL, TOTAL - used));
            let all: Vec<u32> = model.keys().copied().collect();
            prop_assert_eq!(listed(&mut driver, 0x10), all);
            let attached: Vec<u32> =
                model.iter().filter(|(_, modelled)| modelled.2).map(|(nsid, _)| *nsid).collect();
            prop_assert_eq!(listed(&mut driver, 2), attached);
            for (&nsid, &(bytes, size, attached, value)) in &model {
                if attached {
                    driver.ram.set(DATA, &[0xee; 4096]);
                    let last = bytes / size - 1;
                    prop_assert_eq!(driver.io(transfer(READ, nsid, last)).status, 0);
                    prop_assert_eq!(driver.ram.get(DATA, size as usize), vec![value; size as usize]);
                    prop_assert_eq!(driver.io(transfer(READ, nsid, last + 1)).status, 0x080);
                }
            }
        }
    }
}

#[test]
fn the_capabilities_of_all_namespaces_have_the_formats_of_a_new_one() {
    const ALL: u32 = u32::MAX;
    for (metadata, formats) in [(false, 3), (true, 0)] {
        let mut driver = Driver::new(Config { metadata, ..three() });
        let of_one = driver.identify(0, 1).1;
        let (status, common) = driver.identify(0, ALL);
        assert_eq!(status, 0);
        // NLBAF, MC, DPC, DLFEAT and the formats are those of each; sizes and identifiers are nobody's.
        for range in [25..26, 27..29, 33..34, 128..384] {
            assert_eq!(common[range.clone()], of_one[range], "metadata {metadata}");
        }
        assert_eq!(common[..24], [0; 24]);
        assert_eq!(common[104..128], [0; 24]);
        assert!(formats == 0 || common[25] + 1 == formats);
        // An NSID that is none still is none; nor is there one of allocated namespaces.
        assert_eq!(driver.identify(0, ALL - 1).0, 0x00b);
        assert_eq!(driver.identify(0x11, ALL).0, 0x00b);
        // As nvme-cli does by `--block-size`: the number of the format of 4 KiB, and a namespace of it.
        assert_eq!(delete(&mut driver, 3), 0);
        let format = (0..=common[25]).find(|&number| {
            let at = 128 + 4 * usize::from(number);
            common[at + 2] == 12 && common[at..at + 2] == [0, 0]
        });
        assert_eq!(create(&mut driver, 8, format.unwrap()).status, 0);
    }
}
