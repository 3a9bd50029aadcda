"""The suites of the Go modules: what they expect to find, and which of their helpers give way to ours.

A helper that would ask for a token or a queue of another broker is renamed in the copy, so that the one in `additions/` takes its place.
"""

from dataclasses import dataclass, field

import service

AZURE = "github.com/Azure/azure-sdk-for-go/sdk"


@dataclass
class Suite:
    module: str
    # The file of `--config`, without host and keys.
    namespace: str
    # The same for packages that need another one.
    namespaces: dict[str, str] = field(default_factory=dict)
    # What `parshall serve` gets besides.
    arguments: tuple[str, ...] = ()
    # What the tests read from their environment; `{host}` is the service's address.
    variables: dict[str, str] = field(default_factory=dict)
    # Files (a `*` stands for any) and what is replaced in them.
    changes: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    # Folders of `additions/`, and where their files go.
    additions: dict[str, str] = field(default_factory=dict)
    # Packages whose tests connect to nothing.
    without_service: tuple[str, ...] = ()
    # Whether the tests use the credentials of the SDKs' own module for tests.
    shared_helpers: bool = True
    # Whether the tests are methods: a package's only test `Test` runs all of them.
    methods: bool = False
    # How long one test may take.
    seconds: int = 150

    def environment(self, host: str) -> dict[str, str]:
        variables = COMMON | self.variables
        return {name: value.replace("{host}", host) for name, value in variables.items()}


def _string(name: str, key: str) -> str:
    return f"Endpoint=sb://{{host}}/;SharedAccessKeyName={name};SharedAccessKey={key}"


COMMON = {
    "AZURE_RECORD_MODE": "live",
    "PARSHALL_HOST": "{host}",
    "PARSHALL_KEY_NAME": service.KEY_NAME,
    "PARSHALL_KEY": service.KEY,
    "PARSHALL_ACCOUNT": service.ACCOUNT,
    "PARSHALL_ACCOUNT_KEY": service.ACCOUNT_KEY,
}

ALL = _string(service.KEY_NAME, service.KEY)
SEND_ONLY = _string("sender", "SEND_KEY_VALUE")
LISTEN_ONLY = _string("listener", "LISTEN_KEY_VALUE")

