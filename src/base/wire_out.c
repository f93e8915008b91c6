#include "config.h"
#include "base/wire_out.h"

#include "base/wire.h"

#include <string.h>

void fs_wire_put_raw(fs_wire_out *out, const void *data, size_t bytes)
{
    if (bytes > out->room - out->n) {
        size_t wanted = 2 * out->room + bytes + 32;
        out->at = fs_regrow(out->arena, out->at, out->n, wanted, 1);
        out->room = wanted;
    }
    if (bytes)
        memcpy(out->at + out->n, data, bytes);
    out->n += bytes;
}

static void put_varint(fs_wire_out *out, uint64_t value)
{
    unsigned char text[10];
    size_t n = 0;
    for (; value > 127; value >>= 7)
        text[n++] = (unsigned char)(value | 128);
    text[n++] = (unsigned char)value;
    fs_wire_put_raw(out, text, n);
}

static void put_key(fs_wire_out *out, uint32_t field, fs_wire_kind kind)
{
    put_varint(out, (uint64_t)field << 3 | kind);
}

void fs_wire_put_int(fs_wire_out *out, uint32_t field, int64_t value)
{
    put_key(out, field, FS_WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

void fs_wire_put_float(fs_wire_out *out, uint32_t field, float value)
{
    uint32_t bits;
    unsigned char text[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        text[i] = (unsigned char)(bits >> (8 * i));
    put_key(out, field, FS_WIRE_FIXED32);
    fs_wire_put_raw(out, text, sizeof text);
}

void fs_wire_put_head(fs_wire_out *out, uint32_t field, uint64_t bytes)
{
    put_key(out, field, FS_WIRE_BYTES);
    put_varint(out, bytes);
}

void fs_wire_put_bytes(fs_wire_out *out, uint32_t field, const void *data,
                       size_t bytes)
{
    fs_wire_put_head(out, field, bytes);
    fs_wire_put_raw(out, data, bytes);
}

void fs_wire_put_text(fs_wire_out *out, uint32_t field, const char *text)
{
    fs_wire_put_bytes(out, field, text, strlen(text));
}

void fs_wire_put_message(fs_wire_out *out, uint32_t field,
                         const fs_wire_out *message)
{
    fs_wire_put_bytes(out, field, message->at, message->n);
}

void fs_wire_put_ints(fs_wire_out *out, uint32_t field, int64_t n,
                      const int64_t *values)
{
    fs_wire_out list = {.arena = out->arena};
    for (int64_t i = 0; i < n; i++)
        put_varint(&list, (uint64_t)values[i]);
    fs_wire_put_message(out, field, &list);
}
