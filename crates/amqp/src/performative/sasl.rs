//! The SASL frames (specification section 5.3.3). The mechanisms here need no challenge.

use super::descriptor;
use crate::codec::{DecodeError, Reader, Symbol, write};

/// The mechanisms that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslMechanisms {
    /// In the server's order of preference; some clients take the first that they know.
    pub mechanisms: Vec<Symbol>,
}

impl SaslMechanisms {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "sasl-mechanisms")?;
        Ok(Self { mechanisms: fields.symbols()? })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::SASL_MECHANISMS);
        write::list(out, 1, |out| write::symbols(out, &self.mechanisms));
    }
}

/// The mechanism that a client chose, with its first and only response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslInit {
    /// The mechanism.
    pub mechanism: Symbol,
    /// What the mechanism says first; may be absent.
    pub initial_response: Option<Vec<u8>>,
    /// The host that the client wants.
    pub hostname: Option<String>,
}

impl SaslInit {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "sasl-init")?;
        Ok(Self {
            mechanism: fields.required("sasl-init.mechanism", Reader::symbol)?.into(),
            initial_response: fields.field(Reader::binary)?.map(<[u8]>::to_vec),
            hostname: fields.field(Reader::string)?.map(str::to_owned),
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::SASL_INIT);
        write::list(out, 3, |out| {
            write::symbol(out, self.mechanism.as_str());
            write::option(out, self.initial_response.as_deref(), write::binary);
            write::option(out, self.hostname.as_deref(), write::string);
        });
    }
}

/// How authentication ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslCode {
    /// Authenticated.
    Ok,
    /// Wrong credentials.
    Auth,
    /// The server failed; `true` where trying again may help.
    System {
        /// Whether the failure passes.
        temporary: bool,
    },
}

/// The server's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaslOutcome {
    /// The verdict.
    pub code: SaslCode,
}

impl SaslOutcome {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "sasl-outcome")?;
        let code = match fields.required("sasl-outcome.code", Reader::ubyte)? {
            0 => SaslCode::Ok,
            1 => SaslCode::Auth,
            2 | 3 => SaslCode::System { temporary: false },
            4 => SaslCode::System { temporary: true },
            other => {
                return Err(DecodeError::InvalidValue { field: "sasl-code", value: other.into() });
            }
        };
        Ok(Self { code })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::SASL_OUTCOME);
        write::list(out, 2, |out| {
            write::ubyte(
                out,
                match self.code {
                    SaslCode::Ok => 0,
                    SaslCode::Auth => 1,
                    SaslCode::System { temporary: false } => 2,
                    SaslCode::System { temporary: true } => 4,
                },
            );
            write::null(out);
        });
    }
}
