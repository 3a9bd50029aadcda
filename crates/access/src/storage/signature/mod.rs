//! Shared access signatures of storage: rights in the query of an URL, for a while.
//!
//! A **service** signature (`sr`) is for one container or blob, an **account** signature (`ss`, `srt`) for everything of the
//! account. What is signed are their fields, decoded, one per line; which fields there are depends on the version `sv`.

use crate::storage::{StorageAccountKey, StorageLevel, StorageRight, StorageRights, UserDelegationKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use units::date::{iso_date, parse_iso_date};

use crate::RESERVED;
use std::net::IpAddr;
use std::time::SystemTime;

/// A signature as it stands in a query.
#[derive(Clone, Debug)]
pub struct StorageSignature {
    fields: Vec<(String, String)>,
}

/// What a request is about, for the signature in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageResource<'a> {
    /// The container, decoded.
    pub container: Option<&'a str>,
    /// The blob, decoded.
    pub blob: Option<&'a str>,
    /// The snapshot of the blob, as in the query.
    pub snapshot: Option<&'a str>,
    /// Who asks, where that is known.
    pub address: Option<IpAddr>,
    /// Whether the request came over TLS.
    pub is_encrypted: bool,
    /// The stored access policies of the container.
    pub policies: &'a [StoredAccess],
}

/// A stored access policy, which a service signature may name (`si`) instead of saying what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredAccess {
    /// The name.
    pub id: String,
    /// Start of validity.
    pub start: Option<String>,
    /// End of validity.
    pub expiry: Option<String>,
    /// Letters of the rights.
    pub permission: Option<String>,
}

/// An account signature to be made.
#[derive(Clone, Copy, Debug)]
pub struct AccountSignature<'a> {
    /// The letters of its rights: `rwdlac`.
    pub rights: &'a str,
    /// From when on it is void.
    pub expires_at: SystemTime,
}

/// What a service signature wants the headers of a reply to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseOverrides {
    /// `rscc`
    pub cache_control: Option<String>,
    /// `rscd`
    pub content_disposition: Option<String>,
    /// `rsce`
    pub content_encoding: Option<String>,
    /// `rscl`
    pub content_language: Option<String>,
    /// `rsct`
    pub content_type: Option<String>,
}

/// Why a signature grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageSignatureError {
    /// A field is there twice, or in the policy as well, so that it is not clear what counts.
    #[error("the signature has the field {field} twice, or its access policy has it as well")]
    Repeated {
        /// Its name.
        field: &'static str,
    },
    /// A field is absent.
    #[error("the signature has no field {field}")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// A field can't be read, or means something that is not here.
    #[error("the signature's field {field} is not {expected}")]
    Malformed {
        /// Its name.
        field: &'static str,
        /// The expected form.
        expected: &'static str,
    },
    /// It was not made with this account's key, or for another resource.
    #[error("the signature does not match its fields and this account's key")]
    WrongSignature,
    /// Its time has not come or is over.
    #[error("the signature is not valid at this time")]
    NotNow,
    /// It is for clients of other addresses.
    #[error("the signature does not allow this client's address")]
    Address,
    /// It is for HTTPS alone.
    #[error("the signature is for HTTPS only")]
    Protocol,
    /// The principal of the user delegation key is unknown.
    #[error("the principal of the signature has requested no user delegation key since this service started")]
    Principal,
    /// It is for other services of the account.
    #[error("the signature's field ss has no b, so it does not cover blobs")]
    Service,
}

/// Why a genuine signature does not grant a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageDenial {
    /// The letter of the right is not in `sp`.
    #[error("the signature does not grant the right to do this")]
    Permission,
    /// The kind of resource is not in `srt`.
    #[error("the signature's field srt does not cover this kind of resource")]
    ResourceType,
    /// No service signature grants it, only the key and account signatures do.
    #[error(
        "a signature for a container or blob can't grant this; use one for the account, or the account key"
    )]
    Operation,
}

