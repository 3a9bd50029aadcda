"""What the suites know as the clients of Azure Resource Manager: entities that are asked for are those of the service's next
start. A test asks for all of them before it connects."""

import base64
import contextlib
import hashlib
import hmac
import json
import re
import sys
import time
import types
import urllib.parse

from azure.core.credentials import AccessToken

import service

# The service of this process: the plug-in sets it.
served: service.Service


class Model:
    """Any model of the management libraries."""

    def __init__(self, **settings):
        self.__dict__.update(settings)


class AccessRights:
    manage, send, listen = "Manage", "Send", "Listen"


class Done:
    """An operation that is over at once."""

    def __init__(self, result):
        self._result = result

    def result(self):
        return self._result


class Entities:
    """What the namespace of the running test has."""

    def __init__(self):
        self.hubs: dict[str, dict] = {}
        self.queues: dict[str, dict] = {}
        self.topics: dict[str, dict[str, dict]] = {}

    def clear(self):
        self.__init__()

    def serve(self):
        # JSON is YAML.
        topics = [
            {"name": name, "subscriptions": [{"name": one} | settings for one, settings in subscriptions.items()]}
            for name, subscriptions in self.topics.items()
        ]
        lists = {"hubs": _named(self.hubs), "queues": _named(self.queues), "topics": topics}
        served.start("".join(f"{key}: {json.dumps(value)}\n" for key, value in lists.items()))


entities = Entities()


# Whether the running test is one of administration.
is_administered = False


@contextlib.contextmanager
def administered():
    """While a test of administration runs. Its clients have keys: those for identities take the same from a service of tokens."""
    global is_administered
    is_administered = True
    try:
        yield
    finally:
        is_administered = False


def shared_key(is_async: bool):
    """The credential of the namespace's key."""
    if is_async:
        from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential
    else:
        from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
    return ServiceBusSharedKeyCredential(service.KEY_NAME, service.KEY)


def namespace_arguments() -> dict[str, str]:
    """What tests of administration ask for."""
    return {
        "servicebus_connection_str": served.connection_string(),
        "servicebus_fully_qualified_namespace": served.address,
        "servicebus_sas_policy": service.KEY_NAME,
        "servicebus_sas_key": service.KEY,
    }


class EventHubs:
    def create_or_update(self, group, namespace, name, settings):
        entities.clear()
        entities.hubs[name] = {"partitions": settings["partition_count"]}
        entities.serve()
        return Model(name=name)

    def delete(self, group, namespace, name):
        served.stop()


class Namespaces:
    rights: dict[str, list[str]] = {}

    def begin_create_or_update(self, group, name, settings):
        entities.clear()
        entities.serve()
        return Done(Model(name=served.address))

    def create_or_update_authorization_rule(self, group, namespace, name, rule):
        self.rights[name] = rule.rights
        return Model(name=name)

    def list_keys(self, group, namespace, name):
        return _key(self.rights.get(name, []))

    def delete_authorization_rule(self, group, namespace, name):
        pass

    def delete(self, group, name):
        served.stop()


class Queues:
    def create_or_update(self, group, namespace, name, queue):
        entities.queues[name] = _settings(queue) | {
            "dead_lettering_on_expiration": queue.dead_lettering_on_message_expiration,
        }
        if queue.requires_duplicate_detection:
            entities.queues[name]["duplicate_detection"] = "10 min"
        entities.serve()
        return Model(name=name)

    def create_or_update_authorization_rule(self, group, namespace, queue, name, rule):
        return Model(name=name)

    def list_keys(self, group, namespace, queue, name):
        return _key([], path=queue)

    def delete(self, group, namespace, name):
        pass

    def delete_authorization_rule(self, group, namespace, queue, name):
        pass


class Topics:
    def create_or_update(self, group, namespace, name, settings):
        entities.topics[name] = {}
        entities.serve()
        return Model(name=name)

    def delete(self, group, namespace, name):
        pass


class Subscriptions:
    def create_or_update(self, group, namespace, topic, name, subscription):
        entities.topics[topic][name] = _settings(subscription)
        entities.serve()
        return Model(name=name)

    def delete(self, group, namespace, topic, name):
        pass


class ManagementClient:
    def __init__(self, *_, **__):
        self.event_hubs = EventHubs()
        self.namespaces = Namespaces()
        self.queues = Queues()
        self.topics = Topics()
        self.subscriptions = Subscriptions()
        self.resource_groups = Namespaces()
        self.resource_groups.create_or_update = lambda name, settings: Model(name=name)
        self.resource_groups.begin_delete = lambda name, **_: Done(None)


class SharedAccess:
    """A credential: gives a shared access signature for the namespace where a token of an identity is asked for."""

    def get_token(self, *_, **__):
        expiry = int(time.time()) + 3600
        audience = urllib.parse.quote_plus(f"sb://{served.address}/")
        code = hmac.new(service.KEY.encode(), f"{audience}\n{expiry}".encode(), hashlib.sha256)
        signature = urllib.parse.quote_plus(base64.b64encode(code.digest()))
        token = f"SharedAccessSignature sr={audience}&sig={signature}&se={expiry}&skn={service.KEY_NAME}"
        return AccessToken(token, expiry)

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class AsyncSharedAccess:
    async def get_token(self, *_, **__):
        return SharedAccess().get_token()

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


def stand_in():
    """Makes the management libraries, and what else the suites import and do not need, importable."""
    models = {name: Model for name in ("SBQueue", "SBSubscription", "SBAuthorizationRule", "Eventhub")}
    modules = {
        "azure.common": {"AzureHttpError": Exception, "AzureConflictHttpError": Exception},
        "azure.mgmt": {},
        "azure.mgmt.eventhub": {"EventHubManagementClient": ManagementClient},
        "azure.mgmt.eventhub.models": models | {"AccessRights": AccessRights},
        "azure.mgmt.servicebus": {"ServiceBusManagementClient": ManagementClient},
        "azure.mgmt.servicebus.models": models | {"AccessRights": AccessRights},
        "azure.mgmt.resource": {"ResourceManagementClient": ManagementClient},
        "azure.identity": {"EnvironmentCredential": SharedAccess, "DefaultAzureCredential": SharedAccess},
        "azure.identity.aio": {"EnvironmentCredential": AsyncSharedAccess, "DefaultAzureCredential": AsyncSharedAccess},
        "dotenv": {"load_dotenv": lambda *_, **__: None},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        module.__path__ = []
        sys.modules[name] = module


def _key(rights: list[str], path: str = "") -> Model:
    name, key = {
        (AccessRights.send,): ("sender", "SEND_KEY_VALUE"),
        (AccessRights.listen,): ("listener", "LISTEN_KEY_VALUE"),
    }.get(tuple(rights), (service.KEY_NAME, service.KEY))
    connection_string = served.connection_string(name, key, path)
    return Model(primary_connection_string=connection_string, key_name=name, primary_key=key)


def _settings(entity: Model) -> dict:
    number, unit = re.fullmatch(r"PT(\d+)([SM])", entity.lock_duration).groups()
    return {
        "requires_session": entity.requires_session,
        "lock_duration": f"{number} {'s' if unit == 'S' else 'min'}",
    }


def _named(kind: dict[str, dict]) -> list[dict]:
    return [{"name": name} | settings for name, settings in kind.items()]
