use super::*;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[test]
fn words_and_their_values() {
    for (word, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("4KiB", 4096),
        ("4K", 4096),
        ("1.5GiB", 3 << 29),
        (" 2 TiB ", 2 << 40),
        ("500GB", 500_000_000_000),
        ("0.5K", 512),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse_size(word), Ok(bytes), "{word}");
    }
    for (word, duration) in [
        ("0", 0),
        ("100us", 100_000),
        ("100 \u{b5}s", 100_000),
        ("1.5ms", 1_500_000),
        ("0.25s", 250_000_000),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("7ns", 7),
    ] {
        assert_eq!(parse_duration(word), Ok(duration), "{word}");
    }
}

#[test]
fn an_unknown_unit_names_the_nearest() {
    for (word, right) in [
        ("1gib", "GiB"),
        ("1GIB", "GiB"),
        ("1Gb", "GB"),
        ("1mib", "MiB"),
        ("1byte", "B"),
        ("1b", "B"),
    ] {
        let message = parse_size(word).unwrap_err().to_string();
        assert!(message.ends_with(&format!("`{right}`?")), "{message}");
        assert!(message.contains(word), "{message}");
    }
    for (word, right) in [
        ("1sec", "s"),
        ("5msec", "ms"),
        ("5usec", "us"),
        ("1US", "us"),
        ("3hours", "h"),
        ("3mins", "min"),
    ] {
        let message = parse_duration(word).unwrap_err().to_string();
        assert!(message.ends_with(&format!("`{right}`?")), "{message}");
    }
}

#[test]
fn words_that_are_none() {
    for word in ["", "GiB", "-1", ".5K", "1.2.3K", "1.K", "1e3"] {
        assert!(parse_size(word).is_err(), "{word}");
    }
    assert!(matches!(parse_size("0.3B"), Err(UnitError::Fraction { .. })));
    assert!(matches!(parse_size("18446744073709551616"), Err(UnitError::TooLarge { .. })));
    assert!(matches!(parse_size("16777216TiB"), Err(UnitError::TooLarge { .. })));
    assert!(matches!(parse_duration("0.1ns"), Err(UnitError::Fraction { .. })));
    assert!(matches!(parse_duration("5"), Err(UnitError::Missing { .. })));
}

#[test]
fn values_are_written_in_the_unit_that_fits() {
    assert_eq!(format_size(0), "0B");
    assert_eq!(format_size(3 << 29), "1.5GiB");
    assert_eq!(format_size(500_107_862_016), "488386584KiB");
    assert_eq!(format_duration(0), "0ns");
    assert_eq!(format_duration(100_000), "100us");
    assert_eq!(format_duration(1_500_000), "1.5ms");
    assert_eq!(format_duration(1_234_567), "1.234567ms");
    assert_eq!(format_duration(437_907_614), "437.907614ms");
    assert_eq!(format_duration(5_000_000_001), "5.000000001s");
    assert_eq!(format_duration(90 * 60_000_000_000), "1.5h");
    assert_eq!(format_duration(61_000_000_000), "61s");
    assert_eq!(format_duration(999), "999ns");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Config {
    #[serde(with = "size")]
    size: u64,
    #[serde(with = "duration")]
    delay: Nanos,
    #[serde(default, with = "size_option")]
    limit: Option<u64>,
    #[serde(default, with = "duration_option")]
    period: Option<Nanos>,
}

#[test]
fn configurations_hold_numbers_or_words() {
    let read = |text: &str| serde_json::from_str::<Config>(text);
    let some = read(r#"{"size": 512, "delay": "5ms", "limit": "1K", "period": 9}"#).unwrap();
    let expected = Config { size: 512, delay: 5_000_000, limit: Some(1024), period: Some(9) };
    assert_eq!(some, expected);
    let none = read(r#"{"size": "1K", "delay": 7}"#).unwrap();
    assert_eq!(none, Config { size: 1024, delay: 7, limit: None, period: None });
    for config in [some, none] {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(read(&text).unwrap(), config, "{text}");
    }
    let error = read(r#"{"size": -1, "delay": 7}"#).unwrap_err().to_string();
    assert!(error.contains("a size such as"), "{error}");
    let error = read(r#"{"size": 1, "delay": "7usec"}"#).unwrap_err().to_string();
    assert!(error.contains("did you mean `us`?"), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(value in any::<u64>(), shift in 0u32..64) {
        let value = value >> shift;
        prop_assert_eq!(parse_size(&format_size(value)), Ok(value));
        prop_assert_eq!(parse_duration(&format_duration(value)), Ok(value));
    }

    #[test]
    fn noise_never_panics(word in "[0-9.]{0,40}[a-zA-Zµ ]{0,6}") {
        let _ = (parse_size(&word), parse_duration(&word));
    }
}
