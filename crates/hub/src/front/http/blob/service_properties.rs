//! Properties of the whole account: read, and changed in part.
//!
//! Logging and metrics are kept and come back, and nothing is logged or counted in the account: programs that look at its logs to learn
//! what has changed, such as blob triggers, find none and look at the blobs. What would change answers is refused unless it is off.

use access::storage::{StorageLevel, StorageRight};
use hyper::StatusCode;
use listen::http::RequestBody;
use units::ByteSize;

use super::BlobFront;
use super::authorize::Granted;
use super::http_error::HttpError;
use super::reply::{self, Reply};
use super::request::Request;
use super::xml;
use blob_store::{Logging, Metrics, Now, ServiceProperties};

impl BlobFront {
    pub(super) fn service_properties(&self, granted: &Granted) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Service, &[StorageRight::Read])?;
        Ok(reply::document(xml::service_properties(&self.store.service_properties())))
    }

    /// How far the secondary endpoint is behind the primary one, which is not at all: both have the same data.
    pub(super) fn statistics(
        &self,
        request: &Request,
        granted: &Granted,
        now: Now,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Service, &[StorageRight::Read])?;
        match request.target.is_secondary {
            true => Ok(reply::document(xml::statistics(now.time_of_day))),
            false => Err(HttpError::Parameter { name: "comp" }),
        }
    }

    pub(super) async fn set_service_properties(
        &self,
        body: RequestBody,
        granted: &Granted,
    ) -> Result<Reply, HttpError> {
        granted.need(StorageLevel::Service, &[StorageRight::Write])?;
        let arrived = self.bodies.collect(body, ByteSize::from_kibibytes(64), None).await?;
        let wanted =
            xml::texts(&arrived.bytes, ROOT).ok_or(HttpError::Xml { expected: "service properties" })?;
        let mut changed = ServiceProperties::clone(&self.store.service_properties());
        for (path, text) in wanted.iter().filter(|(_, text)| !text.trim().is_empty()) {
            set(&mut changed, path, text.trim())?;
        }
        self.run(0, move |store| store.set_service_properties(|properties| *properties = changed)).await?;
        Ok(reply::empty(StatusCode::ACCEPTED))
    }
}

/// Takes one text of the document, by the path of its element beneath the root.
fn set(properties: &mut ServiceProperties, path: &str, text: &str) -> Result<(), HttpError> {
    let invalid = || HttpError::XmlValue { path: path.to_owned() };
    match path.split_once('/') {
        Some(("Logging", rest)) => set_logging(&mut properties.logging, rest, text).ok_or_else(invalid)?,
        Some(("HourMetrics", rest)) => {
            set_metrics(&mut properties.hour_metrics, rest, text).ok_or_else(invalid)?
        }
        Some(("MinuteMetrics", rest)) => {
            set_metrics(&mut properties.minute_metrics, rest, text).ok_or_else(invalid)?;
        }
        None if path == "DefaultServiceVersion" => properties.default_version = Some(text.to_owned()),
        // None of these are here, so they can be off.
        Some(
            ("DeleteRetentionPolicy", "Enabled" | "AllowPermanentDelete") | ("StaticWebsite", "Enabled"),
        ) => {
            if flag(text).ok_or_else(invalid)? {
                return Err(HttpError::UnservedXml { path: path.to_owned() });
            }
        }
        _ => return Err(HttpError::UnservedXml { path: path.to_owned() }),
    }
    Ok(())
}

fn set_logging(logging: &mut Logging, path: &str, text: &str) -> Option<()> {
    match path {
        "Version" => text.clone_into(&mut logging.version),
        "Delete" => logging.delete = flag(text)?,
        "Read" => logging.read = flag(text)?,
        "Write" => logging.write = flag(text)?,
        _ => logging.retention_days = retention(logging.retention_days, path, text)?,
    }
    Some(())
}

fn set_metrics(metrics: &mut Metrics, path: &str, text: &str) -> Option<()> {
    match path {
        "Version" => text.clone_into(&mut metrics.version),
        "Enabled" => metrics.is_enabled = flag(text)?,
        "IncludeAPIs" => metrics.includes_apis = flag(text)?,
        _ => metrics.retention_days = retention(metrics.retention_days, path, text)?,
    }
    Some(())
}

/// The retention after an element of its policy.
fn retention(before: Option<u16>, path: &str, text: &str) -> Option<Option<u16>> {
    match path {
        "RetentionPolicy/Enabled" => Some(if flag(text)? { before.or(Some(1)) } else { None }),
        "RetentionPolicy/Days" => text.parse().ok().filter(|days| (1..=365).contains(days)).map(Some),
        _ => None,
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

const ROOT: &str = "StorageServiceProperties";

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(document: &str) -> Result<ServiceProperties, HttpError> {
        let mut properties = ServiceProperties::default();
        let texts = xml::texts(document.as_bytes(), ROOT).unwrap();
        for (path, text) in texts.iter().filter(|(_, text)| !text.trim().is_empty()) {
            set(&mut properties, path, text.trim())?;
        }
        Ok(properties)
    }

    #[test]
    fn what_is_written_is_read_and_the_rest_stays() {
        let mut properties = ServiceProperties::default();
        properties.logging.write = true;
        properties.logging.retention_days = Some(7);
        properties.hour_metrics.is_enabled = true;
        properties.default_version = Some("2021-08-06".to_owned());
        assert_eq!(changed(&xml::service_properties(&properties)), Ok(properties));
        let none = changed("<StorageServiceProperties/>");
        assert_eq!(none, Ok(ServiceProperties::default()));
    }

    #[test]
    fn what_would_change_answers_can_only_be_off() {
        let off = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>\
                   <StaticWebsite><Enabled>false</Enabled></StaticWebsite><Cors/></StorageServiceProperties>";
        assert_eq!(changed(off), Ok(ServiceProperties::default()));
        for (on, named) in [
            (off.replacen("false", "true", 1), "DeleteRetentionPolicy/Enabled"),
            (
                off.replace(
                    "<Cors/>",
                    "<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins></CorsRule></Cors>",
                ),
                "Cors/CorsRule/AllowedOrigins",
            ),
        ] {
            assert_eq!(changed(&on), Err(HttpError::UnservedXml { path: named.to_owned() }));
        }
        let wrong = off.replacen("false", "perhaps", 1);
        assert!(matches!(changed(&wrong), Err(HttpError::XmlValue { .. })));
    }
}
