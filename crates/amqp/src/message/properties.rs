//! The properties section (specification section 3.2.4).

use crate::codec::{DecodeError, Reader, Symbol, Value, write};
use crate::performative::descriptor;

/// The standard properties of a message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties {
    /// ulong, uuid, binary or string; a reply repeats it with its type.
    pub message_id: Option<Value>,
    /// The user, as the sender says.
    pub user_id: Option<Vec<u8>>,
    /// The node that the message is for.
    pub to: Option<String>,
    /// A summary.
    pub subject: Option<String>,
    /// Where replies go.
    pub reply_to: Option<String>,
    /// The message id that this answers.
    pub correlation_id: Option<Value>,
    /// MIME type of the body.
    pub content_type: Option<Symbol>,
    /// Encoding of the body.
    pub content_encoding: Option<Symbol>,
    /// When the message expires: milliseconds since the Unix epoch.
    pub absolute_expiry_time: Option<i64>,
    /// When it was made: milliseconds since the Unix epoch.
    pub creation_time: Option<i64>,
    /// The group that it belongs to.
    pub group_id: Option<String>,
    /// Its place in the group.
    pub group_sequence: Option<u32>,
    /// The group that a reply belongs to.
    pub reply_to_group_id: Option<String>,
}

impl Properties {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let Some(mut fields) = reader.list()? else {
            return Ok(Self::default());
        };
        let id = |value: Value| Some(value).filter(|value| *value != Value::Null);
        Ok(Self {
            message_id: id(fields.value()?),
            user_id: fields.field(Reader::binary)?.map(<[u8]>::to_vec),
            to: fields.field(Reader::string)?.map(str::to_owned),
            subject: fields.field(Reader::string)?.map(str::to_owned),
            reply_to: fields.field(Reader::string)?.map(str::to_owned),
            correlation_id: id(fields.value()?),
            content_type: fields.field(Reader::text)?.map(Symbol::from),
            content_encoding: fields.field(Reader::text)?.map(Symbol::from),
            absolute_expiry_time: fields.field(Reader::timestamp)?,
            creation_time: fields.field(Reader::timestamp)?,
            group_id: fields.field(Reader::string)?.map(str::to_owned),
            group_sequence: fields.field(Reader::uint)?,
            reply_to_group_id: fields.field(Reader::string)?.map(str::to_owned),
        })
    }

    /// Appends the section.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::PROPERTIES);
        write::list(out, 13, |out| {
            write::option(out, self.message_id.as_ref(), write::value);
            write::option(out, self.user_id.as_deref(), write::binary);
            write::option(out, self.to.as_deref(), write::string);
            write::option(out, self.subject.as_deref(), write::string);
            write::option(out, self.reply_to.as_deref(), write::string);
            write::option(out, self.correlation_id.as_ref(), write::value);
            write::option(out, self.content_type.as_ref(), |out, text| write::symbol(out, text.as_str()));
            write::option(out, self.content_encoding.as_ref(), |out, text| write::symbol(out, text.as_str()));
            write::option(out, self.absolute_expiry_time, write::timestamp);
            write::option(out, self.creation_time, write::timestamp);
            write::option(out, self.group_id.as_deref(), write::string);
            write::option(out, self.group_sequence, write::uint);
            write::option(out, self.reply_to_group_id.as_deref(), write::string);
        });
    }
}
