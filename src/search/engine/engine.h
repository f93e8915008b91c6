/* What the engines share: the rows of engines.def, bounds that need no
 * search, and the MILP that closes a gap. Internal to this folder. */
#ifndef FS_SEARCH_ENGINE_H
#define FS_SEARCH_ENGINE_H

#include "search/engine/net.h"

#define SEARCH_ENGINE(name, what) search_engine_fn search_##name;
#include "search/engine/engines.def"
#undef SEARCH_ENGINE

/* What `deduce` finds while it looks at no more values than this many times all
 * of the network: more only goes back on what it chose first. cost INFINITY:
 * nothing; `open`: for lack of steps. No bound. */
void search_deduce_first(const search_net *net, double passes, fs_arena *arena,
                         search_solution *out);

/* Two costs within this relative distance count as equal. */
#define SEARCH_TOLERANCE 1e-9

/* Sums of an assignment: a micro, b step per stage, bytes per limit. */
typedef struct search_sums {
    double *micro_s, *step_s;
    int64_t *bytes;
    struct fs_sum *exact; /* [2 * n_stages] scratch of search_net_sums */
} search_sums;
search_sums search_sums_new(const search_net *net, fs_arena *arena);
/* Adds `sign` times what entry `at` of a node or an edge loads. */
void search_add_loads(int64_t *bytes, const search_load *loads, int32_t n,
                      int64_t at, int32_t sign);
/* Rounded once: cost_strategy's own, whatever the order of nodes. `out` is of
 * search_sums_new. */
void search_net_sums(const search_net *net, const int32_t *value,
                     search_sums *out);
int32_t search_net_like(const search_net *net, int32_t stage);
/* The formula of the stages' sum and maxima, without the memory limit; and of
 * sums. */
double search_net_formula(const search_net *net, double total, double slowest,
                          double step);
double search_sums_cost(const search_net *net, const search_sums *sums);
bool search_sums_fit(const search_net *net, const search_sums *sums);

/* Sum of the least entries of every table, put through the formula: what no
 * assignment can undercut. INFINITY when a node or a pair has no finite
 * entry. */
double search_net_floor(const search_net *net, fs_arena *arena);

/* What prices of stages and bytes prove of all assignments, until that is
 * enough, in so many rounds (0: as many as help), from good prices on (NULL:
 * from even ones); INFINITY: there is none. Without a plan. Written to `to` are
 * the best prices; NULL: nobody wants them. */
double search_net_press(const search_net *net, const struct search_prices *from,
                        int32_t rounds, double enough, fs_deadline deadline,
                        struct search_prices *to);

/* The same as far as an engine would take it, which may be asked next: it gets
 * those prices, and the planes that were met (budget->met). */
double search_net_prove(const search_net *net, const search_budget *budget,
                        struct search_prices *prices);

/* Least bytes that limit `limit` can be loaded with (infinite costs respected);
 * INT64_MAX when the network has no finite assignment. Exact where
 * elimination is possible, else a lower bound. */
int64_t search_net_least_bytes(const search_net *net, int32_t limit);
/* Is a limit proven to be below what all assignments load it with? One that is
 * found to fit one limit is tried for the next. */
bool search_net_too_small(const search_net *net);

/* Edges of each node: edge[first[i] .. first[i + 1]); of both ends, or only
 * of the later one (v). */
typedef struct search_incidence {
    int32_t *first, *edge;
} search_incidence;
search_incidence search_net_incidence(const search_net *net, bool both,
                                      fs_arena *arena);

/* A table of a node or of one of its edges, as the node sees it while the
 * others keep their values: for its value s entry s * stride counts for that
 * sum. */
typedef struct search_tied {
    const double *cost;
    double *sum;
    int64_t stride, place; /* of entry 0 in the table */
    const search_load *loads;
    int32_t n_loads;
} search_tied;

/* One node at a time, with the sums kept up to date. */
typedef struct search_moves {
    const search_net *net;
    search_incidence at; /* of both ends */
    search_sums sums;
    int32_t *value; /* legal */
    int64_t steps;
    search_tied *tied; /* [n_tied] of the node looked at last */
    int32_t n_tied;
} search_moves;
search_moves search_moves_new(const search_net *net, int32_t *value,
                              fs_arena *arena);
/* Puts value s there and returns the cost; INFINITY, and nothing changed, when
 * that is not legal or does not fit. */
double search_moves_try(search_moves *moves, int32_t node, int32_t s);
/* Is it legal, whatever it holds? */
bool search_moves_legal(search_moves *moves, int32_t node, int32_t s);
/* A legal value. */
void search_moves_put(search_moves *moves, int32_t node, int32_t s);

/* A network with some of the values of another. */
typedef struct search_subnet {
    search_net net;
    int32_t **value; /* [node][place] -> value of the other */
} search_subnet;
search_subnet search_subnet_of(const search_net *net, const int32_t *dom,
                               int32_t *const *value, fs_arena *arena);
/* Drops dominated values of the whole objective, to a fixpoint. Returns the
 * steps that took. */
int64_t search_subnet_reduce(search_subnet *sub, fs_arena *arena);

/* The optimum by dynamic programming over sets of nodes (states.c): exact, and
 * by other means than the reductions. `upper`: a cost that is possible, or
 * INFINITY. FS_NO: infeasible; FS_INVALID: too many states, or it was stopped.
 */
fs_status search_states(const search_net *net, double upper, const fs_end *end,
                        fs_arena *arena, fs_err *err, search_solution *out);

bool search_proven(double bound, double cost);
/* What a bound has to reach to be within the fraction `gap` of `cost`: also if
 * search_proven takes it for that. */
double search_near(double cost, double gap);

/* Changes single nodes of `value` as long as that lowers the cost (memory
 * respected). `value` must be feasible. Returns the cost; adds to *steps. */
double search_net_improve(const search_net *net, int32_t *value,
                          fs_arena *arena, int64_t *steps);

/* Changes single nodes of one that exceeds limits, those first that cost least
 * for what they take off, until it keeps them. Returns the cost, INFINITY where
 * limits are exceeded. */
double search_net_mend(const search_net *net, int32_t *value,
                       fs_deadline deadline, fs_arena *arena);

/* Takes parts of `other` over into `value` as long as that lowers the cost.
 * Both have finite costs; bytes may exceed limits before. Returns the cost;
 * adds to *steps. */
double search_net_cross(const search_net *net, int32_t *value,
                        const int32_t *other, fs_arena *arena, int64_t *steps);

#endif
