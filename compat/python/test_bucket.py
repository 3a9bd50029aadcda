"""What a relay archives in a bucket of S3, on a server that is not ours, read back by the official client and by readers of each format."""

import json
import random

import pytest

from archives import EVENTS, Relay, are_all, are_captures, are_lines, are_tables, carry, publish
from buckets import BUCKET, REGION, Buckets
from service import Service

KILLS = 6
SEED = 20_261_125


@pytest.fixture(scope="module")
def buckets():
    running = Buckets()
    yield running
    running.stop()


@pytest.fixture
def service(tmp_path):
    running = Service(tmp_path, 1)
    yield running
    assert running.stop() == 0


@pytest.fixture
def hub(service):
    hub = service.unused_hub()
    publish(service, hub)
    return hub


def archived(buckets, service, hub, tmp_path, archive, **options):
    """Archives all events under a prefix of the test's own, and gives the objects."""
    carry(service, hub, tmp_path, f"{buckets.place(tmp_path.name)}\n    {archive}", **options)
    objects = buckets.objects(f"{tmp_path.name}/")
    assert all(name.startswith(f"{tmp_path.name}/{hub}/") for name in objects)
    return objects


def test_files_of_avro_are_those_of_capture(buckets, service, hub, tmp_path):
    are_captures(archived(buckets, service, hub, tmp_path, "files: {size: 20 KiB}\n    format: avro"))


def test_files_of_parquet_are_read_with_columns_and_statistics(buckets, service, hub, tmp_path):
    objects = archived(buckets, service, hub, tmp_path, "files: {size: 4 KiB}\n    format: parquet")
    are_tables(objects, tmp_path / "files")


def test_lines_of_json_are_what_was_sent(buckets, service, hub, tmp_path):
    are_lines(archived(buckets, service, hub, tmp_path, "files: {size: 1 MiB}"))


def test_single_events_are_objects_with_their_bodies(buckets, service, hub, tmp_path):
    objects = archived(buckets, service, hub, tmp_path, "files: per-event\n    concurrency: 8")
    are_all(objects.values())


def test_credentials_are_those_of_the_environment(buckets, service, hub, tmp_path):
    to = f"to: {{bucket: {{url: 's3://{BUCKET}/{tmp_path.name}'}}}}"
    environment = {
        "AWS_ACCESS_KEY_ID": buckets.key_id,
        "AWS_SECRET_ACCESS_KEY": buckets.key,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": buckets.endpoint,
    }
    carry(service, hub, tmp_path, to, environment=environment)
    are_lines(buckets.objects(f"{tmp_path.name}/"))


@pytest.mark.parametrize("files", ["files: per-event\n    format: json\n    concurrency: 8", "files: {size: 8 KiB, every: 1 s}"])
def test_a_relay_that_is_killed_loses_nothing_and_replaces_nothing(buckets, service, hub, tmp_path, files):
    chance = random.Random(SEED)
    relay = Relay(service, hub, tmp_path, f"{buckets.place(tmp_path.name)}\n    {files}", "batch: {events: 5}")

    def is_complete():
        # Each event is an object, or each file is read.
        is_single = files.startswith("files: per-event")
        return len(buckets.names(f"{tmp_path.name}/") if is_single else events(buckets, tmp_path)) == EVENTS

    before = {}
    for _ in range(KILLS):
        goal = buckets.objects_put + chance.randrange(2, 20)
        relay.start()
        relay.until(lambda _: buckets.objects_put >= goal or is_complete())
        relay.kill()
        objects = buckets.objects(f"{tmp_path.name}/")
        for name, content in before.items():
            # Of a file of many events one may come in its place that begins with all that it had.
            assert objects[name].startswith(content), f"seed {SEED}: {name}"
        before = objects
    relay.start()
    relay.until(lambda _: is_complete())
    relay.stop()
    assert sorted(events(buckets, tmp_path).values()) == sorted(f"event {number}" for number in range(EVENTS)), f"seed {SEED}"


