"""One storage account behind one endpoint: requests that are signed as the service documents it, over one connection.

Nothing is done that a client library would do: no retries, no header that the request doesn't name, no check of the answer.
"""

import base64
import dataclasses
import email.utils
import hashlib
import hmac
import http.client
import urllib.parse

NAME = "devstoreaccount1"
KEY = base64.b64decode("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
VERSION = "2021-12-02"

SIGNED = [
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
]


@dataclasses.dataclass(frozen=True)
class Request:
    """A request: `path` is `container/blob`, and values are not yet escaped."""

    method: str
    path: str
    query: dict = dataclasses.field(default_factory=dict)
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""

    def line(self):
        """One line that names it in a report."""
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        headers = "".join(f" {name}: {value}" for name, value in self.headers.items())
        return f"{self.method} /{self.path}{'?' if query else ''}{query}{headers}"


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back, with the names of headers in lower case."""

    status: int
    headers: dict
    body: bytes

    def tag(self):
        return self.headers.get("etag")

    def modified(self):
        return self.headers.get("last-modified")


class Account:
    """An endpoint such as `http://127.0.0.1:10000`, where the account is the first part of each path."""

    def __init__(self, endpoint):
        self.endpoint = endpoint.rstrip("/")
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(endpoint).netloc, timeout=60)

    def url(self, path):
        return f"{self.endpoint}/{NAME}/{urllib.parse.quote(path)}"

    def send(self, request):
        headers = {name.lower(): str(value) for name, value in request.headers.items()}
        headers.setdefault("x-ms-version", VERSION)
        headers["x-ms-date"] = email.utils.formatdate(usegmt=True)
        if request.body or request.method in ("PUT", "POST"):
            headers["content-length"] = str(len(request.body))
        path = f"/{NAME}/{urllib.parse.quote(request.path)}"
        headers["authorization"] = f"SharedKey {NAME}:{self.signature(request, headers, path)}"
        query = urllib.parse.urlencode(request.query, quote_via=urllib.parse.quote)
        target = f"{path}?{query}" if query else path
        self.connection.putrequest(request.method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            self.connection.putheader(name, value)
        self.connection.endheaders(request.body or None)
        response = self.connection.getresponse()
        body = response.read()
        names = {name.lower(): value for name, value in response.getheaders()}
        if names.get("connection", "").lower() == "close":
            self.connection.close()
        return Answer(response.status, names, body)

    @staticmethod
    def signature(request, headers, path):
        signed = dict(headers)
        if signed.get("content-length") == "0":
            signed["content-length"] = ""
        lines = [request.method, *(signed.get(name, "") for name in SIGNED)]
        names = sorted(name for name in headers if name.startswith("x-ms-"))
        lines += [f"{name}:{headers[name].strip()}" for name in names]
        lines.append(f"/{NAME}{path}")
        lines += [f"{name.lower()}:{request.query[name]}" for name in sorted(request.query, key=str.lower)]
        digest = hmac.new(KEY, "\n".join(lines).encode(), hashlib.sha256).digest()
        return base64.b64encode(digest).decode()
