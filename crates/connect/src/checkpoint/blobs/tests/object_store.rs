//! The integration suite of `object_store`, the crate that deltalake, polars, lance and others access storage with.

use std::time::Duration;

use access::storage::StorageCredential;
use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, integration};

use super::service::a_store;
use crate::hyper_client::{HyperClient, hyper_client};

#[tokio::test]
async fn the_suite_of_object_store_passes() {
    let (_store, keep) = a_store().await;
    let StorageCredential::Key(key) = &keep.connection_string.credential else {
        panic!("the account has a key");
    };
    let store = MicrosoftAzureBuilder::new()
        .with_account(key.account())
        .with_access_key(key.value().reveal())
        .with_container_name(&keep.container)
        .with_endpoint(keep.connection_string.blob_endpoint.clone())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .with_http_connector(Plain)
        .build()
        .expect("an account");
    let store: &MicrosoftAzure = &store;
    integration::put_get_delete_list(store).await;
    integration::put_get_attributes(store).await;
    integration::list_with_offset_exclusivity(store).await;
    integration::get_opts(store).await;
    integration::list_uses_directories_correctly(store).await;
    integration::list_with_delimiter(store).await;
    integration::rename_and_copy(store).await;
    integration::copy_if_not_exists(store).await;
    integration::copy_rename_nonexistent_object(store).await;
    integration::stream_get(store).await;
    integration::put_opts(store, true).await;
    integration::multipart(store, store).await;
    integration::multipart_put_part_out_of_order(store, store).await;
    integration::multipart_race_condition(store, false).await;
    integration::multipart_out_of_order(store).await;
    integration::list_paginated(store, store).await;
}

/// A connector without TLS.
#[derive(Debug)]
struct Plain;

#[derive(Debug)]
struct Transport(HyperClient<HttpRequestBody>);

impl HttpConnector for Plain {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = trust::without_authorities().expect("no certificates to be read");
        Ok(HttpClient::new(Transport(hyper_client(&tls, Duration::from_secs(10)))))
    }
}

#[async_trait]
impl HttpService for Transport {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.request(request).await;
        let (head, body) =
            response.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?.into_parts();
        let body = body.collect().await.map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
        Ok(HttpResponse::from_parts(head, HttpResponseBody::from(body.to_bytes())))
    }
}
