"""Events and messages over HTTP: `curl` and `requests`, with signatures made as the samples of the service make them."""

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
import time
import urllib.parse

import pytest
import requests

from queues import receive, send
from receiving import receive as receive_events
from service import LISTEN_ONLY

KEY = ("RootManageSharedAccessKey", "SAS_KEY_VALUE")
BATCH = "application/vnd.microsoft.servicebus.json"


def sign(uri: str, name: str = KEY[0], key: str = KEY[1], seconds: int = 3600) -> str:
    """The sample of the documentation of Event Hubs."""
    sas = urllib.parse.quote_plus(uri)
    expiry = str(int(time.time() + seconds))
    signed = hmac.HMAC(key.encode(), (sas + "\n" + expiry).encode(), hashlib.sha256)
    signature = urllib.parse.quote(base64.b64encode(signed.digest()))
    return f"SharedAccessSignature sr={sas}&sig={signature}&se={expiry}&skn={name}"


def session(service, entity: str = "") -> requests.Session:
    client = requests.Session()
    # No proxy and no authorities of whoever runs this.
    client.trust_env = False
    client.headers["Authorization"] = sign(f"http://{service.address}/{entity}")
    client.verify = service.authority
    return client


def url(service, path: str, tls: bool = False) -> str:
    return f"https://{service.tls_address}/{path}" if tls else f"http://{service.address}/{path}"


@pytest.mark.parametrize("tls", [False, True])
async def test_an_event_is_received_as_it_was_sent(service, hub, tls):
    with session(service, hub) as client:
        headers = {
            "Content-Type": "application/json",
            "BrokerProperties": json.dumps({"PartitionKey": "key"}),
            "Priority": "High",
            "Attempt": "2",
        }
        for number in range(3):
            target = url(service, f"{hub}/messages?timeout=60&api-version=2014-01", tls)
            reply = client.post(target, data=json.dumps({"number": number}), headers=headers)
            assert (reply.status_code, reply.content) == (201, b"")
    partition = await partition_with_events(service, hub)
    events = await receive_events(service.connection_string, hub, partition, 3)
    assert [event.body_as_json() for event in events] == [{"number": number} for number in range(3)]
    event = events[0]
    assert (event.partition_key, event.content_type) == (b"key", "application/json")
    assert event.properties == {b"Priority": b"High", b"Attempt": 2}


async def partition_with_events(service, hub) -> str:
    with session(service, hub) as client:
        for partition in range(4):
            told = client.get(url(service, f"{hub}/consumergroups/$Default/partitions/{partition}"))
            assert told.status_code == 200
            if "<EndSequenceNumber>-1<" not in told.text:
                return str(partition)
    raise AssertionError("there is no event")


async def test_a_batch_is_received_event_by_event(service, hub):
    batch = [
        {"Body": "plain"},
        {"Body": base64.b64encode(b"\x00\xff").decode(), "IsBodyBase64": True},
        {"Body": '{"a": "é"}', "UserProperties": {"n": 5, "f": 0.5, "b": True, "t": "x"}},
    ]
    with session(service, hub) as client:
        # Not `json=`, which would name another type.
        headers = {"Content-Type": BATCH}
        target = url(service, f"{hub}/partitions/2/messages")
        assert client.post(target, data=json.dumps(batch), headers=headers).status_code == 201
    events = await receive_events(service.connection_string, hub, "2", 3)
    assert [b"".join(event.body) for event in events] == [b"plain", b"\x00\xff", '{"a": "é"}'.encode()]
    assert events[2].properties == {b"n": 5, b"f": 0.5, b"b": True, b"t": b"x"}


def test_whoever_may_not_gets_the_reason(service, hub):
    target = url(service, f"{hub}/messages")
    for token, reason in [
        (None, "MissingToken"),
        (sign(target, key="guess"), "InvalidSignature"),
        (sign(target, seconds=-60), "ExpiredToken"),
        (sign(url(service, "another")), "does not cover"),
        (sign(target, *LISTEN_ONLY), "'Send' claim(s) are required"),
    ]:
        reply = requests.post(target, data=b"event", headers={"Authorization": token} if token else {}, timeout=20)
        assert reply.status_code == 401, reason
        assert reason in reply.text and "TrackingId:" in reply.text
    with session(service) as client:
        assert client.post(url(service, "nothing/messages"), data=b"event").status_code == 404
        assert client.post(target, data=bytes(1 << 20)).status_code == 413
        assert client.get(target).status_code == 405


