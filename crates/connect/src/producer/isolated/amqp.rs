//! An isolated send over AMQP.
//!
//! ```text
//!   connect ─▶ TLS ─▶ SASL header, init ─▶ open + begin + attach, attach ($cbs) ─▶ put-token ─▶ attach ─▶ transfer ─▶ close
//!   └─ one ──┘       └─── two ────────┘    └────────── one round trip ─────────┘   └─ one ──┘  └ one ─┘  └─ one ──┘  └ one ┘
//! ```
//!
//! The link for the event comes after the answer to the token: the service refuses one that comes before.

use std::future::poll_fn;
use std::task::Poll;

use amqp::Connection;
use amqp::connection::{Event, LinkId, NewDelivery, SaslClient, SessionId};
use amqp::message::FORMAT_AMQP;
use amqp::performative::{DeliveryState, ErrorCondition};
use amqp_tokio::Driver;
use tokio::time::Instant;

use super::{Course, Stage};
use crate::producer::failure::{Fate, SendFailure};
use crate::service::error::{NO_ANSWER, PROTOCOL};
use crate::service::{Endpoint, RequestPair, ServiceError, claim, sender_options};

/// Sends one encoded message.
pub(super) async fn send(
    endpoint: &Endpoint,
    partition: Option<u32>,
    message: &[u8],
    course: &mut Course,
) -> Result<(), SendFailure> {
    let stream = endpoint.dial_in_stages(|| course.enter(Stage::Tls)).await?;
    course.enter(Stage::Sasl);
    let engine = Connection::client(endpoint.config(), SaslClient::Anonymous, Instant::now().into_std());
    let mut driver = Driver::new(engine, stream);
    authenticated(&mut driver).await?;

    course.enter(Stage::Open);
    let connection = driver.connection();
    let too_few = || ServiceError::of_connection(PROTOCOL, "the service accepts no session");
    let session = connection.begin_session().ok_or_else(too_few)?;
    let mut claims = RequestPair::attach(connection, session, "$cbs", &endpoint.container_id)?;
    opened(&mut driver).await?;

    course.enter(Stage::Claims);
    for request in claim(endpoint).await?.requests {
        claims.exchange(&mut driver, &request).await?;
    }

    course.enter(Stage::Attach);
    let link = attached(&mut driver, session, endpoint, partition).await?;

    course.enter(Stage::Send);
    let delivery = NewDelivery { tag: &[0], format: FORMAT_AMQP, settled: false };
    let mut sender = driver.connection().sender(link).ok_or_else(|| ServiceError::of_detach(None))?;
    let no_credit = |error: amqp::connection::SendError| {
        ServiceError::of_connection(PROTOCOL, format!("the service lets nothing be sent: {error}"))
    };
    let delivery = sender.send(&delivery, &[message]).map_err(no_credit)?;
    course.is_sent = true;
    let refused = acknowledged(&mut driver, link, delivery).await?;

    course.enter(Stage::Close);
    driver.connection().close(None);
    // The event has its outcome, however the end goes.
    while !matches!(driver.next_event().await, Ok(Event::Closed(_)) | Err(_)) {}
    course.end();
    refused.map_or(Ok(()), Err)
}

/// Waits until the service has taken the login.
async fn authenticated(driver: &mut Driver) -> Result<(), ServiceError> {
    poll_fn(|context| {
        loop {
            if driver.connection().has_sent_open() {
                return Poll::Ready(Ok(()));
            }
            if let Some(Event::Closed(error)) = driver.connection().poll_event() {
                return Poll::Ready(Err(unanswered(error)));
            }
            match driver.poll_drive(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    let closed = driver.connection().poll_event();
                    return Poll::Ready(Err(match closed {
                        Some(Event::Closed(Some(error))) => error.into(),
                        _ => error.into(),
                    }));
                }
            }
        }
    })
    .await
}

/// Waits until the service has opened the connection. What answers the frames behind ours is for those who wait for it.
async fn opened(driver: &mut Driver) -> Result<(), ServiceError> {
    loop {
        match driver.next_event().await? {
            Event::Opened(_) => return Ok(()),
            Event::Closed(error) => return Err(unanswered(error)),
            _ => {}
        }
    }
}

/// Attaches the link for the event, and waits for its credit.
async fn attached(
    driver: &mut Driver,
    session: SessionId,
    endpoint: &Endpoint,
    partition: Option<u32>,
) -> Result<LinkId, ServiceError> {
    let entity = &endpoint.options.entity;
    let node = match partition {
        Some(partition) => format!("{entity}/Partitions/{partition}"),
        None => entity.clone(),
    };
    let name = format!("{}-{node}", endpoint.container_id);
    let options = sender_options(name, &node);
    let no_room = || ServiceError::of_connection(PROTOCOL, "the service accepts no more links");
    let link = driver.connection().attach_sender(session, options).ok_or_else(no_room)?;
    loop {
        match driver.next_event().await? {
            Event::Credit(id) if id == link => return Ok(link),
            Event::LinkDetached { link: id, error } if id == link => {
                return Err(ServiceError::of_detach(error));
            }
            Event::SessionEnded { error, .. } => return Err(ServiceError::of_detach(error)),
            Event::Closed(error) => return Err(ServiceError::of_close(error)),
            _ => {}
        }
    }
}

/// Waits for the outcome of a delivery: none if it was accepted. An error is that of the connection.
async fn acknowledged(
    driver: &mut Driver,
    link: LinkId,
    delivery: u32,
) -> Result<Option<SendFailure>, ServiceError> {
    loop {
        match driver.next_event().await? {
            Event::Outcome { first, last, state, .. }
                if delivery.wrapping_sub(first) <= last.wrapping_sub(first) =>
            {
                let error = match state {
                    Some(DeliveryState::Accepted) => return Ok(None),
                    Some(DeliveryState::Rejected(Some(error))) => ServiceError::from(error),
                    _ => ServiceError::of_condition(
                        &ErrorCondition::INTERNAL_ERROR,
                        "the service did not accept the event",
                    ),
                };
                let refused = SendFailure::not_sent(error);
                return Ok(Some(SendFailure { fate: Fate::Refused, ..refused }));
            }
            Event::LinkDetached { link: id, error } if id == link => {
                return Err(ServiceError::of_detach(error));
            }
            Event::SessionEnded { error, .. } => return Err(ServiceError::of_detach(error)),
            Event::Closed(error) => return Err(ServiceError::of_close(error)),
            _ => {}
        }
    }
}

fn unanswered(error: Option<amqp::connection::ConnectionError>) -> ServiceError {
    let silent =
        || ServiceError::of_connection(NO_ANSWER, "the service closed the connection without an answer");
    error.map_or_else(silent, ServiceError::from)
}
