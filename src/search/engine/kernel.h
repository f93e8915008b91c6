/* What exact reductions leave of an additive network under a limit on what
 * its nodes hold over time, packed: values of all nodes in one list. Steps of
 * time that bind only where another one binds are left out; of the others only
 * those that some choice met so far has broken are rows: few, of thousands.
 * Internal to this folder. */
#ifndef FS_SEARCH_KERNEL_H
#define FS_SEARCH_KERNEL_H

#include "search/engine/cfn.h"

/* Bytes by value of a node during steps [from, to). */
typedef struct search_piece {
    int32_t from, to;
    const int64_t *bytes; /* [dom] */
} search_piece;

typedef struct search_link {
    int32_t u, v;
    double *cost; /* [dom u * dom v], row u */
} search_link;

typedef struct search_row {
    int32_t step;
    double *load; /* [n_values] share of the limit that a value takes */
    double room;  /* what is not held whatever is chosen, of the same */
} search_row;

typedef struct search_kernel {
    fs_arena *arena;
    const search_cfn *cfn;
    int32_t n, n_values, n_steps;
    int32_t *node;  /* [n] of the cfn */
    int32_t *dom;   /* [n] */
    int32_t *first; /* [n + 1] place of its first value in the list */
    double *unary;  /* [n_values] */
    int32_t n_links;
    search_link *links;
    int32_t *first_link, *link; /* links of node i: link[first_link[i] ..] */
    double offset;
    int32_t *first_piece; /* [n + 1] */
    search_piece *pieces;
    int32_t *origin; /* [n_steps] which step of the cfn it is */
    int64_t *room;   /* [n_steps] bytes that choices may hold */
    double unit;     /* bytes that a share of 1 is */
    int64_t *usage;  /* [n_steps] scratch of search_kernel_peaks */
    FS_VEC(search_row) rows;
    bool *has_row; /* [n_steps] */
    int64_t steps; /* of work */
} search_kernel;

/* FS_NO: more is held whatever is chosen than `limit`. */
fs_status search_kernel_new(const search_cfn *cfn, int64_t limit,
                            fs_arena *arena, search_kernel **out);
/* Costs of a choice, INFINITY when it is forbidden; bytes are not looked at. */
double search_kernel_cost(const search_kernel *k, const int32_t *at);
/* Most that a choice holds over what it may, as a share of the limit: at most
 * 0 when it fits. Steps that are highest among those that break it become
 * rows, `most` of them at most. */
double search_kernel_over(search_kernel *k, const int32_t *at, int32_t most);
/* What a choice takes beyond the room of each row. */
void search_kernel_loads(const search_kernel *k, const int32_t *at,
                         double *over);
/* The step that stands for `origin`, one of the cfn; -1: none. And the row of a
 * step. */
int32_t search_kernel_step(const search_kernel *k, int32_t origin);
int32_t search_kernel_row(search_kernel *k, int32_t step);
/* Choice of the kernel -> values of the whole network that was reduced. */
void search_kernel_finish(const search_kernel *k, const int32_t *at,
                          int32_t *value);
#endif
