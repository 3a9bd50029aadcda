//! Signatures whose values another implementation computed (Python's `hmac`), and what is wrong with altered ones.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

const ACCOUNT: &str = "sv=2026-10-06&ss=b&srt=sco&sp=rwdlac&st=2026-11-20T00%3A00%3A00Z&se=2026-11-21T00%3A00%3A00Z\
    &spr=https,http&sig=wuqHZU/l0AM9xIy8SG6c426WI0CUW5b5/Mhvv3OvCZg%3D";
const OLD_ACCOUNT: &str = "comp=list&sv=2019-12-12&ss=b&srt=co&sp=rl&se=2026-11-21T00:00:00Z\
    &sig=xOMgs%2FYOQyF755vGeY3ilnL1QsMeCXK3KLbXufkxug0%3D";
const BLOB: &str = "sv=2026-10-06&sr=b&sp=r&se=2026-11-21T00%3A00%3A00Z&rsct=text%2Fplain\
    &sig=afbIe049otO0ZKfyvjKK32AAGgeF69fG%2B0nERvS%2FIqA%3D";
const CONTAINER: &str = "sv=2019-12-12&sr=c&sp=rl&se=2026-11-21T00%3A00%3A00Z\
    &sig=Lp29bM2nuWXkhK5F02K5d8qPxGSYiXUBaEjtoyM81sM%3D";
const OLD_CONTAINER: &str = "sv=2017-04-17&sr=c&sp=rl&se=2026-11-21T00%3A00%3A00Z&sip=10.0.0.1-10.0.0.9&spr=https\
    &sig=l2n0mkdEtpeFTsKRvtBTM6LPCUGYLi2wjBZdiHu5cWQ%3D";

fn key() -> StorageAccountKey {
    StorageAccountKey::new(crate::storage::DEVELOPMENT_ACCOUNT, crate::storage::DEVELOPMENT_ACCOUNT_KEY)
        .expect("a key")
}

/// An hour before all of them expire.
fn now() -> SystemTime {
    expiry() - Duration::from_secs(3600)
}

fn expiry() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_219_200)
}

fn verify(
    query: &str,
    resource: StorageResource<'_>,
    now: SystemTime,
) -> Result<StorageRights, StorageSignatureError> {
    let signature = StorageSignature::find(query)?.expect("there is one");
    signature.verify(&key(), resource, now)
}

fn blob<'a>(container: &'a str, blob: &'a str) -> StorageResource<'a> {
    StorageResource {
        container: Some(container),
        blob: Some(blob),
        snapshot: None,
        address: None,
        is_encrypted: false,
        policies: &[],
    }
}

#[test]
fn account_signatures_grant_their_letters_on_their_levels() {
    let rights = verify(ACCOUNT, StorageResource::default(), now()).unwrap();
    assert!(rights.contains(StorageLevel::Service, StorageRight::List));
    assert!(rights.contains(StorageLevel::Container, StorageRight::Create));
    assert!(rights.contains(StorageLevel::Object, StorageRight::Delete));
    let rights = verify(OLD_ACCOUNT, blob("ck", "a"), now()).unwrap();
    assert!(rights.contains(StorageLevel::Container, StorageRight::List));
    assert!(rights.contains(StorageLevel::Object, StorageRight::Read));
    assert!(!rights.contains(StorageLevel::Object, StorageRight::Write));
    assert!(!rights.contains(StorageLevel::Service, StorageRight::List));
}

#[test]
fn service_signatures_are_for_their_resource_alone() {
    let rights = verify(BLOB, blob("ck", "a b/c"), now()).unwrap();
    assert!(rights.contains(StorageLevel::Object, StorageRight::Read));
    assert!(!rights.contains(StorageLevel::Object, StorageRight::Write));
    let overrides = StorageSignature::find(BLOB).unwrap().unwrap().overrides();
    assert_eq!(overrides.content_type.as_deref(), Some("text/plain"));
    for resource in [blob("ck", "a b"), blob("kc", "a b/c"), StorageResource::default()] {
        assert_eq!(verify(BLOB, resource, now()), Err(StorageSignatureError::WrongSignature));
    }
    let rights = verify(CONTAINER, blob("ck", "anything"), now()).unwrap();
    assert!(rights.contains(StorageLevel::Object, StorageRight::Read));
    assert!(rights.contains(StorageLevel::Container, StorageRight::List));
    assert!(!rights.contains(StorageLevel::Container, StorageRight::Read));
}

