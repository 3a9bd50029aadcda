//! The form of a distribution of latencies in the report of a role.
//!
//! A histogram travels in HdrHistogram's own V2 form (counts as variable-length integers, runs of zeros
//! as one number; not deflated), in base64, so that it fits into a line of JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2Serializer},
};
use serde::{Deserialize, Serialize};

use crate::results::{LatencyDistribution, NegativeLatencies};

/// A [`LatencyDistribution`] as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodedDistribution {
    /// The histogram of latencies in microseconds.
    histogram: String,
    /// The negative ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    negative: Option<NegativeLatencies>,
}

impl EncodedDistribution {
    /// The text of a distribution.
    #[must_use]
    pub fn of(distribution: &LatencyDistribution) -> Self {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&distribution.histogram, &mut bytes)
            .expect("a vector takes any number of bytes and a histogram of ours has few enough counts");
        Self { histogram: STANDARD.encode(bytes), negative: distribution.negative }
    }

    /// The distribution again.
    ///
    /// # Errors
    /// [`DecodeError`] when the text is not what [`Self::of`] writes.
    pub fn decode(&self) -> Result<LatencyDistribution, DecodeError> {
        let bytes = STANDARD.decode(&self.histogram)?;
        // A V2 header is 40 bytes and starts with its cookie. The deflated form is refused: it may
        // unfold to any size, and no role of ours writes it.
        if bytes.first_chunk() != Some(&V2_COOKIE) {
            return Err(DecodeError::NotPlainV2);
        }
        let mut histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| DecodeError::Histogram(error.to_string()))?;
        histogram.auto(true);
        Ok(LatencyDistribution { histogram, negative: self.negative })
    }
}

/// Why a text is no distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not base64.
    #[error("the histogram is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The bytes do not begin like a histogram in V2 form.
    #[error("the histogram is not in the plain V2 form")]
    NotPlainV2,
    /// The bytes after the beginning are wrong.
    #[error("the histogram can't be read: {0}")]
    Histogram(String),
}

/// What a histogram in V2 form begins with.
const V2_COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_distribution_comes_back_and_still_grows(
            latencies in proptest::collection::vec(-1_000_i64..10_000_000_000, 0..60),
        ) {
            let mut distribution = LatencyDistribution::new();
            for latency in latencies {
                distribution.record(latency);
            }
            let mut decoded = EncodedDistribution::of(&distribution).decode().expect("our own text");
            prop_assert_eq!(&decoded, &distribution);
            decoded.record(1 << 39);
            prop_assert_eq!(decoded.histogram.len(), distribution.histogram.len() + 1);
            prop_assert!(decoded.histogram.max() >= 1 << 39);
        }

        #[test]
        fn other_bytes_are_refused_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80), whole in any::<bool>(),
        ) {
            let mut text = bytes;
            if whole {
                text.splice(0..0, V2_COOKIE);
            }
            let encoded = EncodedDistribution { histogram: STANDARD.encode(text), negative: None };
            let _ = encoded.decode();
        }
    }

    #[test]
    fn a_second_of_latencies_is_a_short_text() {
        let mut distribution = LatencyDistribution::new();
        for latency in 800..6_000 {
            distribution.record(latency);
        }
        let encoded = EncodedDistribution::of(&distribution);
        assert!(encoded.histogram.len() < 8_000, "{}", encoded.histogram.len());
    }
}
