"""opendal's service `azblob`: the operations that it says it can do."""

import opendal
import pytest


@pytest.fixture
def operator(account, container):
    return opendal.Operator(
        "azblob", container=container, endpoint=account.endpoint, account_name=account.name, account_key=account.key, root="/",
    )


def test_it_can_do_what_it_says(operator):
    capability = operator.capability()
    assert capability.read and capability.write and capability.list and capability.copy and capability.delete
    operator.write("a/one", b"0123456789", content_type="text/plain", cache_control="no-cache")
    found = operator.stat("a/one")
    assert (found.content_length, found.content_type) == (10, "text/plain")
    with operator.open("a/one", "rb") as file:
        file.seek(4)
        assert file.read(3) == b"456"
    operator.copy("a/one", "b/two")
    assert operator.read("b/two") == b"0123456789"
    assert sorted(entry.path for entry in operator.scan("") if not entry.path.endswith("/")) == ["a/one", "b/two"]
    operator.remove_all("a/")
    assert not operator.exists("a/one") and operator.exists("b/two")


def test_what_is_there_already_is_not_created_again(operator):
    operator.write("a", b"1", if_not_exists=True)
    with pytest.raises(opendal.exceptions.ConditionNotMatch):
        operator.write("a", b"2", if_not_exists=True)
    assert operator.read("a") == b"1"


def test_contents_are_appended_and_written_in_parts(operator):
    operator.write("log", b"one", append=True)
    operator.write("log", b" two", append=True)
    assert operator.read("log") == b"one two"
    content = bytes(range(256)) * 40_000
    operator.write("large", content, chunk=1 << 20, concurrent=4)
    assert operator.read("large") == content