def test_messages_are_locked_renewed_given_back_and_completed(queues):
    service, queue = queues.service, queues.unused()
    with session(service, queue) as client:
        headers = {
            "Content-Type": "text/plain",
            "BrokerProperties": json.dumps({"MessageId": "m1", "Label": "label", "TimeToLive": 600}),
            "Priority": "High",
        }
        assert client.post(url(service, f"{queue}/messages"), data="message", headers=headers).status_code == 201
        head = url(service, f"{queue}/messages/head?timeout=20")
        locked = client.post(head)
        assert (locked.status_code, locked.text, locked.headers["Priority"]) == (201, "message", '"High"')
        told = json.loads(locked.headers["BrokerProperties"])
        assert (told["MessageId"], told["Label"], told["DeliveryCount"]) == ("m1", "label", 1)
        location = locked.headers["Location"]
        assert client.post(location).status_code == 200
        assert client.put(location).status_code == 200
        again = client.post(head)
        assert json.loads(again.headers["BrokerProperties"])["DeliveryCount"] == 2
        assert client.delete(again.headers["Location"]).status_code == 200
        assert client.delete(again.headers["Location"]).status_code == 404
        assert client.delete(url(service, f"{queue}/messages/head?timeout=0")).status_code == 204


def test_messages_cross_between_http_and_the_official_client(queues):
    service, queue = queues.service, queues.unused()
    batch = [{"Body": "one", "BrokerProperties": {"MessageId": "a"}}, {"Body": "two", "UserProperties": {"n": 5}}]
    with session(service, queue) as http, queues.client() as client:
        headers = {"Content-Type": BATCH}
        target = url(service, f"{queue}/messages")
        assert http.post(target, data=json.dumps(batch), headers=headers).status_code == 201
        with client.get_queue_receiver(queue) as receiver:
            one, two = receive(receiver, 2)
            assert (str(one), one.message_id, str(two)) == ("one", "a", "two")
            assert two.application_properties == {b"n": 5}
            receiver.complete_message(one)
            receiver.dead_letter_message(two, reason="seen")
        send(client, queue, "back", subject="label", application_properties={"n": 7})
        reply = http.delete(url(service, f"{queue}/messages/head"))
        assert (reply.status_code, reply.text, reply.headers["n"]) == (200, "back", "7")
        assert json.loads(reply.headers["BrokerProperties"])["Label"] == "label"
        dead = http.delete(url(service, f"{queue}/$DeadLetterQueue/messages/head"))
        assert (dead.status_code, dead.text, dead.headers["DeadLetterReason"]) == (200, "two", '"seen"')
        assert "<MessageCount>0</MessageCount>" in http.get(url(service, queue)).text


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("option", ["--http1.1", "--http1.0", "--http2-prior-knowledge"])
async def test_curl_sends_in_every_version(service, hub, option):
    target = url(service, f"{hub}/partitions/1/messages")
    # More than a MiB in JSON, so that it asks before it sends, where the protocol can.
    batch = json.dumps([{"Body": '"' * 2000} for _ in range(300)])
    for content_type, body in [("text/plain", "event"), (BATCH, batch)]:
        command = ["curl", "--silent", "--show-error", "--fail-with-body", option, "--data-binary", "@-", target]
        command += ["--header", f"Authorization: {sign(target)}", "--header", f"Content-Type: {content_type}"]
        done = subprocess.run(command, input=body.encode(), capture_output=True, timeout=20)
        if done.returncode in (1, 2) and b"HTTP/2" in done.stderr or done.returncode == 4:
            pytest.skip("this curl speaks no HTTP/2")
        assert done.returncode == 0, done.stderr + done.stdout
    events = await receive_events(service.connection_string, hub, "1", 301)
    assert (events[0].body_as_str(), events[300].body_as_str()) == ("event", '"' * 2000)
