//! Tokens of both algorithms, genuine and not. The RSA key (`rsa.pk8`) was made by OpenSSL for these tests alone; that tokens of
//! other implementations are accepted is shown by the suite with the official clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://sts.example/tenant/";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn rsa() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(include_bytes!("rsa.pk8")).unwrap()
}

fn rsa_entry(id: &str) -> Value {
    let PublicKeyComponents::<Vec<u8>> { n, e } = rsa().public().into();
    json!({"kty": "RSA", "kid": id, "use": "sig", "x5t": id, "x5c": ["MII"],
           "n": URL_SAFE_NO_PAD.encode(n), "e": URL_SAFE_NO_PAD.encode(e)})
}

fn rsa_keys() -> KeySet {
    let keys = json!({"keys": [rsa_entry("one"), {"kty": "oct", "kid": "two", "k": "c2VjcmV0"}]});
    KeySet::parse(keys.to_string().as_bytes()).unwrap()
}

fn encode(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

fn signed(header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", encode(header), encode(claims));
    let key = rsa();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn header() -> Value {
    json!({"typ": "JWT", "alg": "RS256", "x5t": "one", "kid": "one"})
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "https://eventhubs.azure.net/", "iat": 100, "nbf": 100, "exp": 1000,
           "oid": "B0B", "appid": "app", "roles": ["EventHubs.Data.Sender", "Admin.Of.Others"]})
}

/// The claims with one of them changed, or without it.
fn claims_with(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    match value {
        Some(value) => claims[name] = value,
        None => drop(claims.as_object_mut().unwrap().remove(name)),
    }
    claims
}

fn issuer() -> TokenIssuer {
    let assignment = |principal: &str, role, scope: &str| RoleAssignment {
        principal: principal.to_owned(),
        role,
        scope: scope.to_owned(),
    };
    TokenIssuer {
        names: vec![ISSUER.to_owned()],
        assignments: vec![
            assignment("b0b", Role::DataReceiver, "orders"),
            assignment("b0b", Role::BlobDataReader, ""),
            assignment("somebody-else", Role::DataOwner, ""),
        ],
        clock_skew: Duration::from_secs(30),
    }
}

fn verify_at(token: &str, audience: &TokenAudience, now: u64) -> Result<VerifiedToken, TokenError> {
    let token = JsonWebToken::parse(token)?;
    issuer().verify(&token, &rsa_keys(), audience, at(now))
}

fn verify(token: &str) -> Result<VerifiedToken, TokenError> {
    verify_at(token, &TokenAudience::messaging("localhost", &[]), 500)
}

#[test]
fn a_genuine_token_is_worth_the_roles_that_it_names_and_those_of_its_principal() {
    let token = verify(&signed(&header(), &claims())).unwrap();
    assert_eq!(token.principal, "B0B");
    assert_eq!(token.expires_at, at(1030));
    let roles = [(Role::DataSender, String::new()), (Role::DataReceiver, "orders".to_owned())];
    assert_eq!(token.roles, roles);
    let storage = claims_with("aud", Some(json!("https://storage.azure.com/")));
    let token = verify_at(&signed(&header(), &storage), &TokenAudience::storage("acme"), 500).unwrap();
    assert_eq!(token.roles, [(Role::BlobDataReader, String::new())]);
}

#[test]
fn audiences_are_compared_without_the_slashes_of_some_clients() {
    for audience in [
        json!("https://eventhubs.azure.net"),
        json!("https://EVENTHUBS.azure.net//"),
        json!("https://servicebus.azure.net/"),
        json!("https://localhost"),
        json!(["other", "https://servicebus.azure.net"]),
    ] {
        let claims = claims_with("aud", Some(audience));
        verify(&signed(&header(), &claims)).unwrap();
    }
    for audience in
        [json!("https://storage.azure.com/"), json!("https://eventhubs.azure.net.evil.example"), json!([])]
    {
        let claims = claims_with("aud", Some(audience));
        assert!(matches!(verify(&signed(&header(), &claims)), Err(TokenError::Audience { .. })));
    }
}

