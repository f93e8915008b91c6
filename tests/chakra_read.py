#!/usr/bin/env python3
"""Reads the execution traces of a folder by the schema of MLCommons Chakra
(et_def.proto), through the protobuf library: how many nodes of which type.
Exits with 77 where there is no such library."""

import glob
import json
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf import message_factory, unknown_fields
except ImportError:
    sys.exit(77)

TYPES = {"string": 9, "uint64": 4, "int32": 5, "int64": 3, "bool": 8,
         "message": 11}
# message: (field, number, type, repeated, of)
SCHEMA = {
    "AttributeProto": [("name", 1, "string", False, None),
                       ("int32_val", 7, "int32", False, None),
                       ("int64_val", 9, "int64", False, None),
                       ("uint64_val", 13, "uint64", False, None),
                       ("bool_val", 27, "bool", False, None),
                       ("string_val", 29, "string", False, None)],
    "GlobalMetadata": [("version", 1, "string", False, None),
                       ("attr", 2, "message", True, "AttributeProto")],
    "Node": [("id", 1, "uint64", False, None),
             ("name", 2, "string", False, None),
             ("type", 3, "int32", False, None),
             ("ctrl_deps", 4, "uint64", True, None),
             ("data_deps", 5, "uint64", True, None),
             ("start_time_micros", 6, "uint64", False, None),
             ("duration_micros", 7, "uint64", False, None),
             ("attr", 10, "message", True, "AttributeProto")],
}


def messages():
    """Classes of the messages above."""
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            message.field.add(
                name=field, number=number, type=TYPES[kind],
                label=3 if repeated else 1,
                type_name=".ChakraProtoMsg." + of if of else None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(
        pool.FindMessageTypeByName("ChakraProtoMsg." + name))
        for name in ("GlobalMetadata", "Node")]


def unknown(message):
    return len(unknown_fields.UnknownFieldSet(message))


def split(data):
    """The delimited messages of a file."""
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield data[at:at + size]
        at += size


def main():
    metadata, node = messages()
    count = {}
    for path in glob.glob(sys.argv[1] + "/plan.*.et"):
        with open(path, "rb") as file:
            parts = list(split(file.read()))
        head = metadata.FromString(parts[0])
        assert head.version and not unknown(head)
        seen = set()
        for part in parts[1:]:
            n = node.FromString(part)
            assert not unknown(n) and not any(map(unknown, n.attr))
            assert all(d in seen for d in n.data_deps)
            assert all(d in seen for d in n.ctrl_deps)
            seen.add(n.id)
            count[n.type] = count.get(n.type, 0) + 1
    print(json.dumps({"nodes": sum(count.values()), "types": count}))


main()
