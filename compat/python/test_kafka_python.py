"""Hubs are topics for kafka-python, whose administration client asks what it may do."""

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import TopicAuthorizationFailedError

from service import LISTEN_ONLY, Service

PATIENCE = 30


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    running = Service(tmp_path_factory.mktemp("kafka"), 1, arguments=("--kafka", "127.0.0.1:0"))
    yield running
    assert running.stop() == 0


def settings(service, connection_string=None):
    return {
        "bootstrap_servers": service.kafka_address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "$ConnectionString",
        "sasl_plain_password": connection_string or service.connection_string,
    }


def test_topics_and_the_cluster_are_described_with_what_the_client_may_do(kafka):
    admin = KafkaAdminClient(**settings(kafka))
    admin.create_topics([NewTopic("described", 3, 1)])
    assert "described" in admin.list_topics()
    [topic] = admin.describe_topics(["described"])
    assert len(topic["partitions"]) == 3
    assert {"READ", "WRITE", "CREATE", "DELETE", "ALTER"} <= set(topic["authorized_operations"])
    cluster = admin.describe_cluster()
    assert len(cluster["cluster_id"]) == 22
    assert {"CREATE", "DESCRIBE"} <= set(cluster["authorized_operations"])
    admin.delete_topics(["described"])
    assert "described" not in admin.list_topics()
    admin.close()


def test_a_group_is_described_with_what_the_client_may_do_and_its_offsets_are_listed(kafka):
    admin = KafkaAdminClient(**settings(kafka))
    admin.create_topics([NewTopic("read", 1, 1)])
    producer = KafkaProducer(**settings(kafka))
    for number in range(10):
        producer.send("read", str(number).encode()).get(PATIENCE)
    producer.close()
    consumer = KafkaConsumer(
        "read", group_id="readers", auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE * 1000, **settings(kafka)
    )
    read = [record.value for _, record in zip(range(10), consumer)]
    assert read == [str(number).encode() for number in range(10)]
    consumer.commit()
    assert "readers" in [name for name, _ in admin.list_consumer_groups()]
    [group] = admin.describe_consumer_groups(["readers"])
    assert (group.state, len(group.members)) == ("Stable", 1)
    assert set(group.authorized_operations) == {"READ", "DESCRIBE", "DELETE"}
    assert admin.list_consumer_group_offsets("readers")[TopicPartition("read", 0)].offset == 10
    consumer.close()
    admin.close()


def test_a_client_that_may_only_read_learns_so(kafka):
    admin = KafkaAdminClient(**settings(kafka, kafka.connection_string_with(*LISTEN_ONLY)))
    hub = admin.list_topics()[0]
    [topic] = admin.describe_topics([hub])
    assert set(topic["authorized_operations"]) == {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    with pytest.raises(TopicAuthorizationFailedError):
        admin.delete_topics([hub])
    admin.close()
