/* Writing protobuf messages into memory. A message within a message is built
 * apart and then put, so that its length is known when it is written. */
#ifndef FS_BASE_WIRE_OUT_H
#define FS_BASE_WIRE_OUT_H

#include "base/arena.h"

/* Zeroed, with an arena, it is an empty message. */
typedef struct fs_wire_out {
    fs_arena *arena;
    unsigned char *at;
    size_t n, room;
} fs_wire_out;

/* Fields, by number. Negative integers take ten bytes, as protobuf has them. */
void fs_wire_put_int(fs_wire_out *out, uint32_t field, int64_t value);
void fs_wire_put_float(fs_wire_out *out, uint32_t field, float value);
void fs_wire_put_bytes(fs_wire_out *out, uint32_t field, const void *data,
                       size_t bytes);
void fs_wire_put_text(fs_wire_out *out, uint32_t field, const char *text);
void fs_wire_put_message(fs_wire_out *out, uint32_t field,
                         const fs_wire_out *message);
/* Numbers of one field, packed. */
void fs_wire_put_ints(fs_wire_out *out, uint32_t field, int64_t n,
                      const int64_t *values);
/* Only what stands before `bytes` bytes of a field that others write. */
void fs_wire_put_head(fs_wire_out *out, uint32_t field, uint64_t bytes);
/* Bytes as they are: fields that were written elsewhere. */
void fs_wire_put_raw(fs_wire_out *out, const void *data, size_t bytes);

#endif
