//! Requests and replies: `$cbs` (authorisation) and `$management` (properties).
//!
//! A client attaches a link to send requests and one to receive replies. A reply goes to the link whose target the
//! request names, else to the reply link of the same session and node, and repeats the request's message id with its
//! type.

use std::time::SystemTime;

use access::Right;
use amqp::message::{MessageView, Properties, encode};
use amqp::{DecodeError, Value};

use crate::UnixTime;
use crate::namespace::{AuthorizationError, Claims, Hub, Namespace};

/// A node that answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestNode {
    /// Puts tokens.
    Cbs,
    /// Reads properties.
    Management,
}

/// An answer, and where the client wants it.
#[derive(Debug)]
pub(super) struct Reply {
    /// The target address of the link that it is for, if the request names one.
    pub(super) reply_to: Option<String>,
    /// The encoded message.
    pub(super) message: Vec<u8>,
}

/// The outcome of a request, as HTTP would number it.
struct Answer {
    status: i32,
    description: String,
    body: Value,
}

impl Answer {
    fn error(status: i32, description: impl Into<String>) -> Self {
        Self {
            status,
            description: description.into(),
            body: Value::Null,
        }
    }
}

impl RequestNode {
    /// Carries out a request.
    ///
    /// # Errors
    /// If the request cannot even be read.
    pub(super) fn answer(
        self,
        namespace: &Namespace,
        claims: &mut Claims,
        request: &[u8],
        now: SystemTime,
    ) -> Result<Reply, DecodeError> {
        let view = MessageView::parse(request)?;
        let properties = view.properties()?.unwrap_or_default();
        let answer = match self {
            Self::Cbs => put_token(namespace, claims, &view, now)?,
            Self::Management => read(namespace, claims, &view, now)?,
        };
        let mut message = Vec::new();
        let reply = Properties {
            correlation_id: properties.message_id,
            ..Properties::default()
        };
        reply.encode(&mut message);
        encode::application_properties(
            &mut message,
            &[
                ("status-code", Value::Int(answer.status)),
                ("status-description", Value::String(answer.description)),
            ],
        );
        encode::value(&mut message, &answer.body);
        Ok(Reply {
            reply_to: properties.reply_to,
            message,
        })
    }
}

fn put_token(
    namespace: &Namespace,
    claims: &mut Claims,
    request: &MessageView<'_>,
    now: SystemTime,
) -> Result<Answer, DecodeError> {
    let text = |name| text_property(request, name);
    if text("operation")?.as_deref() != Some("put-token") {
        return Ok(Answer::error(400, "The operation is not put-token."));
    }
    let kind = text("type")?.unwrap_or_default();
    if kind != SHARED_ACCESS_TOKEN {
        return Ok(Answer::error(
            400,
            format!("Tokens of type '{kind}' are not supported, only {SHARED_ACCESS_TOKEN}."),
        ));
    }
    let Some(audience) = text("name")? else {
        return Ok(Answer::error(
            400,
            "The property 'name' with the audience is missing.",
        ));
    };
    let body = request.value()?;
    let Some(token) = body.as_ref().and_then(Value::as_text) else {
        return Ok(Answer::error(400, "The body is not a token."));
    };
    let granted = namespace
        .authorize_token(token, &audience, now)
        .and_then(|claim| claims.add(&claim, now));
    Ok(match granted {
        Ok(()) => Answer {
            status: 202,
            description: "Accepted".to_owned(),
            body: Value::Null,
        },
        Err(error) => Answer::error(status_of(&error), error.to_string()),
    })
}

fn status_of(error: &AuthorizationError) -> i32 {
    match error {
        AuthorizationError::NotFound { .. } => 404,
        AuthorizationError::TooManyClaims => 403,
        _ => 401,
    }
}