#[test]
fn a_token_is_valid_from_its_beginning_to_its_end_with_the_difference_of_clocks() {
    let token = signed(&header(), &claims());
    let audience = TokenAudience::messaging("localhost", &[]);
    let verify_at = |now| verify_at(&token, &audience, now);
    assert_eq!(verify_at(69).unwrap_err(), TokenError::NotYetValid { not_before: at(100) });
    verify_at(70).unwrap();
    verify_at(1029).unwrap();
    assert_eq!(verify_at(1030).unwrap_err(), TokenError::Expired { expired_at: at(1030) });
    let fraction = claims_with("exp", Some(json!(1000.9)));
    assert_eq!(verify(&signed(&header(), &fraction)).unwrap().expires_at, at(1030));
}

#[test]
fn what_is_not_genuine_is_refused_with_its_reason() {
    let good = signed(&header(), &claims());
    let (text, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = text.split_once('.').unwrap();
    // The claims of another, under the signature of this one.
    let richer = claims_with("roles", Some(json!(["EventHubs.Data.Owner"])));
    let forged = format!("{head}.{}.{signature}", encode(&richer));
    assert_eq!(verify(&forged).unwrap_err(), TokenError::WrongSignature);
    let bare = format!("{text}.");
    assert_eq!(verify(&bare).unwrap_err(), TokenError::WrongSignature);

    let with_header = |header: Value| verify(&signed(&header, &claims())).unwrap_err();
    for algorithm in ["none", "HS256", "RS512", "PS256"] {
        let error = with_header(json!({"alg": algorithm, "kid": "one"}));
        assert!(matches!(error, TokenError::Algorithm { .. }), "{error}");
    }
    // A key for RSA is none for elliptic curves, whatever the token says; and keys have names.
    for header in [json!({"alg": "ES256", "kid": "one"}), json!({"alg": "RS256", "kid": "two"})] {
        assert!(matches!(with_header(header), TokenError::UnknownKey { .. }));
    }
    let critical = with_header(json!({"alg": "RS256", "kid": "one", "crit": ["b64"], "b64": false}));
    assert!(matches!(critical, TokenError::Malformed(_)));

    for missing in ["iss", "aud", "exp"] {
        let error = verify(&signed(&header(), &claims_with(missing, None))).unwrap_err();
        assert!(matches!(error, TokenError::Malformed(_)), "{missing}");
    }
    let stranger =
        json!({"iss": ISSUER, "aud": "https://eventhubs.azure.net", "exp": 1000, "oid": "mallory"});
    let error = verify(&signed(&header(), &stranger)).unwrap_err();
    assert_eq!(error.to_string(), "the principal 'mallory' has no role here");
}

#[test]
fn refusals_show_the_beginning_of_what_a_token_says_and_no_control_characters() {
    let audience = format!("\u{1b}[31m\r\nX: y{}", "a".repeat(4_000));
    let error =
        verify(&signed(&header(), &claims_with("aud", Some(json!(audience))))).unwrap_err().to_string();
    assert!(error.len() < 400 && error.chars().all(|letter| !letter.is_control()), "{error}");
}

#[test]
fn the_length_of_a_token_is_bounded() {
    let at_limit = "a".repeat(MAXIMUM_TOKEN_LENGTH);
    assert!(matches!(JsonWebToken::parse(&at_limit), Err(TokenError::Malformed(_))));
    let beyond = "a".repeat(MAXIMUM_TOKEN_LENGTH + 1);
    assert!(matches!(JsonWebToken::parse(&beyond), Err(TokenError::TooLong { .. })));
    let nested = URL_SAFE_NO_PAD.encode("[".repeat(8_000));
    assert!(JsonWebToken::parse(&format!("{nested}.{nested}.")).is_err());
}

#[test]
fn the_tokens_of_a_development_issuer_are_verified_by_its_own_keys() {
    let key = SigningKey::generate().unwrap();
    let claims = DevelopmentClaims {
        issuer: ISSUER,
        audience: "https://servicebus.azure.net/",
        tenant: "tenant",
        principal: "b0b",
        roles: &["Azure Service Bus Data Owner"],
        from: at(100),
        until: at(200),
    };
    let token = key.sign(&claims).unwrap();
    let token = JsonWebToken::parse(&token).unwrap();
    let audience = TokenAudience::messaging("localhost", &[]);
    let keys = KeySet::parse(key.key_set().to_string().as_bytes()).unwrap();
    let verified = issuer().verify(&token, &keys, &audience, at(150)).unwrap();
    assert_eq!(verified.roles[0], (Role::DataOwner, String::new()));
    let other = SigningKey::generate().unwrap().key_set();
    let other = KeySet::parse(other.to_string().as_bytes()).unwrap();
    let error = issuer().verify(&token, &other, &audience, at(150)).unwrap_err();
    assert!(matches!(error, TokenError::UnknownKey { .. }));
}

#[test]
fn a_set_of_keys_has_at_least_one_that_can_be_used_and_not_too_many() {
    let of = |keys: Vec<Value>| KeySet::parse(json!({ "keys": keys }).to_string().as_bytes());
    assert_eq!(of(vec![rsa_entry("one"); 64]).unwrap().len(), 64);
    assert!(matches!(of(vec![rsa_entry("one"); 65]), Err(KeySetError::TooMany { count: 65 })));
    let mut for_encryption = rsa_entry("one");
    for_encryption["use"] = json!("enc");
    for useless in
        [for_encryption, json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}), json!({"kty": "OKP"})]
    {
        assert_eq!(of(vec![useless]).unwrap_err(), KeySetError::Empty);
    }
    assert!(matches!(KeySet::parse(b"<html>"), Err(KeySetError::Json(_))));
}

