//! librdkafka as an application in C uses it: no more for a record than one call.
//!
//! Everything here that is not safe is in this file.

#![expect(unsafe_code, reason = "a wrapper would cost more for a record than the brokers do")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Duration;

use rdkafka_sys as sys;

/// What went wrong, in the library's words.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A producer or a consumer.
#[derive(Debug)]
pub(crate) struct Client {
    raw: *mut sys::rd_kafka_t,
}

// The library's clients may be used by several threads at a time.
unsafe impl Send for Client {}
unsafe impl Sync for Client {}

/// A topic that is produced to.
#[derive(Debug)]
pub(crate) struct Topic<'c> {
    raw: *mut sys::rd_kafka_topic_t,
    client: &'c Client,
}

/// What is called for each record that is stored, or failed, by the thread that polls.
pub(crate) trait Deliveries: Sync {
    /// The record that was sent with this tag is stored; or it is not, and why.
    fn delivered(&self, tag: usize, result: Result<()>);
}

impl Client {
    /// A producer with these settings, as `librdkafka` names them. `deliveries` lives as long as it may be told.
    pub(crate) fn producer<D: Deliveries>(
        settings: &[(String, String)],
        deliveries: &'static D,
    ) -> Result<Self> {
        extern "C" fn delivered<D: Deliveries>(
            _client: *mut sys::rd_kafka_t,
            message: *const sys::rd_kafka_message_t,
            opaque: *mut c_void,
        ) {
            // SAFETY: the library gives a message that lives during the call, and what the producer was made with.
            let (message, deliveries) = unsafe { (&*message, &*opaque.cast_const().cast::<D>()) };
            let result = match message.err {
                sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
                error => Err(text(error)),
            };
            deliveries.delivered(message._private as usize, result);
        }
        let configuration = Configuration::new(settings)?;
        // SAFETY: the configuration is valid until a client has taken it; what it is given is 'static.
        unsafe {
            sys::rd_kafka_conf_set_opaque(configuration.raw, ptr::from_ref(deliveries).cast_mut().cast());
            sys::rd_kafka_conf_set_dr_msg_cb(configuration.raw, Some(delivered::<D>));
        }
        configuration.client(sys::rd_kafka_type_t::RD_KAFKA_PRODUCER)
    }

    /// A consumer with these settings, of all records of these partitions from `offset` on (-1: what comes from now on; -2:
    /// from the beginning).
    pub(crate) fn consumer(
        settings: &[(String, String)],
        topic: &str,
        partitions: i32,
        offset: i64,
    ) -> Result<Self> {
        let client = Configuration::new(settings)?.client(sys::rd_kafka_type_t::RD_KAFKA_CONSUMER)?;
        let topic = c_string(topic)?;
        // SAFETY: the list is made, filled and destroyed here; the library copies it.
        let error = unsafe {
            sys::rd_kafka_poll_set_consumer(client.raw);
            let list = sys::rd_kafka_topic_partition_list_new(partitions);
            for partition in 0..partitions {
                let added = sys::rd_kafka_topic_partition_list_add(list, topic.as_ptr(), partition);
                (*added).offset = offset;
            }
            let error = sys::rd_kafka_assign(client.raw, list);
            sys::rd_kafka_topic_partition_list_destroy(list);
            error
        };
        match error {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(client),
            error => Err(text(error)),
        }
    }

    /// Tells what was delivered, and waits for that if there is nothing to tell. How much was told.
    pub(crate) fn poll(&self, wait: Duration) -> i32 {
        // SAFETY: the client lives.
        unsafe { sys::rd_kafka_poll(self.raw, milliseconds(wait)) }
    }

    /// Waits until nothing is under way any longer.
    pub(crate) fn flush(&self, wait: Duration) -> Result<()> {
        // SAFETY: the client lives.
        match unsafe { sys::rd_kafka_flush(self.raw, milliseconds(wait)) } {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
            error => Err(text(error)),
        }
    }

    /// How many records wait to be told of.
    pub(crate) fn under_way(&self) -> i32 {
        // SAFETY: the client lives.
        unsafe { sys::rd_kafka_outq_len(self.raw) }
    }

    /// Calls `seen` with the next record's value, and whether there was one.
    pub(crate) fn receive(&self, wait: Duration, seen: impl FnOnce(&[u8])) -> Result<bool> {
        // SAFETY: the message is ours until it is destroyed, here.
        unsafe {
            let message = sys::rd_kafka_consumer_poll(self.raw, milliseconds(wait));
            if message.is_null() {
                return Ok(false);
            }
            let result = value_of(&*message).map(|value| {
                value.is_some_and(|value| {
                    seen(value);
                    true
                })
            });
            sys::rd_kafka_message_destroy(message);
            result
        }
    }

    /// Calls `seen` with the values of as many records as there are, up to a bound.
    pub(crate) fn receive_many(
        &self,
        queue: &Queue<'_>,
        wait: Duration,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut messages: [*mut sys::rd_kafka_message_t; MANY] = [ptr::null_mut(); MANY];
        // SAFETY: the library fills in as many pointers as it says; each message is destroyed once.
        unsafe {
            let count =
                sys::rd_kafka_consume_batch_queue(queue.raw, milliseconds(wait), messages.as_mut_ptr(), MANY);
            let mut result = Ok(());
            for message in &messages[..usize::try_from(count).unwrap_or(0)] {
                match value_of(&**message) {
                    Ok(value) => {
                        if let Some(value) = value {
                            seen(value);
                        }
                    }
                    Err(error) => result = Err(error),
                }
                sys::rd_kafka_message_destroy(*message);
            }
            result
        }
    }

