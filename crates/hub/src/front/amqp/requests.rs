//! Requests and replies: `$cbs` puts tokens, and `$management` is in `management.rs`.
//!
//! A client attaches a link to send requests and one to receive replies. A reply goes to the link whose target the
//! request names, else to the reply link of the same session and node, and repeats the request's message id with its
//! type.

use std::time::SystemTime;

use amqp::message::{MessageView, Properties, encode};
use amqp::{DecodeError, Value};

use super::management;
use crate::namespace::{AuthorizationError, Claims, Namespace};

/// A node that answers requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestNode {
    /// Puts tokens.
    Cbs,
    /// Tells of entities, creates and deletes them.
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
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: i32,
    pub(super) description: String,
    pub(super) body: Value,
}

impl Answer {
    /// A refusal, with its reason for a person.
    pub(super) fn error(status: i32, description: impl Into<String>) -> Self {
        Self {
            status,
            description: description.into(),
            body: Value::Null,
        }
    }

    /// A success, and what was asked for.
    pub(super) fn granted(status: i32, body: Value) -> Self {
        let description = match status {
            201 => "Created",
            202 => "Accepted",
            204 => "No Content",
            _ => "OK",
        };
        Self {
            status,
            description: description.to_owned(),
            body,
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
            Self::Management => management::answer(namespace, claims, &view, now)?,
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
        Ok(()) => Answer::granted(202, Value::Null),
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

/// The text by which clients tell a missing entity from other errors; part of it is looked for.
pub(super) fn not_found(namespace: &Namespace, path: &str) -> String {
    format!(
        "The messaging entity 'sb://{}/{path}' could not be found.",
        namespace.host()
    )
}

/// An application property that is a text.
pub(super) fn text_property(
    request: &MessageView<'_>,
    name: &str,
) -> Result<Option<String>, DecodeError> {
    let value = request.application_properties()?.find(name)?;
    Ok(value.as_ref().and_then(Value::as_text).map(str::to_owned))
}

const SHARED_ACCESS_TOKEN: &str = "servicebus.windows.net:sastoken";
