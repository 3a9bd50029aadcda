"""The official Collector's receiver takes what a relay exports: traces and metrics, compressed."""

import json
import os
import queue
import subprocess
import threading

PROGRAM = os.environ.get("COLLECTOR_BINARY")


class OfficialCollector:
    """The receiver, in a process of its own, and the exports that it has understood."""

    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(timeout=30)

    def next_with(self, signal, scopes, items, name):
        """The first export that has a span or metric of this name: that one, and its resource."""
        while True:
            export = self.lines.get(timeout=30)
            for resource in export.get(signal, []):
                for scope in resource[scopes]:
                    for item in scope[items]:
                        if item["name"] == name:
                            return item, resource["resource"]


def check(relay, send, expect):
    """`relay` starts a relay of the hub `orders` that exports to an endpoint, `send` sends it an event with a context."""
    collector = OfficialCollector()
    relay(collector.endpoint)
    trace, span_id = "5bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902c1"
    send(f"00-{trace}-{span_id}-01")
    span, resource = collector.next_with("resourceSpans", "scopeSpans", "spans", "process orders")
    [link] = span["links"]
    expect((link["traceId"], link["spanId"], span["kind"]) == (trace, span_id, 5), f"{span}")
    names = {pair["key"]: pair["value"] for pair in span["attributes"]}
    expect(names["messaging.system"] == {"stringValue": "eventhubs"}, f"{names}")
    metric, of_metric = collector.next_with("resourceMetrics", "scopeMetrics", "metrics", "parshall_relay_send_seconds")
    [point] = metric["histogram"]["dataPoints"]
    expect(sum(map(int, point["bucketCounts"])) == int(point["count"]), f"{point}")
    expect(resource == of_metric, f"{resource} and {of_metric}")
    expect(collector.stop() == 0, "the collector ended badly")
