"""`latency.hlog` of a run, as HdrHistogram's own reader sees it."""

import json
import os
import subprocess

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

SCENARIO = """\
scenario: logged
hubs: {source: {partitions: 2}, destination: {partitions: 2}}
embedded: {log_per_hub: 64 MiB}
load: {mode: closed}
phases: {warm_up: 200 ms, measure: 3 s}
relay: {fan_out: 2}
"""
NANOSECONDS = 1_000
LONGEST = 3_600_000_000 * NANOSECONDS


def test_the_log_tells_the_figures_of_the_results(tmp_path):
    (tmp_path / "logged.yaml").write_text(SCENARIO)
    command = [os.environ["PARSHALL_BINARY"], "run", "./logged.yaml", "--out", "results"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    results = json.loads((tmp_path / "results" / "results.json").read_text())
    (trial,) = results["cases"][0]["trials"]
    expected = trial["latency_us"]

    whole = HdrHistogram(1, LONGEST, 3)
    reader = HistogramLogReader(str(tmp_path / "results" / "latency.hlog"), HdrHistogram(1, LONGEST, 3))
    starts = []
    while (interval := reader.get_next_interval_histogram()) is not None:
        starts.append(interval.get_start_time_stamp())
        assert interval.get_tag() == "logged/1"
        whole.add(interval)
    reader.input_file.close()

    # A second each, or longer where the machine is busy.
    assert len(starts) >= 2
    # Milliseconds since 1970.
    assert reader.base_time_sec == reader.start_time_sec > 1.7e9
    assert starts == sorted(starts) and starts[0] / 1000 >= reader.base_time_sec
    assert whole.get_total_count() == expected["count"]
    found = {name: whole.get_value_at_percentile(percent) for name, percent in (("p50", 50), ("p99", 99))}
    found["max"] = whole.get_max_value()
    for name, value in found.items():
        # A bucket of the log ends at most 0.1 % above the value of the results.
        assert 0 <= value / NANOSECONDS - expected[name] <= expected[name] * 0.001 + 1, (name, value, expected)
