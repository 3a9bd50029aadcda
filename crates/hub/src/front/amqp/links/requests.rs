//! Requests and replies: `$cbs` puts tokens, and `$management` is in `event_hubs::management`.
//!
//! A client attaches a link to send requests and one to receive replies. A reply goes to the link whose target or name the
//! request names, else to the reply link of the same session and node, and repeats the request's message id with its
//! type.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::SystemTime;

use access::token::TokenError;
use access::{Right, VerificationError};
use amqp::Connection;
use amqp::message::{MessageView, Properties, encode};
use amqp::performative::{Error, ErrorCondition};
use amqp::{DecodeError, Value};

use super::LinkEntry;
use crate::front::amqp::event_hubs::management;
use crate::front::amqp::service_bus::{self, Enlisting, LockedSession, ManagedEntity, TransactionWork};
use crate::front::pending::OUTCOME_UNKNOWN;
use crate::namespace::{AuthorizationError, Claims, Namespace};
use partition_log::disk::CommitNumber;
use queue_store::{Queue, SessionLock};

/// A node that answers requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestNode {
    /// Puts tokens.
    Cbs,
    /// Tells of hubs, creates and deletes them.
    Management,
    /// Does what is asked of a queue, a topic or a subscription.
    Entity(Arc<ManagedEntity>),
}

/// What a request is carried out with.
pub(crate) struct RequestContext<'a> {
    pub(crate) namespace: &'a Namespace,
    /// Host name that the client uses for the service.
    pub(crate) host: &'a str,
    pub(crate) claims: &'a mut Claims,
    pub(crate) now: SystemTime,
    pub(crate) connection: &'a Connection,
    /// The links of the connection: some requests are about what one of them has locked.
    pub(crate) links: &'a [Option<LinkEntry>],
    /// The transaction that the request is part of, and how entities are enlisted.
    pub(crate) transaction: Option<(&'a mut TransactionWork, Enlisting)>,
}

/// An answer, and where the client wants it.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The target address of the link that it is for, if the request names one.
    pub(crate) reply_to: Option<String>,
    /// The encoded message.
    pub(crate) message: Vec<u8>,
}

/// A reply that may have to wait.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) reply: Reply,
    /// The commit that it waits for, and the reply if that fails.
    pub(crate) commit: Option<(CommitNumber, Reply)>,
    /// The name of the entity that the request was about, if it was about one.
    pub(crate) entity: Option<String>,
    /// Whether it was granted to a client that has the right to it.
    pub(crate) is_granted: bool,
}

/// The outcome of a request, as HTTP would number it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) description: String,
    pub(crate) body: Value,
    /// What kind of failure it is, where the status does not say enough.
    pub(crate) condition: Option<ErrorCondition>,
    /// What the answer has to wait for.
    pub(crate) commit: CommitNumber,
}

impl Answer {
    /// A refusal, with its reason for a person.
    pub(crate) fn error(status: i32, description: impl Into<String>) -> Self {
        Self {
            status,
            description: description.into(),
            body: Value::Null,
            condition: None,
            commit: CommitNumber::DONE,
        }
    }

    /// A refusal of this kind.
    pub(crate) fn failed(status: i32, condition: ErrorCondition, description: impl Into<String>) -> Self {
        Self { condition: Some(condition), body: Value::Map(Vec::new()), ..Self::error(status, description) }
    }

    /// A success, and what was asked for.
    pub(crate) fn granted(status: i32, body: Value) -> Self {
        let description = match status {
            201 => "Created",
            202 => "Accepted",
            204 => "No Content",
            _ => "OK",
        };
        Self { body, ..Self::error(status, description) }
    }

    /// The same, not before this commit is done.
    pub(crate) fn after(self, commit: CommitNumber) -> Self {
        Self { commit, ..self }
    }

