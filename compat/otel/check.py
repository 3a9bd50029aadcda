"""Checks what relays export: spans, their parents and links, metrics, and what becomes of them without a collector."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from azure.core.settings import settings
from azure.core.tracing.ext.opentelemetry_span import OpenTelemetrySpan
from azure.eventhub import EventData, EventHubProducerClient
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import official
from collector import Collector, attributes

PROGRAM = os.environ["PARSHALL_BINARY"]

NAMESPACE = """\
hubs:
  - {name: orders, partitions: 1}
  - {name: forwarded, partitions: 2}
queues:
  - {name: jobs}
  - {name: done}
"""

HUBS = """\
source:
  event_hubs: {{connection_string: '{amqp}', hub: orders}}
sinks:
- event_hubs: {{connection_string: '{amqp}', hub: forwarded}}
- service_bus: {{connection_string: '{amqp}', queue: done, send: batch}}
checkpoint: {{store: {{files: ./checkpoints}}}}
batch: {{events: 16, wait: 5 ms}}
metrics: 127.0.0.1:0
open_telemetry: {{endpoint: '{collector}', traces: 1e-9, metrics: 200 ms}}
"""

QUEUES = """\
source:
  service_bus: {{connection_string: '{amqp}', queue: jobs}}
sink:
  service_bus: {{connection_string: '{amqp}', queue: done}}
