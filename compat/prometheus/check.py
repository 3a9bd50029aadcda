"""Checks dashboards, rules and metrics against a Prometheus that scrapes what is running.

1. Dashboards have their structure, and rules their tests.
2. Every name in a query, a rule or the document is on a live page, and every live name is in the document.
3. Every query of every panel gives something, but for those that show trouble, of which there is none here.
"""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import dashboards
from served import Served, fetch, wait_for

# Panels that are empty while all is well, or where nothing of their kind is running: dashboard, title.
MAY_BE_EMPTY = {
    ("relay.json", "Watermark age"),
    ("relay.json", "Last errors"),
}

# Documented, and not to be seen here: of the clusters, collectors and faults that nothing here has.
NOT_HERE = {
    "parshall_relay_last_error_timestamp_seconds",
    "parshall_otlp_dropped_spans_total",
    "parshall_otlp_exported_spans_total",
    "parshall_otlp_failing",
    "parshall_otlp_queued_spans",
    "parshall_otlp_requests_total",
}

WITHOUT_PROMETHEUS = bool(os.environ.get("PARSHALL_WITHOUT_PROMETHEUS"))
PATIENCE_S = 60


def main():
    keep = "--keep" in sys.argv
    began = time.monotonic()
    all_dashboards = dashboards.load()
    structure = [f"{name}: {mistake}" for name, it in all_dashboards.items() for mistake in dashboards.mistakes(name, it)]
    expect(not structure, "the structure of dashboards:\n" + "\n".join(structure))
    rules = check_rules()
    folder = Path(tempfile.mkdtemp(prefix="parshall-prometheus-"))
    served = prometheus = None
    try:
        served = Served(folder)
        if not WITHOUT_PROMETHEUS:
            prometheus = Prometheus(folder, served.addresses())
        check_pages(served)
        if prometheus:
            empty = prometheus.until_all_show(all_dashboards)
            expect(not empty, "panels show nothing:\n" + "\n".join(empty))
            firing = prometheus.firing()
            expect(not firing, f"alerts are pending or firing while all is well: {firing}")
        check_names(served, all_dashboards, rules)
        queries = sum(len(list(dashboards.queries(it))) for it in all_dashboards.values())
        print(f"{queries} queries of {len(all_dashboards)} dashboards in {time.monotonic() - began:.0f} s")
        if keep:
            print(f"{served.addresses()}, Prometheus at {prometheus and prometheus.url}; Ctrl-C ends it")
            served.processes[0].wait()
    finally:
        if prometheus:
            prometheus.stop()
        if served:
            statuses = served.stop()
            bad = [it for it in statuses if it[1] not in (0, 130) and it[0] not in ("send", "run")]
        for log in sorted(folder.glob("*.log")) if sys.exc_info()[0] else []:
            print(f"--- {log.name}\n{log.read_text()[-2000:]}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
    expect(not bad, f"processes ended badly: {bad}")


def check_rules():
    """The rules, which are in order, and each of which has a case that fires and one that does not."""
    text = (dashboards.RULES / "rules.yml").read_text()
    tests = (dashboards.RULES / "rules.test.yml").read_text()
    alerts = [line.split()[-1] for line in text.splitlines() if line.strip().startswith("- alert:")]
    described = (dashboards.ROOT / "docs" / "monitoring.md").read_text()
    for alert in alerts:
        for case in (f"- name: {alert} fires\n", f"- name: {alert} is quiet\n"):
            expect(case in tests, f"rules.test.yml has no {case}")
        expect(f"`{alert}`" in described, f"docs/monitoring.md does not describe {alert}")
    if not WITHOUT_PROMETHEUS:
        promtool("check", "config", "prometheus.yml", cwd=dashboards.RULES)
        promtool("check", "rules", "rules.yml", cwd=dashboards.RULES)
        promtool("test", "rules", "rules.test.yml", cwd=dashboards.RULES)
    return text


def check_pages(served):
    """Metrics are in the form that was asked for, and everyone is alive and ready."""
    for addresses in served.addresses().values():
        for address in addresses:
            kind, text = fetch(f"http://{address}/metrics")
            expect(kind.startswith("text/plain; version=0.0.4"), f"{address}: {kind}")
            if not WITHOUT_PROMETHEUS:
                promtool("check", "metrics", input=text)
            kind, text = fetch(f"http://{address}/metrics", "application/openmetrics-text; version=1.0.0")
            expect(kind.startswith("application/openmetrics-text; version=1.0.0"), f"{address}: {kind}")
            expect(text.endswith("# EOF\n"), f"{address}: no end")
            expect(fetch(f"http://{address}/live")[1].startswith("ok"), f"{address} is not alive")
            wait_for(lambda: is_ready(address), f"{address} is not ready")


def is_ready(address):
    try:
        return fetch(f"http://{address}/ready")[1] == "ready\n"
    except urllib.error.HTTPError as error:
        expect(error.code == 503 and error.read().startswith(b"not ready\n"), f"{address}: {error}")
        return False


def check_names(served, all_dashboards, rules):
    """Names of metrics in queries, rules, the document and the live pages are the same."""
    live = set()
    for addresses in served.addresses().values():
        for address in addresses:
            lines = fetch(f"http://{address}/metrics")[1].splitlines()
            live |= {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    documented = dashboards.documented()
    expect(not live - documented, f"not in docs/metrics.md: {sorted(live - documented)}")
    missing = documented - live - NOT_HERE
    expect(not missing, f"in docs/metrics.md and on no page: {sorted(missing)}")
    asked = dashboards.names_in(rules)
    for dashboard in all_dashboards.values():
        for _, query in dashboards.queries(dashboard):
            asked |= dashboards.names_in(query)
    unknown = asked - live
    expect(not unknown, f"in a query and on no page: {sorted(unknown)}")


class Prometheus:
    """A Prometheus that scrapes once a second, with the project's own configuration."""

    def __init__(self, folder, addresses):
        config = (dashboards.RULES / "prometheus.yml").read_text().replace("15s", "1s")
        for job, port in (("parshall-relay", 9464), ("parshall-service", 5300), ("parshall-lab", 9465)):
            targets = ", ".join(f"'{address}'" for address in addresses[job])
            expect(f"'localhost:{port}'" in config, f"prometheus.yml does not scrape port {port}")
            config = config.replace(f"'localhost:{port}'", targets)
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(dashboards.RULES / "rules.yml", folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % probe.getsockname()[1]
        self.url = f"http://{address}"
        arguments = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        arguments += [f"--web.listen-address={address}", "--log.level=warn"]
        self.log = folder / "prometheus.log"
        self.process = subprocess.Popen(arguments, stdout=open(self.log, "w"), stderr=subprocess.STDOUT, cwd=folder)
        wait_for(self._is_ready, "Prometheus does not start")

    def until_all_show(self, all_dashboards):
        """Asks every query until it gives something; those that never do."""
        waiting = {(name, title, query) for name, it in all_dashboards.items() for title, query in dashboards.queries(it)}
        waiting = {it for it in waiting if not self._show(it[2], parse_only=it[:2] in MAY_BE_EMPTY)}
        deadline = time.monotonic() + PATIENCE_S
        while waiting and time.monotonic() < deadline:
            time.sleep(0.5)
            waiting = {it for it in waiting if not self._show(it[2])}
        return sorted(f"{name}: {title}: {query}" for name, title, query in waiting)

    def firing(self):
        alerts = self._get("/api/v1/alerts")["data"]["alerts"]
        return [alert["labels"] for alert in alerts if alert["state"] == "firing"]

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)

    def _show(self, query, parse_only=False):
        """Whether a query gives a number; it must be one that Prometheus understands."""
        try:
            result = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": query}))["data"]["result"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"compat/prometheus: {query}: {error.read().decode()}") from error
        return parse_only or any(math.isfinite(float(series["value"][1])) for series in result)

    def _get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=20) as response:
            return json.load(response)

    def _is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError(self.log.read_text())
        try:
            return urllib.request.urlopen(self.url + "/-/ready", timeout=5).status == 200
        except OSError:
            return False


def promtool(*arguments, **options):
    ended = subprocess.run(["promtool", *arguments], capture_output=True, text=True, **options)
    expect(ended.returncode == 0, f"promtool {' '.join(arguments)}:\n{ended.stdout}{ended.stderr}")


def expect(condition, otherwise):
    if not condition:
        raise SystemExit(f"compat/prometheus: {otherwise}")


main()
