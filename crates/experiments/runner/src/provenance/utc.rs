//! Moments of the host's clock in UTC, to the second (RFC 3339): `2026-11-28T21:19:49Z`.

use std::time::{Duration, SystemTime};

const DAY: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01. Years that begin in March have their leap day at the end.
const FROM_MARCH: u64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// The text of this moment; that of 1970 for an earlier one.
pub(super) fn text(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The moment of such a text; none if it is another text, or a date that no calendar has.
pub(super) fn moment(text: &str) -> Option<SystemTime> {
    let mut numbers = text.split(['-', 'T', ':', 'Z']).map(str::parse::<u32>);
    let mut next = || Some(u64::from(numbers.next()?.ok()?));
    let days = days(next()?, next()?, next()?)?;
    let seconds = days * DAY + next()? * 3600 + next()? * 60 + next()?;
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    // Fields beyond their range, and other signs between them, are the text of another moment.
    (self::text(moment) == text).then_some(moment)
}

/// Year, month and day, this many days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let (era, days) = ((days + FROM_MARCH) / ERA, (days + FROM_MARCH) % ERA);
    let year = (days - days / 1_460 + days / 36_524 - days / (ERA - 1)) / 365;
    let days = days - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days.
    let month = (5 * days + 2) / 153;
    let day = days - (153 * month + 2) / 5 + 1;
    let january_follows = month >= 10;
    let year = era * 400 + year + u64::from(january_follows);
    (year, if january_follows { month - 9 } else { month + 3 }, day)
}

/// Days from 1970-01-01 to this date; none to an earlier one.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    (days + (153 * month + 2) / 5 + day).checked_sub(FROM_MARCH + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_has_its_date() {
        let leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut after = 0;
        for year in 1970..2500 {
            let february = if leap(year) { 29 } else { 28 };
            for (month, days) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                for day in 1..=days {
                    assert_eq!(date(after), (year, month, day));
                    assert_eq!(self::days(year, month, day), Some(after));
                    after += 1;
                }
            }
        }
    }

    #[test]
    fn a_text_is_read_as_it_is_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_795_900_789, "2026-11-28T21:19:49Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(self::text(moment), text);
            assert_eq!(self::moment(text), Some(moment));
        }
    }

    #[test]
    fn other_texts_are_no_moments() {
        for text in [
            "",
            "Z",
            "2026-11-28",
            "2026-11-28T20:39:49",
            "2026-11-28T20:39:49+01:00",
            "2026-11-28 20:39:49Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "1969-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
            "4294967295-4294967295-4294967295T4294967295:4294967295:4294967295Z",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
