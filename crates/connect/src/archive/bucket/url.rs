//! Where a bucket is, as people write it: `s3://name/prefix`.

use std::fmt;
use std::str::FromStr;

/// A bucket, and what the names of its objects begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl {
    service: BucketService,
    bucket: String,
    /// Without slashes at its ends; empty where names begin at the root.
    prefix: String,
}

/// What a bucket is a bucket of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketService {
    /// Amazon S3, or another service with its protocol.
    S3,
    /// Google Cloud Storage.
    GoogleCloudStorage,
}

/// Why a text is not the URL of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketUrlError {
    /// It begins with something else.
    #[error("it begins neither with `s3://` nor with `gs://`")]
    Scheme,
    /// No bucket can have the name.
    #[error("`{name}` can't be the name of a bucket")]
    Bucket {
        /// What stands in its place.
        name: String,
    },
    /// A part of the prefix between slashes is impossible.
    #[error("the prefix has the segment `{segment}`")]
    Segment {
        /// The part.
        segment: String,
    },
}

impl BucketUrl {
    /// What it is a bucket of.
    #[must_use]
    pub const fn service(&self) -> BucketService {
        self.service
    }

    /// The name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The whole name of an object in the bucket.
    pub(super) fn object(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }
}

impl FromStr for BucketUrl {
    type Err = BucketUrlError;

    fn from_str(text: &str) -> Result<Self, BucketUrlError> {
        let (service, rest) = [BucketService::S3, BucketService::GoogleCloudStorage]
            .into_iter()
            .find_map(|service| Some((service, text.strip_prefix(service.scheme())?)))
            .ok_or(BucketUrlError::Scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
        let is_name = (3..=222).contains(&bucket.len())
            && bucket.bytes().all(is_allowed)
            && bucket.as_bytes()[0].is_ascii_alphanumeric()
            && !bucket.contains("..");
        if !is_name {
            return Err(BucketUrlError::Bucket { name: bucket.to_owned() });
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_impossible = |segment: &&str| {
            matches!(*segment, "" | "." | "..")
                || segment.contains(|character: char| character == '\\' || character.is_control())
        };
        match prefix.split('/').find(is_impossible) {
            Some(segment) if !prefix.is_empty() => {
                Err(BucketUrlError::Segment { segment: segment.escape_debug().to_string() })
            }
            _ => Ok(Self { service, bucket: bucket.to_owned(), prefix: prefix.to_owned() }),
        }
    }
}

impl BucketService {
    const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3://",
            Self::GoogleCloudStorage => "gs://",
        }
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.service.scheme(), self.bucket)?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_service_a_bucket_and_a_prefix() {
        let url: BucketUrl = "s3://archive/a/b".parse().unwrap();
        assert_eq!((url.service(), url.bucket()), (BucketService::S3, "archive"));
        assert_eq!(url.object("orders/3/41"), "a/b/orders/3/41");
        for (text, shown, object) in [
            ("s3://archive", "s3://archive", "o"),
            ("s3://archive/", "s3://archive", "o"),
            ("gs://my_bucket.1/a/", "gs://my_bucket.1/a", "a/o"),
        ] {
            let url: BucketUrl = text.parse().unwrap();
            assert_eq!((url.to_string().as_str(), url.object("o").as_str()), (shown, object));
        }
    }

    #[test]
    fn what_can_be_no_bucket_is_refused() {
        let error = |text: &str| text.parse::<BucketUrl>().unwrap_err();
        let segment = |segment: &str| BucketUrlError::Segment { segment: segment.to_owned() };
        assert_eq!(error("https://archive/a"), BucketUrlError::Scheme);
        assert_eq!(error("s3:/archive"), BucketUrlError::Scheme);
        for name in ["", "ab", "Archive", "a b", "-archive", "a..b", "user:key@host"] {
            assert_eq!(error(&format!("s3://{name}/a")), BucketUrlError::Bucket { name: name.to_owned() });
        }
        assert_eq!(error("s3://archive//a"), segment(""));
        assert_eq!(error("s3://archive/a/../b"), segment(".."));
        assert_eq!(error("s3://archive/a\\b"), segment("a\\\\b"));
    }
}