#[test]
fn roles_are_known_by_the_names_of_azure_in_any_spelling() {
    for (name, role) in [
        ("Azure Event Hubs Data Owner", Role::DataOwner),
        ("ServiceBus.Data.Receiver", Role::DataReceiver),
        ("azure_service_bus_data_sender", Role::DataSender),
        ("Storage Blob Data Contributor", Role::BlobDataContributor),
    ] {
        assert_eq!(name.parse(), Ok(role), "{name}");
        assert_eq!(role.to_string().parse(), Ok(role));
    }
    assert!("Owner".parse::<Role>().is_err());
}

/// Something like the parts of a token or of a set of keys.
fn json_text() -> impl Strategy<Value = String> {
    const NAMES: [&str; 13] =
        ["alg", "kid", "iss", "aud", "exp", "nbf", "oid", "roles", "keys", "kty", "n", "e", "crit"];
    const TEXTS: [&str; 9] =
        ["RS256", "ES256", "RSA", "EC", "P-256", "AQAB", "", "https://eventhubs.azure.net", "\u{1b}[31m"];
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        prop::sample::select(&TEXTS[..]).prop_map(|text| json!(text)),
        "\\PC{0,200}".prop_map(|text| json!(text)),
        Just(Value::Null),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        let member = (prop::sample::select(&NAMES[..]), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..6).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    });
    value.prop_map(|value| value.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_is_a_panic(text in "\\PC*", parts in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
        check_any_text(&text);
        let encoded: Vec<String> = parts.iter().map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
        check_any_text(&encoded.join("."));
        let _ = KeySet::parse(text.as_bytes());
    }

    #[test]
    fn no_claims_are_a_panic_or_a_long_refusal(header in json_text(), claims in json_text(), keys in json_text()) {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        check_any_text(&format!("{header}.{claims}.\n{keys}"));
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_not_accepted(position in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let good = signed(&header(), &claims());
        let mut changed = good.clone().into_bytes();
        let position = position.index(changed.len());
        changed[position] = byte;
        if let Ok(changed) = String::from_utf8(changed) {
            prop_assert!(changed == good || verify(&changed).is_err());
        }
    }

    #[test]
    fn any_claims_are_read_or_refused(name in "[a-z]{1,4}", number in any::<f64>(), whole in any::<u64>()) {
        let values = [json!(number), json!(whole), json!(name), json!([name]), json!(null), json!({"a": 1})];
        let others = json!({"exp": values[1], "nbf": values[0], "aud": name, "iss": ISSUER});
        let _ = verify(&signed(&header(), &others));
        for (claim, value) in ["exp", "nbf", "aud", "roles", "oid"].into_iter().zip(values) {
            let _ = verify(&signed(&header(), &claims_with(claim, Some(value))));
        }
    }
}
