/* ONNX out: a graph as a model file that other tools read, and our importer. */
#ifndef FS_ONNX_EXPORT_H
#define FS_ONNX_EXPORT_H

#include "ir/op.h"

/* Where a plan has the nodes: written as ONNX's sharding annotations. Stage s
 * is a mesh whose position i is device first_device[s] + i. */
typedef struct onnx_placement {
    int32_t n_stages;
    const ir_mesh *mesh;         /* [n_stages] */
    const int32_t *first_device; /* [n_stages] */
    const int32_t *stage_of;     /* [nodes] */
    const ir_nd_sig *sig;        /* [nodes] */
    const char *schedule;
    uint64_t digest; /* of the plan */
} onnx_placement;

typedef struct onnx_export_options {
    const onnx_placement *placement; /* NULL: no plan */
    bool external;   /* values stand in FILE.data, not only when the file would
                        pass protobuf's limit of 2 GiB */
    bool no_weights; /* variables are inputs; constants stay */
    uint64_t seed;   /* of first values that no file gives: as a run's */
} onnx_export_options;

typedef struct onnx_exported {
    int32_t n_nodes;        /* of the file */
    int64_t side_bytes;     /* of FILE.data; 0: there is none */
    int32_t n_own;          /* kinds of ops that ONNX has no form of, */
    const char *const *own; /* in the domain "flowsearch"; in `arena` */
    int32_t n_partial;      /* tensors of the plan that are partial values */
    int32_t n_halo;         /* inputs that borrow rows of their neighbours */
    int32_t n_between;      /* values between nodes of one op that have no
                               annotation */
} onnx_exported;

/* Of all the values that the file will carry, those of small constants that it
 * adds left out. */
int64_t onnx_export_bytes(const ir_graph *graph,
                          const onnx_export_options *options);

/* Writes `path`, whole or not at all, and beside it the file with the values
 * where they stand apart. FS_INVALID names what cannot be written, FS_FAULT
 * what the system refused. */
fs_status onnx_export(const ir_graph *graph, const char *path,
                      const onnx_export_options *options, fs_arena *arena,
                      fs_err *err, onnx_exported *out);

/* Name of the file with the values of `path`. */
const char *onnx_side_file(fs_arena *arena, const char *path);

#endif