#[test]
fn a_signature_may_leave_it_to_a_stored_policy() {
    let policy = StoredAccess {
        id: "readers".into(),
        start: None,
        expiry: Some("2026-11-21T00:00:00Z".into()),
        permission: Some("rl".into()),
    };
    let signed = |fields: &str, lines: &str| {
        let tag = STANDARD.encode(key().sign_text(lines));
        format!("sv=2019-12-12&sr=c&{fields}&sig={}", utf8_percent_encode(&tag, RESERVED))
    };
    let path = "/blob/devstoreaccount1/ck";
    let named = signed("si=readers", &format!("\n\n\n{path}\nreaders\n\n\n2019-12-12\nc\n\n\n\n\n\n"));
    let with = |policies| StorageResource { policies, ..blob("ck", "a") };
    let (stored, without) = ([policy.clone()], [StoredAccess { permission: None, ..policy }]);
    let rights = verify(&named, with(&stored), now()).unwrap();
    assert!(rights.contains(StorageLevel::Container, StorageRight::List));
    assert!(!rights.contains(StorageLevel::Object, StorageRight::Write));
    assert_eq!(verify(&named, with(&stored), expiry()), Err(StorageSignatureError::NotNow));
    // Once the policy is gone, so are the signatures that name it.
    let gone = verify(&named, with(&[]), now());
    assert!(matches!(gone, Err(StorageSignatureError::Malformed { field: "si", .. })), "{gone:?}");
    let twice = signed("si=readers&sp=r", &format!("r\n\n\n{path}\nreaders\n\n\n2019-12-12\nc\n\n\n\n\n\n"));
    let twice = verify(&twice, with(&stored), now());
    assert_eq!(twice, Err(StorageSignatureError::Repeated { field: "sp" }));
    let missing = verify(&named, with(&without), now());
    assert_eq!(missing, Err(StorageSignatureError::Missing { field: "sp" }));
}

#[test]
fn a_plus_is_a_space_except_in_the_signature_itself() {
    let signature = StorageSignature::find("rscd=a+b%2Bc%20d&sig=x").unwrap().unwrap();
    assert_eq!(signature.overrides().content_disposition.as_deref(), Some("a b+c d"));
    let unencoded = BLOB.replace("%2B", "+");
    assert!(verify(&unencoded, blob("ck", "a b/c"), now()).is_ok());
}

#[test]
fn a_signature_is_for_its_time_protocol_and_addresses() {
    for later in [expiry(), expiry() + Duration::from_secs(1), expiry() - Duration::from_secs(25 * 3600)] {
        let verified = verify(ACCOUNT, StorageResource::default(), later);
        assert_eq!(verified, Err(StorageSignatureError::NotNow));
    }
    assert_eq!(verify(OLD_CONTAINER, blob("ck", "a"), now()), Err(StorageSignatureError::Protocol));
    let encrypted = StorageResource { is_encrypted: true, ..blob("ck", "a") };
    assert!(verify(OLD_CONTAINER, encrypted, now()).is_ok());
    for (address, expected) in [
        ("10.0.0.1", true),
        ("10.0.0.9", true),
        ("::ffff:10.0.0.5", true),
        ("10.0.0.10", false),
        ("::1", false),
    ] {
        let covered = covers("10.0.0.1-10.0.0.9", address.parse().unwrap());
        assert_eq!(covered, Ok(expected), "{address}");
    }
    assert!(covers("everyone", "10.0.0.1".parse().unwrap()).is_err());
}

