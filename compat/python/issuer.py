"""An issuer of tokens that is none of ours: RSA keys of OpenSSL, tokens of PyJWT, keys published over HTTP."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from azure.core.credentials import AccessToken
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

ISSUER = "https://sts.example/tenant/"
EVENT_HUBS = "https://eventhubs.azure.net"
STORAGE = "https://storage.azure.com"
OWNER = "Azure Event Hubs Data Owner"


class Issuer:
    def __init__(self):
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        published = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = json.dumps({"keys": [{**published, "kid": "first", "use": "sig", "x5t": "first"}]}).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(keys)))
                self.end_headers()
                self.wfile.write(keys)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def settings(self) -> str:
        """Of a service that accepts its tokens. `reader` may receive from `hub-0` alone."""
        return f"""token_issuers:
  - issuer: {ISSUER}
    keys: http://127.0.0.1:{self._server.server_port}/keys
    roles:
      - {{principal: reader, role: Azure Event Hubs Data Receiver, scope: hub-0}}
"""

    def token(self, algorithm="RS256", key=None, **claims) -> str:
        now = int(time.time())
        usual = {"iss": ISSUER, "aud": EVENT_HUBS, "oid": "writer", "roles": [OWNER], "nbf": now - 600, "exp": now + 3600}
        return jwt.encode({**usual, **claims}, key or self._key, algorithm=algorithm, headers={"kid": "first"})

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


class Static:
    """A credential with one token."""

    def __init__(self, token: str):
        self._token = token

    def get_token(self, *scopes, **_):
        return AccessToken(self._token, int(time.time()) + 3600)
