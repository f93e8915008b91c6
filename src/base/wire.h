/* Protobuf wire primitives, bounded: a cursor over mapped bytes that never
 * leaves the message it stands in. No recursion, no allocation but for text.
 * (Encoding: protobuf.dev, "Encoding".) */
#ifndef FS_BASE_WIRE_H
#define FS_BASE_WIRE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef enum fs_wire_kind {
    FS_WIRE_VARINT = 0,
    FS_WIRE_FIXED64 = 1,
    FS_WIRE_BYTES = 2,
    FS_WIRE_FIXED32 = 5
} fs_wire_kind;

/* A message: what is left of it is [at, end). */
typedef struct fs_wire {
    const char *file;          /* for messages */
    const unsigned char *base; /* start of the file */
    const unsigned char *at, *end;
} fs_wire;

typedef struct fs_wire_field {
    uint32_t number;
    fs_wire_kind kind;
    uint64_t value; /* VARINT, FIXED64, FIXED32 */
    fs_wire body;   /* BYTES; for the other kinds only says where it stands */
} fs_wire_field;

fs_wire fs_wire_open(const char *file, const void *data, size_t bytes);
bool fs_wire_more(const fs_wire *in);
size_t fs_wire_left(const fs_wire *in);

/* FS_INVALID: "FILE: byte OFFSET: what". */
fs_status fs_wire_fail(const fs_wire *in, fs_err *err, const char *what);

/* The next field; one whose length leaves the message is FS_INVALID. */
fs_status fs_wire_next(fs_wire *in, fs_err *err, fs_wire_field *out);
/* `what` names the field for the message. */
fs_status fs_wire_expect(const fs_wire_field *field, fs_wire_kind kind,
                         const char *what, fs_err *err);
/* One number of a packed field. */
fs_status fs_wire_varint(fs_wire *in, fs_err *err, uint64_t *out);
fs_status fs_wire_fixed(fs_wire *in, size_t bytes, fs_err *err, uint64_t *out);

/* A terminated copy; control characters and bytes that are not UTF-8 are
 * refused, because names go into messages, pictures and JSON. */
fs_status fs_wire_text(const fs_wire_field *field, fs_arena *arena,
                       const char *what, fs_err *err, const char **out);

#endif
