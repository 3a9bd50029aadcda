"""Queues, topics, subscriptions and rules, administered by the official client."""

import datetime
import uuid

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsynchronousAdministration
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from queues import PATIENCE_S, Queues, receive, send, texts
from service import LISTEN_ONLY

# A page of a list as the client asks for it.
PAGE = 100

VALUES = {
    "text": "words <&>",
    "int": 7,
    "long": 1 << 40,
    "double": 0.5,
    "truth": True,
    "time": datetime.datetime(2026, 11, 25, 12, 30, 15, tzinfo=datetime.timezone.utc),
    "span": datetime.timedelta(hours=1, seconds=2),
}


def tls_string(service, key: tuple[str, str] = ("RootManageSharedAccessKey", "SAS_KEY_VALUE")) -> str:
    name, value = key
    return f"Endpoint=sb://{service.tls_address}/;SharedAccessKeyName={name};SharedAccessKey={value}"


def administration(service, *key):
    string = tls_string(service, *key)
    return ServiceBusAdministrationClient.from_connection_string(string, connection_verify=service.authority)


@pytest.fixture(scope="module")
def service(queues):
    return queues.service


@pytest.fixture
def client(service):
    with administration(service) as client:
        yield client


@pytest.fixture
def name():
    return "made-" + uuid.uuid4().hex


def test_a_queue_is_made_told_changed_and_deleted(client, queues, name):
    minute = datetime.timedelta(minutes=1)
    made = client.create_queue(name, lock_duration=2 * minute, max_delivery_count=4, user_metadata="mine")
    assert (made.name, made.lock_duration, made.max_delivery_count, made.user_metadata) == (name, 2 * minute, 4, "mine")
    assert (made.requires_session, made.status, made.enable_batched_operations) == (False, EntityStatus.ACTIVE, True)
    assert made.max_size_in_megabytes == 1024
    assert made.default_message_time_to_live.days > 100_000
    with queues.client() as messages:
        send(messages, name, "kept")
        made.lock_duration = minute
        made.dead_lettering_on_message_expiration = True
        made.default_message_time_to_live = 3 * minute
        client.update_queue(made)
        told = client.get_queue(name.upper())
        assert (told.lock_duration, told.default_message_time_to_live) == (minute, 3 * minute)
        assert told.dead_lettering_on_message_expiration and told.max_delivery_count == 4
        with messages.get_queue_receiver(name) as receiver:
            (message,) = receive(receiver)
            receiver.complete_message(message)
    client.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(name)


def test_figures_follow_what_is_sent(client, queues, name):
    client.create_queue(name, max_delivery_count=1)
    fresh = client.get_queue_runtime_properties(name)
    assert fresh.total_message_count == 0 and fresh.size_in_bytes == 0
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    with queues.client() as messages, messages.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage("x" * 1000) for _ in range(3)])
        sender.schedule_messages(ServiceBusMessage("later"), later)
        with messages.get_queue_receiver(name) as receiver:
            receiver.dead_letter_message(receive(receiver)[0])
    told = client.get_queue_runtime_properties(name)
    assert (told.active_message_count, told.dead_letter_message_count, told.scheduled_message_count) == (2, 1, 1)
    assert told.total_message_count == 4 and told.size_in_bytes > 3000
    assert told.created_at_utc <= told.updated_at_utc <= told.accessed_at_utc
    assert any(each.name == name and each.active_message_count == 2 for each in client.list_queues_runtime_properties())


def test_a_list_goes_on_over_the_end_of_a_page(client, name):
    names = [f"{name}-{number:03}" for number in range(PAGE + 1)]
    for each in names:
        client.create_queue(each)
    listed = [queue.name for queue in client.list_queues()]
    assert [each for each in listed if each.startswith(name)] == names
    assert len(listed) == len(set(listed))
    for each in names:
        client.delete_queue(each)


def test_topics_and_subscriptions_are_administered_while_they_are_used(client, queues, name):
    topic = client.create_topic(name, default_message_time_to_live=datetime.timedelta(minutes=9))
    assert (topic.name, topic.default_message_time_to_live.seconds) == (name, 540)
    with queues.client() as messages, messages.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("nobody's"))
        client.create_subscription(name, "first", lock_duration="PT30S")
        sender.send_messages(ServiceBusMessage("first"))
        client.create_subscription(name, "second")
        sender.send_messages(ServiceBusMessage("both"))
        figures = {each.name: each.active_message_count for each in client.list_subscriptions_runtime_properties(name)}
        assert figures == {"first": 2, "second": 1}
        assert client.get_topic_runtime_properties(name).subscription_count == 2
        subscription = client.get_subscription(name, "first")
        assert subscription.lock_duration == datetime.timedelta(seconds=30)
        subscription.max_delivery_count = 3
        client.update_subscription(name, subscription)
        assert client.get_subscription(name, "first").max_delivery_count == 3
        client.delete_subscription(name, "second")
        assert [each.name for each in client.list_subscriptions(name)] == ["first"]
        topic.default_message_time_to_live = datetime.timedelta(minutes=1)
        client.update_topic(topic)
        assert client.get_topic(name).default_message_time_to_live.seconds == 60
    client.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription(name, "first")
    assert name not in [each.name for each in client.list_topics()]


