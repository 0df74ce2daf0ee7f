//! A profile against a reader of protocol buffers that knows only their encoding.

use std::io::Read;

use flate2::read::GzDecoder;
use stasis_trace_export::pprof;

/// A field: its number, and its value or its bytes.
type Field = (u64, u64, Vec<u8>);

fn fields(mut bytes: &[u8]) -> Vec<Field> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        match key & 7 {
            0 => all.push((key >> 3, varint(&mut bytes), Vec::new())),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (own, rest) = bytes.split_at(length);
                bytes = rest;
                all.push((key >> 3, 0, own.to_vec()));
            }
            kind => panic!("kind {kind}"),
        }
    }
    all
}

fn messages(all: &[Field], number: u64) -> Vec<Vec<Field>> {
    all.iter().filter(|field| field.0 == number).map(|field| fields(&field.2)).collect()
}

fn numbers(all: &[Field], number: u64) -> Vec<u64> {
    all.iter().filter(|field| field.0 == number).map(|field| field.1).collect()
}

#[test]
fn a_profile_has_each_stack_by_its_functions() {
    let folded = "vCPU 0;a;b 3\nvCPU 0;a;b;a 40\nvCPU 1;[program] 500\n";
    let mut packed = Vec::new();
    assert_eq!(pprof(folded, 100_000, &mut packed).unwrap(), 543);
    let mut bytes = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
    let all = fields(&bytes);
    let strings = all.iter().filter(|field| field.0 == 6);
    let strings: Vec<_> =
        strings.map(|field| String::from_utf8(field.2.clone()).unwrap()).collect();
    assert_eq!(strings[0], "");
    let word = |number: u64| strings[number as usize].as_str();
    let types: Vec<_> = messages(&all, 1)
        .iter()
        .map(|kind| format!("{} {}", word(numbers(kind, 1)[0]), word(numbers(kind, 2)[0])))
        .collect();
    assert_eq!(types, ["samples count", "cpu nanoseconds"]);
    // A location's function, and that function's name.
    let name = |location: u64| {
        let locations = messages(&all, 4);
        let one = locations.iter().find(|one| numbers(one, 1) == [location]).unwrap();
        let function = numbers(&messages(one, 4)[0], 1)[0];
        let functions = messages(&all, 5);
        let one = functions.iter().find(|one| numbers(one, 1) == [function]).unwrap();
        word(numbers(one, 2)[0]).to_owned()
    };
    let samples: Vec<_> = messages(&all, 2)
        .iter()
        .map(|sample| {
            let stack: Vec<_> = numbers(sample, 1).into_iter().map(name).collect();
            let label = &messages(sample, 3)[0];
            let label = (word(numbers(label, 1)[0]), word(numbers(label, 2)[0]));
            assert_eq!(label.0, "processor");
            (label.1.to_owned(), stack.join(" < "), numbers(sample, 2))
        })
        .collect();
    let sample_of = |processor: &str, stack: &str, count: u64| {
        (processor.to_owned(), stack.to_owned(), vec![count, count * 100_000])
    };
    let expected = [
        sample_of("vCPU 0", "b < a", 3),
        sample_of("vCPU 0", "a < b < a", 40),
        sample_of("vCPU 1", "[program]", 500),
    ];
    assert_eq!(samples, expected);
    assert_eq!(numbers(&all, 12), [100_000]);
    let mut again = Vec::new();
    pprof(folded, 100_000, &mut again).unwrap();
    assert_eq!(again, packed);
}

#[test]
fn what_is_no_folded_stack_is_named_by_its_line() {
    for (folded, line) in [("a;b 1\nc\n", 2), ("a x\n", 1), ("\n", 1)] {
        let error = pprof(folded, 1, &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(error, format!("line {line} is no stack with its number of samples"));
    }
    assert_eq!(pprof("", 1, &mut Vec::new()).unwrap(), 0);
}
