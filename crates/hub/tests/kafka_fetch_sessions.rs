//! Fetch sessions: clients name their partitions once, and hear of news alone.

use std::time::SystemTime;

use hub::namespace::{HubConfig, NamespaceConfig};
use kafka::ApiKey;
use kafka::record_batch::RecordBatch;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use crate::kafka_admin::id_text;
use crate::kafka_peer::{Peer, batch, produce, start, topic, transactional};
use partition_log::{TransactionEnd, TransactionMarker};

/// What an answer says: the error, the session, and the partitions in it, each with its error and its bytes.
type Heard = (i16, i32, Vec<(i32, i16, usize)>);

fn asking(session: (i32, i32), partitions: &[(i32, i64)], forgotten: &[i32]) -> FetchRequest {
    let partition = |(index, offset): &(i32, i64)| {
        FetchPartition::default()
            .with_partition(*index)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20)
    };
    let named = FetchTopic::default()
        .with_topic(topic("Events"))
        .with_partitions(partitions.iter().map(partition).collect());
    let forget = ForgottenTopic::default().with_topic(topic("Events")).with_partitions(forgotten.to_vec());
    FetchRequest::default()
        .with_max_bytes(50 << 20)
        .with_session_id(session.0)
        .with_session_epoch(session.1)
        .with_topics(if partitions.is_empty() { vec![] } else { vec![named] })
        .with_forgotten_topics_data(if forgotten.is_empty() { vec![] } else { vec![forget] })
}

async fn heard(peer: &mut Peer) -> Heard {
    let answer: FetchResponse = peer.hear(ApiKey::Fetch, 12).await;
    let partitions = answer.responses.iter().flat_map(|it| &it.partitions);
    let partition = partitions.map(|it| {
        let length = it.records.as_ref().map_or(0, |records| records.len());
        (it.partition_index, it.error_code, length)
    });
    (answer.error_code, answer.session_id, partition.collect())
}

async fn ask(peer: &mut Peer, request: &FetchRequest) -> Heard {
    peer.send(ApiKey::Fetch, 12, request).await;
    heard(peer).await
}

#[tokio::test]
async fn a_session_names_its_partitions_once_and_hears_of_news_alone() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 4)])).await;
    let (mut peer, mut writer) = (Peer::new(&service).await, Peer::new(&service).await);
    let length = batch(&[b"x"]).len();
    let (error, id, partitions) = ask(&mut peer, &asking((0, 0), &[(0, 0), (1, 0), (2, 0)], &[])).await;
    assert_eq!((error, id != 0, partitions), (0, true, vec![(0, 0, 0), (1, 0, 0), (2, 0, 0)]));
    // Nothing is new, then something is.
    assert_eq!(ask(&mut peer, &asking((id, 1), &[], &[])).await, (0, id, vec![]));
    writer.produce(&produce("Events", 1, batch(&[b"x"]))).await;
    assert_eq!(ask(&mut peer, &asking((id, 2), &[], &[])).await, (0, id, vec![(1, 0, length)]));
    // A client that does not go on gets the same again; one that does gets what comes then, however it comes.
    assert_eq!(ask(&mut peer, &asking((id, 3), &[], &[])).await, (0, id, vec![(1, 0, length)]));
    assert_eq!(ask(&mut peer, &asking((id, 4), &[(1, 1)], &[])).await, (0, id, vec![]));
    peer.send(ApiKey::Fetch, 12, &asking((id, 5), &[], &[]).with_max_wait_ms(600_000).with_min_bytes(1))
        .await;
    writer.produce(&produce("Events", 1, batch(&[b"x"]))).await;
    assert_eq!(heard(&mut peer).await, (0, id, vec![(1, 0, length)]));
    // Partitions come and go.
    writer.produce(&produce("Events", 3, batch(&[b"x"]))).await;
    writer.produce(&produce("Events", 0, batch(&[b"x"]))).await;
    let request = asking((id, 6), &[(1, 2), (3, 0)], &[0]);
    assert_eq!(ask(&mut peer, &request).await, (0, id, vec![(3, 0, length)]));
    let request = asking((id, 7), &[(0, 0), (3, 1)], &[]);
    assert_eq!(ask(&mut peer, &request).await, (0, id, vec![(0, 0, length)]));
    // What is wrong is told each time, and no longer once it is right.
    let request = asking((id, 8), &[(0, 7), (9, 0)], &[]);
    assert_eq!(ask(&mut peer, &request).await, (0, id, vec![(0, 1, 0), (9, 3, 0)]));
    assert_eq!(ask(&mut peer, &asking((id, 9), &[], &[])).await, (0, id, vec![(0, 1, 0), (9, 3, 0)]));
    assert_eq!(ask(&mut peer, &asking((id, 10), &[(0, 1)], &[9])).await, (0, id, vec![(0, 0, 0)]));
    service.stop().await;
}

