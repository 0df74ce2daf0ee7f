//! Fields have the bytes that their figures say, wherever those lie.

use stasis_nvme_layout::identify::{IdentifyController, IdentifyNamespace};
use stasis_nvme_layout::logs::SmartLog;
use stasis_nvme_layout::{transmute_ref, FromBytes, FromZeros, IntoBytes};

/// Bytes of which each four in a row are others.
fn numbered<const SIZE: usize>() -> [u8; SIZE] {
    std::array::from_fn(|at| (at ^ at >> 8) as u8)
}

fn number(bytes: &[u8], at: usize, width: usize) -> u128 {
    bytes[at..at + width].iter().rev().fold(0, |sum, &byte| sum << 8 | u128::from(byte))
}

#[test]
fn numbers_are_little_endian_and_may_be_unaligned() {
    let bytes = numbered::<512>();
    let log: &SmartLog = transmute_ref!(&bytes);
    for (at, width, value) in [
        (1, 2, log.composite_temperature.get().into()),
        (32, 16, log.data_units_read.get()),
        (160, 16, log.media_errors.get()),
        (192, 4, log.warning_temperature_time.get().into()),
        (196, 4, log.critical_temperature_time.get().into()),
        (202, 2, log.temperature_sensors[1].get().into()),
    ] {
        assert_eq!(value, number(&bytes, at, width), "byte {at}");
    }
}

#[test]
fn the_largest_structures_are_those_of_their_figures() {
    let bytes = numbered::<4096>();
    let controller: &IdentifyController = transmute_ref!(&bytes);
    for (at, width, value) in [
        (80, 4, controller.ver.get().into()),
        (111, 1, controller.cntrltype.into()),
        (256, 2, controller.oacs.get().into()),
        (280, 16, controller.tnvmcap.get()),
        (328, 4, controller.sanicap.get().into()),
        (516, 4, controller.nn.get().into()),
        (520, 2, controller.oncs.get().into()),
        (536, 4, controller.sgls.get().into()),
        (1792, 4, controller.ioccsz.get().into()),
        (2052, 4, controller.psd[0].enlat.get().into()),
        (2084, 4, controller.psd[1].enlat.get().into()),
    ] {
        assert_eq!(value, number(&bytes, at, width), "byte {at} of the controller");
    }
    let namespace: &IdentifyNamespace = transmute_ref!(&bytes);
    for (at, width, value) in [
        (8, 8, namespace.ncap.get().into()),
        (26, 1, namespace.flbas.into()),
        (48, 16, namespace.nvmcap.get()),
        (92, 4, namespace.anagrpid.get().into()),
        (102, 2, namespace.endgid.get().into()),
        (132, 2, namespace.lbaf[1].ms.get().into()),
        (134, 1, namespace.lbaf[1].lbads.into()),
    ] {
        assert_eq!(value, number(&bytes, at, width), "byte {at} of the namespace");
    }
}

#[test]
fn what_is_not_set_is_zero_and_a_structure_is_its_bytes() {
    let mut log = SmartLog::default();
    assert!(log.as_bytes().iter().all(|&byte| byte == 0));
    log.media_errors.set(0x0102);
    let bytes = log.as_bytes();
    assert_eq!((bytes.len(), bytes[160], bytes[161]), (512, 2, 1));
    assert_eq!(SmartLog::read_from_bytes(bytes), Ok(log));
    assert!(SmartLog::read_from_bytes(&bytes[1..]).is_err(), "too short");
    log.zero();
    assert_eq!(log, SmartLog::default());
}
