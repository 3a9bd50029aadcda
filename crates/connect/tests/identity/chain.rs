//! Which member of the chain is asked, and what is said of those that can't be.

use std::collections::BTreeMap;

use connect::identity::{EVENT_HUBS_SCOPE, IdentityError};

use crate::identity::setting::{Setting, within};

async fn error(setting: &Setting, variables: &[(&str, &str)]) -> IdentityError {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let identity = setting.identity_of(variables.collect::<BTreeMap<_, _>>());
    within(identity.token(EVENT_HUBS_SCOPE)).await.unwrap_err()
}

fn tried(error: &IdentityError) -> Vec<(&str, &str)> {
    error.tried.iter().map(|member| (member.name, member.reason.as_str())).collect()
}

#[tokio::test]
async fn one_member_can_be_chosen_and_says_what_it_misses() {
    let setting = Setting::start(60).await;
    let choice = ("AZURE_TOKEN_CREDENTIALS", "environmentcredential");
    let missing = error(&setting, &[choice]).await;
    assert_eq!(tried(&missing), [("EnvironmentCredential", "AZURE_TENANT_ID is not set")]);
    assert!(!missing.is_transient);
    let certificate = [choice, ("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_CERTIFICATE_PATH", "/a.pem")];
    let reason = error(&setting, &certificate).await.tried[0].reason.clone();
    assert!(reason.starts_with("applications with a certificate are not supported"), "{reason}");
    let unknown = error(&setting, &[("AZURE_TOKEN_CREDENTIALS", "Mine")]).await;
    assert_eq!(unknown.tried[0].name, "AZURE_TOKEN_CREDENTIALS");
    assert!(unknown.tried[0].reason.starts_with("\"mine\" is not one of prod, dev, EnvironmentCredential"));
    setting.service.stop().await;
}

#[tokio::test]
async fn a_workload_identity_gets_a_token_for_the_content_of_its_file() {
    let setting = Setting::start(60).await;
    let known = setting.service.development_identity().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, known.secret.reveal()).unwrap();
    let authority = format!("https://localhost:{}", setting.issuer_port());
    let variables = [
        ("AZURE_AUTHORITY_HOST", authority.as_str()),
        ("AZURE_TENANT_ID", known.tenant),
        ("AZURE_CLIENT_ID", known.client),
        ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap()),
    ];
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let identity = setting.identity_of(variables.clone().collect());
    let token = within(identity.token(EVENT_HUBS_SCOPE)).await.unwrap();
    assert_eq!(token.reveal().split('.').count(), 3);
    // It is configured and refused, so that nobody else is asked.
    std::fs::write(&file, "another").unwrap();
    let identity = setting.identity_of(variables.collect());
    let refused = within(identity.token(EVENT_HUBS_SCOPE)).await.unwrap_err();
    let [("EnvironmentCredential", absent), ("WorkloadIdentityCredential", reason)] = tried(&refused)[..]
    else {
        panic!("{refused}");
    };
    assert_eq!(absent, "AZURE_CLIENT_SECRET is not set");
    assert!(reason.starts_with("AADSTS7000215"), "{reason}");
    setting.service.stop().await;
}

#[tokio::test]
async fn an_authority_without_tls_or_that_is_away_is_told() {
    let setting = Setting::start(60).await;
    let variables = |authority: &'static str| {
        [
            ("AZURE_AUTHORITY_HOST", authority),
            ("AZURE_TENANT_ID", "t"),
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_CLIENT_SECRET", "s"),
            ("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential"),
        ]
    };
    let plain = error(&setting, &variables("http://localhost:1")).await;
    assert!(plain.tried[0].reason.contains("HTTPS"), "{plain}");
    assert!(!plain.is_transient);
    let away = error(&setting, &variables("https://localhost:1")).await;
    assert!(away.is_transient, "{away}");
    setting.service.stop().await;
}