metrics: 127.0.0.1:0
"""

# A batch without a context is all but never sampled by the ratio above: what is traced, its producer has decided.
VARIABLES = {
    "OTEL_BSP_SCHEDULE_DELAY": "50",
    "OTEL_BSP_MAX_QUEUE_SIZE": "16",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=seven%207",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tested",
}

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "SharedAccessKey"


def main():
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="parshall-otel-"))
    collector = Collector()
    running = Running(folder, collector)
    try:
        exported = instrument()
        check_spans_of_a_hub(running, collector)
        check_official_clients(running, collector, exported)
        check_metrics(running, collector)
        check_without_collector(running, collector)
        check_the_end(running, collector)
        if official.PROGRAM:
            official.check(
                lambda endpoint: running.relay("official", HUBS.format(amqp=running.connection_string, collector=endpoint), VARIABLES),
                lambda context: running.send("orders", ["one\n"], traceparent=context),
                expect,
            )
        expect(not collector.mistakes, f"what was exported is not OTLP: {collector.mistakes}")
        print(f"{len(collector.spans())} spans and {len(collector.metrics)} exports of metrics "
              f"in {time.monotonic() - began:.0f} s")
    except BaseException:
        for log in sorted(folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
        raise
    finally:
        # Nobody answers any more, which holds up an end for some seconds and no longer.
        collector.silent.set()
        statuses = running.stop()
        shutil.rmtree(folder, ignore_errors=True)
    expect(all(status == 0 for _, status in statuses), f"processes ended badly: {statuses}")


class Running:
    """A service, a relay of hubs that is told by its file where to export to, and one of queues that its environment tells."""

    def __init__(self, folder, collector):
        self.folder = folder
        self.processes = []
        (folder / "namespace.yaml").write_text(NAMESPACE)
        ready = folder / "ready.json"
        arguments = ["serve", "--config", "namespace.yaml", "--format", "json", "--ready-file", str(ready)]
        for option in ("--amqp", "--amqps", "--http", "--kafka", "--blob"):
            arguments += [option, "127.0.0.1:0"]
        variables = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": collector.endpoint + "/v1/metrics",
                     "OTEL_METRIC_EXPORT_INTERVAL": "200", "OTEL_SERVICE_NAME": "the-service"}
        self.start("service", arguments, variables, stdout=subprocess.DEVNULL)
        wait_for(ready.exists, "the service is not ready")
        told = json.loads(ready.read_text())
        self.connection_string = told["connection_string"]
        self.kafka = [it for it in told["listeners"] if it["protocol"] == "kafka"][0]["address"].split(":")[-1]
        self.port = int(re.search(r"sb://[^:/;]+:(\d+)", self.connection_string)[1])
        texts = {"amqp": self.connection_string, "collector": collector.endpoint}
        self.hubs = self.relay("hubs", HUBS.format(**texts), VARIABLES)
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_TRACES_SAMPLER": "parentbased_always_off",
                     "OTEL_SERVICE_NAME": "queues", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
        self.relay("queues", QUEUES.format(**texts), VARIABLES | variables)

    def start(self, name, arguments, variables, **options):
        log = open(self.folder / f"{name}.log", "w")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        process = subprocess.Popen([PROGRAM, *arguments], stderr=log, text=True, cwd=self.folder,
                                   env=clean | variables, **options)
        self.processes.append((name, process))
        return process

    def relay(self, name, text, variables):
        """Where the metrics of a relay are."""
        (self.folder / f"{name}.yaml").write_text(text)
        process = self.start(name, ["relay", f"{name}.yaml"], variables, stdout=subprocess.PIPE)
        for line in process.stdout:
            if line.startswith("metrics "):
                return line.split()[1]
        raise RuntimeError(f"the relay of {name} did not start: {self.log(name)}")

    def send(self, entity, lines, *options, **properties):
        arguments = ["send", entity, "--format", "lines", "--quiet", *options]
        arguments += [it for pair in properties.items() for it in ("--property", "=".join(pair).replace("_", "-", 1))]
        arguments += ["--connection-string", self.connection_string]
        subprocess.run([PROGRAM, *arguments], input="".join(lines), text=True, check=True, stdout=subprocess.DEVNULL)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def metrics(self):
        """The samples of the relay of hubs, by name and labels, as the page has them."""
        with urllib.request.urlopen(self.hubs, timeout=20) as response:
            lines = response.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}

    def stop_one(self, name):
        process = dict(self.processes)[name]
        process.terminate()
        return process.wait(timeout=30)

    def stop(self):
        for _, process in reversed(self.processes):
            process.terminate()
        statuses = []
        for name, process in self.processes:
            try:
                statuses.append((name, process.wait(timeout=20)))
            except subprocess.TimeoutExpired:
                process.kill()
                statuses.append((name, None))
        return statuses


def instrument():
    """Lets the official clients trace, as their documentation says."""
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    trace.set_tracer_provider(provider)
    settings.tracing_implementation = OpenTelemetrySpan
    return exported


def spans_of(collector, name):
    """Spans of a name, with what is known of their process."""
    return [it for it in collector.spans() if it[0].name == name]


def linked_to(collector, name, span_id):
    """The span of a name that is linked to a span."""
    found = [span for span, _, _ in collector.spans()
             if span.name == name and any(link.span_id.hex() == span_id for link in span.links)]
    return found[0] if found else None


def parts_of(collector, process, name):
    return [span for span, _, _ in collector.spans()
            if span.name == name and span.trace_id == process.trace_id and span.parent_span_id == process.span_id]


def check_spans_of_a_hub(running, collector):
    """Contexts in properties and headers, in the forms that there are; attributes; what goes on unchanged."""
    contexts = {"traceparent": "a1", "Diagnostic_Id": "a2"}
    for name, number in contexts.items():
        span_id = f"00f067aa0ba902{number}"
        running.send("orders", ["one\n"], **{name: f"00-{TRACE}-{span_id}-01"}, tracestate="vendor=1")
        wait_for(lambda: linked_to(collector, "process orders", span_id), f"no span is linked to that of {name}")
    span_id = "00f067aa0ba902a3"
    kafka = ["--protocol", "kafka", "--bootstrap", f"localhost:{running.kafka}"]
    running.send("orders", ["one\n"], *kafka, traceparent=f"00-{TRACE}-{span_id}-01")
    wait_for(lambda: linked_to(collector, "process orders", span_id), "no span is linked to that of a record's header")

    process = linked_to(collector, "process orders", "00f067aa0ba902a1")
    link = process.links[0]
    expect((link.trace_id.hex(), link.trace_state, link.flags & 0x301) == (TRACE, "vendor=1", 0x301), f"{link}")
    expect(process.kind == Span.SPAN_KIND_CONSUMER and not process.parent_span_id, f"{process}")
    expect(process.trace_id != link.trace_id and len(process.trace_id) == 16, "a batch is a trace of its own")
    common = {"messaging.system": "eventhubs", "server.address": "localhost", "server.port": running.port}
    names = attributes(process.attributes)
    for name, value in (common | {
        "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "orders", "messaging.consumer.group.name": "$Default",
        "messaging.destination.partition.id": "0", "messaging.batch.message_count": 1,
    }).items():
        expect(names.get(name) == value, f"{name} is {names.get(name)}, not {value}")
    expect(process.end_time_unix_nano >= process.start_time_unix_nano > 1.7e18, f"{process}")

    parts = ("send forwarded", "send done", "checkpoint orders")
    wait_for(lambda: all(parts_of(collector, process, name) for name in parts), "a part of the batch has no span")
    for name, system, operation, of_type in zip(
        parts, ("eventhubs", "servicebus", "eventhubs"), ("send", "send", "checkpoint"), ("send", "send", "settle")
    ):
        [part] = parts_of(collector, process, name)
        names = attributes(part.attributes)
        expect(part.kind == Span.SPAN_KIND_CLIENT and part.status.code == Status.STATUS_CODE_UNSET, f"{part}")
        expect(names["messaging.system"] == system, f"{names}")
        expect((names["messaging.operation.name"], names["messaging.operation.type"]) == (operation, of_type), f"{names}")
        if operation == "send":
            expect(process.start_time_unix_nano <= part.start_time_unix_nano, "it is sent after it was received")
            expect(names["messaging.batch.message_count"] == 1, f"{names}")
    expect(attributes(parts_of(collector, process, parts[0])[0].attributes)["messaging.destination.partition.id"] in "01", "")

    # Not sampled by its producer, or without a context: nothing, whatever comes after it.
    running.send("orders", ["one\n"], traceparent=f"00-{TRACE}-00f067aa0ba902b0-00")
    running.send("orders", ["one\n"])
    running.send("orders", ["one\n"], traceparent=f"00-{TRACE}-00f067aa0ba902b1-01")
    wait_for(lambda: linked_to(collector, "process orders", "00f067aa0ba902b1"), "the last batch is traced")
    expect(len(spans_of(collector, "process orders")) == 4, "nothing else is")

    _, resource, schema = spans_of(collector, "process orders")[0]
    expect(resource["service.name"] == "parshall-relay" and resource["deployment.environment.name"] == "tested", f"{resource}")
    expect(resource["service.instance.id"] and resource["telemetry.sdk.language"] == "rust", f"{resource}")
    expect(schema.startswith("https://opentelemetry.io/schemas/"), schema)
    with collector.lock:
        expect(all(SECRET not in str(request) for request in collector.traces), "there is a key in a span")
        expect(any(it.get("x-tenant") == "seven 7" for it in collector.headers), "the headers are not sent")

    # What the producer wrote is what the next reader gets.
    command = [PROGRAM, "tail", "forwarded", "--from", "first", "--connection-string", running.connection_string]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    properties = [json.loads(line).get("properties", {}) for line in lines]
    expect({"traceparent": f"00-{TRACE}-00f067aa0ba902a1-01", "tracestate": "vendor=1"} in properties, f"{properties}")


def check_official_clients(running, collector, exported):
    """Spans of the official clients are linked to those of the relay, of a batch and of single messages."""
    tracer = trace.get_tracer("tested")
    with EventHubProducerClient.from_connection_string(running.connection_string, eventhub_name="orders") as producer:
        with tracer.start_as_current_span("two orders"):
            batch = producer.create_batch()
            for number in range(2):
                batch.add(EventData(f"order {number}"))
            producer.send_batch(batch)
    with ServiceBusClient.from_connection_string(running.connection_string) as client:
        with client.get_queue_sender("jobs") as sender, tracer.start_as_current_span("a job"):
            sender.send_messages(ServiceBusMessage("job"))
    messages = {"EventHubs.message": [], "ServiceBus.message": []}
    for span in exported.get_finished_spans():
        if span.name in messages:
            messages[span.name].append(f"{span.context.span_id:016x}")
    expect([len(ids) for ids in messages.values()] == [2, 1], f"{[it.name for it in exported.get_finished_spans()]}")
    for span_id in messages["EventHubs.message"]:
        wait_for(lambda: linked_to(collector, "process orders", span_id), "no span is linked to that of an event")
    [job] = messages["ServiceBus.message"]
    wait_for(lambda: linked_to(collector, "process jobs", job), "no span is linked to that of a job")
    process = linked_to(collector, "process jobs", job)
    names = attributes(process.attributes)
    expect(names["messaging.system"] == "servicebus" and "messaging.batch.message_count" not in names, f"{names}")
    wait_for(lambda: parts_of(collector, process, "send done"), "the job was not sent")
    [(_, resource, _)] = spans_of(collector, "process jobs")
    expect(resource["service.name"] == "queues", f"{resource}")


def check_metrics(running, collector):
    """Metrics are those of the page: the same names, values and buckets."""
    def exported_now():
        with collector.lock:
            requests = [it for it in collector.metrics if service_of(it) == "parshall-relay"]
        return {metric.name: metric for scope in requests[-1].resource_metrics[0].scope_metrics
                for metric in scope.metrics} if requests else {}

    # Nothing is carried any more, so what was exported last is what the page says.
    def is_same():
        page, exported = running.metrics(), exported_now()
        names = {re.sub(r"\{.*", "", name) for name in page}
        names = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in exported else name for name in names}
        counters = {name: metric.sum.data_points for name, metric in exported.items() if metric.WhichOneof("data") == "sum"}
        values = {series(name, point): point.as_double for name, points in counters.items() for point in points}
        moving = ("parshall_relay_waiting_seconds_total", "process_", "parshall_otlp_")
        differing = {name for name in values if page.get(name) != values[name] and not name.startswith(moving)}
        return names == set(exported) and not differing

    wait_for(is_same, "what is exported is not what the page says")
    exported = exported_now()
    carried = exported["parshall_relay_forwarded_events_total"]
    expect(carried.sum.is_monotonic and carried.sum.aggregation_temporality == 2, f"{carried}")
    expect(carried.sum.data_points[0].as_double > 0 and carried.description, f"{carried}")
    expect(0 < carried.sum.data_points[0].start_time_unix_nano < carried.sum.data_points[0].time_unix_nano, f"{carried}")
    sends = exported["parshall_relay_send_seconds"]
    [point] = sends.histogram.data_points
    page = running.metrics()
    expect((sends.unit, point.count) == ("s", page["parshall_relay_send_seconds_count"]), f"{sends}")
    expect(sum(point.bucket_counts) == point.count and len(point.bucket_counts) == len(point.explicit_bounds) + 1, f"{point}")
    for index, bound in enumerate(point.explicit_bounds):
        at_most = page[f'parshall_relay_send_seconds_bucket{{le="{bound_text(bound)}"}}']
        expect(sum(point.bucket_counts[:index + 1]) == at_most, f"{bound}: {at_most}")
    expect(exported["parshall_relay_ready"].gauge.data_points[0].as_double == 1, "a gauge is one")
    with collector.lock:
        services = {service_of(it) for it in collector.metrics}
    expect(services >= {"parshall-relay", "the-service"}, f"{services}")


def check_without_collector(running, collector):
    """Events are carried on; what can't be exported is counted; the log has two lines."""
    collector.stop()
    before = running.metrics()
    sent = 0
    name = "parshall_relay_completed_events_total"
    dropped = 'parshall_otlp_dropped_spans_total{reason="queue-full"}'
    # Batches of few events, each of which is traced, until their spans do not fit any more.
    with EventHubProducerClient.from_connection_string(running.connection_string, eventhub_name="orders") as producer:
        deadline = time.monotonic() + 30
        while running.metrics()[dropped] == 0:
            expect(time.monotonic() < deadline, "nothing was dropped")
            with trace.get_tracer("tested").start_as_current_span("some orders"):
                for _ in range(5):
                    producer.send_batch([EventData("order")])
                    sent += 1
    wait_for(lambda: running.metrics()[name] == before[name] + sent, "events are not carried")
    wait_for(lambda: running.metrics()["parshall_otlp_failing"] == 1, "nothing fails")
    expect(running.metrics()["parshall_otlp_queued_spans"] <= 16, "the queue grows")
    collector.start()
    wait_for(lambda: running.metrics()["parshall_otlp_failing"] == 0, "it is not exported again", seconds=60)
    wait_for(lambda: "exported again" in running.log("hubs"), "the log does not say that it is over")
    log = running.log("hubs")
    expect((log.count("can't be exported"), log.count("exported again")) == (1, 1), log)


def check_the_end(running, collector):
    """The last figures are exported when a relay stops."""
    running.send("orders", ["one\n"])
    expect(running.stop_one("hubs") == 0, "the relay ended badly")
    with collector.lock:
        last = [it for it in collector.metrics if service_of(it) == "parshall-relay"][-1]
    metrics = {metric.name: metric for metric in last.resource_metrics[0].scope_metrics[0].metrics}
    carried, done = (metrics[f"parshall_relay_{name}_events_total"].sum.data_points[0].as_double
                     for name in ("received", "completed"))
    expect(carried == done > 0, f"{carried} received, {done} done")


def service_of(request):
    return attributes(request.resource_metrics[0].resource.attributes)["service.name"]


def series(name, point):
    labels = ",".join(f'{pair.key}="{pair.value.string_value}"' for pair in point.attributes)
    return f"{name}{{{labels}}}" if labels else name


def bound_text(bound):
    """A bound as the page writes it."""
    text = f"{bound:.9f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def wait_for(condition, otherwise, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(otherwise)
        time.sleep(0.05)


def expect(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


if __name__ == "__main__":
    main()