#[tokio::test]
async fn a_session_that_is_not_there_is_told_so_and_one_that_ends_is_closed() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)])).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(ask(&mut peer, &asking((77, 1), &[], &[])).await, (70, 0, vec![]));
    let (_, id, _) = ask(&mut peer, &asking((0, 0), &[(0, 0)], &[])).await;
    assert_eq!(ask(&mut peer, &asking((id, 2), &[], &[])).await, (71, 0, vec![]));
    assert_eq!(ask(&mut peer, &asking((id, -7), &[], &[])).await, (71, 0, vec![]));
    assert_eq!(ask(&mut peer, &asking((id, 1), &[], &[])).await, (0, id, vec![]));
    let mut by_id = asking((id, 2), &[], &[]);
    by_id.topics = vec![];
    peer.send(ApiKey::Fetch, 13, &by_id).await;
    let answer: FetchResponse = peer.hear(ApiKey::Fetch, 13).await;
    assert_eq!(answer.error_code, 106);
    // A new one takes its place.
    let (error, next, _) = ask(&mut peer, &asking((id, 0), &[(0, 0)], &[])).await;
    assert_eq!((error, next != id), (0, true));
    assert_eq!(ask(&mut peer, &asking((id, 2), &[], &[])).await.0, 70);
    // One without partitions is none.
    assert_eq!(ask(&mut peer, &asking((next, 1), &[], &[0])).await, (0, 0, vec![]));
    assert_eq!(ask(&mut peer, &asking((next, 2), &[], &[])).await.0, 70);
    // A full request outside of it ends it.
    let (_, id, _) = ask(&mut peer, &asking((0, 0), &[(0, 0)], &[])).await;
    assert_eq!(ask(&mut peer, &asking((id, -1), &[(1, 0)], &[])).await, (0, 0, vec![(1, 0, 0)]));
    assert_eq!(ask(&mut peer, &asking((id, 1), &[], &[])).await.0, 70);
    service.stop().await;
}

#[tokio::test]
async fn a_session_of_a_reader_of_committed_records_hears_of_the_end_of_a_transaction() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)])).await;
    let mut peer = Peer::new(&service).await;
    let hub = service.namespace().hub("Events").unwrap();
    let log = hub.partitions()[0].log();
    let now = || SystemTime::now().into();
    let committed =
        |session, partitions: &[(i32, i64)]| asking(session, partitions, &[]).with_isolation_level(1);
    let (_, id, _) = ask(&mut peer, &committed((0, 0), &[(0, 0), (1, 0)])).await;
    let batch = transactional(7, 0, &[b"x"]);
    log.append_record_batch(now(), &RecordBatch::check(&batch).unwrap()).unwrap();
    // The log is longer, and nothing of it is decided.
    assert_eq!(ask(&mut peer, &committed((id, 1), &[])).await, (0, id, vec![(0, 0, 0)]));
    assert_eq!(ask(&mut peer, &committed((id, 2), &[])).await, (0, id, vec![]));
    // Who wants all of it gets it in the same session.
    assert_eq!(ask(&mut peer, &asking((id, 3), &[], &[])).await, (0, id, vec![(0, 0, batch.len())]));
    assert_eq!(ask(&mut peer, &committed((id, 4), &[])).await, (0, id, vec![]));
    peer.send(ApiKey::Fetch, 12, &committed((id, 5), &[]).with_max_wait_ms(600_000).with_min_bytes(1)).await;
    let end = TransactionEnd::Commit;
    let marker = TransactionMarker { producer_id: 7, producer_epoch: 0, end, coordinator_epoch: 0 };
    log.end_transaction(now(), &marker).unwrap().unwrap();
    let (error, session, partitions) = heard(&mut peer).await;
    let [(index, partition_error, length)] = partitions[..] else { panic!("{partitions:?}") };
    assert_eq!((error, session, index, partition_error), (0, id, 0, 0));
    assert!(length > batch.len(), "with the marker");
    service.stop().await;
}