#[test]
fn every_altered_field_is_noticed() {
    for (from, to) in [
        ("sp=rwdlac", "sp=rwdlacx"),
        ("srt=sco", "srt=so"),
        ("ss=b", "ss=bq"),
        ("2026-11-21", "2026-11-22"),
        ("&st=2026-11-20T00%3A00%3A00Z", ""),
        ("https,http", "http"),
        ("2026-10-06", "2026-10-07"),
        ("wuqH", "WuqH"),
    ] {
        let query = ACCOUNT.replace(from, to);
        let verified = verify(&query, StorageResource::default(), now());
        assert_eq!(verified, Err(StorageSignatureError::WrongSignature), "{from}");
    }
}

#[test]
fn what_is_missing_repeated_or_not_here_is_named() {
    let refusal = |query: &str| verify(query, blob("ck", "a"), now()).unwrap_err();
    assert_eq!(refusal("sig=x"), StorageSignatureError::Missing { field: "sv" });
    assert_eq!(refusal(&ACCOUNT.replace("&srt=sco", "")), StorageSignatureError::Missing { field: "srt" });
    assert_eq!(refusal(&format!("{ACCOUNT}&sp=r")), StorageSignatureError::Repeated { field: "sp" });
    let delegated = format!("{CONTAINER}&skoid=user");
    assert_eq!(refusal(&delegated), StorageSignatureError::Missing { field: "skt" });
    for (query, field) in [
        (ACCOUNT.replace("2026-10-06", "2014-02-14"), "sv"),
        (ACCOUNT.replace("2026-10-06", "newest"), "sv"),
        (CONTAINER.replace("sr=c", "sr=d"), "sr"),
        (format!("{CONTAINER}&si=policy"), "si"),
        (format!("{ACCOUNT}&skoid=user"), "skoid"),
        (format!("{CONTAINER}&skoid=user&si=policy"), "si"),
        (format!("{CONTAINER}&srh=x-ms-date"), "srh"),
        (format!("{ACCOUNT}&ses=scope"), "ses"),
        (format!("{CONTAINER}&ses=scope"), "ses"),
    ] {
        match refusal(&query) {
            StorageSignatureError::Malformed { field: named, .. } => assert_eq!(named, field),
            other => panic!("{query}: {other}"),
        }
    }
    assert_eq!(refusal(&ACCOUNT.replace("ss=b", "ss=q")), StorageSignatureError::Service);
    assert!(StorageSignature::find("comp=list&sp=r").unwrap().is_none());
}

/// The query of a signature of a user delegation key, whose lines stand here as the clients of the version join them.
fn delegated(version: &str, further: &str, after: &str, key_expiry: &str) -> String {
    let instant = |text: &str| parse_iso_date(text).unwrap();
    let (start, end) = ("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z");
    let of = UserDelegationKey {
        object_id: "writer",
        tenant: "tenant",
        start: instant(start),
        expiry: instant(key_expiry),
        service: "b",
        version: "2021-12-02",
    };
    let signing = StorageAccountKey::new("any", key().delegate(&of)).unwrap();
    let text = format!(
        "rl\n\n{end}\n/blob/devstoreaccount1/ck\nwriter\ntenant\n{start}\n{key_expiry}\nb\n2021-12-02\n{further}\n\n{version}\nc\n\n{after}\n\n\n\n"
    );
    let tag = STANDARD.encode(signing.sign_text(&text));
    let tag = utf8_percent_encode(&tag, RESERVED);
    format!(
        "sv={version}&sr=c&sp=rl&se={end}&skoid=writer&sktid=tenant&skt={start}&ske={key_expiry}&sks=b&skv=2021-12-02&sig={tag}"
    )
}

