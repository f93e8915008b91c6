/* The graph: arrays of nodes and tensors that refer to each other by index.
 * Nodes stand in a topological order (ops are appended after what they read).
 *
 * Errors are sticky: the builder functions return tensor ids; the first that
 * fails fills graph->err and returns -1, and every builder call on a graph
 * with an error, or with an input of -1, returns -1. Check graph->err.status
 * once at the end. */
#ifndef FS_IR_GRAPH_H
#define FS_IR_GRAPH_H

#include "base/hash.h"
#include "ir/sbp.h"

#include <pthread.h>

enum { IR_MAX_IN = 8, IR_MAX_OUT = 4, IR_MAX_ATTR = 16, IR_MAX_REAL = 8 };

/* One value per row of ops.def: IR_OP_matmul, ... */
typedef enum ir_op_kind {
#define IR_OP(name, ...) IR_OP_##name,
#include "ir/ops.def"
#undef IR_OP
    IR_OP_COUNT
} ir_op_kind;

/* How often a node runs: FORWARD and BACKWARD once per micro-batch, UPDATE
 * once per step, after the last micro-batch. Variables and constants are
 * IR_FORWARD by phase but their values change per step only. */
typedef enum ir_phase { IR_FORWARD, IR_BACKWARD, IR_UPDATE } ir_phase;

typedef struct ir_chain ir_chain; /* chain.h */

typedef struct ir_node {
    ir_op_kind op;
    ir_phase phase;
    const char *name; /* "/blocks.0/attn/MatMul"; unique */
    int32_t n_in, n_out;
    int32_t in[IR_MAX_IN];   /* tensor ids */
    int32_t out[IR_MAX_OUT]; /* tensor ids */
    int64_t i[IR_MAX_ATTR];  /* attributes: meaning per op, see ops.def */
    double f[IR_MAX_REAL];
    const ir_chain *chain; /* a chain's program, in the graph's arena; NULL */
    int32_t forward;       /* backward nodes: the forward node they belong to;
                              update nodes: the variable's node; else -1 */
    int32_t more;          /* copies in a row that it stands for, besides itself:
                              of a compact graph (compact.h) */
} ir_node;

struct ir_graph;
/* Runs a node on whole tensors (kernels/evaluate.h). */
typedef fs_status ir_evaluator(const struct ir_graph *graph,
                               const ir_node *node, const void *const *in,
                               void *const *out, fs_err *err);

/* Data of constants, by a name that says how it is made: graphs of one network
 * may share it. */
typedef struct ir_table {
    const char *name;
    const void *data;
} ir_table;
typedef struct ir_tables {
    fs_arena *arena; /* nobody else's while graphs are built by threads */
    FS_VEC(ir_table) all;
    pthread_mutex_t lock;
} ir_tables;

typedef struct ir_graph {
    fs_arena *arena;   /* owns everything the graph points to, but mapped data
                          and what it shares */
    fs_arena *tables;  /* of nodes, tensors and maps of names, which move when
                          they grow; the same in a copy */
    ir_tables *shared; /* data of constants: its own, or others' too */
    fs_err err;        /* sticky, see above */
    const char *name;
    FS_VEC(ir_node) nodes;
    FS_VEC(ir_tensor) tensors;
    FS_VEC(int32_t) outputs; /* tensors a user asked for */
    int32_t loss;            /* scalar tensor, or -1 */
    ir_phase phase;          /* given to nodes that are appended */
    int32_t forward;         /* likewise */
    const char *scope;       /* prefix for names of appended nodes, or NULL */
    fs_map names;            /* tensor name -> id */
    fs_map node_names;       /* node name -> id */
    fs_map serials;          /* name taken once -> last number put after it */
    int32_t micro_batches;   /* of the training graph; 1 before */
    double loss_share;       /* of a micro-batch's loss in the step's: 1 / m of
                                a mean over samples, else 1; 1 before */
    int64_t batch;           /* samples of the whole step; 0 when unknown.
                                Inputs carry batch / micro_batches samples */
    bool infer;              /* for builders: made for its outputs alone. No
                                labels, no loss, running statistics */
    uint64_t digest;         /* of the source model, set by the importer */
    int32_t meant;           /* nodes of the graph that a compact one stands
                                for (compact.h); 0: it is none */
    ir_evaluator *evaluate;  /* of the rewrites at hand, or NULL */
    /* As long as nothing changes; NULL: not known. */
    const struct ir_layers *layers; /* layers.h */
    const struct ir_graph *like;    /* itself, or what it was made of: the same
                                       but for sizes (resize.h) */
} ir_graph;

