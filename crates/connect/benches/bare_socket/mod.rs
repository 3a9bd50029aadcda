//! The reference of the clients' benchmarks: the same bytes through a socket, and nothing else done to them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Moves `bytes` over loopback; the processor time of the end that `direction` names.
pub(crate) fn socket(bytes: u64, direction: Direction) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let reader = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut piece = vec![0; PIECE];
        let start = processor_time();
        while socket.read(&mut piece).expect("bytes") > 0 {}
        processor_time() - start
    });
    let mut socket = TcpStream::connect(address).expect("a listener");
    let piece = vec![7; PIECE];
    let start = processor_time();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(PIECE as u64);
        socket.write_all(&piece[..part as usize]).expect("a reader");
        left -= part;
    }
    let written = processor_time() - start;
    drop(socket);
    let read = reader.join().expect("the reader ends");
    match direction {
        Direction::Read => read,
        Direction::Write => written,
    }
}

/// What this thread has used of the processor.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const PIECE: usize = 64 * 1024;
