//! HTTP: what serves a connection, whatever is asked for on it, and small pages for health and metrics.

mod beside;
mod connection;
mod deadlines;
mod farewell;
mod http2;
mod pages;
mod request_body;
mod spelling;

pub use beside::serve_pages_beside;
pub use connection::{Limits, serve_connection};
pub use farewell::Farewell;
pub use http2::{Http2Limits, serve_http2_connection};
pub use pages::{PAGE_LIMITS, Page, answer_with_page, serve_pages};
pub use request_body::RequestBody;
pub use spelling::{spelled_names, spelling_of};
