"""A collector on loopback that keeps what it gets, read with the official types."""

import base64
import gzip
import json
from collections import namedtuple

from google.protobuf import json_format
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from loopback import Handler, Loopback

TYPES = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}
# A request as it came: its body is decompressed, and the message read from it.
Request = namedtuple("Request", "path kind compression body message")
PROTOBUF, JSON = "application/x-protobuf", "application/json"
# Bytes that OTLP writes as hexadecimal digits, and the JSON of protobuf as base64.
IDS = {"traceId", "spanId", "parentSpanId"}


def with_base64_ids(value):
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(item)).decode() if name in IDS else with_base64_ids(item)
        for name, item in value.items()
    }


def unknown_fields(message):
    """The numbers of fields that the official types do not have, at every depth."""
    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type:
            items = value if field.is_repeated else [value]
            found += [number for item in items for number in unknown_fields(item)]
    return found


def read(path, content_type, body):
    """A request in the official type; whatever is not in the type raises."""
    message = TYPES[path][0]()
    if content_type == PROTOBUF:
        message.ParseFromString(body)
        assert not unknown_fields(message), unknown_fields(message)
    else:
        assert content_type == JSON, content_type
        json_format.ParseDict(with_base64_ids(json.loads(body)), message)
    return message


class Receiver(Loopback):
    def __init__(self):
        self.requests = []
        self.faults = []
        receiver = self

        class ReceiverHandler(Handler):
            def do_POST(self):
                body = self.body()
                kind, compression = self.headers["Content-Type"], self.headers["Content-Encoding"]
                try:
                    body = gzip.decompress(body) if compression == "gzip" else body
                    message = read(self.path, kind, body)
                    receiver.requests.append(Request(self.path, kind, compression, body, message))
                except Exception as fault:
                    receiver.faults.append(f"{self.path}: {fault!r}")
                answer = TYPES[self.path][1]()
                self.answer(200, kind, answer.SerializeToString() if kind == PROTOBUF else b"{}")

        super().__init__(ReceiverHandler)

    def _sent_to(self, path):
        """The requests to a path."""
        return [request.message for request in self.requests if request.path == path]

    def spans(self):
        return [
            span
            for message in self._sent_to("/v1/traces")
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self):
        return [
            metric
            for message in self._sent_to("/v1/metrics")
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def resources(self):
        groups = [
            *(group for it in self._sent_to("/v1/traces") for group in it.resource_spans),
            *(group for it in self._sent_to("/v1/metrics") for group in it.resource_metrics),
        ]
        return [group.resource for group in groups]