/// Decodes a name or value of a query as forms encode it: `+` is a space, as in the service. .NET's client writes it so.
#[must_use]
pub fn decode_parameter(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

impl StorageSignature {
    /// Every field that a signature can have.
    pub const FIELDS: [&str; 31] = [
        "sv", "ss", "srt", "sr", "sp", "st", "se", "si", "sip", "spr", "ses", "skoid", "sktid", "skt", "ske",
        "sks", "skv", "saoid", "suoid", "scid", "skdutid", "sduoid", "srh", "srq", "sdd", "rscc", "rscd",
        "rsce", "rscl", "rsct", "sig",
    ];

    /// The signature in a query, if there is one.
    ///
    /// # Errors
    /// One of its fields is there twice.
    pub fn find(query: &str) -> Result<Option<Self>, StorageSignatureError> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let Some(field) = Self::FIELDS.into_iter().find(|field| *field == name) else {
                continue;
            };
            if fields.iter().any(|(other, _)| other == field) {
                return Err(StorageSignatureError::Repeated { field });
            }
            fields.push((field.to_owned(), decode_parameter(value)));
        }
        let signature = Self { fields };
        Ok(signature.field("sig").is_some().then_some(signature))
    }

    /// What it grants on `resource` at `now`, over plain HTTP.
    ///
    /// # Errors
    /// It is not genuine, or not for this resource, time or client.
    pub fn verify(
        &self,
        key: &StorageAccountKey,
        resource: StorageResource<'_>,
        now: SystemTime,
    ) -> Result<StorageRights, StorageSignatureError> {
        let malformed = |field, expected| StorageSignatureError::Malformed { field, expected };
        let version = self.required("sv")?;
        let is_date =
            version.len() == 10 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if !is_date || version < OLDEST_VERSION {
            return Err(malformed("sv", "a version from 2015-04-05 on"));
        }
        if self.field("ses").is_some() {
            return Err(malformed("ses", "absent: encryption scopes are not supported"));
        }
        if let Some(field) = UNSERVED.into_iter().find(|field| self.field(field).is_some()) {
            return Err(malformed(field, "absent: it is not supported"));
        }
        let signature = self.required("sig")?;
        let stored = self.stored(resource.policies)?;
        let (signed, rights) = match self.field("sr") {
            Some(kind) => self.service_signature(kind, key, (resource, stored), version)?,
            None if self.delegating_principal().is_some() => {
                return Err(malformed("skoid", "absent: user delegation keys sign for a container or blob"));
            }
            None => self.account_signature(key, version)?,
        };
        // Some write its `+` into the URL as it is.
        let tag = STANDARD.decode(signature.replace(' ', "+"));
        let delegated = self.delegated(key, now)?;
        let is_genuine =
            tag.is_ok_and(|tag| delegated.as_ref().unwrap_or(key).has_signed_text(&signed, &tag));
        if !is_genuine {
            return Err(StorageSignatureError::WrongSignature);
        }
        let instant = |field, text| {
            parse_iso_date(text).ok_or_else(|| malformed(field, "a time such as 2026-11-20T23:21:07Z"))
        };
        let expiry = self.or_stored("se", stored.and_then(|stored| stored.expiry.as_deref()))?;
        let expires_at = instant("se", expiry.ok_or(StorageSignatureError::Missing { field: "se" })?)?;
        let is_early = match self.or_stored("st", stored.and_then(|stored| stored.start.as_deref()))? {
            Some(start) => now < instant("st", start)?,
            None => false,
        };
        if is_early || now >= expires_at {
            return Err(StorageSignatureError::NotNow);
        }
        let used = match resource.is_encrypted {
            true => "https",
            false => "http",
        };
        if let Some(protocols) = self.field("spr")
            && !protocols.split(',').any(|protocol| protocol == used)
        {
            return Err(StorageSignatureError::Protocol);
        }
        match (self.field("sip"), resource.address) {
            (Some(range), Some(address)) if !covers(range, address)? => Err(StorageSignatureError::Address),
            _ => Ok(rights),
        }
    }

    /// Returns the object id of the principal whose user delegation key signed it. The signature can't exceed the rights of the principal.
    #[must_use]
    pub fn delegating_principal(&self) -> Option<&str> {
        self.field("skoid")
    }

    /// Returns the user delegation key that signed it, if its fields describe one.
    fn delegated(
        &self,
        key: &StorageAccountKey,
        now: SystemTime,
    ) -> Result<Option<StorageAccountKey>, StorageSignatureError> {
        let Some(object_id) = self.field("skoid") else {
            return Ok(None);
        };
        let instant = |field| {
            parse_iso_date(self.required(field)?).ok_or(StorageSignatureError::Malformed {
                field,
                expected: "a time such as 2026-11-20T23:21:07Z",
            })
        };
        let (start, expiry) = (instant("skt")?, instant("ske")?);
        let of = UserDelegationKey {
            object_id,
            tenant: self.required("sktid")?,
            start,
            expiry,
            service: self.required("sks")?,
            version: self.required("skv")?,
        };
        if now < start || now >= expiry {
            return Err(StorageSignatureError::NotNow);
        }
        StorageAccountKey::new(key.account(), key.delegate(&of))
            .map(Some)
            .map_err(|_no_base64| StorageSignatureError::WrongSignature)
    }

    /// Why it does not grant one of `rights` on `level`, given that it does not.
    #[must_use]
    pub fn denial(&self, level: StorageLevel, rights: &[StorageRight]) -> StorageDenial {
        if self.field("sr").is_none() {
            let types = self.field("srt").unwrap_or_default();
            return match types.contains(level.letter()) {
                true => StorageDenial::Permission,
                false => StorageDenial::ResourceType,
            };
        }
        match level {
            StorageLevel::Object => StorageDenial::Permission,
            StorageLevel::Container if rights.contains(&StorageRight::List) => StorageDenial::Permission,
            StorageLevel::Container | StorageLevel::Service => StorageDenial::Operation,
        }
    }

    /// What it wants the headers of replies to be.
    #[must_use]
    pub fn overrides(&self) -> ResponseOverrides {
        let field = |name| self.field(name).map(str::to_owned);
        ResponseOverrides {
            cache_control: field("rscc"),
            content_disposition: field("rscd"),
            content_encoding: field("rsce"),
            content_language: field("rscl"),
            content_type: field("rsct"),
        }
    }

    /// What was signed of a service signature, and what it grants.
    fn service_signature(
        &self,
        kind: &str,
        key: &StorageAccountKey,
        (resource, stored): (StorageResource<'_>, Option<&StoredAccess>),
        version: &str,
    ) -> Result<(String, StorageRights), StorageSignatureError> {
        let malformed = |field, expected| StorageSignatureError::Malformed { field, expected };
        let container = resource.container.ok_or(StorageSignatureError::WrongSignature)?;
        let mut path = format!("/blob/{}/{container}", key.account());
        let letters = self.or_stored("sp", stored.and_then(|stored| stored.permission.as_deref()))?;
        let letters = letters.ok_or(StorageSignatureError::Missing { field: "sp" })?;
        let mut rights = StorageRights::NONE.with_letters(&[StorageLevel::Object], letters);
        match kind {
            "c" => {
                for (letter, right) in [('l', StorageRight::List), ('f', StorageRight::Find)] {
                    if letters.contains(letter) {
                        rights = rights.with(StorageLevel::Container, right);
                    }
                }
            }
            "b" | "bs" => {
                let blob = resource.blob.ok_or(StorageSignatureError::WrongSignature)?;
                path.push('/');
                path.push_str(blob);
            }
            _ => {
                return Err(malformed("sr", "c, b or bs; directories and versions are not supported"));
            }
        }
        let value = |name| self.field(name).unwrap_or_default();
        let mut lines = vec![value("sp"), value("st"), value("se"), &path];
        let is_delegated = self.delegating_principal().is_some();
        match is_delegated {
            false => lines.push(value("si")),
            // A policy is the account key's.
            true if self.field("si").is_some() => {
                return Err(malformed("si", "absent: user delegation keys sign no policies"));
            }
            true => {
                lines.extend(["skoid", "sktid", "skt", "ske", "sks", "skv"].map(value));
                if version >= WITH_PRINCIPALS {
                    lines.extend(["saoid", "suoid", "scid"].map(value));
                }
                if version >= WITH_DELEGATED_USER {
                    lines.extend(["skdutid", "sduoid"].map(value));
                }
            }
        }
        lines.extend([value("sip"), value("spr"), version]);
        let snapshot = match kind {
            "bs" if version < WITH_RESOURCE => return Err(malformed("sr", "c or b in this version")),
            "bs" => resource.snapshot.ok_or(StorageSignatureError::WrongSignature)?,
            _ => "",
        };
        if version >= WITH_RESOURCE {
            lines.extend([kind, snapshot]);
        }
        if version >= WITH_ENCRYPTION_SCOPE {
            lines.push("");
        }
        if is_delegated && version >= WITH_REQUEST {
            lines.extend(["srh", "srq"].map(value));
        }
        lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(value));
        Ok((lines.join("\n"), rights))
    }

    /// What was signed of an account signature, and what it grants.
    fn account_signature(
        &self,
        key: &StorageAccountKey,
        version: &str,
    ) -> Result<(String, StorageRights), StorageSignatureError> {
        let letters = self.required("sp")?;
        let services = self.required("ss")?;
        let types = self.required("srt")?;
        if !services.contains('b') {
            return Err(StorageSignatureError::Service);
        }
        let levels: Vec<StorageLevel> =
            StorageLevel::EVERY.into_iter().filter(|level| types.contains(level.letter())).collect();
        let value = |name| self.field(name).unwrap_or_default();
        let fields = [letters, services, types, value("st"), value("se"), value("sip"), value("spr")];
        let signed = account_text(key, fields, version);
        let rights = StorageRights::NONE.with_letters(&levels, letters);
        Ok((signed, rights))
    }

    /// Returns the policy that the signature names, if it names one.
    fn stored<'p>(
        &self,
        policies: &'p [StoredAccess],
    ) -> Result<Option<&'p StoredAccess>, StorageSignatureError> {
        let Some(id) = self.field("si") else {
            return Ok(None);
        };
        let found = policies.iter().find(|policy| policy.id == id);
        found.map(Some).ok_or(StorageSignatureError::Malformed {
            field: "si",
            expected: "the name of a stored access policy of the container",
        })
    }

    /// Returns a field of the signature, or of its policy. The service takes it from one of the two.
    fn or_stored<'v>(
        &'v self,
        field: &'static str,
        stored: Option<&'v str>,
    ) -> Result<Option<&'v str>, StorageSignatureError> {
        match (self.field(field), stored) {
            (Some(_), Some(_)) => Err(StorageSignatureError::Repeated { field }),
            (own, stored) => Ok(own.or(stored)),
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(other, value)| other == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    fn required(&self, field: &'static str) -> Result<&str, StorageSignatureError> {
        self.field(field).ok_or(StorageSignatureError::Missing { field })
    }
}