    fn encode(self, node: &RequestNode, properties: &Properties) -> Reply {
        let mut message = Vec::new();
        let reply = Properties { correlation_id: properties.message_id.clone(), ..Properties::default() };
        reply.encode(&mut message);
        let condition = self.condition.or_else(|| usual_condition(self.status));
        let mut entries = vec![
            ("status-code", Value::Int(self.status)),
            ("status-description", Value::String(self.description.clone())),
        ];
        let condition = condition.map(|condition| Value::Symbol(condition.as_str().into()));
        if let Some(condition) = condition.clone().filter(|_| *node != RequestNode::Cbs) {
            entries.push(("error-condition", condition));
        }
        // Clients of queues look for other spellings.
        if let RequestNode::Entity(_) = node {
            entries.push(("statusCode", Value::Int(self.status)));
            entries.push(("statusDescription", Value::String(self.description)));
            entries.extend(condition.map(|condition| ("errorCondition", condition)));
        }
        encode::application_properties(&mut message, &entries);
        encode::value(&mut message, &self.body);
        Reply { reply_to: properties.reply_to.clone(), message }
    }
}

impl RequestNode {
    /// Refuses a request without looking at what it asks for.
    ///
    /// # Errors
    /// If the request cannot even be read.
    pub(crate) fn refuse(&self, request: &[u8], error: Error) -> Result<Reply, DecodeError> {
        let properties = MessageView::parse(request)?.properties()?.unwrap_or_default();
        Ok(Answer::failed(400, error.condition, error.description).encode(self, &properties))
    }

    /// Carries out a request.
    ///
    /// # Errors
    /// If the request cannot even be read.
    pub(crate) fn answer(
        &self,
        context: RequestContext<'_>,
        request: &[u8],
    ) -> Result<Answered, DecodeError> {
        let view = MessageView::parse(request)?;
        let properties = view.properties()?.unwrap_or_default();
        let RequestContext { namespace, host, claims, now, connection, links, transaction } = context;
        let session_lock =
            &|queue: &Arc<Queue>, session: LockedSession<'_>| held_session(links, connection, queue, session);
        let answer = match self {
            Self::Cbs | Self::Management if transaction.is_some() => {
                Answer::error(501, "A request to this node can't be part of a transaction.")
            }
            Self::Cbs => put_token(namespace, claims, &view, now)?,
            Self::Management => management::answer((namespace, host), claims, &view, now)?,
            Self::Entity(entity) => {
                let transaction = transaction.map(|(work, enlisting)| (RefCell::new(work), enlisting));
                let request =
                    service_bus::Request { namespace, host, claims, entity, now, session_lock, transaction };
                request
                    .answer(&view)
                    .unwrap_or_else(|error| Answer::error(400, format!("The request is malformed: {error}.")))
            }
        };
        let commit = Some(answer.commit).filter(|commit| !commit.is_done());
        let commit =
            commit.map(|commit| (commit, Answer::error(408, OUTCOME_UNKNOWN).encode(self, &properties)));
        let entity = match self {
            Self::Cbs => None,
            Self::Management => text_property(&view, "name")?,
            Self::Entity(entity) => Some(entity.name().to_owned()),
        };
        let is_granted = answer.status < 400;
        Ok(Answered { reply: answer.encode(self, &properties), commit, entity, is_granted })
    }
}

/// The lock of a session of `queue` that one of the links holds.
fn held_session(
    links: &[Option<LinkEntry>],
    connection: &Connection,
    queue: &Arc<Queue>,
    session: LockedSession<'_>,
) -> Option<SessionLock> {
    let found = links.iter().flatten().find_map(|entry| {
        let lock = entry.node.session_lock(queue)?;
        let is_meant = match session {
            LockedSession::Id(id) => lock.id() == id,
            LockedSession::Link(name) => connection.link_name(entry.id) == Some(name),
        };
        is_meant.then_some(lock)
    });
    found.cloned()
}

