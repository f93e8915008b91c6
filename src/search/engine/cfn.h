/* An additive cost network: minimise offset + sum of unary + sum of pair
 * costs. What is left of a search_net once every maximum and every memory
 * limit has a price. Reductions work in place and are recorded, so that a
 * solution of what remains becomes one of the whole. Internal to this folder.
 *
 * Terms and methods: bucket elimination (Dechter 1999), dead-end elimination
 * (Goldstein 1994), sequential reweighted message passing (Kolmogorov, TPAMI
 * 2006 and 2015). */
#ifndef FS_SEARCH_CFN_H
#define FS_SEARCH_CFN_H

#include "search/engine/net.h"
#include "search/engine/reductions.h"

typedef struct search_pair {
    int32_t u, v;
    double *cost;   /* [dom u * dom v], row u; not changed while shared */
    double *msg[2]; /* moved from the pair to u, to v; NULL before the dual */
    bool gone;
    bool forbids;    /* false: every entry is finite */
    bool shared;     /* with other pairs: copied before it changes */
    uint8_t waiting; /* for these reductions */
    int32_t content; /* while they run: equal tables have the same; 0: unknown
                      */
} search_pair;

/* An eliminated node: its best value for each choice of the nodes in scope.
 * Choices are counted in the domains as they were then: `map` translates. */
typedef struct search_record {
    int32_t node, n_scope;
    int32_t *scope, *dom;
    int32_t **map; /* [n_scope] value lists of the scope */
    int32_t *own;  /* value list of the node */
    uint16_t *best;
} search_record;

typedef struct search_incident {
    FS_VEC(int32_t) pairs;
} search_incident;

/* Bytes held during steps [from, to), by value. `packed`, as after a
 * reduction: in order of time without overlap. */
typedef struct search_usage {
    int32_t from, to;
    int64_t *bytes; /* [dom] */
} search_usage;
typedef struct search_usages {
    search_usage *at;
    int32_t n, room;
    bool packed;
} search_usages;

typedef struct search_cfn {
    fs_arena *arena;
    int32_t n, n_live;
    int32_t *dom;
    double **unary;
    int32_t **value; /* [dom] place -> value of the network it came from */
    bool *gone;
    FS_VEC(search_pair) pairs;
    search_incident *at; /* live pairs of each node */
    FS_VEC(search_record) records;
    search_usages *usage; /* [n], NULL: costs are all there is */
    search_usages held;   /* whatever is chosen; one value */
    const bool *stays; /* [n] costs are added later: it stays, and no value of
                          it is dropped for what it costs; NULL: none */
    double offset;
    int64_t steps, told; /* work done; of it what a deadline knows */
    bool infeasible;
    struct search_work *work;         /* while search_cfn_reduce runs */
    struct search_contents *contents; /* as long */
} search_cfn;

search_cfn *search_cfn_new(int32_t n, fs_arena *arena);
/* Copies. */
void search_cfn_set(search_cfn *cfn, int32_t node, int32_t dom,
                    const double *unary);
/* Adds scale * cost (row u) to the pair (u, v), made where it is missing:
 * parallel edges are summed. */
void search_cfn_add(search_cfn *cfn, int32_t u, int32_t v, const double *cost,
                    double scale);
/* Adds bytes[dom] that the node holds during steps [from, to). */
void search_cfn_load(search_cfn *cfn, int32_t node, int32_t from, int32_t to,
                     const int64_t *bytes);
int32_t search_cfn_pair(const search_cfn *cfn, int32_t u,
                        int32_t v); /* or -1 */
/* The same without a copy: `cost` lives as long as the cfn and is not changed.
 */
void search_cfn_share(search_cfn *cfn, int32_t u, int32_t v, double *cost);
int32_t search_pair_other(const search_pair *pair, int32_t node);
/* Entry (s of node, x of the other) is cost[s * own + x * other]. */
void search_pair_strides(const search_cfn *cfn, const search_pair *pair,
                         int32_t node, int64_t *own, int64_t *other);
void search_cfn_drop_pair(search_cfn *cfn, int32_t pair);
/* Its live part as a network of its own, whose values are places of this one;
 * number[i] is node i's there, -1: it is gone. Tables are shared. */
search_cfn *search_cfn_live(const search_cfn *cfn, int32_t *number,
                            fs_arena *arena);
/* Keeps the values whose flag is set; an empty domain makes it infeasible. */
void search_cfn_keep(search_cfn *cfn, int32_t node, const bool *keep);
/* Takes a node out; `best` (arena) has one entry per choice of the scope. */
void search_cfn_record(search_cfn *cfn, int32_t node, const int32_t *scope,
                       int32_t n_scope, uint16_t *best);
/* Cost of places at[] (live nodes) in what is left. */
double search_cfn_cost(const search_cfn *cfn, const int32_t *at);
/* From values of the live nodes to values of all, in place. */
void search_cfn_finish(const search_cfn *cfn, int32_t *value);

/* Reductions of the set `mask` (reductions.def) to a common fixpoint. Each
 * keeps an optimum of the additive objective under whatever limits the bytes
 * held at each step; SEARCH_ARCS keeps every finite assignment, so that it is
 * exact for any objective. Work grows with what changes, not with the network
 * for each change. */
void search_cfn_reduce(search_cfn *cfn, uint32_t mask);

/* Eliminates every live node in min-weight order when all tables together
 * have at most `entries` entries; returns false and changes nothing when they
 * would not. */
bool search_cfn_eliminate(search_cfn *cfn, int64_t entries);

/* Minimum of an additive network. */
typedef struct search_minimum {
    double bound;         /* proven */
    double cost;          /* of value[], INFINITY when none was found */
    int32_t *value;       /* [n] */
    int32_t kernel_nodes; /* live after the reductions */
    bool open;            /* time ended it */
} search_minimum;
typedef struct search_effort {
    fs_deadline deadline;
    int32_t sweeps;   /* of the dual, when elimination is too wide */
    double cutoff;    /* stop once the bound reaches it, */
    double gap;       /* or is within this fraction of the cost */
    bool milp;        /* close what remains with GLPK */
    uint32_t without; /* reductions not to use */
    bool proves;      /* nothing is wanted but a bound that reaches the cutoff:
                         what a sweep proves is not eliminated */
} search_effort;
/* Tells the deadline what was done since it was told last. Is it over? */
bool search_cfn_late(search_cfn *cfn, const fs_deadline *deadline);
void search_cfn_minimise(search_cfn *cfn, const search_effort *effort,
                         fs_arena *arena, search_minimum *out);

#endif
