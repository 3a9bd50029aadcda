"""The pytest plug-in of the suites: a service for each process, the tests that are not run, and what came of the others."""

import json
import os
import sys
from pathlib import Path

import certifi
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lists  # noqa: E402
import management  # noqa: E402
import service  # noqa: E402

SUITE = os.environ["PARSHALL_SUITE"]
WORK = Path(os.environ["PARSHALL_WORK"])
ADDRESSES = os.environ["PARSHALL_ADDRESSES"].split(",")
SERVED = "served"
OUTCOMES = {"passed": lists.PASSED, "failed": lists.FAILED, "skipped": lists.SKIPPED}

results: dict[str, str] = {}
served_tests: set[str] = set()


def pytest_configure(config):
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    served = service.Service(WORK / "services" / SUITE / str(number), ADDRESSES[number])
    management.served = served
    # Some libraries read whom they trust as soon as they are imported: the authority has to be there by then.
    served.start("hubs: []\n")
    served.stop()
    served.was_used()
    authority = str(served.authority)
    # The clients trust what certifi has, their WebSockets and what speaks HTTP what these name.
    certifi.where = lambda: authority
    for variable in ("SSL_CERT_FILE", "WEBSOCKET_CLIENT_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        os.environ[variable] = authority
    os.environ |= {
        "AZURE_SUBSCRIPTION_ID": "none",
        "EVENTHUB_RESOURCE_GROUP": "none",
        "EVENT_HUB_NAMESPACE": served.address,
        "EVENT_HUB_ENDPOINT_SUFFIX": "",
        "SERVICEBUS_ENDPOINT_SUFFIX": "",
    }


def pytest_unconfigure(config):
    management.served.stop()


def pytest_collection_modifyitems(config, items):
    reasons = lists.reasons(SUITE)
    left_out = [item for item in items if reasons.forbids(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not reasons.forbids(item.nodeid)]


def pytest_collectreport(report):
    # A file that can't be read is a test that fails.
    if report.failed:
        results[report.nodeid] = lists.FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    try:
        return (yield)
    finally:
        management.served.stop()
        item.user_properties.append((SERVED, management.served.was_used()))


def pytest_runtest_logreport(report):
    if dict(report.user_properties).get(SERVED):
        served_tests.add(report.nodeid)
    known = results.get(report.nodeid)
    outcome = OUTCOMES[report.outcome]
    if report.failed and "Timeout (>" in report.longreprtext:
        outcome = lists.TIMED_OUT
    # Setup and teardown count when they fail, or skip the test.
    if report.when == "call" or outcome != lists.PASSED:
        if known in (None, lists.PASSED):
            results[report.nodeid] = outcome


def pytest_sessionfinish(session):
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        came = {"outcomes": results, "served": sorted(served_tests)}
        Path(os.environ["PARSHALL_RESULTS"]).write_text(json.dumps(came, indent=1, sort_keys=True))


@pytest.fixture(scope="session")
def test_proxy():
    """The suites' recordings are not used."""


management.stand_in()
