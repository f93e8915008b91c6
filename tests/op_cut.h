/* A random instance of an op computed whole, and in pieces on n devices under
 * any signature on one mesh axis, legal or not. */
#ifndef FS_TESTS_OP_CUT_H
#define FS_TESTS_OP_CUT_H

#include "interpret.h"
#include "op_cases.h"

enum { MAX_DEVICES = 3 };

/* One op instance, computed whole, and its pieces on n devices. */
typedef struct cut {
    ir_graph *graph;
    interpreter in;
    const ir_node *node;
    kernel_call whole;
    int32_t devices;
    double tolerance; /* sums round elsewhere when they are cut */
    double spread;    /* of what devices hold of a partial value */
    kernel_call piece[MAX_DEVICES];
    uint64_t *seed;
    fs_arena *arena; /* of the pieces; at first the graph's */
} cut;

/* Draws an instance (of like->graph nothing is read) and computes it whole; to
 * be closed also when it fails. */
fs_status cut_open(cut *c, const op_case *like, fs_err *err);
void cut_close(cut *c);
fs_status cut_fill(cut *c, fs_err *err);
/* Cuts the inputs and runs c->devices pieces. */
fs_status cut_run(cut *c, const ir_nd_sig *sig, fs_err *err);
/* Largest relative error of output k, put together from its pieces. */
double cut_error(const cut *c, int32_t k, ir_sbp sbp);

#endif
