"""The tasks of README.md, and what it refers to for them, as they stand there: files are written, commands and clients run."""

import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient

ROOT = Path(__file__).parents[2]


def blocks(heading: str, document: str = "README.md") -> dict[str, list[str]]:
    """The fenced blocks under a heading, by language."""
    section = (ROOT / document).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found: dict[str, list[str]] = {}
    for language, content in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
        found.setdefault(language, []).append(content)
    return found


def write(directory: Path, content: str) -> Path:
    """Writes a block to the file that its first line names."""
    path = directory / content.splitlines()[0].removeprefix("# ")
    path.write_text(content)
    return path


@pytest.fixture
def shell(tmp_path):
    """Starts a script in a directory of its own, where `parshall` and `python3` are those of the tests."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "parshall").symlink_to(os.environ["PARSHALL_BINARY"])
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"

    def start(script: str, **variables: str):
        environment = {"PATH": path, **variables}
        command = ["bash", "-euc", script]
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def output(process: subprocess.Popen) -> str:
    text, errors = process.communicate(timeout=120)
    assert process.returncode == 0, text + errors
    return text


def test_a_hub_for_my_ci(shell, tmp_path):
    found = blocks("A hub for my CI")
    write(tmp_path, found["python"][0])
    [with_command] = found["sh"]
    assert output(shell(with_command)) == "hello\n"
    [in_background] = blocks("In the background", "docs/serving.md")["sh"]
    # What follows in the user's own script: the same client, and the end.
    assert output(shell(in_background + "python3 orders.py\nkill $!\nwait $! || true\n")) == "hello\n"
    assert not (tmp_path / "service.env").exists()


def test_carry_a_hub_to_another(shell, tmp_path, service):
    found = blocks("Carry a hub to another")
    source, sink = service.unused_hub(), service.unused_hub()
    content = found["yaml"][0]
    assert content.count("hub: orders") == 1 and content.count("hub: copies") == 1
    write(tmp_path, content.replace("hub: orders", f"hub: {source}").replace("hub: copies", f"hub: {sink}"))
    check, run = [line.split("#")[0].strip() for line in found["sh"][0].splitlines()]
    ends = {"SOURCE": service.connection_string, "SINK": service.connection_string}
    assert source in output(shell(check, **ends))
    relay = shell(f"exec {run}", **ends)
    try:
        with EventHubProducerClient.from_connection_string(service.connection_string, eventhub_name=source) as producer:
            producer.send_batch([EventData(str(number)) for number in range(10)], partition_id="0")
        received = []
        with EventHubConsumerClient.from_connection_string(
            service.connection_string, consumer_group="$Default", eventhub_name=sink
        ) as consumer:

            def on_event(_, event):
                received.append(event.body_as_str())
                if len(received) == 10:
                    consumer.close()

            consumer.receive(on_event, starting_position="-1")
        assert sorted(received, key=int) == [str(number) for number in range(10)]
    finally:
        relay.send_signal(signal.SIGINT)
        text, errors = relay.communicate(timeout=60)
    assert relay.returncode == 0, text + errors


# A stand-in for the reader's own program: it forwards by the variables that the lab sets.
PIPELINE = textwrap.dedent("""\
    source: {event_hubs: {connection_string: "${PARSHALL_SOURCE_CONNECTION_STRING}", hub: "${PARSHALL_SOURCE_HUB}"}}
    sink: {event_hubs: {connection_string: "${PARSHALL_DESTINATION_CONNECTION_STRING}", hub: "${PARSHALL_DESTINATION_HUB}"}}
    checkpoint: {store: {files: "${PARSHALL_FOLDER}/checkpoints"}}
    """)


def test_measure_my_pipeline(shell, tmp_path):
    found = blocks("Measure my pipeline")
    write(tmp_path, found["yaml"][0])
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    program = tmp_path / "my-pipeline"
    program.write_text("#!/bin/sh\nexec parshall relay pipeline.yaml\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    process = shell(found["sh"][0])
    text, errors = process.communicate(timeout=120)
    # On a machine that is busy with other tests the generator may be late, which makes the case invalid.
    assert process.returncode in (0, 1), text + errors
    assert " 0 lost, 0 corrupted" in text and " 0 of 0 " not in text, text
    assert list(tmp_path.glob("results/**/report.html")), text


def test_every_link_to_a_file_leads_somewhere():
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
