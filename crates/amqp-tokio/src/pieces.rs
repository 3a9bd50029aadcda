//! Writing to peers on the same machine that have a small receive buffer.
//!
//! Old .NET libraries set a buffer of 8 KiB once they are connected. A segment on the loopback device has up to 64 KiB, and
//! the system holds back one that exceeds what the peer takes until a timer of 200 ms and more sends a part of it: a batch of
//! 1 MB takes seconds. A small piece that ends a record (`MSG_EOR`) stays a segment of its own, and fits.
//!
//! What a peer takes shows only when it has received what it had offered before it set its buffer, 64 KiB. So the first bytes
//! of a connection go in pieces; then the system is asked, and most connections write freely from there on:
//!
//! ```text
//! ├ 128 KiB in pieces ┤ asked: 64 KiB or more ─ everything freely
//!                     └ asked: 8 KiB ─ 128 KiB in pieces ┤ asked …
//! ```
//!
//! A smaller segment size for all connections (`TCP_MAXSEG`) would do as well, at half as much processor time again per byte.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What is still to be written in pieces before the system is asked.
#[derive(Debug)]
pub(crate) struct Pieces {
    left: usize,
}

impl Pieces {
    /// For a connection whose peer is on this machine; `None` for others, whose segments are small.
    pub(crate) fn for_peer_of(stream: &TcpStream) -> Option<Self> {
        let peer = stream.peer_addr().ok()?;
        peer.ip().to_canonical().is_loopback().then_some(Self { left: BETWEEN_QUESTIONS })
    }

    /// Writes the beginning of `bytes`, and says whether more has to be written in this way.
    pub(crate) fn poll_write(
        &mut self,
        stream: &TcpStream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<(usize, GoesOn)>> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let flags = SendFlags::EOR | SendFlags::NOSIGNAL;
        let write = || rustix::net::send(stream, piece, flags).map_err(io::Error::from);
        let length = loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(Interest::WRITABLE, write) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => break written?,
            }
        };
        self.left = self.left.saturating_sub(length);
        if self.left > 0 {
            return Poll::Ready(Ok((length, GoesOn::InPieces)));
        }
        self.left = BETWEEN_QUESTIONS;
        let goes_on = match send_window(stream) {
            Some(window) if window < USUAL_WINDOW => GoesOn::InPieces,
            Some(_) | None => GoesOn::Freely,
        };
        Poll::Ready(Ok((length, goes_on)))
    }
}

/// How a connection writes from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GoesOn {
    InPieces,
    Freely,
}

/// What the peer of a connection takes at present, in bytes; `None` where the system does not say.
fn send_window(stream: &TcpStream) -> Option<u32> {
    let request = request(stream.local_addr().ok()?, stream.peer_addr().ok()?)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))
            .ok()?;
    rustix::net::send(&socket, &request, SendFlags::empty()).ok()?;
    // The answer has been queued by the time that the question is sent.
    let mut answer = [0; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).ok()?;
    window_of(&answer[..length.min(1024)])
}

/// The question for one connection: `nlmsghdr` and `inet_diag_req_v2` (`sock_diag(7)`).
fn request(local: SocketAddr, peer: SocketAddr) -> Option<Vec<u8>> {
    let family = match local {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let mut request = Vec::with_capacity(REQUEST_LENGTH);
    request.extend((REQUEST_LENGTH as u32).to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port: neither matters with one question and one answer.
    request.extend([0; 8]);
    request.extend([u8::try_from(family.as_raw()).ok()?, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    // Whatever the state of the connection.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    for address in [local, peer] {
        let mut octets = [0; 16];
        match address.ip() {
            IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => octets = ip.octets(),
        }
        request.extend(octets);
    }
    // Any interface, and any cookie.
    request.extend(0_u32.to_ne_bytes());
    request.extend([0xff; 8]);
    Some(request)
}

/// The window in an answer: `nlmsghdr`, `inet_diag_msg`, and attributes of which one is `tcp_info`.
fn window_of(answer: &[u8]) -> Option<u32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut rest = answer.get(ATTRIBUTES_AT..)?;
    loop {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let attribute = rest.get(4..length)?;
        if kind == INET_DIAG_INFO {
            return attribute.get(WINDOW_AT..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

/// Bytes of a piece: half of the smallest buffer that is known.
const PIECE: usize = 4 * 1024;

/// Bytes in pieces between two questions: twice the window that a peer offers at first.
const BETWEEN_QUESTIONS: usize = 128 * 1024;

/// Window from which on a peer's buffer is no small one, in bytes.
const USUAL_WINDOW: u32 = 32 * 1024;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const INET_DIAG_INFO: u16 = 2;

/// `nlmsghdr` has 16 bytes, `inet_diag_req_v2` 56, and `inet_diag_msg` 72.
const REQUEST_LENGTH: usize = 16 + 56;
const ATTRIBUTES_AT: usize = 16 + 72;

/// Where `tcp_info` has `tcpi_snd_wnd` (Linux 5.4 and later).
const WINDOW_AT: usize = 228;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use crate::Socket;

    /// Sends so many bytes to a client that has set this receive buffer, and returns the socket that sent them.
    async fn sent(address: &str, receive_buffer: Option<usize>, length: usize) -> Socket {
        let listener = TcpListener::bind(address).await.unwrap();
        let place = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(place), listener.accept());
        let mut client = client.unwrap();
        if let Some(bytes) = receive_buffer {
            rustix::net::sockopt::set_socket_recv_buffer_size(&client, bytes).unwrap();
        }
        let mut server = Socket::accepted(accepted.unwrap().0);
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut received = vec![0; length];
        let (written, read) = tokio::join!(server.write_all(&bytes), client.read_exact(&mut received));
        written.unwrap();
        read.unwrap();
        assert!(received == bytes, "it arrives as it was sent");
        server
    }

    #[tokio::test]
    async fn only_peers_with_a_small_buffer_are_written_to_in_pieces_for_long() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let server = sent(address, Some(8_192), 1 << 20).await;
            assert!(server.writes_in_pieces(), "{address}: its window is small");
            let server = sent(address, None, BETWEEN_QUESTIONS / 2).await;
            assert!(server.writes_in_pieces(), "{address}: it was not asked yet");
            let server = sent(address, None, 1 << 20).await;
            assert!(!server.writes_in_pieces(), "{address}: its window is the usual one");
        }
    }

    #[test]
    fn an_answer_that_is_none_says_nothing() {
        let mut answer = vec![0; ATTRIBUTES_AT];
        assert_eq!(window_of(&answer), None, "another kind");
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        assert_eq!(window_of(&answer), None, "no attributes");
        for length in [0_u16, 3, 4, 200] {
            let mut cut = answer.clone();
            cut.extend(length.to_ne_bytes());
            cut.extend(INET_DIAG_INFO.to_ne_bytes());
            cut.extend([0; 190]);
            assert_eq!(window_of(&cut), None, "{length}");
        }
        answer.extend(8_u16.to_ne_bytes());
        answer.extend(1_u16.to_ne_bytes());
        answer.extend([0; 4]);
        answer.extend((4 + WINDOW_AT as u16 + 4).to_ne_bytes());
        answer.extend(INET_DIAG_INFO.to_ne_bytes());
        answer.extend([0; WINDOW_AT]);
        answer.extend(8_000_u32.to_ne_bytes());
        assert_eq!(window_of(&answer), Some(8_000));
    }
}
