"""What the tests of blob storage share."""

import pytest
from azure.core.exceptions import HttpResponseError


def refused(request, status, code):
    """Asserts that a call is answered with this status and code."""
    with pytest.raises(HttpResponseError) as error:
        request()
    assert (error.value.status_code, error.value.error_code) == (status, code)
