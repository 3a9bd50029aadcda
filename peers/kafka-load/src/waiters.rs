//! Consumers that wait: one connection each, and in each a Fetch in which nothing comes before its time is over.
//!
//! Written by hand, since a thousand clients of librdkafka would be thousands of threads.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::librdkafka::Result;

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let (connections, seconds) = (arguments.number("connections")?, arguments.number("seconds")?);
    let offset = arguments.number("offset")?;
    let fetch = fetch(&arguments.topic, offset, Duration::from_secs(seconds + 60));
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(&arguments.address).map_err(|error| error.to_string())?;
        stream.write_all(&fetch).map_err(|error| error.to_string())?;
        streams.push(stream);
    }
    // By then the last of them waits.
    thread::sleep(Duration::from_secs(1));
    println!("waiting");
    thread::sleep(Duration::from_secs(seconds));
    for stream in &mut streams {
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        if !matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock) {
            return Err("a consumer was answered, or its connection closed".to_owned());
        }
    }
    Ok(format!("{{\"connections\":{connections},\"seconds\":{seconds}}}"))
}

/// The first partition of a topic, from there on; version 4.
fn fetch(topic: &str, offset: u64, wait: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    let short = |body: &mut Vec<u8>, value: i16| body.extend_from_slice(&value.to_be_bytes());
    let int = |body: &mut Vec<u8>, value: i32| body.extend_from_slice(&value.to_be_bytes());
    short(&mut body, 1);
    short(&mut body, 4);
    int(&mut body, 1);
    // No name.
    short(&mut body, -1);
    // No replica.
    int(&mut body, -1);
    int(&mut body, i32::try_from(wait.as_millis()).unwrap_or(i32::MAX));
    // From one byte to a million, uncommitted ones as well.
    int(&mut body, 1);
    int(&mut body, 1_000_000);
    body.push(0);
    int(&mut body, 1);
    short(&mut body, i16::try_from(topic.len()).unwrap_or(i16::MAX));
    body.extend_from_slice(topic.as_bytes());
    int(&mut body, 1);
    int(&mut body, 0);
    body.extend_from_slice(&offset.to_be_bytes());
    int(&mut body, 1_000_000);
    let mut frame = i32::try_from(body.len()).unwrap_or(i32::MAX).to_be_bytes().to_vec();
    frame.extend_from_slice(&body);
    frame
}
