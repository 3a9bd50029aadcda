//! An isolated send over the REST interface: a connection, a request, and the end of the connection.

use std::future::poll_fn;

use super::{Course, Stage};
use crate::http::{HttpConnection, HttpFailure};
use crate::producer::failure::{Fate, SendFailure};
use crate::producer::lane::Place;
use crate::producer::outlet::Requests;

/// Sends one encoded event.
pub(super) async fn send(
    mut requests: Requests,
    partition: Option<u32>,
    event: &[u8],
    course: &mut Course,
) -> Result<(), SendFailure> {
    requests.ask_for_token().await?;
    let stream = requests.endpoint().dial_in_stages(|| course.enter(Stage::Tls)).await?;
    course.enter(Stage::Send);
    let mut connection = HttpConnection::over(stream);
    let place = partition.map_or(Place::Entity, Place::Partition);
    let mut request = Vec::new();
    requests.write_event(&mut request, &place, event);
    course.is_sent = true;
    let sent = poll_fn(|context| connection.poll_exchange(context, &request)).await;
    course.enter(Stage::Close);
    drop(connection);
    course.end();
    sent.map_err(|HttpFailure { error, is_refused, is_sent }| {
        course.is_sent = is_sent;
        let fate = if is_refused { Fate::Refused } else { Fate::Unknown };
        SendFailure { fate, ..SendFailure::not_sent(error) }
    })
}
