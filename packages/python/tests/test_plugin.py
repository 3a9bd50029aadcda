"""The fixtures, in sessions of pytest of their own."""

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def parshall_options():
    return {"hubs": {"orders": 2}}
"""

TESTS = """
import os, pathlib, pytest

def entities(service):
    return [entity["name"] for entity in service.announcement["entities"]]

@pytest.mark.parametrize("number", range(4))
def test_shared(parshall_service, number):
    assert entities(parshall_service) == ["orders"]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "only")
    pathlib.Path(f"{worker}-{number}").write_text(str(parshall_service.process_id))

def test_own(parshall_service, parshall_namespace):
    assert parshall_namespace.process_id != parshall_service.process_id
    assert entities(parshall_namespace) == ["orders"]

@pytest.mark.parshall(hubs={}, queues=["jobs"])
def test_marked(parshall_namespace):
    assert entities(parshall_namespace) == ["jobs"]
"""


@pytest.fixture(autouse=True)
def files(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    return pytester


def test_a_service_is_shared_or_for_one_test(pytester):
    result = pytester.runpytest_subprocess("--strict-markers")
    result.assert_outcomes(passed=6)
    assert len({file.read_text() for file in pytester.path.glob("only-*")}) == 1


def test_each_worker_has_its_own(pytester):
    pytester.runpytest_subprocess("-n2", "--dist=each").assert_outcomes(passed=12)
    workers = [{file.read_text() for file in pytester.path.glob(f"gw{worker}-*")} for worker in range(2)]
    assert [len(processes) for processes in workers] == [1, 1] and workers[0] != workers[1]


def test_the_log_is_in_the_reports_of_tests_that_fail_alone(pytester):
    # The service warns of an entity that does not exist, so its log is not empty.
    warned_of = pytester.makefile(".yaml", namespace="{hubs: [], profile: {service_time: {entities: {nowhere: {send: 1 ms}}}}}")
    pytester.makepyfile(
        test_it=f"""
import pytest

@pytest.fixture(scope="session")
def parshall_options():
    return {{"arguments": ["--config", "{warned_of}"]}}

def test_passes(parshall_service):
    pass

def test_fails(parshall_service):
    assert False
"""
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*log of parshall_service*", "*does not exist*"])
    assert result.stdout.str().count("log of parshall_service") == 1