#[tokio::test]
async fn without_a_session_places_are_found_in_whatever_order_they_are_asked_for() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 4)])).await;
    let (mut peer, mut writer) = (Peer::new(&service).await, Peer::new(&service).await);
    let length = batch(&[b"x"]).len();
    let mut offsets = [0_i64; 4];
    for turn in 0..20 {
        for index in 0..4 {
            writer.produce(&produce("Events", index, batch(&[b"x"]))).await;
        }
        // As librdkafka has it: each time another one first; and now and then one is not asked for.
        let asked: Vec<_> = (0..4)
            .map(|place| (place + turn) % 4)
            .filter(|index| turn % 3 != 0 || *index != 2)
            .map(|index| (index as i32, offsets[index]))
            .collect();
        let (error, id, partitions) = ask(&mut peer, &asking((0, -1), &asked, &[])).await;
        assert_eq!((error, id), (0, 0));
        let expected: Vec<_> = asked
            .iter()
            .map(|(index, offset)| (*index, 0, (turn as i64 + 1 - offset) as usize * length))
            .collect();
        assert_eq!(partitions, expected);
        asked.iter().for_each(|(index, _)| offsets[*index as usize] = turn as i64 + 1);
    }
    // One that goes back is served from there.
    let (_, _, partitions) = ask(&mut peer, &asking((0, -1), &[(0, 5)], &[])).await;
    assert_eq!(partitions, [(0, 0, 15 * length)]);
    service.stop().await;
}

#[tokio::test]
async fn a_partition_that_is_named_twice_is_fetched_once_from_where_it_was_named_last() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)])).await;
    let (mut peer, mut writer) = (Peer::new(&service).await, Peer::new(&service).await);
    for index in [0, 1, 1] {
        writer.produce(&produce("Events", index, batch(&[b"x"]))).await;
    }
    let length = batch(&[b"x"]).len();
    let named = [(1, 0), (0, 0), (1, 1), (0, 0)];
    let once = vec![(1, 0, length), (0, 0, length)];
    assert_eq!(ask(&mut peer, &asking((0, -1), &named, &[])).await, (0, 0, once));
    // In a session as well.
    let (_, id, partitions) = ask(&mut peer, &asking((0, 0), &[(0, 0), (0, 1)], &[])).await;
    assert_eq!(partitions, [(0, 0, 0)]);
    let request = asking((id, 1), &[(1, 2), (1, 0), (1, 1)], &[]);
    assert_eq!(ask(&mut peer, &request).await, (0, id, vec![(1, 0, length)]));
    service.stop().await;
}

#[tokio::test]
async fn a_topic_is_found_by_its_id_until_it_is_deleted() {
    let hubs = (0..100).map(|number| HubConfig::new(format!("hub{number}"), 1)).collect();
    let service = start(NamespaceConfig::with_hubs(hubs)).await;
    let namespace = service.namespace();
    let mut peer = Peer::new(&service).await;
    let hub = namespace.hub("hub42").unwrap();
    namespace.grow_hub("hub42", 3).unwrap();
    let error_of = async |peer: &mut Peer, index| {
        let partition = FetchPartition::default().with_partition(index).with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default()
            .with_topic_id(id_text(&hub.id()).parse().unwrap())
            .with_partitions(vec![partition]);
        let request = FetchRequest::default().with_max_bytes(1 << 20).with_topics(vec![topic]);
        let answer: FetchResponse = peer.ask(ApiKey::Fetch, 13, &request).await;
        answer.responses[0].partitions[0].error_code
    };
    assert_eq!([error_of(&mut peer, 2).await, error_of(&mut peer, 3).await], [0, 3]);
    namespace.delete_hub("hub42").unwrap();
    assert_eq!(error_of(&mut peer, 2).await, 100);
    service.stop().await;
}
