"""Sending: single events and batches, to a partition, by key, or to whichever partition."""

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AsyncProducerClient
from azure.eventhub.exceptions import EventDataSendError

from receiving import bodies, receive
from service import PARTITIONS, connect

# Partitions of four, as the service's hash has them; other clients compute the same.
PARTITION_OF_KEY = {"a": "0", "ab": "1", "abc": "1", "7": "3", "alphabet": "2", "131": "2", "key-1": "2"}


def last_sequence_numbers(client):
    ids = [str(number) for number in range(PARTITIONS)]
    return [client.get_partition_properties(id)["last_enqueued_sequence_number"] for id in ids]


async def test_a_single_event_reaches_the_partition_that_it_names(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        client.send_event(EventData("one"), partition_id="2")
        assert last_sequence_numbers(client) == [-1, -1, 0, -1]
    assert bodies(await receive(service.connection_string, hub, "2", 1)) == ["one"]


async def test_a_batch_stays_together_and_in_order(service, hub):
    expected = [str(number) for number in range(1000)]
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        batch = client.create_batch(partition_id="3")
        for body in expected:
            batch.add(EventData(body))
        client.send_batch(batch)
    events = await receive(service.connection_string, hub, "3", len(expected))
    assert bodies(events) == expected
    assert [event.sequence_number for event in events] == list(range(len(expected)))
    assert [event.offset for event in events] == expected


async def test_a_batch_of_one_and_a_list_are_sent_as_well(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        batch = client.create_batch(partition_id="0")
        batch.add(EventData("one"))
        client.send_batch(batch)
        client.send_batch([EventData("two"), EventData("three")], partition_id="0")
    assert bodies(await receive(service.connection_string, hub, "0", 3)) == ["one", "two", "three"]


async def test_events_without_a_partition_are_spread_over_all(service, hub):
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for _ in range(2 * PARTITIONS):
            client.send_event(EventData("any"))
        assert last_sequence_numbers(client) == [1] * PARTITIONS


async def test_a_key_decides_the_partition_of_batches_and_of_single_events(service, hub):
    expected = {str(number): [] for number in range(PARTITIONS)}
    with connect(EventHubProducerClient, service.connection_string, hub) as client:
        for key, partition in PARTITION_OF_KEY.items():
            batch = client.create_batch(partition_key=key)
            batch.add(EventData(f"{key} in a batch"))
            client.send_batch(batch)
            client.send_event(EventData(f"{key} alone"), partition_key=key)
            expected[partition] += [(f"{key} in a batch", key), (f"{key} alone", key)]
    for partition, of_partition in expected.items():
        events = await receive(service.connection_string, hub, partition, len(of_partition))
        assert [(event.body_as_str(), event.partition_key.decode()) for event in events] == of_partition


async def test_an_event_as_large_as_the_link_takes_arrives_and_a_larger_one_does_no_harm(service, hub):
    overhead = 16
    largest = b"x" * (1024 * 1024 - overhead)
    with connect(EventHubProducerClient, service.connection_string, hub, retry_total=0) as client:
        with pytest.raises(ValueError):
            client.create_batch(partition_id="0").add(EventData(b"x" * 1024 * 1024))
        with pytest.raises(EventDataSendError, match="exceeds the limit"):
            client.send_event(EventData(largest + b"x" * 2 * overhead), partition_id="0")
        client.send_event(EventData(largest), partition_id="0")
        client.send_event(EventData("small"), partition_id="0")
    events = await receive(service.connection_string, hub, "0", 2)
    assert (b"".join(events[0].body), events[1].body_as_str()) == (largest, "small")


async def test_the_asynchronous_client_sends_as_well(service, hub):
    async with connect(AsyncProducerClient, service.connection_string, hub) as client:
        assert await client.get_partition_ids() == [str(number) for number in range(PARTITIONS)]
        batch = await client.create_batch(partition_id="1")
        batch.add(EventData("in a batch"))
        await client.send_batch(batch)
        await client.send_event(EventData("alone"), partition_id="1")
    assert bodies(await receive(service.connection_string, hub, "1", 2)) == ["in a batch", "alone"]


async def test_the_asynchronous_client_has_the_service_choose_the_partition_of_a_key(service, hub):
    async with connect(AsyncProducerClient, service.connection_string, hub) as client:
        for key, partition in PARTITION_OF_KEY.items():
            before = (await client.get_partition_properties(partition))["last_enqueued_sequence_number"]
            batch = await client.create_batch(partition_key=key)
            batch.add(EventData("in a batch"))
            await client.send_batch(batch)
            await client.send_event(EventData("alone"), partition_key=key)
            after = (await client.get_partition_properties(partition))["last_enqueued_sequence_number"]
            assert after == before + 2


async def test_the_asynchronous_client_is_told_that_an_event_is_too_large_and_goes_on(service, hub):
    async with connect(AsyncProducerClient, service.connection_string, hub, retry_total=0) as client:
        with pytest.raises(EventDataSendError, match="exceeds the limit"):
            await client.send_event(EventData(b"x" * (1024 * 1024 + 16)), partition_id="0")
        await client.send_event(EventData("small"), partition_id="0")
    assert bodies(await receive(service.connection_string, hub, "0", 1)) == ["small"]


async def test_a_buffered_producer_delivers_everything(service, hub):
    failed = []

    def on_error(events, _partition, error):
        failed.append((events, error))

    options = {"buffered_mode": True, "on_success": lambda *_: None, "on_error": on_error}
    expected = [str(number) for number in range(2000)]
    with connect(EventHubProducerClient, service.connection_string, hub, **options) as client:
        for body in expected:
            client.send_event(EventData(body), partition_id="0")
        client.flush(timeout=20)
    assert failed == []
    assert bodies(await receive(service.connection_string, hub, "0", len(expected))) == expected


async def test_the_asynchronous_buffered_producer_delivers_everything(service, hub):
    failed, succeeded = [], []

    async def on_error(events, _partition, error):
        failed.append((events, error))

    async def on_success(events, _partition):
        succeeded.extend(bodies(events))

    options = {"buffered_mode": True, "on_success": on_success, "on_error": on_error}
    expected = [str(number) for number in range(2000)]
    async with connect(AsyncProducerClient, service.connection_string, hub, **options) as client:
        for body in expected:
            await client.send_event(EventData(body), partition_id="0")
        await client.flush(timeout=20)
    assert failed == []
    assert succeeded == expected
    assert bodies(await receive(service.connection_string, hub, "0", len(expected))) == expected