#[test]
fn a_user_delegation_key_signs_what_its_principal_may_pass_on() {
    let late = "2026-11-25T00:00:00Z";
    for (version, further, after) in [
        ("2018-11-09", "", ""),
        ("2020-02-10", "\n\n\n", ""),
        ("2020-12-06", "\n\n\n", "\n"),
        ("2025-07-05", "\n\n\n\n\n", "\n"),
        ("2026-04-06", "\n\n\n\n\n", "\n\n\n"),
    ] {
        let query = delegated(version, further, after, late);
        let rights = verify(&query, blob("ck", "a"), now()).unwrap();
        assert!(rights.contains(StorageLevel::Object, StorageRight::Read), "{version}");
        assert!(!rights.contains(StorageLevel::Object, StorageRight::Write), "{version}");
        let signature = StorageSignature::find(&query).unwrap().unwrap();
        assert_eq!(signature.delegating_principal(), Some("writer"));
        for (from, to) in [
            ("skoid=writer", "skoid=owner"),
            ("sktid=tenant", "sktid=other"),
            (late, "2026-11-26T00:00:00Z"),
            ("skv=2021-12-02", "skv=2021-12-03"),
            ("sp=rl", "sp=rlw"),
        ] {
            let altered = query.replace(from, to);
            let refused = verify(&altered, blob("ck", "a"), now());
            assert_eq!(refused, Err(StorageSignatureError::WrongSignature), "{version}: {to}");
        }
        let elsewhere = verify(&query, blob("other", "a"), now());
        assert_eq!(elsewhere, Err(StorageSignatureError::WrongSignature));
    }
    // The key ends before the signature.
    let query = delegated("2021-12-02", "\n\n\n", "\n", "2026-11-20T12:00:00Z");
    assert_eq!(verify(&query, blob("ck", "a"), now()), Err(StorageSignatureError::NotNow));
}

#[test]
fn a_signature_of_a_snapshot_is_for_no_other_and_not_for_the_blob() {
    let (end, time) = ("2026-11-21T00:00:00Z", "2026-11-20T22:17:43.0000007Z");
    let text = format!("r\n\n{end}\n/blob/devstoreaccount1/ck/a\n\n\n\n2021-12-02\nbs\n{time}\n\n\n\n\n\n");
    let tag = STANDARD.encode(key().sign_text(&text));
    let tag = utf8_percent_encode(&tag, RESERVED);
    let query = format!("sv=2021-12-02&sr=bs&sp=r&se={end}&sig={tag}");
    let of = |snapshot| StorageResource { snapshot, ..blob("ck", "a") };
    let rights = verify(&query, of(Some(time)), now()).unwrap();
    assert!(rights.contains(StorageLevel::Object, StorageRight::Read));
    for other in [None, Some("2026-11-20T22:17:43.0000008Z")] {
        assert_eq!(verify(&query, of(other), now()), Err(StorageSignatureError::WrongSignature));
    }
}

#[test]
fn a_denial_says_what_the_signature_lacks() {
    let denial = |query: &str, level, right| {
        let signature = StorageSignature::find(query).unwrap().unwrap();
        signature.denial(level, &[right])
    };
    let (container, object) = (StorageLevel::Container, StorageLevel::Object);
    for (query, level, right, expected) in [
        (OLD_ACCOUNT, object, StorageRight::Write, StorageDenial::Permission),
        (OLD_ACCOUNT, StorageLevel::Service, StorageRight::List, StorageDenial::ResourceType),
        (CONTAINER, object, StorageRight::Write, StorageDenial::Permission),
        (BLOB, container, StorageRight::List, StorageDenial::Permission),
        (CONTAINER, container, StorageRight::Create, StorageDenial::Operation),
        (CONTAINER, container, StorageRight::Read, StorageDenial::Operation),
    ] {
        assert_eq!(denial(query, level, right), expected, "{query} {right:?}");
    }
}

#[test]
fn what_an_account_signs_it_accepts() {
    let query = key().sign_account(AccountSignature { rights: "rwdlac", expires_at: expiry() });
    let rights = verify(&query, blob("ck", "a"), now()).unwrap();
    assert!(rights.contains(StorageLevel::Object, StorageRight::Add));
    assert!(rights.contains(StorageLevel::Container, StorageRight::Write));
    let verified = verify(&query, blob("ck", "a"), expiry());
    assert_eq!(verified, Err(StorageSignatureError::NotNow));
}

proptest! {
    #[test]
    fn no_query_panics(query in "((sv|ss|srt|sr|sp|se|st|sip|sig)=[0-9a-zA-Z%:,-]{0,20}&){0,9}\\PC{0,9}") {
        if let Ok(Some(signature)) = StorageSignature::find(&query) {
            let _ = signature.verify(&key(), blob("ck", "a"), now());
        }
    }
}
