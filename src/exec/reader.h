/* Reading ahead: a thread that reads pieces of files into rings of bounded
 * size, one per stream, in the order in which they will be asked for. The disk
 * stage of the pipeline: a full ring holds it back. */
#ifndef FS_EXEC_READER_H
#define FS_EXEC_READER_H

#include "exec/data.h"

/* Requests of a stream are for `rows` rows of `row_bytes` each, in one buffer;
 * the next one is expected `stride` samples later. */
typedef struct exec_stream {
    const char *path; /* for messages */
    int file;
    int64_t rows, row_bytes, stride;
    /* The byte of the file where the row of the request that begins with
     * `sample` begins. A function of its arguments: any thread calls it. */
    int64_t (*locate)(const void *ctx, int64_t sample, int64_t row);
    const void *ctx;
} exec_stream;

typedef struct exec_reader exec_reader;
exec_reader *exec_reader_create(const exec_data_options *disk);
/* Ends the thread; files stay open. */
void exec_reader_destroy(exec_reader *reader);
/* Returns its number. The buffers are made here, once. */
int32_t exec_reader_add(exec_reader *reader, const exec_stream *stream);
/* Of its ring. */
int64_t exec_reader_bytes(const exec_reader *reader, int32_t stream);
/* Waits for the request's bytes; a request that was not the expected one starts
 * the stream anew. They are the caller's until exec_reader_give. FS_FAULT:
 * "PATH: byte N: cut short", or what the system says. One thread calls these
 * at a time. */
fs_status exec_reader_take(exec_reader *reader, int32_t stream, int64_t sample,
                           fs_err *err, const char **out);
void exec_reader_give(exec_reader *reader, int32_t stream);
/* Would exec_reader_take wait for nothing? */
bool exec_reader_ready(const exec_reader *reader, int32_t stream,
                       int64_t sample);
const exec_data_counts *exec_reader_counts(const exec_reader *reader);

#endif
