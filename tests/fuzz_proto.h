/* Changes to protobuf bytes that keep their nesting: a number, a text or a
 * field somewhere within, the lengths around it written anew. */
#ifndef FS_TESTS_FUZZ_PROTO_H
#define FS_TESTS_FUZZ_PROTO_H

#include "fuzz.h"

typedef struct proto_field {
    size_t start, body, end; /* tag, what follows tag and length, its end */
    int wire;
    uint64_t value;
} proto_field;

static inline bool proto_varint(const uint8_t *data, size_t n, size_t *at,
                                uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < n; shift += 7) {
        uint8_t byte = data[(*at)++];
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static inline size_t proto_put(uint8_t *out, uint64_t value)
{
    size_t n = 0;
    for (; value > 127; value >>= 7)
        out[n++] = (uint8_t)(value | 128);
    out[n++] = (uint8_t)value;
    return n;
}

static inline bool proto_next(const uint8_t *data, size_t n, size_t at,
                              proto_field *f)
{
    uint64_t tag;
    f->start = at;
    if (!proto_varint(data, n, &at, &tag) || tag >> 3 == 0)
        return false;
    f->wire = (int)(tag & 7);
    f->body = at;
    if (f->wire == 0 || f->wire == 2) {
        if (!proto_varint(data, n, &at, &f->value))
            return false;
        if (f->wire == 2)
            f->body = at;
    } else if (f->wire != 1 && f->wire != 5) {
        return false;
    }
    size_t size = f->wire == 0   ? at - f->body
                  : f->wire == 1 ? 8
                  : f->wire == 5 ? 4
                                 : (size_t)f->value;
    f->end = f->body + size;
    return size <= n && f->body <= n - size;
}

/* Number of fields when all bytes are fields, else 0. */
static inline size_t proto_count(const uint8_t *data, size_t n)
{
    proto_field f;
    size_t at = 0, count = 0;
    for (; at < n; at = f.end, count++)
        if (!proto_next(data, n, at, &f))
            return 0;
    return count;
}

/* `n` bytes of field f made `size`: what lies behind moves. */
static inline size_t proto_replace(uint8_t *data, size_t n, size_t from,
                                   size_t to, const uint8_t *with, size_t size)
{
    memmove(data + from + size, data + to, n - to);
    memcpy(data + from, with, size);
    return n - (to - from) + size;
}

static inline uint64_t proto_number(uint64_t old, unsigned *seed)
{
    static const int64_t whole[] = {
        0,  1,         2,         -1,        3,       4,         7,
        8,  16,        64,        255,       65536,   1 << 20,   INT32_MAX,
        -2, INT32_MIN, INT64_MAX, INT64_MIN, 1 << 30, UINT32_MAX};
    if (fuzz_draw(seed, 3) == 0)
        return old + fuzz_draw(seed, 5) - 2;
    return (uint64_t)whole[fuzz_draw(seed, sizeof whole / sizeof *whole)];
}

/* Content of a field of bytes that is no message. */
static inline size_t proto_bytes(uint8_t *data, size_t n, size_t room,
                                 unsigned *seed)
{
    size_t at = n ? fuzz_draw(seed, n) : 0;
    switch (fuzz_draw(seed, 4)) {
    case 0: /* eight bytes as a number: raw tensors of integers */
        if (n >= 8) {
            uint64_t value = proto_number(data[at & ~(size_t)7], seed);
            memcpy(data + ((at & ~(size_t)7) + 8 <= n ? at & ~(size_t)7 : 0),
                   &value, 8);
            return n;
        }
        break;
    case 1: /* a packed number */
        if (n > 0 && room >= n + 10) {
            uint8_t wide[10];
            size_t size = proto_put(wide, proto_number(data[at], seed));
            return proto_replace(data, n, at, at + 1, wide, size);
        }
        break;
    default:
        break;
    }
    return LLVMFuzzerMutate(data, n, room);
}

/* Changes one field of the n bytes; returns their new number, at most `room`.
 */
static inline size_t proto_change(uint8_t *data, size_t n, size_t room,
                                  unsigned *seed)
{
    size_t count = proto_count(data, n);
    if (count == 0)
        return proto_bytes(data, n, room, seed);
    proto_field f;
    size_t which = fuzz_draw(seed, count), at = 0;
    for (proto_next(data, n, 0, &f); which-- > 0; proto_next(data, n, at, &f))
        at = f.end;
    unsigned kind = fuzz_draw(seed, 16);
    if (kind == 0)
        return proto_replace(data, n, f.start, f.end, data, 0);
    if (kind == 1 && n + (f.end - f.start) <= room) {
        size_t size = f.end - f.start;
        memmove(data + f.end + size, data + f.end, n - f.end);
        memcpy(data + f.end, data + f.start, size);
        return n + size;
    }
    if (room < n + 16)
        return LLVMFuzzerMutate(data, n, room);
    uint8_t wide[10];
    if (f.wire == 0)
        return proto_replace(data, n, f.body, f.end, wide,
                             proto_put(wide, proto_number(f.value, seed)));
    if (f.wire != 2) {
        LLVMFuzzerMutate(data + f.body, f.end - f.body, f.end - f.body);
        return n;
    }
    size_t size = f.end - f.body, most = room - n + size - 10;
    uint8_t *body = malloc(most);
    memcpy(body, data + f.body, size);
    size = proto_change(body, size, most, seed);
    uint64_t tag;
    size_t head = f.start;
    proto_varint(data, n, &head, &tag);
    n = proto_replace(data, n, head, f.end, body, size);
    n = proto_replace(data, n, head, head, wide, proto_put(wide, size));
    free(body);
    return n;
}

static inline size_t fuzz_mutate_proto(uint8_t *data, size_t n, size_t most,
                                       unsigned seed)
{
    if (fuzz_draw(&seed, 8) == 0 || most < n + 32)
        return LLVMFuzzerMutate(data, n, most);
    unsigned changes = 1 + fuzz_draw(&seed, 3);
    while (changes-- > 0 && most >= n + 32)
        n = proto_change(data, n, most, &seed);
    return n;
}

#endif
