"""Stands for the SDK repository's module of this name, which its test suites import and which is not published.

A preparer makes what a test needs before it runs. These ask the management clients of `management`, which start
`parshall serve` with it.
"""

import functools
import inspect
import secrets

import management


class AzureTestError(Exception):
    pass


class ReservedResourceNameError(Exception):
    pass


class FakeResource:
    def __init__(self, name, id):
        self.name = name
        self.id = id


class AzureRecordedTestCase:
    is_live = True

    @staticmethod
    def await_prepared_test(test):
        return test


class AzureMgmtRecordedTestCase(AzureRecordedTestCase):
    pass


class AzureMgmtPreparer:
    """A decorator: makes a resource, hands it to the test as arguments, and removes it."""

    is_live = True
    moniker = ""
    client = None
    resource = None
    resource_random_name = None

    def __init__(self, name_prefix="", random_name_length=24, random_name_enabled=True, **_ignored):
        self.name_prefix = name_prefix
        self.random_name_length = random_name_length
        self.random_name_enabled = random_name_enabled

    def set_cache(self, *_):
        """Every test gets resources of its own."""

    def create_mgmt_client(self, client, **_ignored):
        return client()

    def create_resource(self, name, **kwargs):
        return {}

    def remove_resource(self, name, **kwargs):
        pass

    def __call__(self, test):
        def prepared(instance, arguments):
            self.test_class_instance = instance
            name = self.resource_random_name or self._name()
            arguments.update(self.create_resource(name, **arguments))
            accepted = inspect.signature(test).parameters
            if any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
                return name, arguments
            return name, {key: value for key, value in arguments.items() if key in accepted}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def wrapper(instance, **arguments):
                name, given = prepared(instance, arguments)
                try:
                    await test(instance, **given)
                finally:
                    self.remove_resource(name, **arguments)

        else:

            @functools.wraps(test)
            def wrapper(instance, **arguments):
                name, given = prepared(instance, arguments)
                try:
                    test(instance, **given)
                finally:
                    self.remove_resource(name, **arguments)

        return wrapper

    def _name(self):
        return (self.name_prefix + secrets.token_hex(self.random_name_length))[: self.random_name_length]


class ResourceGroupPreparer(AzureMgmtPreparer):
    def create_resource(self, name, **kwargs):
        return {"resource_group": FakeResource(name, name)}


RandomNameResourceGroupPreparer = CachedResourceGroupPreparer = ResourceGroupPreparer


class PowerShellPreparer:
    """Of the tests of administration: a namespace with nothing in it, and what it takes to get in."""

    def __init__(self, _prefix, **recorded):
        self._recorded = recorded

    def __call__(self, test):
        accepted = inspect.signature(test).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())

        def prepared():
            management.entities.clear()
            management.entities.serve()
            given = self._recorded | management.namespace_arguments()
            return {key: value for key, value in given.items() if takes_all or key in accepted}

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def wrapper(instance):
                with management.administered():
                    await test(instance, **prepared())

        else:

            @functools.wraps(test)
            def wrapper(instance):
                with management.administered():
                    test(instance, **prepared())

        # So that the arguments are not looked for among the fixtures.
        wrapper.__signature__ = inspect.Signature([next(iter(accepted.values()))])
        return wrapper


def recorded_by_proxy(test):
    return test


def get_region_override(default):
    return default


def get_credential(is_async=False, **_):
    if management.is_administered:
        return management.shared_key(is_async)
    return management.AsyncSharedAccess() if is_async else management.SharedAccess()


def add_general_regex_sanitizer(**_):
    pass


def set_custom_default_matcher(**_):
    pass
