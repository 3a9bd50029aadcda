"""How the client of this run connects: over plain TCP, where it can, as most people do, and else over TLS.

The asynchronous clients of azure-eventhub 5.14 and azure-servicebus 7.14 set the maximum segment size of a connection to the value that it has. The
loopback device refuses that above 32,767 bytes, which is what it has once TLS has been negotiated.
"""

import os

# The first versions with `UseDevelopmentEmulator`.
PLAIN_FROM = {"azure-eventhub": (5, 12), "azure-servicebus": (7, 14)}


def arguments(service, transport_type) -> tuple[str, dict]:
    """The connection string, and what the client is told besides."""
    package, version = os.environ["COMPAT_CLIENT"].split("==")
    if tuple(int(part) for part in version.split(".")[:2]) >= PLAIN_FROM[package]:
        return service.connection_string, {}
    # The port has to be said once more: with TLS the client takes 5671 whatever the connection string says.
    return service.tls_connection_string, {
        "custom_endpoint_address": f"sb://{service.tls_address}",
        "connection_verify": service.authority,
        "transport_type": transport_type.Amqp,
    }
