use stasis_block::{Model, Operation, VendorCommand, VendorError};

use crate::tests::basics::small;
use crate::tests::load::{alone, on};
use crate::Ssd;

fn vendor(
    ssd: &mut Ssd,
    opcode: u8,
    fields: [u32; 3],
    room: usize,
) -> (Result<u32, VendorError>, Vec<u8>) {
    let [cdw12, cdw13, cdw14] = fields;
    let dwords = [room as u32 / 4, 0, cdw12, cdw13, cdw14, 0];
    let mut command = VendorCommand { opcode, dwords, data: vec![0xFF; room] };
    let result = ssd.vendor(0, &mut command);
    (result, command.data)
}

#[test]
fn timings_are_read_and_changed_while_the_drive_runs() {
    let mut ssd = Ssd::new(&small(), 16 << 20, 1).unwrap();
    alone(&mut ssd, 0, &on(Operation::Write, 0, 1));
    let (result, table) = vendor(&mut ssd, 0xC2, [0; 3], 176);
    assert_eq!(result, Ok(22));
    let number =
        |table: &[u8], at: usize| u64::from_le_bytes(table[at * 8..at * 8 + 8].try_into().unwrap());
    assert_eq!(number(&table, 0), 50_000);
    assert_eq!((number(&table, 8), number(&table, 16)), (500_000, 3_000_000));
    assert_eq!(number(&table, 17), 400_000_000);
    // Reads of page type 0 take 70 us from now on, at four times the bus.
    assert_eq!(vendor(&mut ssd, 0xC0, [0, 70_000, 0], 0).0, Ok(0));
    assert_eq!(vendor(&mut ssd, 0xC0, [17, 1_600_000_000, 0], 0).0, Ok(0));
    let latency = alone(&mut ssd, 10_000_000, &on(Operation::Read, 0, 1)).1;
    assert_eq!(latency, 1_000 + 70_000 + 2_560);
    for index in (0u32..22).filter(|&index| index != 17) {
        assert_eq!(vendor(&mut ssd, 0xC0, [index, 1_000 + index, 0], 0).0, Ok(0));
    }
    let (_, table) = vendor(&mut ssd, 0xC2, [0; 3], 176);
    for index in (0u32..22).filter(|&index| index != 17) {
        assert_eq!(number(&table, index as usize), 1_000 + u64::from(index));
    }
}

#[test]
fn what_is_impossible_is_refused() {
    let mut ssd = Ssd::new(&small(), 16 << 20, 1).unwrap();
    assert_eq!(vendor(&mut ssd, 0xC0, [22, 1, 0], 0).0, Err(VendorError::Field));
    assert_eq!(vendor(&mut ssd, 0xC0, [16, 0, u32::MAX], 0).0, Err(VendorError::Field));
    assert_eq!(vendor(&mut ssd, 0xFF, [0; 3], 0).0, Err(VendorError::Opcode));
    assert_eq!(vendor(&mut ssd, 0xC6, [u32::MAX, 0, 0], 64).0, Err(VendorError::Field));
    // Less room than the table has.
    assert_eq!(vendor(&mut ssd, 0xC2, [0; 3], 12).1[..8], 50_000u64.to_le_bytes());
}

#[test]
fn the_inside_is_read_piece_by_piece() {
    let mut ssd = Ssd::new(&small(), 16 << 20, 1).unwrap();
    alone(&mut ssd, 0, &on(Operation::Write, 0, 1));
    let whole = serde_json::to_string(&ssd.report(0)).unwrap();
    let mut text = Vec::new();
    while text.len() < whole.len() {
        let (result, piece) = vendor(&mut ssd, 0xC6, [text.len() as u32, 0, 0], 512);
        assert_eq!(result, Ok(whole.len() as u32));
        text.extend(piece);
    }
    assert!(text[whole.len()..].iter().all(|&byte| byte == 0));
    assert_eq!(&text[..whole.len()], whole.as_bytes());
    serde_json::from_str::<serde_json::Value>(&whole).unwrap();
}
