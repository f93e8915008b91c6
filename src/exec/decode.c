/* Elements of files as numbers; one pass over all of them before a run. */
#include "config.h"
#include "exec/samples.h"

#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t exec_element_bytes(exec_element element)
{
    static const int64_t bytes[] = {
#define EXEC_ELEMENT(id, bytes) bytes,
        EXEC_ELEMENTS
#undef EXEC_ELEMENT
    };
    return bytes[element];
}

static uint64_t low_first(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--)
        x = x << 8 | p[i];
    return x;
}

static uint64_t high_first(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++)
        x = x << 8 | p[i];
    return x;
}

static double float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void exec_decode(exec_element element, const char *from, int64_t n, double *out)
{
    const unsigned char *p = (const unsigned char *)from;
#define EACH(bytes, value)                                                     \
    for (int64_t i = 0; i < n; i++, p += (bytes))                              \
        out[i] = (double)(value);                                              \
    break
    switch (element) {
    case EXEC_U8:
        EACH(1, *p);
    case EXEC_I8:
        EACH(1, (int8_t)*p);
    case EXEC_U16:
        EACH(2, low_first(p, 2));
    case EXEC_I32:
        EACH(4, (int32_t)low_first(p, 4));
    case EXEC_I16_BIG:
        EACH(2, (int16_t)high_first(p, 2));
    case EXEC_I32_BIG:
        EACH(4, (int32_t)high_first(p, 4));
    case EXEC_F32_BIG:
        EACH(4, float_of((uint32_t)high_first(p, 4)));
    case EXEC_F64_BIG:
        EACH(8, double_of(high_first(p, 8)));
    case EXEC_F64:
        memcpy(out, from, (size_t)n * sizeof *out);
        break;
    }
#undef EACH
}

/* ---- one pass ---- */

static fs_status read_part(const exec_scan *scan, int64_t at, int64_t bytes,
                           char *to, fs_err *err)
{
    for (int64_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(scan->file, to + done, (size_t)(bytes - done), at + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fs_fail(err, FS_INVALID, "%s: byte %lld: %s", scan->path,
                           (long long)(at + done),
                           got == 0 ? "cut short" : strerror(errno));
        done += got;
    }
    return FS_OK;
}

enum { PART = 1 << 17 }; /* elements */

static fs_status scan_parts(const exec_scan *scan, exec_scan_fn *see, void *ctx,
                            char *bytes, double *values, fs_err *err,
                            uint64_t *digest)
{
    const int64_t each = exec_element_bytes(scan->element);
    for (int64_t at = 0; at < scan->n; at += PART) {
        const int64_t n = scan->n - at < PART ? scan->n - at : PART;
        FS_TRY(read_part(scan, scan->first + at * each, n * each, bytes, err));
        *digest = fs_hash(*digest, bytes, (size_t)(n * each));
        if (!see)
            continue;
        exec_decode(scan->element, bytes, n, values);
        FS_TRY(see(ctx, values, at, n, err));
    }
    return FS_OK;
}

fs_status exec_scan_file(const exec_scan *scan, exec_scan_fn *see, void *ctx,
                         fs_err *err, uint64_t *digest)
{
    fs_arena *arena = fs_arena_create();
    char *bytes = fs_alloc(arena, PART, sizeof(double));
    double *values = fs_new(arena, double, PART);
    const fs_status status =
        scan_parts(scan, see, ctx, bytes, values, err, digest);
    fs_arena_destroy(arena);
    return status;
}

fs_status exec_see_range(void *ctx, const double *values, int64_t first,
                         int64_t n, fs_err *err)
{
    const exec_range *range = ctx;
    if (range->limit < 0)
        return FS_OK;
    const double limit = (double)range->limit;
    for (int64_t i = 0; i < n; i++)
        if (!(values[i] >= 0 && values[i] < limit) &&
            !(range->or_none && values[i] == -100))
            return fs_fail(err, FS_INVALID,
                           "%s: %s %.0f at %s %lld is outside the %s of %lld",
                           range->path, range->what, values[i], range->place,
                           (long long)((first + i) / range->per_place),
                           range->outside, (long long)range->limit);
    return FS_OK;
}

/* ---- files of our own ---- */

fs_status exec_spool_open(fs_err *err, int *file)
{
    char path[FS_PATH_MAX];
    const char *dir = getenv("TMPDIR");
    const int n = snprintf(path, sizeof path, "%s/flowsearch-XXXXXX",
                           dir && *dir ? dir : "/tmp");
    if (n < 0 || n >= (int)sizeof path)
        return fs_fail(err, FS_INVALID, "TMPDIR: its name is too long");
    const int made = mkostemp(path, O_CLOEXEC);
    if (made < 0)
        return fs_write_fail(path, errno, err);
    unlink(path);
    *file = made;
    return FS_OK;
}

fs_status exec_spool_write(int file, const void *data, size_t bytes,
                           fs_err *err)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t put =
            write(file, (const char *)data + done, bytes - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fs_write_fail("a temporary file of data (TMPDIR)",
                                 put < 0 ? errno : ENOSPC, err);
        done += (size_t)put;
    }
    return FS_OK;
}