    /// Where what it consumes arrives.
    pub(crate) fn queue(&self) -> Queue<'_> {
        // SAFETY: the client lives as long as the queue.
        Queue { raw: unsafe { sys::rd_kafka_queue_get_consumer(self.raw) }, _client: self }
    }

    /// A topic to produce to.
    pub(crate) fn topic(&self, name: &str) -> Result<Topic<'_>> {
        let name = c_string(name)?;
        // SAFETY: the name is copied.
        let raw = unsafe { sys::rd_kafka_topic_new(self.raw, name.as_ptr(), ptr::null_mut()) };
        match raw.is_null() {
            true => Err(format!("there can be no topic {name:?}")),
            false => Ok(Topic { raw, client: self }),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once. A consumer that was assigned by hand leaves nothing open.
        unsafe { sys::rd_kafka_destroy(self.raw) }
    }
}

impl Topic<'_> {
    /// Sends a record, to any partition if `partition` is -1, and waits for room if there is none.
    pub(crate) fn send(&self, partition: i32, value: &[u8], tag: usize) -> Result<()> {
        loop {
            // SAFETY: the value is copied by the library before the call returns.
            let sent = unsafe {
                sys::rd_kafka_produce(
                    self.raw,
                    partition,
                    sys::RD_KAFKA_MSG_F_COPY,
                    value.as_ptr().cast_mut().cast(),
                    value.len(),
                    ptr::null(),
                    0,
                    tag as *mut c_void,
                )
            };
            if sent == 0 {
                return Ok(());
            }
            // SAFETY: it only reads what the last call left.
            match unsafe { sys::rd_kafka_last_error() } {
                sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__QUEUE_FULL => {
                    self.client.poll(Duration::from_millis(1));
                }
                error => return Err(text(error)),
            }
        }
    }
}

impl Drop for Topic<'_> {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, before its client.
        unsafe { sys::rd_kafka_topic_destroy(self.raw) }
    }
}

/// The queue of a consumer.
#[derive(Debug)]
pub(crate) struct Queue<'c> {
    raw: *mut sys::rd_kafka_queue_t,
    _client: &'c Client,
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once, before its client.
        unsafe { sys::rd_kafka_queue_destroy(self.raw) }
    }
}

/// Settings of a client that is not there yet.
struct Configuration {
    raw: *mut sys::rd_kafka_conf_t,
}

impl Configuration {
    fn new(settings: &[(String, String)]) -> Result<Self> {
        // SAFETY: nothing is asked of the caller.
        let configuration = Self { raw: unsafe { sys::rd_kafka_conf_new() } };
        for (name, value) in settings {
            let mut error = [0; ERROR_LENGTH];
            let (name, value) = (c_string(name)?, c_string(value)?);
            // SAFETY: the texts live during the call, and the buffer is as long as is said.
            let result = unsafe {
                sys::rd_kafka_conf_set(
                    configuration.raw,
                    name.as_ptr(),
                    value.as_ptr(),
                    error.as_mut_ptr(),
                    ERROR_LENGTH,
                )
            };
            if result != sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
                return Err(text_in(&error));
            }
        }
        Ok(configuration)
    }

    fn client(mut self, kind: sys::rd_kafka_type_t) -> Result<Client> {
        let mut error = [0; ERROR_LENGTH];
        // SAFETY: the client takes the configuration if it is made.
        let raw = unsafe { sys::rd_kafka_new(kind, self.raw, error.as_mut_ptr(), ERROR_LENGTH) };
        if raw.is_null() {
            return Err(text_in(&error));
        }
        self.raw = ptr::null_mut();
        Ok(Client { raw })
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: no client has taken it.
            unsafe { sys::rd_kafka_conf_destroy(self.raw) }
        }
    }
}

/// The version of the library.
pub(crate) fn version() -> String {
    // SAFETY: a text that lives for ever.
    unsafe { CStr::from_ptr(sys::rd_kafka_version_str()) }.to_string_lossy().into_owned()
}

/// # Safety
/// The message is one that the library gave and that is not destroyed yet.
unsafe fn value_of(message: &sys::rd_kafka_message_t) -> Result<Option<&[u8]>> {
    match message.err {
        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR if message.payload.is_null() => Ok(Some(&[])),
        // SAFETY: the library says how long the payload is.
        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => {
            Ok(Some(unsafe { std::slice::from_raw_parts(message.payload.cast(), message.len) }))
        }
        sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => Ok(None),
        error => Err(text(error)),
    }
}

fn text(error: sys::rd_kafka_resp_err_t) -> String {
    // SAFETY: a text that lives for ever.
    unsafe { CStr::from_ptr(sys::rd_kafka_err2str(error)) }.to_string_lossy().into_owned()
}

fn text_in(buffer: &[c_char; ERROR_LENGTH]) -> String {
    // SAFETY: the library ends what it writes with a zero, and there was one before.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_string_lossy().into_owned()
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_zero| format!("{text:?} has a zero in it"))
}

fn milliseconds(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)
}

/// Records that are received at a time.
const MANY: usize = 10_000;

/// Bytes of what the library has to say of a mistake.
const ERROR_LENGTH: usize = 512;
