"""What each suite passes, and why it does not pass the rest.

Two files for each suite, in `lists/`:

    NAME.passes     one test a line, sorted. It only grows.
    NAME.failures   tests beneath the reason why they can't pass: a line that begins with `# ` is the reason of the lines that
                    follow it. A `*` stands for anything. Tests beneath a reason that begins with `not run: ` are not started;
                    those beneath one that begins with `by chance: ` pass or fail as it comes, and are never added to the list.

A run fails when a listed test no longer passes, and when a test that does not pass has no reason.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "lists"
NOT_RUN = "not run: "
BY_CHANCE = "by chance: "
PASSED, FAILED, SKIPPED, TIMED_OUT = "passed", "failed", "skipped", "timed out"
SHOWN = 20


@dataclass
class Reasons:
    """Why tests do not pass: patterns, each with its reason, in the order of the file."""

    patterns: list[tuple[str, str]] = field(default_factory=list)

    def of(self, test: str) -> str | None:
        return next((reason for pattern, reason in self.patterns if _matches(pattern, test)), None)

    def forbids(self, test: str) -> bool:
        """Whether the test is not to be started."""
        return any(reason.startswith(NOT_RUN) and _matches(pattern, test) for pattern, reason in self.patterns)


def reasons(suite: str) -> Reasons:
    found = Reasons()
    reason = None
    for line in _lines(suite, "failures"):
        if line.startswith("# "):
            reason = line[2:]
        elif reason is None:
            raise SystemExit(f"lists/{suite}.failures: `{line}` has no reason before it")
        else:
            found.patterns.append((line, reason))
    return found


def passes(suite: str) -> set[str]:
    return set(_lines(suite, "passes"))


def check(suite: str, results: dict[str, str], served: set[str], everything: bool, update: bool) -> bool:
    """Compares what came of the tests with the lists, prints what differs, and says whether all is as listed.

    `served` are the tests that the service had to do with; the others test nothing but the client.
    `everything` says that the whole suite was run, so that a listed test without a result is missing.
    """
    listed, known = passes(suite), reasons(suite)
    passed = {test for test, outcome in results.items() if outcome == PASSED}
    lost = sorted(test for test in listed & results.keys() if test not in passed)
    missing = sorted(listed - results.keys()) if everything else []
    unknown = sorted(test for test in results.keys() - passed - listed if known.of(test) is None)
    new = sorted(test for test in passed - listed if not (known.of(test) or "").startswith(BY_CHANCE))
    if update and new:
        _write(suite, listed.union(new))
        _forget(suite, set(new))
    for title, tests in [
        ("listed, and did not pass", lost),
        ("listed, and not there", missing),
        ("did not pass, without a reason in the list", unknown),
        ("pass now: added to the list" if update else "pass now: add them with --update", new),
    ]:
        if tests:
            print(f"\n{suite}: {title}: {len(tests)}")
            for test in tests if tests is not new else tests[:SHOWN]:
                print(f"  {test}" + (f"  ({results[test]})" if test in results and test not in passed else ""))
            if tests is new and len(new) > SHOWN:
                print("  …")
    print(f"\n{suite}: {len(passed)} of {len(results)} passed", end="; ")
    print(f"with the service: {len(passed & served)} of {len(served)}")
    return not (lost or missing or unknown)


def _write(suite: str, tests: set[str]):
    (DIRECTORY / f"{suite}.passes").write_text("".join(f"{test}\n" for test in sorted(tests)))


def _forget(suite: str, passed: set[str]):
    """Takes tests that pass out of the file of failures, and reasons without any test left."""
    path = DIRECTORY / f"{suite}.failures"
    if not path.exists():
        return
    groups: list[list[str]] = []
    for line in _lines(suite, "failures"):
        if line.startswith("# "):
            groups.append([line])
        elif line not in passed:
            groups[-1].append(line)
    path.write_text("\n".join("".join(f"{line}\n" for line in group) for group in groups if len(group) > 1))


def _lines(suite: str, kind: str) -> list[str]:
    path = DIRECTORY / f"{suite}.{kind}"
    return [line for line in path.read_text().splitlines() if line] if path.exists() else []


def _matches(pattern: str, test: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), test, re.DOTALL) is not None
