"""What two answers to the same request have in common once everything is taken away that differs from run to run.

Of times, ETags and ids only the form is left, of error messages nothing. Everything else of an answer counts: its status,
its headers, the text of its body.
"""

import re
import xml.etree.ElementTree

# About the connection, the server or the moment.
IGNORED = {
    "date", "server", "connection", "keep-alive", "transfer-encoding", "x-ms-request-id", "x-ms-client-request-id", "vary", "x-ms-version",
    "x-content-type-options", "access-control-expose-headers", "access-control-allow-origin",
}

HTTP_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
GUID = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
TAG = re.compile(r'"?0x[0-9A-Fa-f]+"?')
ENDPOINT = re.compile(r"http://[^/]+/devstoreaccount1")


def form(text):
    """A text of which only what the request decides is left."""
    text = ENDPOINT.sub("<account>", text)
    text = HTTP_DATE.sub("<date>", text)
    text = ISO_DATE.sub("<time>", text)
    text = GUID.sub("<id>", text)
    return TAG.sub(lambda found: '"<tag>"' if found[0].startswith('"') else "<tag>", text)


def elements(element, path=""):
    """Each leaf of an XML document as one line, in the order of the document; the children of a list keep theirs."""
    path = f"{path}/{element.tag}"
    for name, value in sorted(element.attrib.items()):
        yield f"{path}@{name}={form(value)}"
    children = list(element)
    if not children:
        yield f"{path}={form((element.text or '').strip())}"
        return
    # The order of properties means nothing.
    ordered = sorted(children, key=lambda child: child.tag) if element.tag in UNORDERED else children
    for child in ordered:
        yield from elements(child, path)


UNORDERED = {"Properties", "Metadata", "StorageServiceProperties", "Blob", "Container", "EnumerationResults", "Error"}


def facts(answer):
    """Everything that is compared, by a name that says where it stands."""
    found = {"status": str(answer.status)}
    is_error = answer.status >= 400 or answer.status == 304
    for name, value in answer.headers.items():
        if name in IGNORED or (is_error and name in ("content-length", "content-type")):
            continue
        found[f"header {name}"] = form(value)
    is_xml = answer.body.lstrip(b"\xef\xbb\xbf").startswith(b"<?xml")
    if is_xml:
        found.pop("header content-length", None)
        root = xml.etree.ElementTree.fromstring(answer.body.lstrip(b"\xef\xbb\xbf"))
        for line in elements(root):
            name, value = line.split("=", 1)
            if is_error and "/Code" not in name:
                continue
            position = 1
            while f"body {name} {position}" in found:
                position += 1
            found[f"body {name} {position}"] = value
    elif answer.body:
        found["body"] = repr(form(answer.body.decode("latin-1")))
    return found


def outcome(answer):
    """Status and, of a refusal, its code."""
    code = answer.headers.get("x-ms-error-code")
    return f"{answer.status} {code}" if code else str(answer.status)


def differences(ours, theirs):
    """Yields name, value of ours and value of theirs for all facts that are not the same; of an absent one the value is None."""
    if ours.status != theirs.status:
        yield "outcome", outcome(ours), outcome(theirs)
        return
    ours, theirs = facts(ours), facts(theirs)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield name, ours.get(name), theirs.get(name)
