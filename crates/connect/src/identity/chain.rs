//! The chain of `DefaultAzureCredential`: who is asked for a token, in which order, and when the search ends.
//!
//! | member | asked if | when it is asked and fails |
//! |---|---|---|
//! | `EnvironmentCredential` | `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and `AZURE_CLIENT_SECRET` are set | the search ends |
//! | `WorkloadIdentityCredential` | `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and `AZURE_FEDERATED_TOKEN_FILE` are set | the search ends |
//! | `ManagedIdentityCredential` | `IDENTITY_ENDPOINT` is set, or the machine's own endpoint answers | the search ends |
//! | `AzureCliCredential` | always: `az account get-access-token` | the next one is asked |
//! | `AzureDeveloperCliCredential` | always: `azd auth token` | the next one is asked |
//!
//! The member that gave the first token gives all that follow. `AZURE_TOKEN_CREDENTIALS` names one member, or `prod` for the first three, or
//! `dev` for the others. `AZURE_AUTHORITY_HOST` is the authority instead of Microsoft's.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::error::ErrorKind;
use azure_core::http::{
    ClientOptions, ExponentialRetryOptions, HttpClient as _, Method, Request, RetryOptions, StatusCode,
    Transport, Url,
};
use azure_identity::{
    AzureCliCredential, AzureDeveloperCliCredential, ClientAssertionCredentialOptions,
    ClientSecretCredential, ClientSecretCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId, WorkloadIdentityCredential,
    WorkloadIdentityCredentialOptions,
};

use super::IdentityOptions;
use super::environment::Environment;
use super::error::{IdentityError, MemberFailure};
use super::token::BearerToken;
use crate::azure_transport::HyperTransport;
use crate::hyper_client::causes;

/// The members of a chain.
#[derive(Debug)]
pub(super) struct Chain {
    members: Vec<Member>,
    /// The place of the one that has given a token.
    found: OnceLock<usize>,
}

/// One that may have a token.
#[derive(Debug)]
struct Member {
    name: &'static str,
    /// Or why it is not asked.
    credential: Result<Arc<dyn TokenCredential>, String>,
    /// Asked first whether there is anybody who could answer.
    probe: Option<HyperTransport>,
    /// Whether nobody else is asked if it is asked and fails.
    is_final: bool,
}

/// What members are made from.
struct Making {
    environment: Environment,
    client: ClientOptions,
    probing: HyperTransport,
}

impl Chain {
    /// The chain for an environment. Members that can't be used are there with the reason.
    pub(super) fn of(options: &IdentityOptions) -> Self {
        let environment = &options.environment;
        let making = match Making::new(options) {
            Ok(making) => making,
            Err(reason) => return Self::refusing("certificate authorities", reason),
        };
        let selection = environment.get(TOKEN_CREDENTIALS);
        let selected = selection.as_deref().map_or("", str::trim).to_ascii_lowercase();
        let is_selected = |kind: &Kind| match selected.as_str() {
            "" => true,
            "prod" => kind.is_deployed,
            "dev" => !kind.is_deployed,
            name => kind.name.eq_ignore_ascii_case(name),
        };
        // One that is asked for by name is asked without looking whether there is anybody.
        let is_chain = matches!(selected.as_str(), "" | "prod" | "dev");
        let members: Vec<Member> = KINDS
            .iter()
            .filter(|kind| is_selected(kind))
            .map(|kind| {
                let mut member = (kind.member)(&making, kind.name);
                if !is_chain {
                    member.probe = None;
                }
                member
            })
            .collect();
        if members.is_empty() {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let reason = format!("{selected:?} is not one of prod, dev, {}", names.join(", "));
            return Self::refusing(TOKEN_CREDENTIALS, reason);
        }
        Self { members, found: OnceLock::new() }
    }

    fn refusing(name: &'static str, reason: String) -> Self {
        let member = Member { name, credential: Err(reason), probe: None, is_final: true };
        Self { members: vec![member], found: OnceLock::new() }
    }

