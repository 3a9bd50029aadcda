//! The headers of a record that was received, as the bytes that its tail has for them.
//!
//! # Why this file uses `unsafe`
//! The wrapper of the library takes the names of headers for UTF-8, and panics where they are not. They come from the network,
//! and the protocol checks no names on the way. So they are asked for here, one by one, and copied as bytes.
#![expect(unsafe_code, reason = "the library's own call: the wrapper's panics at names that are not UTF-8")]

use std::ffi::CStr;
use std::{ptr, slice};

use kafka::write;
use rdkafka::bindings as library;
use rdkafka::message::BorrowedMessage;

/// Appends the count of the headers, and each of them.
pub(super) fn put(message: &BorrowedMessage<'_>, out: &mut Vec<u8>) {
    let mut headers = ptr::null_mut();
    // SAFETY: the message lives during the call, and its headers, which it keeps, as long.
    let found = unsafe { library::rd_kafka_message_headers(message.ptr(), &raw mut headers) };
    if found != library::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return write::varint(out, 0);
    }
    // SAFETY: the call above has found them.
    let count = unsafe { library::rd_kafka_header_cnt(headers) };
    write::varint(out, i32::try_from(count).unwrap_or(i32::MAX));
    for index in 0..count {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: as above; the pointers are good while the message is, and are not kept.
        let (name, value) = unsafe {
            library::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut length);
            let name = if name.is_null() { &[][..] } else { CStr::from_ptr(name).to_bytes() };
            let value = (!value.is_null()).then(|| slice::from_raw_parts(value.cast::<u8>(), length));
            (name, value)
        };
        put_bytes(out, Some(name));
        put_bytes(out, value);
    }
}

/// Appends bytes behind their length, or that there are none.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    write::varint(out, bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX)));
    out.extend_from_slice(bytes.unwrap_or_default());
}
