//! Blobs behind a service profile: its network, and the times of its containers.

use std::time::{Duration, Instant};

use hub::service::Service;

use crate::blob::client::signed;
use crate::blob::{BLOCK, config};

#[tokio::test]
async fn a_profile_delays_blobs_by_the_network_and_by_the_time_of_their_container() {
    let mut config = config();
    let profile = r#"{"round_trip": "4 ms", "service_time": {"containers": {"box": "9 ms"}}}"#;
    config.namespace.profile = serde_json::from_str(profile).expect("a profile");
    let service = Service::start(config).await.expect("the configuration is good");
    let began = Instant::now();
    let written = signed(&service, "PUT", "/box/a", &[BLOCK], b"content").await;
    assert_eq!(written.status, 201);
    assert!(began.elapsed() >= Duration::from_millis(4 + 9), "{:?}", began.elapsed());
    service.stop().await;
}

#[tokio::test]
async fn connections_for_blobs_break_as_often_as_the_profile_says() {
    let mut config = config();
    let profile = r#"{"failures": {"disconnect_per_s": 1000000}}"#;
    config.namespace.profile = serde_json::from_str(profile).expect("a profile");
    let service = Service::start(config).await.expect("the configuration is good");
    let mut socket = crate::blob::connect(&service).await;
    // The client sees a reset, or the end of the stream.
    let read = tokio::io::AsyncReadExt::read(&mut socket, &mut [0; 16]).await;
    assert_eq!(read.unwrap_or(0), 0);
    let counters = service.namespace().profile().counters().expect("there is one");
    assert!(counters.disconnects >= 1);
    service.stop().await;
}
