"""The metrics, as the reference parsers of both text formats read them."""

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from service import Service

QUEUE = "\n".join(["queues:", "  - name: jobs"])
PROFILE = "\n".join(["profile:", "  throughput_units: 1"])


def test_every_metric_of_a_service_with_everything_is_valid_open_metrics(tmp_path):
    arguments = ("--blob", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    service = Service(tmp_path, 2, QUEUE, PROFILE, arguments=arguments)
    media_type, text = service.metrics("application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["parshall_amqp_connections"].type == "gauge"
    assert families["parshall_amqp_connections_accepted"].type == "counter"
    partitions = families["parshall_hub_events_in"].samples
    assert {(sample.labels["hub"], sample.labels["partition"]) for sample in partitions} >= {("hub-0", "0"), ("hub-1", "0")}
    states = families["parshall_hub_queue_messages"].samples
    assert {sample.labels["entity"] for sample in states} == {"jobs"}
    for family in ("parshall_hub_throttled_events", "parshall_hub_storage_rounds", "parshall_blob_requests"):
        assert [sample.name for sample in families[family].samples] == [family + "_total"], family
    media_type, text = service.metrics()
    assert media_type.startswith("text/plain; version=0.0.4")
    plain = {family.name: family.type for family in parser.text_string_to_metric_families(text)}
    assert plain == {family.name: family.type for family in families.values()}
    assert service.stop() == 0
