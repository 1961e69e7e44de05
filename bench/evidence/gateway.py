"""A gateway under measurement, over connections that stay open. Standard library; loopback only."""
import http.client
import json
import sys
import urllib.parse


class Gateway:
    """The API of a gateway. One connection, so one for each thread."""

    def __init__(self, base, **headers):
        self.address = urllib.parse.urlsplit(base).netloc
        self.headers = {"content-type": "application/json", **headers}
        self.connection = http.client.HTTPConnection(self.address, timeout=120)

    def send(self, method, path, body=None):
        """The status, the headers and the bytes of an answer."""
        data = None if body is None else json.dumps(body)
        self.connection.request(method, "/api/v1" + path, data, self.headers)
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def call(self, method, path, body=None):
        status, _, read = self.send(method, path, body)
        if status >= 300:
            sys.exit(f"{method} {path}: {status} {read.decode()[:300]}")
        return json.loads(read or b"null")

    def sign_in(self, email, password):
        """A session of its own connection."""
        status, headers, read = self.send("POST", "/session", {"email": email, "password": password})
        if status != 200:
            sys.exit(f"sign-in: {status} {read.decode()[:300]}")
        return Gateway("http://" + self.address, cookie=headers["set-cookie"].split(";")[0])

    def with_key(self, key):
        return Gateway("http://" + self.address, authorization=f"Bearer {key}")


def lift_limits(session, project):
    """Switches off the limits that a measurement would meet."""
    limits = {"requests_per_hour": None, "loop_requests": None}
    session.call("PATCH", f"/projects/{project}", {"project": {"settings": {"limits": limits}}})


def new_key(session, project):
    return session.call("POST", "/keys", {"name": "measurement", "project_id": project})["raw_key"]
