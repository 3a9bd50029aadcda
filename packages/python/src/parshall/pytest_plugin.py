"""Services as fixtures, and their logs in the reports of tests that fail.

Workers of pytest-xdist are processes, each with its own session, so each has its own service.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from ._service import Service, serve

LOG_LINES = 100


@pytest.fixture(scope="session")
def parshall_options() -> "dict[str, Any]":
    """The arguments of `parshall.serve` for the other fixtures. Redefine it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def parshall_service(parshall_options: "dict[str, Any]") -> Iterator[Service]:
    """A service that all tests share."""
    with serve(**parshall_options) as service:
        yield service


@pytest.fixture
def parshall_namespace(request: pytest.FixtureRequest, parshall_options: "dict[str, Any]") -> Iterator[Service]:
    """A service for one test. A marker `parshall` has arguments of `parshall.serve` that take precedence."""
    markers = request.node.iter_markers("parshall")
    # The closest one is the first.
    options = [parshall_options, *reversed([marker.kwargs for marker in markers])]
    with serve(**{name: value for some in options for name, value in some.items()}) as service:
        yield service


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "parshall(**options): arguments of parshall.serve for parshall_namespace")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for name, value in getattr(item, "funcargs", {}).items():
        lines = value.log().splitlines() if isinstance(value, Service) else []
        if lines:
            report.sections.append((f"log of {name}", "\n".join(lines[-LOG_LINES:])))