fn read(
    namespace: &Namespace,
    claims: &mut Claims,
    request: &MessageView<'_>,
    now: SystemTime,
) -> Result<Answer, DecodeError> {
    let text = |name| text_property(request, name);
    if text("operation")?.as_deref() != Some("READ") {
        return Ok(Answer::error(400, "The operation is not READ."));
    }
    let name = text("name")?.unwrap_or_default();
    if !may_read(
        namespace,
        claims,
        &name,
        text("security_token")?.as_deref(),
        now,
    ) {
        return Ok(Answer::error(
            401,
            format!(
                "Unauthorized access. 'Listen' or 'Send' claim(s) are required to perform this operation. \
                 Resource: 'sb://{}/{name}'.",
                namespace.host()
            ),
        ));
    }
    let Some(hub) = namespace.hub(&name) else {
        return Ok(Answer::error(404, not_found(namespace, &name)));
    };
    let kind = text("type")?.unwrap_or_default();
    Ok(match kind.as_str() {
        "com.microsoft:eventhub" => ok(hub_properties(&hub)),
        "com.microsoft:partition" => {
            let id = text("partition")?.unwrap_or_default();
            match partition_properties(&hub, &id, now) {
                Some(body) => ok(body),
                None => Answer::error(
                    400,
                    format!("The specified partition '{id}' is invalid for an EventHub partition."),
                ),
            }
        }
        _ => Answer::error(400, format!("The entity type '{kind}' is not known.")),
    })
}

/// Whoever may send or receive may read properties. Some clients show their token with the request instead of
/// putting it first.
fn may_read(
    namespace: &Namespace,
    claims: &Claims,
    hub: &str,
    token: Option<&str>,
    now: SystemTime,
) -> bool {
    let rights = [Right::Listen, Right::Send, Right::Manage];
    if rights.iter().any(|right| claims.allows(hub, *right, now)) {
        return true;
    }
    let Some(token) = token else { return false };
    let audience = format!("sb://{}/{hub}", namespace.host());
    match namespace.authorize_token(token, &audience, now) {
        Ok(claim) => !claim.rights.is_empty(),
        // The token is good; that the hub is missing is said by the answer.
        Err(AuthorizationError::NotFound { .. }) => true,
        Err(_) => false,
    }
}

/// The text by which clients tell a missing entity from other errors; part of it is looked for.
pub(super) fn not_found(namespace: &Namespace, path: &str) -> String {
    format!(
        "The messaging entity 'sb://{}/{path}' could not be found.",
        namespace.host()
    )
}

fn ok(body: Value) -> Answer {
    Answer {
        status: 200,
        description: "OK".to_owned(),
        body,
    }
}

fn hub_properties(hub: &Hub) -> Value {
    let ids = hub
        .partitions()
        .iter()
        .map(|partition| Value::String(partition.id().to_string()))
        .collect();
    map([
        ("name", hub.name().into()),
        ("type", "com.microsoft:eventhub".into()),
        (
            "created_at",
            Value::Timestamp(hub.created_at().milliseconds()),
        ),
        ("partition_count", Value::Int(hub.partitions().len() as i32)),
        ("partition_ids", Value::Array(ids)),
        ("georeplication_factor", Value::Int(1)),
    ])
}

fn partition_properties(hub: &Hub, id: &str, now: SystemTime) -> Option<Value> {
    let stats = hub.partition(id)?.log().stats();
    let last = stats
        .last_sequence_number
        .map_or(-1, |number| number.cast_signed());
    let time = stats.last_append_time.map_or(0, UnixTime::milliseconds);
    Some(map([
        ("name", hub.name().into()),
        ("partition", id.into()),
        ("type", "com.microsoft:partition".into()),
        (
            "begin_sequence_number",
            Value::Long(stats.begin_sequence_number.cast_signed()),
        ),
        ("last_enqueued_sequence_number", Value::Long(last)),
        ("last_enqueued_sequence_number_epoch", Value::Int(0)),
        ("last_enqueued_offset", Value::String(last.to_string())),
        ("last_enqueued_time_utc", Value::Timestamp(time)),
        ("is_partition_empty", Value::Boolean(stats.is_empty)),
        (
            "runtime_info_retrieval_time_utc",
            Value::Timestamp(UnixTime::from(now).milliseconds()),
        ),
    ]))
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(
        entries
            .into_iter()
            .map(|(key, value)| (Value::from(key), value))
            .collect(),
    )
}

fn text_property(request: &MessageView<'_>, name: &str) -> Result<Option<String>, DecodeError> {
    let value = request.application_properties()?.find(name)?;
    Ok(value.as_ref().and_then(Value::as_text).map(str::to_owned))
}

const SHARED_ACCESS_TOKEN: &str = "servicebus.windows.net:sastoken";