def test_rules_keep_every_type_of_value_and_do_what_they_say(client, queues, name):
    client.create_topic(name)
    client.create_subscription(name, "ruled")
    assert [rule.name for rule in client.list_rules(name, "ruled")] == ["$Default"]
    client.delete_rule(name, "ruled", "$Default")
    correlation = CorrelationRuleFilter(correlation_id="c", label="red", properties=VALUES)
    parameters = {f"@{key}": value for key, value in VALUES.items()}
    sql = SqlRuleFilter("quantity > @int", parameters=parameters)
    action = SqlRuleAction("SET doubled = quantity * @by", parameters={"@by": 2})
    client.create_rule(name, "ruled", "correlation", filter=correlation)
    client.create_rule(name, "ruled", "sql", filter=sql, action=action)
    client.create_rule(name, "ruled", "none", filter=FalseRuleFilter())
    told = client.get_rule(name, "ruled", "correlation").filter
    assert (told.correlation_id, told.label, told.properties) == ("c", "red", VALUES)
    told = client.get_rule(name, "ruled", "sql")
    assert (told.filter.sql_expression, told.filter.parameters) == (sql.sql_expression, parameters)
    assert (told.action.sql_expression, told.action.parameters) == (action.sql_expression, {"@by": 2})
    assert isinstance(client.get_rule(name, "ruled", "none").filter, FalseRuleFilter)

    with queues.client() as messages, messages.get_topic_sender(name) as sender:
        for quantity in (7, 8):
            sender.send_messages(ServiceBusMessage(str(quantity), application_properties={"quantity": quantity}))
        with messages.get_subscription_receiver(name, "ruled") as receiver:
            (message,) = receive(receiver)
            assert message.application_properties[b"doubled"] == 16
            receiver.complete_message(message)
        rule = client.get_rule(name, "ruled", "none")
        rule.filter = TrueRuleFilter()
        client.update_rule(name, "ruled", rule)
        sender.send_messages(ServiceBusMessage("any"))
        with messages.get_subscription_receiver(name, "ruled") as receiver:
            assert texts(receive(receiver)) == ["any"]
    names = [f"rule-{number:03}" for number in range(PAGE + 1)]
    for each in names:
        client.create_rule(name, "ruled", each, filter=SqlRuleFilter("1=1"))
    assert [rule.name for rule in client.list_rules(name, "ruled")] == ["correlation", "none", *names, "sql"]
    client.delete_topic(name)


def test_what_can_not_be_is_refused_with_the_clients_own_errors(client, name):
    client.create_queue(name)
    with pytest.raises(ResourceExistsError):
        client.create_queue(name.upper())
    with pytest.raises(ResourceExistsError):
        client.create_topic(name)
    for missing in (client.get_queue, client.delete_queue, client.get_topic, client.delete_topic):
        with pytest.raises(ResourceNotFoundError):
            missing(name + "-not")
    with pytest.raises(ResourceNotFoundError):
        client.create_subscription(name + "-not", "any")
    queue = client.get_queue(name)
    queue.name = name + "-not"
    with pytest.raises(ResourceNotFoundError):
        client.update_queue(queue)
    for wrong in (
        {"lock_duration": datetime.timedelta(minutes=6)},
        {"max_delivery_count": 0},
        {"max_size_in_megabytes": 77},
        {"auto_delete_on_idle": datetime.timedelta(minutes=4)},
        {"forward_to": name + "-nowhere"},
    ):
        with pytest.raises(HttpResponseError) as refused:
            client.create_queue(name + "-wrong", **wrong)
        assert refused.value.status_code == 400, wrong
    with pytest.raises(HttpResponseError):
        client.create_queue(name + "//wrong")
    queue = client.get_queue(name)
    queue.requires_session = True
    with pytest.raises(HttpResponseError) as refused:
        client.update_queue(queue)
    assert refused.value.status_code == 400 and "RequiresSession" in str(refused.value)


def test_a_key_without_the_right_administers_nothing(service, name):
    with administration(service, LISTEN_ONLY) as client:
        with pytest.raises(ClientAuthenticationError, match="Manage"):
            client.create_queue(name)
    with administration(service, ("RootManageSharedAccessKey", "another")) as client:
        with pytest.raises(ClientAuthenticationError):
            client.get_queue(name)


