//! When a certificate expires: the one field that is read of it here.
//!
//! ```text
//!   Certificate     SEQUENCE
//!     to be signed  SEQUENCE
//!       [0] version (may be absent) · serial INTEGER · algorithm SEQUENCE · issuer SEQUENCE
//!       validity    SEQUENCE { not before, not after }    as UTCTime or GeneralizedTime, in UTC to the second
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When this certificate, in DER, expires; `None` in what is no certificate.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let mut certificate = Reader(certificate).of(SEQUENCE)?;
    let mut signed = certificate.of(SEQUENCE)?;
    if signed.0.first() == Some(&VERSION) {
        signed.any()?;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        signed.of(tag)?;
    }
    let mut validity = signed.of(SEQUENCE)?;
    validity.any()?;
    let (tag, time) = validity.any()?;
    let text = std::str::from_utf8(time).ok()?;
    match tag {
        // Two digits of a year are of the years from 1950 to 2049.
        UTC_TIME => {
            let century = if text.get(..2)?.parse::<u32>().ok()? < 50 { "20" } else { "19" };
            instant(&format!("{century}{text}"))
        }
        GENERALIZED_TIME => instant(text),
        _ => None,
    }
}

/// The instant of a time such as `20491231235959Z`.
fn instant(text: &str) -> Option<SystemTime> {
    let digits = text.strip_suffix('Z').filter(|digits| digits.len() == 14 && digits.is_ascii())?;
    let number = |from: usize, to: usize| digits.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(8, 10)?, number(10, 12)?, number(12, 14)?);
    let is_time =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_time || year < 1970 {
        return None;
    }
    // Years that begin in March have the odd day at their end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let since_epoch = days.checked_sub(DAYS_BEFORE_EPOCH)?;
    let seconds = ((since_epoch * 24 + hour) * 60 + minute) * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Values one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The content of the next value, which has this tag.
    fn of(&mut self, tag: u8) -> Option<Self> {
        self.any().filter(|(found, _)| *found == tag).map(|(_, content)| Self(content))
    }

    /// Tag and content of the next value.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk()?;
        let (length, rest) = match length {
            short @ ..0x80 => (usize::from(short), rest),
            // So many bytes of it follow.
            long => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                if bytes.len() > 4 {
                    return None;
                }
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Days from the first of March of the year 0 to the first of January of 1970.
const DAYS_BEFORE_EPOCH: u64 = 719_468;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32, month: u8, day: u8) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, month, day);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_expires_when_it_was_made_to() {
        for (year, month, day, days) in
            [(2049, 12, 31, 29_219), (2050, 1, 1, 29_220), (2028, 2, 29, 21_243), (4096, 1, 1, 776_506)]
        {
            let expected = UNIX_EPOCH + Duration::from_secs(days * 86_400);
            assert_eq!(not_after(&certificate(year, month, day)), Some(expected), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn what_is_cut_or_false_is_no_certificate_and_no_panic() {
        let whole = certificate(2030, 1, 1);
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None);
        }
        for position in 0..whole.len().min(300) {
            for byte in [0x00, 0x7f, 0x80, 0x84, 0xff] {
                let mut falsified = whole.clone();
                falsified[position] = byte;
                not_after(&falsified);
            }
        }
        for text in ["", "Z", "20300101000000", "2030010100000éZ", "20301301000000Z", "19500101000000Z"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