SUITES = {
    "go-amqp": Suite(
        module="github.com/Azure/go-amqp",
        namespace="queues:\n"
        + "".join(f"  - {{name: queue-{number}}}\n" for number in range(400))
        + "".join(
            f"  - {{name: {name}}}\n"
            for name in [
                "TestIntegrationLinkName",
                "TestIntegrationClose",
                "TestReceiverModeFirst",
                "TestReceiverModeFirstOther",
                "TestSenderExactlyOnce",
                "thesource",
                "TestMultipleSendersSharedSession",
                "TestSenderNullValue",
            ]
        ),
        variables={"AMQP_BROKER_ADDR": f"amqps://{service.KEY_NAME}:{service.KEY}@{{host}}"},
        changes={
            "integration_test.go": [
                ('fmt.Sprintf("%s %d", tt.label, rng.Uint64())', "unusedQueue()"),
                ('fmt.Sprintf("TestIntegrationSessionHandleMax %d", rng.Uint64())', "unusedQueue()"),
                ('fmt.Sprintf("TestReceivingLotsOfSettledMessages %d", rng.Uint64())', "unusedQueue()"),
                ('fmt.Sprintf("TestDrainingLink-%d", rand.Int63())', "unusedQueue()"),
            ]
        },
        additions={"go-amqp": "."},
        without_service=("internal/bitmap", "internal/buffer", "internal/encoding", "internal/frames", "internal/queue"),
        shared_helpers=False,
    ),
    "azeventhubs": Suite(
        module=f"{AZURE}/messaging/azeventhubs/v2",
        namespace="hubs:\n  - {name: hub, partitions: 4}\n  - {name: links, partitions: 1}\n",
        variables={
            "AZURE_SUBSCRIPTION_ID": "none",
            "RESOURCE_GROUP": "none",
            "CHECKPOINTSTORE_STORAGE_ENDPOINT": f"http://{{host}}:10000/{service.ACCOUNT}",
            "EVENTHUB_NAME": "hub",
            "EVENTHUB_LINKSONLY_NAME": "links",
            "EVENTHUB_NAMESPACE": "{host}",
            "EVENTHUB_CONNECTION_STRING": ALL,
            "EVENTHUB_CONNECTION_STRING_SEND_ONLY": SEND_ONLY,
            "EVENTHUB_CONNECTION_STRING_LISTEN_ONLY": LISTEN_ONLY,
        },
        changes={
            file: [(f'"{AZURE}/storage/azblob/container"', f'"{AZURE}/messaging/azeventhubs/v2/internal/parshall/container"')]
            for file in ("processor_test.go", "checkpoints/blob_store_test.go")
        },
        additions={"azeventhubs-container": "internal/parshall/container"},
        without_service=("internal/amqpwrap", "internal/exported", "internal/sas", "internal/utils"),
        seconds=240,
    ),
    "azservicebus": Suite(
        module=f"{AZURE}/messaging/azservicebus",
        namespace="queues:\n  - {name: testQueue}\n  - {name: testQueueWithSessions, requires_session: true}\n",
        # As large as messages are in the tier that most tests of administration expect.
        namespaces={"admin": "largest_message: 256 KiB\nhubs: []\n"},
        arguments=("--dev-identity",),
        variables={
            "SERVICEBUS_ENDPOINT": "{host}",
            "SERVICEBUS_ENDPOINT_PREMIUM": "{host}",
            "SERVICEBUS_CONNECTION_STRING": ALL,
            "SERVICEBUS_CONNECTION_STRING_PREMIUM": ALL,
            "SERVICEBUS_CONNECTION_STRING_NO_MANAGE": SEND_ONLY,
            "SERVICEBUS_CONNECTION_STRING_SEND_ONLY": SEND_ONLY,
            "SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY": LISTEN_ONLY,
        },
        without_service=(
            "internal/amqpwrap",
            "internal/conn",
            "internal/exported",
            "internal/mock/emulation",
            "internal/sas",
            "internal/utils",
        ),
    ),
    "azblob": Suite(
        module=f"{AZURE}/storage/azblob",
        namespace="hubs: []\n",
        variables={
            "AZURE_STORAGE_ACCOUNT_NAME": service.ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": service.ACCOUNT_KEY,
            "PROXY_MANUAL_START": "true",
        },
        changes={
            "internal/testcommon/clients_auth.go": [
                ('"https://"+cred.AccountName()+".blob.core.windows.net/"', 'Endpoint+cred.AccountName()+"/"'),
                (
                    "DefaultEndpointsProtocol=https;AccountName=%s;AccountKey=%s;EndpointSuffix=core.windows.net/",
                    "DefaultEndpointsProtocol=https;AccountName=%s;AccountKey=%s;BlobEndpoint=%s%s",
                ),
                ("\t\taccountName, accountKey)\n", "\t\taccountName, accountKey, Endpoint, accountName)\n"),
            ],
            "**/client_test.go": [
                ('"https://" + accountName + ".blob.core.windows.net', 'testcommon.Endpoint + accountName + "'),
                ('"https://"+accountName+".blob.core.windows.net', 'testcommon.Endpoint+accountName+"'),
                ('"https://" + cred.AccountName() + ".blob.core.windows.net', 'testcommon.Endpoint + cred.AccountName() + "'),
                ('"https://"+cred.AccountName()+".blob.core.windows.net', 'testcommon.Endpoint+cred.AccountName()+"'),
                ('"https://%s.blob.core.windows.net', 'testcommon.Endpoint+"%s'),
                (
                    '"https://" + accountName + "." + testcommon.DefaultBlobEndpointSuffix +',
                    'testcommon.Endpoint + accountName + "/" +',
                ),
            ],
        },
        additions={"azblob": "internal/testcommon"},
        without_service=("internal/arrow", "internal/base", "internal/exported", "internal/shared", "sas"),
        methods=True,
        seconds=60,
    ),
}