    /// A token from the first member that has one.
    pub(super) async fn token(&self, scope: &str) -> Result<BearerToken, IdentityError> {
        let found = self.found.get().copied();
        let mut error = IdentityError { scope: scope.to_owned(), tried: Vec::new(), is_transient: false };
        let members =
            self.members.iter().enumerate().filter(|(place, _)| found.is_none_or(|it| it == *place));
        for (place, member) in members {
            match member.token(scope, found.is_some()).await {
                Ok(token) => {
                    if self.found.set(place).is_ok() {
                        tracing::info!(by = member.name, "the identity was found");
                    }
                    return Ok(token);
                }
                Err(failure) => {
                    error.tried.push(MemberFailure { name: member.name, reason: failure.reason });
                    error.is_transient |= failure.is_transient;
                    if failure.ends_search {
                        break;
                    }
                }
            }
        }
        Err(error)
    }
}

/// Why a member has no token.
struct Failure {
    reason: String,
    is_transient: bool,
    ends_search: bool,
}

impl Member {
    /// A token, or why there is none and whether others are to be asked.
    async fn token(&self, scope: &str, has_given: bool) -> Result<BearerToken, Failure> {
        let absent = |reason: String| Failure { reason, is_transient: false, ends_search: false };
        let credential = self.credential.as_ref().map_err(|reason| absent(reason.clone()))?;
        if let Some(transport) = self.probe.as_ref().filter(|_| !has_given) {
            probe(transport).await.map_err(absent)?;
        }
        let failed = |reason, is_transient| Failure { reason, is_transient, ends_search: self.is_final };
        let asked = Instant::now();
        match tokio::time::timeout(PATIENCE, credential.get_token(&[scope], None)).await {
            // Its life is counted from when the answer came, and has begun before.
            Ok(Ok(token)) => Ok(BearerToken::new(
                token.token.secret(),
                SystemTime::from(token.expires_on) - asked.elapsed(),
            )),
            Ok(Err(error)) => Err(failed(words(self.name, &error), is_transient(&error))),
            Err(_elapsed) => Err(failed(format!("no answer within {PATIENCE:?}"), true)),
        }
    }
}

/// A kind of member: its name, whether it is of programs that are deployed, and how it is made.
struct Kind {
    name: &'static str,
    is_deployed: bool,
    member: fn(&Making, &'static str) -> Member,
}

const KINDS: [Kind; 5] = [
    Kind { name: "EnvironmentCredential", is_deployed: true, member: Making::environment },
    Kind { name: "WorkloadIdentityCredential", is_deployed: true, member: Making::workload },
    Kind { name: "ManagedIdentityCredential", is_deployed: true, member: Making::managed },
    Kind { name: "AzureCliCredential", is_deployed: false, member: Making::azure_cli },
    Kind { name: "AzureDeveloperCliCredential", is_deployed: false, member: Making::developer_cli },
];

impl Making {
    fn new(options: &IdentityOptions) -> Result<Self, String> {
        let tls = trust::client_config(options.certificate_authority.as_deref())?;
        let authority = options.environment.get("AZURE_AUTHORITY_HOST");
        let cloud = authority.map(|host| {
            let mut custom = CustomConfiguration::default();
            custom.authority_host = host;
            Arc::new(CloudConfiguration::Custom(custom))
        });
        let client = ClientOptions {
            retry: RetryOptions::exponential(ExponentialRetryOptions {
                max_retries: 2,
                ..Default::default()
            }),
            transport: Some(Transport::new(Arc::new(HyperTransport::trusting(&tls, ANSWER_PATIENCE)))),
            cloud,
            ..ClientOptions::default()
        };
        let probing = HyperTransport::trusting(&*trust::without_authorities()?, PROBE_PATIENCE);
        Ok(Self { environment: options.environment.clone(), client, probing })
    }

    /// What is the first of these variables that is not set, if one is.
    fn variables<const N: usize>(&self, names: [&str; N]) -> Result<[String; N], String> {
        let missing = names.iter().find(|name| self.environment.get(name).is_none());
        match missing {
            Some(name) => Err(format!("{name} is not set")),
            None => Ok(names.map(|name| self.environment.get(name).unwrap_or_default())),
        }
    }

