//! How metrics are written, by a service and by a relay alike: collectors write through one [`MetricsWriter`], and
//! [`open_metrics`] makes the text of a registry.
//!
//! Figures are read from the counters that the parts keep anyway, at the moment they are asked for; nothing is counted
//! twice. In OpenMetrics the name of a counter ends in `_total`, which the writer appends.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Writes metrics for a collector.
#[derive(Debug)]
pub struct MetricsWriter<'a>(DescriptorEncoder<'a>);

impl<'a> MetricsWriter<'a> {
    /// Writes to what a registry gives its collectors.
    #[must_use]
    pub const fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A counter without labels.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn counter<N>(&mut self, name: &str, help: &str, value: N) -> fmt::Result
    where
        ConstCounter<N>: EncodeMetric,
    {
        ConstCounter::new(value).encode(self.descriptor(name, help, MetricType::Counter)?)
    }

    /// A gauge without labels.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn gauge<N>(&mut self, name: &str, help: &str, value: N) -> fmt::Result
    where
        ConstGauge<N>: EncodeMetric,
    {
        ConstGauge::new(value).encode(self.descriptor(name, help, MetricType::Gauge)?)
    }

    /// A counter for each set of labels.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn counters<L: EncodeLabelSet, N>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, N)>,
    ) -> fmt::Result
    where
        ConstCounter<N>: EncodeMetric,
    {
        let series = series.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        family(self.descriptor(name, help, MetricType::Counter)?, series)
    }

    /// A gauge for each set of labels.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn gauges<L: EncodeLabelSet, N>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, N)>,
    ) -> fmt::Result
    where
        ConstGauge<N>: EncodeMetric,
    {
        let series = series.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        family(self.descriptor(name, help, MetricType::Gauge)?, series)
    }

    /// A histogram without labels: the sum and the count of its samples, and for each bucket its upper bound and the count
    /// of the samples in it alone.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        (sum, count): (f64, u64),
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let mut encoder = self.descriptor(name, help, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }

    /// A histogram for each set of labels, as [`histogram`](Self::histogram) has it.
    ///
    /// # Errors
    /// Those of the encoder.
    pub fn histograms<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, (f64, u64), Vec<(f64, u64)>)>,
    ) -> fmt::Result {
        let mut encoder = self.descriptor(name, help, MetricType::Histogram)?;
        for (labels, (sum, count), buckets) in series {
            encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn descriptor<'s>(
        &'s mut self,
        name: &'s str,
        help: &'s str,
        metric_type: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, metric_type)
    }
}

fn family<L: EncodeLabelSet>(
    mut encoder: MetricEncoder<'_>,
    series: impl Iterator<Item = (L, impl EncodeMetric)>,
) -> fmt::Result {
    for (labels, metric) in series {
        metric.encode(encoder.encode_family(&labels)?)?;
    }
    Ok(())
}

/// What the collectors of a registry write, in the OpenMetrics text format.
#[must_use]
pub fn open_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("a string takes any text");
    text
}
