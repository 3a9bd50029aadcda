//! Brokers that stay connected and do not answer.

use std::future::poll_fn;
use std::task::Poll;

use connect::event::{Encoding, PartitionId};
use connect::kafka::{connect_sink, connect_source};
use connect::service::ServiceError;
use connect::source::{Source, SourceOptions, StartPosition};

use crate::kafka::proxy::Proxy;
use crate::kafka::service::{outcomes, publish, receive, records, send, serve, values, within};

#[tokio::test]
async fn silent_brokers_are_an_outage_before_they_are_given_up_and_lose_nothing() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let options = proxy.options(&service, &[("request.timeout.ms", "6000")]);
    let mut to = within(connect_sink(&options)).await.unwrap();
    let source = connect_source(&options, SourceOptions::default(), Encoding::Kafka);
    let mut from = within(source).await.unwrap();
    from.open(PartitionId(0), StartPosition::Earliest);
    publish(&mut *to, 0, &records(&values(3, 16))).await;
    assert_eq!(receive(&mut *from, 3).await.len(), 3);

    proxy.change(|changes| changes.is_silent = true);
    send(&mut *to, 1, 0, &records(&values(2, 16))).await;
    let (mut early, mut silent) = (Vec::new(), [false; 2]);
    within(poll_fn(|context| {
        let arrived = from.poll_batch(context);
        assert!(arrived.is_pending(), "{arrived:?}");
        assert!(to.poll_outcomes(context, &mut early).is_pending());
        let is_silent = |outage: Option<&ServiceError>| {
            outage.is_some_and(|error| error.condition == "connection:silent")
        };
        silent[0] |= is_silent(from.outage());
        silent[1] |= is_silent(to.outage());
        if silent == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    }))
    .await;

    proxy.change(|changes| changes.is_silent = false);
    let (received, accepted) = tokio::join!(receive(&mut *from, 2), outcomes(&mut *to, 1));
    let numbers: Vec<_> = received.iter().map(|(_, number, _)| *number).collect();
    assert_eq!(numbers, [3, 4]);
    assert!(accepted[0].result.is_ok(), "{accepted:?}");
    assert_eq!((from.outage(), to.outage()), (None, None));
    service.stop().await;
}

#[tokio::test]
async fn a_source_that_reads_nothing_is_reachable_again_when_the_cluster_has_answered() {
    let service = serve().await;
    let proxy = Proxy::start(&service).await;
    let options = proxy.options(&service, &[("request.timeout.ms", "300")]);
    let source = connect_source(&options, SourceOptions::default(), Encoding::Kafka);
    let mut source = within(source).await.unwrap();
    source.open(PartitionId(0), StartPosition::Earliest);
    within(until(&mut *source, |source| source.is_attached(PartitionId(0)))).await;

    proxy.change(|changes| changes.is_silent = true);
    let is_given_up =
        |source: &dyn Source| source.outage().is_some_and(|error| error.condition == "connection:timeout");
    within(until(&mut *source, is_given_up)).await;
    // Others have the partitions now, so that no connection is made for them.
    source.close(PartitionId(0));
    proxy.change(|changes| changes.is_silent = false);
    within(until(&mut *source, |source| source.outage().is_none())).await;
    service.stop().await;
}

/// Lets the source work, which must yield nothing, until something is so.
async fn until(source: &mut dyn Source, is_so: impl Fn(&dyn Source) -> bool) {
    poll_fn(|context| {
        let arrived = source.poll_batch(context);
        assert!(arrived.is_pending(), "{arrived:?}");
        if is_so(&*source) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
