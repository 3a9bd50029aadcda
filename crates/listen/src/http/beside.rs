//! Pages beside work that they must not disturb: on a thread of their own, which takes what the others leave.

use std::future::{Future, pending};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use hyper::http::request::Parts;
use tokio::runtime::Builder;

use super::pages::{Page, serve_pages};
use crate::acceptor::Acceptor;

/// Serves the pages that `page` finds for as long as the process lives, with at most `maximum` connections at once. What
/// that costs comes from cores that rest; where none does, it gets a tenth of one, so that probes are answered in time.
///
/// # Errors
/// The system gives no thread, or nothing to wait with.
pub fn serve_pages_beside<P, F>(
    listener: TcpListener,
    name: &'static str,
    page: P,
    maximum: u64,
) -> io::Result<()>
where
    P: Fn(Parts) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Page>> + Send,
{
    let runtime = Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let acceptor = {
        let _entered = runtime.enter();
        Acceptor::new(tokio::net::TcpListener::from_std(listener)?, name, Arc::default())
    };
    let serve = move || {
        // Of this thread alone. Where it is refused, the pages have the share of any other thread.
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::debug!(%error, "the pages are served with the priority of the rest");
        }
        runtime.block_on(serve_pages(acceptor, page, maximum, pending()));
    };
    thread::Builder::new().name(name.to_owned()).spawn(serve).map(drop)
}

/// The weight of such a thread is 110 where others have 1024.
const NICE: i32 = 10;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn pages_are_served_from_a_thread_that_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let page = async |_: Parts| {
            let nice = rustix::process::getpriority_process(None).expect("every thread has one");
            Some(Page::plain(format!("{nice}")))
        };
        serve_pages_beside(listener, "pages", page, 2).expect("a thread");
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("answered");
        assert!(answer.ends_with(&NICE.to_string()), "{answer}");
        let own = rustix::process::getpriority_process(None).expect("every thread has one");
        assert!(own < NICE, "the others keep theirs");
    }
}