def test_messages_go_along_a_chain_that_is_made_and_unmade(client, queues, name):
    last, middle, first = (client.create_queue(f"{name}-{step}", **more).name for step, more in (
        ("last", {}), ("middle", {"forward_to": f"{name}-last"}), ("first", {"forward_to": f"{name}-middle"})
    ))
    with queues.client() as messages:
        send(messages, first, "along")
        with messages.get_queue_receiver(last) as receiver:
            assert texts(receive(receiver)) == ["along"]
        told = client.get_queue(first)
        assert told.forward_to.endswith("/" + middle)
        told.forward_to = None
        client.update_queue(told)
        send(messages, first, "stays")
        with messages.get_queue_receiver(first) as receiver:
            assert texts(receive(receiver)) == ["stays"]


def test_a_status_holds_for_links_that_are_open(client, queues, name):
    queue = client.create_queue(name)
    with queues.client(retry_total=0) as messages:
        sender = messages.get_queue_sender(name)
        receiver = messages.get_queue_receiver(name, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
        with sender, receiver:
            sender.send_messages(ServiceBusMessage("before"))
            assert texts(receive(receiver)) == ["before"]
            queue.status = EntityStatus.SEND_DISABLED
            client.update_queue(queue)
            with pytest.raises(MessagingEntityDisabledError):
                sender.send_messages(ServiceBusMessage("refused"))
            queue.status = EntityStatus.RECEIVE_DISABLED
            client.update_queue(queue)
            with pytest.raises(ServiceBusError):
                receiver.receive_messages(max_wait_time=PATIENCE_S)
    queue.status = EntityStatus.ACTIVE
    client.update_queue(queue)
    with queues.client() as messages:
        send(messages, name, "after")
        with messages.get_queue_receiver(name) as receiver:
            assert texts(receive(receiver)) == ["after"]


def test_links_end_when_their_queue_is_deleted(client, queues, name):
    client.create_queue(name)
    with queues.client(retry_total=0) as messages:
        sender = messages.get_queue_sender(name)
        receiver = messages.get_queue_receiver(name)
        with sender, receiver:
            sender.send_messages(ServiceBusMessage("gone"))
            assert receiver.receive_messages(max_wait_time=PATIENCE_S)
            client.delete_queue(name)
            with pytest.raises(ServiceBusError):
                receiver.receive_messages(max_wait_time=PATIENCE_S)
            with pytest.raises(ServiceBusError):
                sender.send_messages(ServiceBusMessage("late"))
    client.create_queue(name)
    assert client.get_queue_runtime_properties(name).total_message_count == 0


async def test_the_asynchronous_client_does_the_same(service, name):
    string = tls_string(service)
    options = {"connection_verify": service.authority}
    async with AsynchronousAdministration.from_connection_string(string, **options) as client:
        namespace = await client.get_namespace_properties()
        assert namespace.name and namespace.messaging_sku == "Standard"
        await client.create_topic(name)
        await client.create_subscription(name, "all", requires_session=True)
        listed = [subscription.name async for subscription in client.list_subscriptions(name)]
        assert listed == ["all"] and (await client.get_subscription(name, "all")).requires_session
        await client.delete_topic(name)
        with pytest.raises(ResourceNotFoundError):
            await client.get_topic(name)


def test_what_was_made_is_there_after_a_crash(tmp_path, name):
    running = Queues(tmp_path, "--data-dir", str(tmp_path / "data"))
    service = running.service
    with administration(service) as client:
        client.create_queue(name, max_delivery_count=7, user_metadata="kept")
        client.create_queue(name + "-gone")
        client.create_topic(name + "-topic")
        client.create_subscription(name + "-topic", "all")
        client.create_rule(name + "-topic", "all", "red", filter=SqlRuleFilter("colour = 'red'"))
        declared = client.get_queue("plain-0")
        declared.max_delivery_count = 9
        client.update_queue(declared)
        with running.client() as messages:
            send(messages, name, "kept")
            send(messages, name + "-gone", "gone")
        client.delete_queue(name + "-gone")
        client.create_queue(name + "-gone")
        created_at = client.get_queue_runtime_properties(name).created_at_utc
    service.kill()
    service.start()
    with administration(service) as client:
        told = client.get_queue(name)
        assert (told.max_delivery_count, told.user_metadata) == (7, "kept")
        figures = client.get_queue_runtime_properties(name)
        assert (figures.active_message_count, figures.created_at_utc) == (1, created_at)
        assert client.get_queue_runtime_properties(name + "-gone").total_message_count == 0
        assert [rule.name for rule in client.list_rules(name + "-topic", "all")] == ["$Default", "red"]
        # It is declared with another number, and was changed since.
        assert client.get_queue("plain-0").max_delivery_count == 9
    assert service.stop() == 0
