"""The brokers of kafka-python's tests, as far as they are not started by the tests: the archive lacks the module."""


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host, port):
        self.host = host
        self.port = port

    def open(self):
        """Does nothing."""

    def close(self):
        """Does nothing."""


class SpawnedService:
    """A broker that a test would start."""

    def __init__(self, *arguments, **options):
        raise NotImplementedError("the tests run against a broker that runs already")