def events(buckets, tmp_path):
    """The bodies of all events under the prefix, by partition and number; each object has whole ones."""
    found = {}
    for content in buckets.objects(f"{tmp_path.name}/").values():
        for line in content.decode().splitlines():
            event = json.loads(line)
            found[(event["partition"], event["sequence_number"])] = event["body"]
    return found


def test_what_is_there_already_is_not_written_again(buckets, service, hub, tmp_path):
    archive = f"{buckets.place(tmp_path.name)}\n    files: per-event"
    carry(service, hub, tmp_path, archive)
    before = buckets.versions(f"{tmp_path.name}/")
    (tmp_path / "again").mkdir()
    carry(service, hub, tmp_path / "again", archive)
    assert buckets.versions(f"{tmp_path.name}/") == before


def test_something_else_under_the_name_of_an_event_stays_and_the_event_is_set_aside(buckets, service, hub, tmp_path):
    name = f"{tmp_path.name}/{hub}/0/7"
    buckets.put(name, b"something else")
    aside = tmp_path / "aside.jsonl"
    settings = f"poison_events: {{dead_letter: '{aside}'}}"
    carry(service, hub, tmp_path, f"{buckets.place(tmp_path.name)}\n    files: per-event", settings=settings)
    objects = buckets.objects(f"{tmp_path.name}/")
    assert objects.pop(name) == b"something else"
    assert len(objects) == EVENTS - 1
    assert len(aside.read_text().splitlines()) == 1


def test_a_service_that_asks_for_patience_gets_it(buckets, service, hub, tmp_path):
    relay = Relay(service, hub, tmp_path, f"{buckets.place(tmp_path.name)}\n    files: per-event\n    concurrency: 8").start()
    begin, refused = buckets.objects_put, buckets.refused
    relay.until(lambda _: buckets.objects_put > begin + 20)
    buckets.refusals = 12
    relay.until(lambda relay: relay.completed() >= EVENTS)
    relay.stop()
    assert buckets.refused == refused + 12
    are_all(buckets.objects(f"{tmp_path.name}/").values())


@pytest.mark.parametrize("files", ["files: per-event", "files: {size: 1 MiB}"])
def test_a_wrong_key_and_a_missing_bucket_are_told_at_the_start(buckets, service, hub, tmp_path, files):
    right = buckets.place("a")
    for number, (wrong, told) in enumerate([
        (right.replace(buckets.key_id, "AKIAWRONG"), "InvalidAccessKeyId"),
        (right.replace(buckets.key, "wrong"), "SignatureDoesNotMatch"),
        (right.replace(f"s3://{BUCKET}/", "s3://another/"), "NoSuchBucket"),
    ]):
        directory = tmp_path / str(number)
        directory.mkdir()
        relay = Relay(service, hub, directory, f"{wrong}\n    {files}")
        with pytest.raises(StopIteration):
            relay.start()
        assert relay.end() != 0
        assert told in relay.log(), relay.log()
        assert buckets.key not in relay.log()


def test_no_key_of_an_event_leads_out_of_the_prefix(buckets, service, tmp_path):
    hub = service.unused_hub()
    keys = ["../../../outside", "..", "/", "a/../../b", "?versionId=null", "#", "%2e%2e/c", "ä +&=", "\\"]
    publish(service, hub, keys)
    name = "name: '{hub}/{partition}/{partition_key}/{sequence_number}'"
    objects = archived(buckets, service, hub, tmp_path, f"files: per-event\n    {name}", events=EVENTS + len(keys))
    are_all(objects.values(), EVENTS + len(keys))
    segments = {object_name.split("/")[3] for object_name in objects}
    assert all(object_name.count("/") == 4 for object_name in objects)
    assert segments == {
        "%", "%2e.%2f..%2f..%2foutside", "%2e%2e", "%2f", "a%2f..%2f..%2fb", "?versionId=null", "#", "%252e%252e%2fc",
        "ä +&=", "%5c",
    }
