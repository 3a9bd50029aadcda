"""A server of S3 that is not ours: moto, which verifies the signature of each request by the official client's own code, and honours conditions."""

import json
import threading

import boto3
import botocore.config
from moto import settings
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "archive"
REGION = "eu-central-1"


class Buckets:
    """A server with one bucket, and a user who may put and get objects."""

    def __init__(self):
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        # Answers that come before those of the server: to how many writings, and what.
        self.refusals = 0
        self.refused = 0
        self.objects_put = 0
        self._administrate()

    def _administrate(self):
        root = dict(aws_access_key_id="root", aws_secret_access_key="root", region_name=REGION)
        iam = boto3.client("iam", endpoint_url=self.endpoint, **root)
        iam.create_user(UserName="archivist")
        allowed = {"Effect": "Allow", "Action": ["s3:PutObject", "s3:GetObject", "s3:ListBucket"], "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [allowed]}
        iam.put_user_policy(UserName="archivist", PolicyName="write", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName="archivist")["AccessKey"]
        self.key_id, self.key = key["AccessKeyId"], key["SecretAccessKey"]
        s3 = boto3.client("s3", endpoint_url=self.endpoint, **root)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        # From here on keys are verified.
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        self._client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key_id,
            aws_secret_access_key=self.key,
            region_name=REGION,
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def _answer(self, environment, start):
        if environment["REQUEST_METHOD"] == "PUT":
            with self._lock:
                is_refused = self.refusals > 0
                self.refusals -= is_refused
                self.refused += is_refused
                self.objects_put += not is_refused
            if is_refused:
                environment["wsgi.input"].read(int(environment["CONTENT_LENGTH"]))
                start("503 Slow Down", [("Retry-After", "1"), ("Content-Type", "application/xml")])
                return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        return self._application(environment, start)

    def place(self, prefix, more=""):
        """`to:` of an archive here."""
        keys = f"access_key_id: {self.key_id}, secret_access_key: '{self.key}'"
        return f"to: {{bucket: {{url: 's3://{BUCKET}/{prefix}', endpoint: '{self.endpoint}', region: {REGION}, {keys}{more}}}}}"

    def put(self, name, content):
        self._client.put_object(Bucket=BUCKET, Key=name, Body=content)

    def objects(self, prefix):
        """All objects of events under a prefix, read by the official client."""
        return {name: self._client.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in self.names(prefix)}

    def names(self, prefix):
        return [name for name in self.versions(prefix) if not name.endswith("/.parshall")]

    def versions(self, prefix):
        """When each object was written, and its ETag."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return {entry["Key"]: (entry["LastModified"], entry["ETag"]) for page in pages for entry in page.get("Contents", ())}

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")


class _Quiet(WSGIRequestHandler):
    # Connections stay open, as those of S3 do.
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        pass