ir_graph *ir_graph_create(const char *name); /* own arena */
/* What is known of it holds no more. */
void ir_graph_changes(ir_graph *graph);
/* Room for n nodes and tensors and for what training adds to them: growing to
 * it costs as much again, and what stays empty takes address space only. What
 * they took before is given back: pointers into arrays and maps end. */
void ir_graph_reserve(ir_graph *graph, int32_t n);
void ir_graph_destroy(ir_graph *graph);
/* Ends `other`, but for its names and data, which live as long as `graph`. */
void ir_graph_join(ir_graph *graph, ir_graph *other);
/* The same nodes and tensors once more, in `arena`, which ends them (not
 * ir_graph_destroy); names and data are borrowed from the first. */
ir_graph *ir_graph_copy(const ir_graph *graph, fs_arena *arena);

ir_tables ir_tables_in(fs_arena *arena);
/* The data of that name, made in the tables' arena when first asked for. */
typedef const void *ir_table_maker(const void *ctx, fs_arena *arena);
const void *ir_table_of(ir_tables *tables, const char *name,
                        ir_table_maker *make, const void *ctx);

/* Sets the sticky error (first wins) and returns -1. */
int32_t ir_graph_fail(ir_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends a node: infers its outputs and makes their tensors. `node` gives
 * op, inputs and attributes (out, n_out, phase and forward are filled in; n_out
 * is given where the op leaves it to the node).
 * A NULL name becomes "SCOPE/OP"; a name that is taken gets "_1", "_2", ...
 * put after it. Output 0 is called like the node, output k "NAME:k". Returns
 * the node id, or -1. */
int32_t ir_graph_add(ir_graph *graph, const ir_node *node);

/* Turns node `v` into `node` (op, inputs made before v, attributes) in its
 * place. False, and nothing changed, unless its first output then has the same
 * shape and dtype; further outputs are new tensors. v must have one output. */
bool ir_graph_replace(ir_graph *graph, int32_t v, const ir_node *node);

/* Node order[v] comes to stand at v; the order must be topological again when
 * all is done. Node ids change, tensor ids stay. */
void ir_graph_reorder(ir_graph *graph, const int32_t *order);

int32_t ir_graph_find(const ir_graph *graph, const char *tensor_name);

/* Gives a tensor another name (fails when it is taken). */
void ir_graph_rename(ir_graph *graph, int32_t tensor, const char *name);
/* A node and its outputs, as ir_graph_add calls them. False when a node or a
 * tensor has the name. */
bool ir_graph_rename_node(ir_graph *graph, int32_t v, const char *name);

/* Consumers of every tensor: list[first[t] .. first[t+1]) holds node ids in
 * order; a node that reads a tensor twice appears twice. */
typedef struct ir_uses {
    int32_t *first, *list;
} ir_uses;
ir_uses ir_graph_uses(const ir_graph *graph, fs_arena *arena);

/* Walks the invariants: indices in range, topological order, one producer per
 * tensor, names unique, `infer` of every node gives the shapes that stand. */
fs_status ir_graph_check(const ir_graph *graph, fs_err *err);

/* Text form, one line per node: stable, diff-able. */
void ir_graph_dump(const ir_graph *graph, fs_text *out);

/* Drops nodes that neither outputs, loss, variables nor their updates need;
 * ids change. A graph with neither outputs nor loss keeps everything. */
void ir_graph_prune(ir_graph *graph);
/* Drops the nodes that are not to be kept, which nothing kept reads. */
void ir_graph_keep(ir_graph *graph, const bool *keep);

#endif
