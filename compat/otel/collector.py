"""A collector: takes OTLP over HTTP, reads it by the definitions of OpenTelemetry, and keeps it.

    collector.py [PORT]    takes everything and says once a second how much that was, until it is interrupted
"""

import gzip
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Collector:
    """What it got, under a lock. It can be taken away, and brought back at its address."""

    def __init__(self, port=0, keeps=True):
        self.lock = threading.Lock()
        self.traces, self.metrics, self.headers, self.mistakes = [], [], [], []
        self.counts = {"/v1/traces": 0, "/v1/metrics": 0}
        self.keeps = keeps
        self.connections = set()
        # Set, requests get no answer.
        self.silent = threading.Event()
        self.port = port
        self.start()

    def start(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler_of(self))
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        # Connections that are open would go on.
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def take(self, path, headers, body):
        request = REQUESTS[path]()
        request.ParseFromString(body)
        with self.lock:
            self.counts[path] += 1
            if not self.keeps:
                return
            self.headers.append(headers)
            self.mistakes += [f"{path}: {mistake}" for mistake in unknown(request)]
            if path == "/v1/traces":
                self.traces.append(request)
            else:
                self.metrics.append(request)

    def spans(self):
        """All spans, each with its resource and the schema of its scope."""
        with self.lock:
            return [
                (span, attributes(resource.resource.attributes), scope.schema_url)
                for request in self.traces
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    def last_metrics(self):
        """The metrics of the last request by name, and its resource."""
        with self.lock:
            resource = self.metrics[-1].resource_metrics[0]
        metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
        return metrics, attributes(resource.resource.attributes)


def handler_of(collector):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            collector.connections.add(self.connection)

        def finish(self):
            collector.connections.discard(self.connection)
            super().finish()

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.silent.is_set():
                time.sleep(60)
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status = 200
            try:
                collector.take(self.path, dict(self.headers), body)
            except Exception as error:
                status = 400
                with collector.lock:
                    collector.mistakes.append(f"{self.path}: {error!r}")
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    return Handler


def unknown(message):
    """Fields that the definitions do not have, in a message and all that is in it."""
    for field in UnknownFieldSet(message):
        yield f"{message.DESCRIPTOR.full_name} has no field {field.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in value if descriptor.is_repeated else [value]:
                yield from unknown(inner)


def attributes(pairs):
    """Attributes by name; none is there twice."""
    read = {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
    assert len(read) == len(pairs), f"an attribute is there twice: {pairs}"
    return read


if __name__ == "__main__":
    collector = Collector(int(sys.argv[1]) if len(sys.argv) > 1 else 4318, keeps=False)
    print(f"listening at {collector.endpoint}", flush=True)
    try:
        while True:
            time.sleep(1)
            print(collector.counts, flush=True)
    except KeyboardInterrupt:
        collector.stop()
