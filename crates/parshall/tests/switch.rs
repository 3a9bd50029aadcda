//! An endpoint that can be taken away: connections to it are passed on to another address, or refused as by a machine on
//! which nothing listens.
//!
//! The port stays the same, and nobody else gets it in the meantime: a socket that is bound to it, and does not listen, is
//! always there.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The way to an address, on or off.
pub(crate) struct Switch {
    address: SocketAddr,
    target: SocketAddr,
    /// Keeps the port, and listens next.
    keeper: TcpSocket,
    passing: Option<JoinHandle<()>>,
}

impl Switch {
    /// A way to `target`, which is on.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let keeper = bound_to((Ipv4Addr::LOCALHOST, 0).into());
        let mut switch = Self { address: keeper.local_addr().unwrap(), target, keeper, passing: None };
        switch.turn_on();
        switch
    }

    /// Where clients connect to.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets connections through from now on.
    pub(crate) fn turn_on(&mut self) {
        let listening = std::mem::replace(&mut self.keeper, bound_to(self.address));
        let listener = listening.listen(BACKLOG).unwrap();
        let target = self.target;
        self.passing = Some(tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                connections.spawn(async move {
                    let mut service = TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut service).await
                });
            }
        }));
    }

    /// Breaks all connections; further ones are passed on to `target`.
    pub(crate) async fn lead_to(&mut self, target: SocketAddr) {
        self.turn_off().await;
        self.target = target;
        self.turn_on();
    }

    /// Breaks all connections and refuses further ones, from when this returns.
    pub(crate) async fn turn_off(&mut self) {
        if let Some(passing) = self.passing.take() {
            passing.abort();
            // Listener and connections are closed once the task is gone.
            assert!(passing.await.unwrap_err().is_cancelled());
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            passing.abort();
        }
    }
}

fn bound_to(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

const BACKLOG: u32 = 64;