/// What a status means where nothing more is known; clients guess worse.
fn usual_condition(status: i32) -> Option<ErrorCondition> {
    if status < 400 {
        return None;
    }
    Some(match status {
        401 => ErrorCondition::UNAUTHORIZED_ACCESS,
        403 => ErrorCondition::RESOURCE_LIMIT_EXCEEDED,
        404 => ErrorCondition::NOT_FOUND,
        408 => ErrorCondition::TIMEOUT,
        409 => ErrorCondition::ENTITY_ALREADY_EXISTS,
        503 => ErrorCondition::SERVER_BUSY,
        500.. => ErrorCondition::INTERNAL_ERROR,
        _ => ErrorCondition::ARGUMENT_ERROR,
    })
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
    // Some clients call a shared access signature a JSON Web Token; what it is shows when it is read.
    let kind = text("type")?.unwrap_or_default();
    if kind != SHARED_ACCESS_TOKEN && kind != JSON_WEB_TOKEN {
        return Ok(Answer::error(
            400,
            format!("Tokens of type '{kind}' are not supported, only {SHARED_ACCESS_TOKEN}."),
        ));
    }
    let Some(audience) = text("name")? else {
        return Ok(Answer::error(400, "The property 'name' with the audience is missing."));
    };
    let body = request.value()?;
    let Some(token) = body.as_ref().and_then(Value::as_text) else {
        return Ok(Answer::error(400, "The body is not a token."));
    };
    let token_now = namespace.clock().token_now_at(now);
    let granted = namespace
        .authorize_token(token, &audience, token_now)
        .and_then(|proven| proven.iter().try_for_each(|claim| claims.add(claim, token_now)));
    Ok(match granted {
        Ok(()) => Answer::granted(202, Value::Null),
        Err(error) => Answer::error(status_of(&error), description_of(&error)),
    })
}

/// What a client is told of its token: the service's words, which people look for, where there are any.
fn description_of(error: &AuthorizationError) -> String {
    match error {
        AuthorizationError::Refused(VerificationError::Expired { expired_at }) => expired(*expired_at),
        AuthorizationError::Refused(VerificationError::WrongSignature) => {
            "InvalidSignature: The token has an invalid signature.".to_owned()
        }
        AuthorizationError::Bearer(error) => bearer_refusal(error),
        AuthorizationError::Audience { signed, audience } => format!(
            "InvalidAudience: The authorization header contains a token with a wrong audience: \
             it is for '{signed}' and does not cover '{audience}'."
        ),
        other => format!("{other}."),
    }
}

/// The same of a bearer token.
pub(crate) fn bearer_refusal(error: &TokenError) -> String {
    match error {
        TokenError::Expired { expired_at } => expired(*expired_at),
        TokenError::WrongSignature | TokenError::UnknownKey { .. } | TokenError::Algorithm { .. } => {
            format!("InvalidSignature: The token has an invalid signature: {error}.")
        }
        TokenError::Issuer { .. } => format!("InvalidIssuer: The token has an invalid issuer: {error}."),
        TokenError::Audience { .. } => format!(
            "InvalidAudience: The authorization header contains a token with a wrong audience: {error}."
        ),
        TokenError::NoRole { .. } => format!(
            "Unauthorized access. 'Send', 'Listen' or 'Manage' claim(s) are required to perform this operation: {error}."
        ),
        TokenError::KeysPending => format!("The server is busy: {error}."),
        TokenError::TooLong { .. } | TokenError::Malformed(_) | TokenError::NotYetValid { .. } => {
            format!("MalformedToken: The token is not valid: {error}.")
        }
    }
}

fn expired(at: SystemTime) -> String {
    let time = units::date::iso_date(at).replacen('T', " ", 1);
    format!("ExpiredToken: The token is expired. Expiration time: '{time}'.")
}

fn status_of(error: &AuthorizationError) -> i32 {
    match error {
        AuthorizationError::NotFound { .. } => 404,
        AuthorizationError::TooManyClaims => 403,
        AuthorizationError::Bearer(TokenError::KeysPending) => 503,
        _ => 401,
    }
}

/// The text by which clients tell a missing entity from other errors; part of it is looked for.
pub(crate) fn not_found(host: &str, path: &str) -> String {
    format!("The messaging entity 'sb://{host}/{path}' could not be found.")
}

/// What a client is told that lacks all of `rights` on `path`, in the words of the service.
pub(crate) fn claims_required(host: &str, rights: &[Right], path: &str) -> String {
    let names: Vec<String> = rights.iter().map(|right| format!("'{}'", right.name())).collect();
    format!(
        "Unauthorized access. {} claim(s) are required to perform this operation. Resource: 'sb://{host}/{path}'.",
        names.join(" or "),
    )
}

/// An application property that is a text.
pub(crate) fn text_property(request: &MessageView<'_>, name: &str) -> Result<Option<String>, DecodeError> {
    let value = request.application_properties()?.find(name)?;
    Ok(value.as_ref().and_then(Value::as_text).map(str::to_owned))
}

const JSON_WEB_TOKEN: &str = "jwt";
const SHARED_ACCESS_TOKEN: &str = "servicebus.windows.net:sastoken";
