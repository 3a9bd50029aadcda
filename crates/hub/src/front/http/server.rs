//! From a connection to the requests on it, for every service over HTTP.
//!
//! A [`Service`] sees one request at a time and the client that sent it. How connections are accepted is with the listener;
//! heads, bodies and silences are bounded by [`listen::http`].

use std::error::Error;
use std::future::Future;
use std::net::IpAddr;

use access::TransportSecurity;
use bytes::Bytes;
use hyper::body::Body;
use hyper::{Request, Response};
use listen::Place;
use listen::http::{Limits, RequestBody, serve_connection};

use crate::front::listener::Connection;

/// What answers requests.
pub(super) trait Service: Sync {
    /// The body of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static;

    /// The response to a request, whatever becomes of it.
    fn answer(
        &self,
        request: Request<RequestBody>,
        client: &Client<'_>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) security: TransportSecurity,
}

/// Who asks, and in which place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client<'a> {
    pub(super) peer: Peer,
    place: &'a Place,
}

impl Client<'_> {
    /// It has shown that it may do something: its connection keeps its place.
    pub(super) fn prove(&self) {
        self.place.prove();
    }
}

/// Serves the requests of a connection until it ends.
pub(super) async fn serve(service: &impl Service, connection: Connection, limits: &Limits) {
    let Connection { stream, security, peer, place, stop, .. } = connection;
    let client = Client { peer: Peer { address: peer.ip(), security }, place: &place };
    let answer = |request| service.answer(request, &client);
    serve_connection(stream, peer, &place, limits, answer, stop).await;
}
