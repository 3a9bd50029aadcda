//! Messages (specification section 3.2): a view over received sections, and an encoder for new ones.
//!
//! A message is a sequence of sections, each a described value. [`MessageView`]
//! finds them without decoding them; [`Sections`] walks them in whatever order
//! they come, since not every client keeps to the specified one. Building a
//! message is a separate step: the functions in [`encode`] append sections to a
//! buffer, and [`Header`] and [`Properties`] are the decoded forms of their sections.

pub mod encode;
mod header;
mod properties;
mod sections;
mod view;

pub use header::{EncodedHeader, Header};
pub use properties::Properties;
pub use sections::{Section, SectionKind, Sections, is_data_section};
pub use view::{Annotations, MessageView};

/// Format of an ordinary AMQP message.
pub const FORMAT_AMQP: u32 = 0;

/// Format of a Microsoft batch: each Data section holds one complete encoded message.
pub const FORMAT_BATCH: u32 = 0x8001_3700;
