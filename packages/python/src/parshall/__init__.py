"""Event Hubs, Service Bus, Kafka and blob storage for tests: `parshall serve` as a child process on free ports.

    with parshall.serve(hubs={"orders": 4}, queues=["jobs"]) as service:
        EventHubProducerClient.from_connection_string(service.event_hubs_connection_string, eventhub_name="orders")
"""

from ._program import NoProgram
from ._service import Service, StartError, serve

__all__ = ["NoProgram", "Service", "StartError", "serve"]
