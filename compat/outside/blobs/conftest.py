"""An account with a container for each test. `BLOB_ENDPOINT` is its endpoint, the key is the development emulator's."""

import os
import urllib.parse
import uuid

import pytest
from azure.storage.blob import BlobServiceClient

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Account:
    """What programs need to know of the account."""

    name, key = ACCOUNT, KEY

    def __init__(self, endpoint):
        self.endpoint = f"{endpoint}/{ACCOUNT}"
        self.address = urllib.parse.urlsplit(endpoint).netloc
        self.connection_string = (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.endpoint};"
        )


@pytest.fixture(scope="session")
def account():
    return Account(os.environ["BLOB_ENDPOINT"])


@pytest.fixture
def container(account):
    """The name of a new container."""
    name = f"box-{uuid.uuid4()}"
    with BlobServiceClient.from_connection_string(account.connection_string) as client:
        client.create_container(name)
    return name
