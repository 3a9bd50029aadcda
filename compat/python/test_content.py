"""What an event carries comes back as it was sent."""

import datetime
import uuid

from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType, AmqpMessageProperties

from receiving import receive
from service import connect


async def round_trip(service, hub, event, **options):
    """The event alone and in a batch, each as it is received."""
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(event, partition_id="0")
        batch = client.create_batch(partition_id="0")
        batch.add(event)
        client.send_batch(batch)
    return await receive(service.connection_string, hub, "0", 2, **options)


async def test_application_properties_keep_their_types(service, hub):
    event = EventData(b"body")
    event.properties = {
        "text": "ä日本",
        "empty": "",
        "true": True,
        "integer": -7,
        "largest": 2**31 - 1,
        "float": 1.5,
        "bytes": b"\x00\xff",
        "uuid": uuid.UUID(int=7),
    }
    expected = {key.encode(): value for key, value in event.properties.items()}
    expected[b"text"] = "ä日本".encode()
    expected[b"empty"] = b""
    for received in await round_trip(service, hub, event):
        assert received.properties == expected


async def test_the_standard_properties_come_back(service, hub):
    event = EventData("body")
    event.content_type = "application/json"
    event.message_id = "id-1"
    event.correlation_id = "id-0"
    for received in await round_trip(service, hub, event):
        assert received.content_type == "application/json"
        assert received.message_id == "id-1"
        assert received.correlation_id == "id-0"


async def test_every_property_of_an_amqp_message_comes_back(service, hub):
    expiry = int(datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc).timestamp() * 1000)
    message = AmqpAnnotatedMessage(
        data_body=b"body",
        properties=AmqpMessageProperties(
            message_id="m",
            user_id=b"u",
            to="t",
            subject="s",
            reply_to="r",
            correlation_id="c",
            content_type="text/plain",
            content_encoding="gzip",
            creation_time=1,
            absolute_expiry_time=expiry,
            group_id="g",
            group_sequence=5,
            reply_to_group_id="rg",
        ),
    )
    for received in await round_trip(service, hub, message):
        properties = received.raw_amqp_message.properties
        got = {name: getattr(properties, name) for name in vars(message.properties) if not name.startswith("_")}
        text = {key: value.decode() if isinstance(value, bytes) else value for key, value in got.items()}
        assert text == {
            "message_id": "m",
            "user_id": "u",
            "to": "t",
            "subject": "s",
            "reply_to": "r",
            "correlation_id": "c",
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "creation_time": 1,
            "absolute_expiry_time": expiry,
            "group_id": "g",
            "group_sequence": 5,
            "reply_to_group_id": "rg",
        }


async def test_every_kind_of_body_comes_back(service, hub):
    value = {b"key": [1, b"two", None, True]}
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for message in [
            AmqpAnnotatedMessage(data_body=[b"one", b"", b"three"]),
            AmqpAnnotatedMessage(value_body=value),
            AmqpAnnotatedMessage(sequence_body=[[1, 2], [b"x"]]),
            AmqpAnnotatedMessage(data_body=b""),
        ]:
            client.send_event(message, partition_id="0")
    data, single, sequence, empty = await receive(service.connection_string, hub, "0", 4)
    assert (data.body_type, list(data.body)) == (AmqpMessageBodyType.DATA, [b"one", b"", b"three"])
    assert (single.body_type, single.body) == (AmqpMessageBodyType.VALUE, value)
    assert (sequence.body_type, list(sequence.body)) == (AmqpMessageBodyType.SEQUENCE, [[1, 2], [b"x"]])
    assert b"".join(empty.body) == b""


async def test_annotations_come_back_and_those_of_the_service_win(service, hub):
    message = AmqpAnnotatedMessage(
        data_body=b"body",
        annotations={"own": "kept", "x-opt-sequence-number": 77, "x-opt-offset": "77", "x-opt-enqueued-time": 77},
    )
    for expected, received in enumerate(await round_trip(service, hub, message)):
        annotations = received.raw_amqp_message.annotations
        assert annotations[b"own"] == b"kept"
        assert (received.sequence_number, received.offset) == (expected, str(expected))
        assert received.enqueued_time.year > 2000
        assert len(annotations) == 4


async def test_large_annotations_and_properties_come_back(service, hub):
    long = "x" * 300
    message = AmqpAnnotatedMessage(data_body=b"body", annotations={"own": long, "number": 5})
    message.application_properties = {f"property-{number}": long for number in range(100)}
    for received in await round_trip(service, hub, message):
        assert received.raw_amqp_message.annotations[b"own"] == long.encode()
        assert received.raw_amqp_message.annotations[b"number"] == 5
        assert len(received.properties) == 100 and set(received.properties.values()) == {long.encode()}
