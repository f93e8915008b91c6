/* Where samples come from: files, a stream of random numbers, fixed tensors.
 * DATA.md says how. */
#ifndef FS_EXEC_DATA_H
#define FS_EXEC_DATA_H

#include "ir/graph.h"

#include <stdatomic.h>

/* What reading took so far. */
typedef struct exec_data_counts {
    _Atomic int64_t reads, bytes;
    _Atomic int64_t read_ns;   /* spent reading, by the reader's thread */
    _Atomic int64_t waited_ns; /* of it `fill` waited for */
} exec_data_counts;

/* A source of samples, for one rank. Sample k counts from 0 over the whole
 * run; what it holds is a function of k alone, so that a run may begin
 * anywhere. */
typedef struct exec_data {
    void *ctx;
    /* Writes the piece of input `name` (dtype, shape of the local piece,
     * offset in the logical micro-batch) whose first sample of the micro-batch
     * is `sample`. Called by one thread at a time. */
    fs_status (*fill)(void *ctx, const char *name, int64_t sample,
                      ir_dtype dtype, const ir_shape *local,
                      const int64_t *offset, int32_t batch_axis, void *out,
                      fs_err *err);
    /* Before the first step: such pieces will be asked for. Returns the bytes
     * that are kept to read them ahead, outside any arena. NULL: none. */
    int64_t (*expect)(void *ctx, const char *name, const ir_shape *local,
                      const int64_t *offset);
    /* Would `fill` wait for no disk now? NULL: it never does. */
    bool (*ready)(void *ctx, const char *name, int64_t sample);
    /* Of samples that others send, with no end in sight. Has the step come that
     * `sample` is of? Until then its loads wait, and that nothing moves is no
     * stall. Once it is `over` every step has, whatever it holds, and all ranks
     * end after the last one that any has begun. Both or none; cheap, for a
     * rank that waits goes on asking. NULL: all steps have come. */
    bool (*come)(void *ctx, int64_t sample);
    bool (*over)(void *ctx);
    bool rings; /* exec_records_ring is called when either has turned true */
    void (*close)(void *ctx);
    uint64_t digest;  /* of what decides the values: ranks compare it */
    const char *note; /* what the user should know of it, in the arena; NULL */
    const exec_data_counts *counts; /* until it is closed; NULL: nothing reads
                                     */
} exec_data;

/* What is done with samples on their way. Zeroes: nothing. */
typedef struct exec_data_options {
    uint64_t seed; /* of synthetic data and of augmentation */
    bool shuffle;  /* another order in each epoch, of shuffle_seed */
    uint64_t shuffle_seed;
    const char *augment;   /* "flip,crop=PAD", of images; NULL */
    const char *normalize; /* "data" or "MEAN/STD,.."; NULL */
    const char *columns;   /* names of a CSV file's columns; NULL: all */
    /* For benches, a slow disk: each read takes so long at least. 0: as it is.
     */
    double disk_latency_s, disk_s_per_byte;
} exec_data_options;

/* FS_INVALID, naming the file and the place in it, when the file or an option
 * does not fit the graph. The result is of one rank; names of `graph` are
 * borrowed. */
fs_status exec_data_open_with(const char *spec, const ir_graph *graph,
                              const exec_data_options *options, fs_arena *arena,
                              fs_err *err, exec_data *out);
/* With no option but the seed. */
fs_status exec_data_open(const char *spec, const ir_graph *graph, uint64_t seed,
                         fs_arena *arena, fs_err *err, exec_data *out);
/* The same tensors every step (tests, training cases): n inputs by name. */
fs_status exec_data_fixed(int32_t n, const char *const *names,
                          const void *const *data, const ir_graph *graph,
                          fs_arena *arena, fs_err *err, exec_data *out);

/* ---- what the graph wants ---- */
typedef FS_VEC(const ir_tensor *) exec_inputs;
exec_inputs exec_list_inputs(const ir_graph *graph, fs_arena *arena);
/* How many values an integer input may take, by who reads it: the rows of a
 * table, the classes of a loss. -1: nobody says. */
int64_t exec_count_values(const ir_graph *graph, const ir_tensor *input,
                          fs_arena *arena);

#endif
