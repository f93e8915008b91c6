/* Networks in the public IOPDDL format (ASPLOS / EuroSys 2025 contest,
 * github.com/google/iopddl): JSON, gzip or not,
 *   problem.nodes.intervals[i] = [from, to)  problem.nodes.costs[i][s]
 *   problem.nodes.usages[i][s]               problem.edges.nodes[e] = [u, v]
 *   problem.edges.costs[e][s * |v| + t]      problem.usage_limit
 * One value is chosen per node; at each time the usages of the nodes whose
 * interval holds it sum to at most the limit; the sum of all costs is least.
 * Costs from 10^18 on forbid. */
#ifndef FS_SEARCH_IOPDDL_H
#define FS_SEARCH_IOPDDL_H

#include "search/engine/cfn.h"

#define SEARCH_IOPDDL_FORBIDS INT64_C(1000000000000000000)

typedef struct search_iopddl_edge {
    int32_t u, v;
    const int64_t *cost; /* [dom u * dom v], row u */
} search_iopddl_edge;

typedef struct search_iopddl {
    const char *name;
    int32_t n_nodes, n_edges, n_steps;
    int32_t *dom;
    int32_t *from, *to; /* steps: times at which something begins or ends */
    const int64_t **cost, **bytes; /* [node][dom] */
    search_iopddl_edge *edges;
    int64_t limit_bytes; /* INT64_MAX: none */
} search_iopddl;

/* FS_INVALID says what is wrong where in the file. */
fs_status search_iopddl_read(const char *path, fs_arena *arena, fs_err *err,
                             search_iopddl *out);

/* The same as a network of costs, with the bytes that nodes hold. */
search_cfn *search_iopddl_cfn(const search_iopddl *problem, fs_arena *arena);

/* Cost of a choice and the most it holds at once, by the definition above, in
 * whole numbers: what every claim is checked with. FS_NO: it is forbidden or
 * breaks the limit. */
fs_status search_iopddl_cost(const search_iopddl *problem, const int32_t *value,
                             int64_t *cost, int64_t *peak_bytes);
/* The sum of the least entries: no choice costs less. */
double search_iopddl_floor(const search_iopddl *problem);

#endif
