"""Validates responses against the OpenAPI document: each must have a status, media type and schema that it describes."""

import copy
import json
import os
from urllib.parse import quote

import jsonschema

from service import ROOT

FILE = os.path.join(ROOT, "nginx/html/openapi.json")
METHODS = {"get", "post", "put", "delete"}

# JSON Schema of the part of OpenAPI 3.1 that the document uses. Any other member is a typo.
_TEXT = {"type": "string", "minLength": 1}
_SCHEMA = {"type": "object"}
_REF = {"type": "object", "required": ["$ref"], "properties": {"$ref": _TEXT}, "additionalProperties": False}
_CONTENT = {"type": "object", "minProperties": 1, "additionalProperties": {
    "type": "object", "required": ["schema"], "properties": {"schema": _SCHEMA, "example": {}}, "additionalProperties": False}}
_HEADERS = {"type": "object", "additionalProperties": {"anyOf": [_REF, {
    "type": "object", "required": ["schema"], "additionalProperties": False,
    "properties": {"schema": _SCHEMA, "description": _TEXT, "required": {"type": "boolean"}}}]}}
_RESPONSE = {"type": "object", "required": ["description"], "additionalProperties": False,
             "properties": {"description": _TEXT, "content": _CONTENT, "headers": _HEADERS}}
_PARAMETER = {"type": "object", "required": ["name", "in", "schema"], "additionalProperties": False,
              "properties": {"name": _TEXT, "in": {"enum": ["path", "query"]}, "schema": _SCHEMA, "description": _TEXT,
                             "required": {"const": True}, "example": {}},
              "if": {"properties": {"in": {"const": "path"}}}, "then": {"required": ["required"]}}
_OPERATION = {"type": "object", "required": ["operationId", "tags", "summary", "x-freshet-zone", "responses"], "additionalProperties": False,
              "properties": {"operationId": _TEXT, "tags": {"type": "array", "items": _TEXT}, "summary": _TEXT, "description": _TEXT,
                             "x-freshet-zone": {"enum": ["public", "internal"]}, "security": {"type": "array"},
                             "parameters": {"type": "array", "items": _PARAMETER},
                             "requestBody": {"type": "object", "required": ["content", "required"], "additionalProperties": False,
                                             "properties": {"required": {"type": "boolean"}, "content": _CONTENT}},
                             "responses": {"type": "object", "patternProperties": {"^[2-5][0-9][0-9]$": {"anyOf": [_REF, _RESPONSE]}},
                                           "additionalProperties": False}}}
SHAPE = {"type": "object", "required": ["openapi", "info", "paths", "components"], "additionalProperties": False,
         "properties": {
             "openapi": {"const": "3.1.0"},
             "info": {"type": "object", "required": ["title", "version"]},
             "servers": {"type": "array", "items": {"required": ["url"]}},
             "tags": {"type": "array", "items": {"required": ["name"]}},
             "paths": {"type": "object", "additionalProperties": {
                 "type": "object", "propertyNames": {"enum": sorted(METHODS)}, "additionalProperties": _OPERATION}},
             "components": {"type": "object", "additionalProperties": False,
                            "properties": {"schemas": {"type": "object", "additionalProperties": _SCHEMA}, "headers": _HEADERS,
                                           "responses": {"type": "object", "additionalProperties": _RESPONSE},
                                           "securitySchemes": {"type": "object"}}}}}


def load():
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)


def closed(node):
    """Returns a copy in which objects allow only the described members, so that undescribed members are errors."""
    node = copy.deepcopy(node)
    for each in walk(node):
        if isinstance(each, dict) and each.get("type") == "object" and "properties" in each:
            each.setdefault("additionalProperties", False)
    return node


def walk(node):
    yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(each)


class OpenApi:
    def __init__(self):
        self.document = load()
        self._replies = closed(self.document)
        self.seen = set()  # (operation id, status, media type) of the validated responses

    def operations(self):
        """Returns (method, path, operation) of every operation."""
        return [(method, path, operation) for path, item in self.document["paths"].items() for method, operation in item.items()]

    def find(self, name):
        return next(found for found in self.operations() if found[2]["operationId"] == name)

    def at(self, reference, document=None):
        node = document or self.document
        for name in reference.removeprefix("#/").split("/"):
            node = node[name]
        return node

    def mismatches(self, schema, value, document=None):
        """Returns how the value violates the schema; an empty string if it is valid."""
        document = document or self.document
        resolver = jsonschema.RefResolver.from_schema(document)
        errors = list(jsonschema.Draft202012Validator(schema, resolver=resolver).iter_errors(value))
        return "; ".join(f"{error.json_path}: {error.message}" for error in errors)

    def call(self, client, name, status, body=None, query=None, headers=None, **path):
        """Calls an operation and validates its response. If a 2xx status is expected, the request must be valid as well."""
        method, template, operation = self.find(name)
        if status < 300 and isinstance(body, dict):
            errors = self.mismatches(operation["requestBody"]["content"]["application/json"]["schema"], body)
            assert not errors, (name, body, errors)
        target = template.format(**{key: quote(str(value), safe="") for key, value in path.items()})
        reply = client.request(method.upper(), target, body, headers=headers, query=query)
        assert reply.status == status, (name, reply)
        self.validate(name, reply)
        return reply

    def example_of(self, name):
        """Returns (path parameters, query, body, media type) of an operation's example."""
        _, _, operation = self.find(name)
        examples = {location: {each["name"]: each["example"] for each in operation.get("parameters", ())
                               if each["in"] == location and "example" in each} for location in ("path", "query")}
        content = operation.get("requestBody", {"content": {}})["content"]
        media = next((each for each in content if "example" in content[each]), None)
        return examples["path"], examples["query"], content[media]["example"] if media else None, media

    def validate(self, name, reply):
        described = self.find(name)[2]["responses"].get(str(reply.status))
        assert described, f"{name}: {reply.status} is not described"
        if "$ref" in described:
            described = self.at(described["$ref"])
        media = (reply.headers["Content-Type"] or "").split(";")[0]
        if "content" not in described:
            assert not reply.body, (name, reply)
        else:
            assert media in described["content"], (name, reply, media)
            schema = closed(described["content"][media]["schema"])
            value = reply.json() if media.endswith("json") else reply.body.decode(errors="replace")
            errors = self.mismatches(schema, value, self._replies)
            assert not errors, (name, reply, errors)
        for header, definition in described.get("headers", {}).items():
            definition = self.at(definition["$ref"]) if "$ref" in definition else definition
            assert not definition.get("required") or header in reply.headers, (name, header)
        self.seen.add((name, reply.status, media))
