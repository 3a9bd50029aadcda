//! A request signed with an account's key, as the service judges it: the signature, and the date that it covers.

use std::time::{Duration, SystemTime};

use units::date::parse_http_date;

use super::{StorageAccountKey, StorageRequest};

/// Why a signed request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedKeyError {
    /// Another scheme, account or key, or a request that was altered; they are not told apart.
    #[error("the Authorization header does not match the request and this account's key")]
    WrongSignature,
    /// There is no date, or none that can be read.
    #[error("the request has neither an x-ms-date nor a Date header with a date")]
    NoDate,
    /// The date is too far from now.
    #[error("the request's date is more than 15 minutes from the service's")]
    Stale,
}

impl StorageAccountKey {
    /// Whether the value of a header `Authorization` is this key's for a request, and the request of about `now`.
    ///
    /// # Errors
    /// Why not.
    pub fn verify_request(
        &self,
        request: &StorageRequest<'_>,
        authorization: &str,
        now: SystemTime,
    ) -> Result<(), SharedKeyError> {
        if !self.has_authorized(request, authorization) {
            return Err(SharedKeyError::WrongSignature);
        }
        let header =
            |wanted: &str| request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let date = header("x-ms-date")
            .or_else(|| header("date"))
            .and_then(|(_, value)| parse_http_date(value))
            .ok_or(SharedKeyError::NoDate)?;
        let distance = now.duration_since(date).unwrap_or_else(|earlier| earlier.duration());
        if distance > CLOCK_TOLERANCE {
            return Err(SharedKeyError::Stale);
        }
        Ok(())
    }
}

/// How far the clocks of client and service may be apart, as in the service.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY};
    use std::time::UNIX_EPOCH;

    const DATE: &str = "Fri, 20 Nov 2026 22:17:43 GMT";

    fn verify(headers: &[(&str, &str)], now: SystemTime) -> Result<(), SharedKeyError> {
        let key = StorageAccountKey::new(DEVELOPMENT_ACCOUNT, DEVELOPMENT_ACCOUNT_KEY).unwrap();
        let request = StorageRequest {
            method: "GET",
            path: "/devstoreaccount1/ck",
            query: &[("comp".into(), "list".into())],
            headers,
        };
        let authorization = key.authorization(&request);
        let altered = StorageRequest { method: "DELETE", ..request };
        assert_eq!(key.verify_request(&altered, &authorization, now), Err(SharedKeyError::WrongSignature));
        key.verify_request(&request, &authorization, now)
    }

    #[test]
    fn a_signed_request_counts_for_a_quarter_of_an_hour() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_213_063);
        for name in ["x-ms-date", "Date"] {
            let headers = [(name, DATE)];
            assert_eq!(verify(&headers, now), Ok(()));
            assert_eq!(verify(&headers, now + CLOCK_TOLERANCE), Ok(()));
            let more = CLOCK_TOLERANCE + Duration::from_secs(1);
            assert_eq!(verify(&headers, now + more), Err(SharedKeyError::Stale));
            assert_eq!(verify(&headers, now - more), Err(SharedKeyError::Stale));
        }
        assert_eq!(verify(&[], now), Err(SharedKeyError::NoDate));
        let headers = [("x-ms-date", "yesterday")];
        assert_eq!(verify(&headers, now), Err(SharedKeyError::NoDate));
    }
}
