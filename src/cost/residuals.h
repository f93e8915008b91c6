/* How far predictions were off where runs were measured, by regime: what a
 * prediction of the same kind is worth. Made by `validate --residuals`. */
#ifndef FS_COST_RESIDUALS_H
#define FS_COST_RESIDUALS_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

/* Eight of ten measured runs took `low` to `high` times what was predicted.
 * Network, precision and device are always told: runs of another one say
 * nothing. */
typedef struct cost_residual {
    const char *network;   /* "transformer", "cnn" */
    const char *precision; /* "16-bit", "tf32", "fp32" */
    const char *device;    /* "a100-sxm4-80g" */
    const char
        *scale; /* "one device", "one node", "several nodes"; NULL: any */
    const char *framework; /* "megatron-lm"; NULL: any */
    int32_t rows;
    double low, median, high;
} cost_residual;
typedef struct cost_residuals {
    int32_t n;
    cost_residual *at; /* what is told more of first */
} cost_residuals;

/* One measured run, or (without a ratio) one asked for. */
typedef struct cost_measured {
    const char *network, *precision, *device, *scale;
    const char *framework; /* NULL: our own runtime */
    double ratio;          /* measured over predicted */
} cost_measured;
/* Regimes of COST_FEWEST_RESIDUALS runs and more, by what is told of a run: all
 * of it, without its scale, without its framework, without both. */
enum { COST_FEWEST_RESIDUALS = 8 };
void cost_residuals_make(const cost_measured *runs, int32_t n, fs_arena *arena,
                         cost_residuals *out);
/* Of one regime by itself; rows 0: there are too few runs. */
cost_residual cost_residual_of(const double *ratios, int32_t n,
                               fs_arena *arena);
/* The first that this is one of; NULL: none is. */
const cost_residual *cost_residuals_find(const cost_residuals *residuals,
                                         const cost_measured *asked);
/* "16-bit" of bf16 and fp16, "fp32" of NULL. */
const char *cost_precision_name(const char *precision, bool tf32);
/* "one device", "one node", "several nodes" */
const char *cost_scale_name(int32_t devices, int32_t nodes);

/* FS_INVALID names the file and the field. */
fs_status cost_residuals_read(const char *file, fs_arena *arena, fs_err *err,
                              cost_residuals *out);
json_t *cost_residuals_json(const cost_residuals *residuals);

#endif