    fn environment(&self, name: &'static str) -> Member {
        let certificate = self.environment.get("AZURE_CLIENT_CERTIFICATE_PATH");
        let variables = self.variables(["AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"]);
        let credential = match (variables, certificate) {
            (Err(_), Some(_)) => {
                Err("applications with a certificate are not supported, only those with AZURE_CLIENT_SECRET"
                    .to_owned())
            }
            (Err(reason), None) => Err(reason),
            (Ok([tenant, client, secret]), _) => {
                let options = ClientSecretCredentialOptions { client_options: self.client.clone() };
                made(name, ClientSecretCredential::new(&tenant, client, Secret::new(secret), Some(options)))
            }
        };
        Member { name, credential, probe: None, is_final: true }
    }

    fn workload(&self, name: &'static str) -> Member {
        let variables = self.variables(["AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE"]);
        let credential = variables.and_then(|[tenant, client, file]| {
            let options = WorkloadIdentityCredentialOptions {
                credential_options: ClientAssertionCredentialOptions { client_options: self.client.clone() },
                client_id: Some(client),
                tenant_id: Some(tenant),
                token_file_path: Some(PathBuf::from(file)),
            };
            made(name, WorkloadIdentityCredential::new(Some(options)))
        });
        Member { name, credential, probe: None, is_final: true }
    }

    fn managed(&self, name: &'static str) -> Member {
        let options = ManagedIdentityCredentialOptions {
            user_assigned_id: self.environment.get("AZURE_CLIENT_ID").map(UserAssignedId::ClientId),
            client_options: self.client.clone(),
        };
        let credential = made(name, ManagedIdentityCredential::new(Some(options)));
        let is_told =
            ["IDENTITY_ENDPOINT", "MSI_ENDPOINT"].iter().any(|name| self.environment.get(name).is_some());
        let probe = (!is_told).then(|| self.probing.clone());
        Member { name, credential, probe, is_final: true }
    }

    fn azure_cli(&self, name: &'static str) -> Member {
        Member { name, credential: made(name, AzureCliCredential::new(None)), probe: None, is_final: false }
    }

    fn developer_cli(&self, name: &'static str) -> Member {
        let credential = made(name, AzureDeveloperCliCredential::new(None));
        Member { name, credential, probe: None, is_final: false }
    }
}

fn made<C: TokenCredential + 'static>(
    name: &str,
    credential: azure_core::Result<Arc<C>>,
) -> Result<Arc<dyn TokenCredential>, String> {
    credential.map(|it| it as Arc<dyn TokenCredential>).map_err(|error| words(name, &error))
}

/// Whether a virtual machine's endpoint of managed identities is there. Elsewhere nobody answers, and who waits for that waits long.
async fn probe(transport: &HyperTransport) -> Result<(), String> {
    let url = Url::parse(MACHINE_ENDPOINT).map_err(|error| error.to_string())?;
    let request = Request::new(url, Method::Get);
    // Any answer will do: without its header, requests are refused.
    transport.execute_request(&request).await.map(drop).map_err(|error| {
        format!(
            "IDENTITY_ENDPOINT is not set, and this machine has no endpoint of its own ({})",
            causes(&error)
        )
    })
}

/// What an error says, in one line, without the name that it begins with and the link that it ends with.
fn words(name: &str, error: &azure_core::Error) -> String {
    let text = causes(error);
    let text = text.split("\nTo troubleshoot").next().unwrap_or_default();
    let text = text.strip_prefix(name).unwrap_or(text);
    let text = text.strip_prefix("ClientSecretCredential").unwrap_or(text);
    let text = text.trim_start().strip_prefix("authentication failed.").unwrap_or(text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether an authority may answer the same question otherwise a little later.
fn is_transient(error: &azure_core::Error) -> bool {
    let inner = error.downcast_ref::<azure_core::Error>();
    match inner.unwrap_or(error).kind() {
        ErrorKind::Connection | ErrorKind::Io => true,
        ErrorKind::HttpResponse { status, .. } => {
            u16::from(*status) >= 500
                || matches!(status, StatusCode::RequestTimeout | StatusCode::TooManyRequests)
        }
        _ => false,
    }
}

const TOKEN_CREDENTIALS: &str = "AZURE_TOKEN_CREDENTIALS";

/// Where virtual machines ask for tokens of their identity.
const MACHINE_ENDPOINT: &str = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2019-08-01";

/// That endpoint is on the machine's own network.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// How long one request of a credential may take, and how long a credential with its repetitions.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// What of a message is shown, in characters. Those of Entra ID have some hundred.
const WORDS_MAX: usize = 600;