impl StorageAccountKey {
    /// The query of a signature for all containers and blobs of this account, which is added to an URL after a question
    /// mark. It is for HTTP as well as for HTTPS.
    #[must_use]
    pub fn sign_account(&self, signature: AccountSignature<'_>) -> String {
        let expiry = iso_date(signature.expires_at);
        let fields = [signature.rights, "b", "sco", "", &expiry, "", "https,http"];
        let text = account_text(self, fields, MADE_VERSION);
        let tag = STANDARD.encode(self.sign_text(&text));
        let escaped = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
        let (expiry, sig) = (escaped(&expiry), escaped(&tag));
        format!("sv={MADE_VERSION}&ss=b&srt=sco&sp={}&se={expiry}&spr=https,http&sig={sig}", signature.rights)
    }
}

/// `fields` are `sp`, `ss`, `srt`, `st`, `se`, `sip` and `spr`.
fn account_text(key: &StorageAccountKey, fields: [&str; 7], version: &str) -> String {
    let mut text = format!("{}\n{}\n{version}\n", key.account(), fields.join("\n"));
    if version >= WITH_ENCRYPTION_SCOPE {
        text.push('\n');
    }
    text
}

/// Whether an address is the one in `range`, or between the two.
fn covers(range: &str, address: IpAddr) -> Result<bool, StorageSignatureError> {
    let parse = |text: &str| {
        text.parse::<IpAddr>().map_err(|_no_address| StorageSignatureError::Malformed {
            field: "sip",
            expected: "an address, or two joined by a hyphen",
        })
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (parse(first)?, parse(last)?);
    let address = address.to_canonical();
    Ok(first.is_ipv4() == address.is_ipv4() && (first..=last).contains(&address))
}

const OLDEST_VERSION: &str = "2015-04-05";

/// From this version on the kind of resource and the snapshot are signed.
const WITH_RESOURCE: &str = "2018-11-09";

/// From this version on the encryption scope is signed, which is always empty here.
const WITH_ENCRYPTION_SCOPE: &str = "2020-12-06";

/// First version whose user delegation signatures sign `saoid`, `suoid` and `scid`.
const WITH_PRINCIPALS: &str = "2020-02-10";

/// First version whose user delegation signatures sign `skdutid` and `sduoid`.
const WITH_DELEGATED_USER: &str = "2025-07-05";

/// First version whose user delegation signatures sign `srh` and `srq`.
const WITH_REQUEST: &str = "2026-04-06";

/// Fields with unsupported restrictions. `saoid` and `scid` have no effect.
const UNSERVED: [&str; 5] = ["suoid", "skdutid", "sduoid", "srh", "srq"];

/// The version of signatures that are made here: one that every service of the last years knows.
const MADE_VERSION: &str = "2021-12-02";

#[cfg(test)]
mod tests;
