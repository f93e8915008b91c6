#include "config.h"
#include "base/wire.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

fs_wire fs_wire_open(const char *file, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    return (fs_wire){file, at, at, at + bytes};
}

bool fs_wire_more(const fs_wire *in)
{
    return in->at < in->end;
}

size_t fs_wire_left(const fs_wire *in)
{
    return (size_t)(in->end - in->at);
}

fs_status fs_wire_fail(const fs_wire *in, fs_err *err, const char *what)
{
    return fs_fail(err, FS_INVALID, "%s: byte %zu: %s", in->file,
                   (size_t)(in->at - in->base), what);
}

fs_status fs_wire_varint(fs_wire *in, fs_err *err, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            return fs_wire_fail(in, err, "a number is cut off");
        unsigned char byte = *in->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return FS_OK;
        }
    }
    return fs_wire_fail(in, err, "a number is longer than 10 bytes");
}

fs_status fs_wire_fixed(fs_wire *in, size_t bytes, fs_err *err, uint64_t *out)
{
    if (fs_wire_left(in) < bytes)
        return fs_wire_fail(in, err, "a number is cut off");
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)in->at[i] << (8 * i);
    in->at += bytes;
    *out = value;
    return FS_OK;
}

static fs_status read_bytes(fs_wire *in, fs_err *err, fs_wire_field *out)
{
    uint64_t length;
    FS_TRY(fs_wire_varint(in, err, &length));
    if (length > fs_wire_left(in)) {
        char what[120];
        snprintf(what, sizeof what,
                 "a field of %llu bytes leaves its message (%zu bytes left)",
                 (unsigned long long)length, fs_wire_left(in));
        return fs_wire_fail(in, err, what);
    }
    out->body = *in;
    out->body.end = in->at + length;
    in->at += length;
    return FS_OK;
}

fs_status fs_wire_next(fs_wire *in, fs_err *err, fs_wire_field *out)
{
    fs_wire start = *in;
    uint64_t key;
    FS_TRY(fs_wire_varint(in, err, &key));
    if (key >> 3 == 0 || key >> 32 != 0)
        return fs_wire_fail(&start, err, "not a protobuf field");
    *out = (fs_wire_field){.number = (uint32_t)(key >> 3), .body = start};
    switch (key & 7) {
    case FS_WIRE_VARINT:
        out->kind = FS_WIRE_VARINT;
        return fs_wire_varint(in, err, &out->value);
    case FS_WIRE_FIXED64:
        out->kind = FS_WIRE_FIXED64;
        return fs_wire_fixed(in, 8, err, &out->value);
    case FS_WIRE_FIXED32:
        out->kind = FS_WIRE_FIXED32;
        return fs_wire_fixed(in, 4, err, &out->value);
    case FS_WIRE_BYTES:
        out->kind = FS_WIRE_BYTES;
        return read_bytes(in, err, out);
    default:
        return fs_wire_fail(&start, err, "a protobuf group or unknown kind");
    }
}

fs_status fs_wire_expect(const fs_wire_field *field, fs_wire_kind kind,
                         const char *what, fs_err *err)
{
    if (field->kind == kind)
        return FS_OK;
    char text[120];
    snprintf(text, sizeof text, "%s has the wrong wire type %d", what,
             (int)field->kind);
    return fs_wire_fail(&field->body, err, text);
}

fs_status fs_wire_text(const fs_wire_field *field, fs_arena *arena,
                       const char *what, fs_err *err, const char **out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, what, err));
    fs_wire at = field->body;
    while (fs_wire_more(&at)) {
        if (*at.at >= ' ' && *at.at <= '~') {
            at.at++;
            continue;
        }
        size_t n = fs_printable((const char *)at.at, fs_wire_left(&at));
        if (n == 0) {
            char text[120];
            snprintf(text, sizeof text, "%s is not printable UTF-8", what);
            return fs_wire_fail(&at, err, text);
        }
        at.at += n;
    }
    *out = fs_strndup(arena, (const char *)field->body.at,
                      fs_wire_left(&field->body));
    return FS_OK;
}
