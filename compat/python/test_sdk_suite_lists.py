"""The lists of what the SDKs' own suites pass: they only grow, and nothing fails without a reason."""

import importlib.util
from pathlib import Path

import pytest

LISTS = Path(__file__).resolve().parents[1] / "sdk-suites" / "lists.py"


@pytest.fixture
def lists(tmp_path):
    """The module with lists of its own: `a` and `b` pass, for the rest there are reasons."""
    specification = importlib.util.spec_from_file_location("sdk_suite_lists", LISTS)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.DIRECTORY = tmp_path
    (tmp_path / "suite.passes").write_text("a\nb\n")
    (tmp_path / "suite.failures").write_text(
        "# a defect\nc\nd[x]*\n\n# not run: too long\ne\n\n# by chance: timing\nf\n"
    )
    return module


def check(lists, results, everything=True, update=False):
    return lists.check("suite", results, set(), everything, update)


def test_what_is_listed_is_as_it_should_be(lists):
    results = {"a": "passed", "b": "passed", "c": "failed", "d[x]1": "skipped", "f": "failed"}
    assert check(lists, results)
    assert check(lists, results | {"f": "passed", "c": "passed"})


@pytest.mark.parametrize("results", [{"a": "failed", "b": "passed"}, {"a": "passed"}, {"a": "passed", "b": "skipped"}])
def test_a_listed_test_that_does_not_pass_fails_the_run(lists, results):
    assert not check(lists, results)


def test_a_test_that_was_not_selected_is_not_missing(lists):
    assert check(lists, {"a": "passed"}, everything=False)


@pytest.mark.parametrize("outcome", ["failed", "skipped", "timed out"])
def test_an_unknown_test_that_does_not_pass_fails_the_run(lists, outcome):
    assert not check(lists, {"a": "passed", "b": "passed", "d[y]": outcome})


def test_only_tests_that_are_not_to_be_run_are_forbidden(lists):
    reasons = lists.reasons("suite")
    assert [test for test in "abcdef" if reasons.forbids(test)] == ["e"]


def test_an_update_adds_what_passes_and_forgets_its_failure(lists, tmp_path):
    assert check(lists, {"a": "passed", "b": "passed", "c": "passed", "f": "passed"}, update=True)
    assert lists.passes("suite") == {"a", "b", "c"}
    assert (tmp_path / "suite.failures").read_text() == (
        "# a defect\nd[x]*\n\n# not run: too long\ne\n\n# by chance: timing\nf\n"
    )


def test_a_reason_without_tests_goes_with_its_last_one(lists, tmp_path):
    (tmp_path / "suite.failures").write_text("# first\nc\n\n# second\nd\n\n# third\ng\n\n# fourth\nh\n\n# fifth\ni\n")
    results = {"a": "passed", "b": "passed", "c": "failed", "d": "passed", "g": "passed", "h": "failed", "i": "passed"}
    check(lists, results, update=True)
    assert (tmp_path / "suite.failures").read_text() == "# first\nc\n\n# fourth\nh\n"
