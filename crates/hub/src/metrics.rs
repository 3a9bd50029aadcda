//! How metrics are written: every front end and store has a collector, and all of them write through one
//! [`MetricsWriter`].
//!
//! Figures are read from the counters that the parts keep anyway at the moment they are asked for; nothing is counted
//! twice. The format is OpenMetrics: the name of a counter ends in `_total` there, which the writer appends.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Writes metrics for a collector.
#[derive(Debug)]
pub(crate) struct MetricsWriter<'a>(DescriptorEncoder<'a>);

/// What a metric is called, and what it means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
}

impl<'a> MetricsWriter<'a> {
    /// Writes to what a registry gives its collectors.
    pub(crate) const fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A counter without labels.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let descriptor = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(descriptor)
    }

    /// A gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let descriptor = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(descriptor)
    }

    /// A counter for each set of labels.
    pub(crate) fn counters<'l, const N: usize>(
        &mut self,
        Description { name, help }: Description,
        series: impl IntoIterator<Item = ([(&'l str, &'l str); N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A gauge for each set of labels.
    pub(crate) fn gauges<'l, const N: usize>(
        &mut self,
        Description { name, help }: Description,
        series: impl IntoIterator<Item = ([(&'l str, &'l str); N], u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
