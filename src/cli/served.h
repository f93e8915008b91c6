/* What is served: the inputs and outputs of a plan of inference, by the
 * sample. In what clients send and are sent, samples come first; in a tensor
 * they may lie along any axis. */
#ifndef FS_CLI_SERVED_H
#define FS_CLI_SERVED_H

#include "cli/cli.h"

typedef struct cli_served_tensor {
    const char *name;
    ir_dtype dtype;
    ir_shape whole;   /* of an input: of the batch; else of a micro-batch */
    ir_shape sample;  /* the same of one sample, without the axis of samples
                         where it has one row of it */
    int32_t axis;     /* of samples, in `whole` */
    int64_t elements; /* of a sample, one of an input at least; */
    int64_t bytes;    /* its bytes: `runs` runs, each in a row in `whole` too */
    int64_t runs;
    int64_t below; /* ids are; -1: these are none, or nobody says */
} cli_served_tensor;

typedef struct cli_served {
    const char *name; /* of the network */
    uint64_t digest;  /* of the plan */
    int64_t batch;
    int32_t m;     /* micro-batches */
    int32_t depth; /* stages: batches that are computed at once */
    int32_t ranks;
    int32_t n_in, n_out; /* those are graph->outputs, in their order */
    cli_served_tensor *in, *out;
    int64_t parts; /* of a batch: pieces that ranks load, outputs they give */
} cli_served;

/* FS_INVALID: this plan cannot be served, and why. */
fs_status cli_served_of(cli *c, const cli_plan *p, cli_served *out);

/* Sample `k` of `n` that lie in a tensor <-> the sample alone. */
void cli_served_put(const cli_served_tensor *t, const void *sample, int64_t k,
                    int64_t n, void *tensor);
void cli_served_get(const cli_served_tensor *t, const void *tensor, int64_t k,
                    int64_t n, void *sample);
/* GET /v1/model, but what the server adds. */
json_t *cli_served_json(const cli_served *served);

#endif
