/* What a recipe costs, in closed form and roughly: to rank recipes before a few
 * of them are costed in full. Internal to this folder. */
#ifndef FS_SEARCH_LEDGER_H
#define FS_SEARCH_LEDGER_H

#include "search/layout.h"
#include "search/recipe/recipe_parts.h"

/* Sums over a graph's nodes, of one stage of a cut, as on one device. What tp
 * divides (parts), what it leaves whole unless the sequence is cut (stream),
 * what no sample went into (weights). Launches are not divided. */
typedef enum search_share {
    SEARCH_SHARE_PARTS,
    SEARCH_SHARE_STREAM,
    SEARCH_SHARE_WEIGHTS,
    SEARCH_SHARES
} search_share;

typedef struct search_entry {
    double work_s[SEARCH_SHARES], launch_s; /* per micro-batch */
    double update_s, update_launch_s;       /* per step */
    int64_t kept_bytes[SEARCH_SHARES];      /* from forward for backward */
    int64_t weight_bytes;                   /* of parameters that tp cuts, */
    int64_t other_bytes, state_bytes, sum_bytes; /* others; optimizer's, sums
                                                    of gradients */
    int32_t n_weights;
    double told_bytes; /* all that ranks of tp sum up for each other */
    int32_t n_told;
    int64_t moved_bytes; /* the stream, to the next stage */
} search_entry;

typedef struct search_ledger {
    const search_problem *problem;
    const ir_graph *graph; /* for which it was made */
    search_marks marks;
    double *seconds; /* [node] on one device */
    fs_arena *arena;
    double launch_s;
    bool recomputes;
    bool experts, streams; /* there are some */
    int32_t n_cuts;
    struct search_ledger_cut *cuts;
} search_ledger;

void search_ledger_make(const search_problem *problem, const ir_graph *graph,
                        fs_arena *arena, search_ledger *out);

typedef struct search_estimate {
    double iteration_s; /* INFINITY: it cannot be cut so */
    double fullest;     /* of the limits of the stages, what it takes: above 1
                           it may not fit */
} search_estimate;
/* Before a recipe is asked about: can the graph be cut so? */
bool search_ledger_open(search_ledger *ledger, const search_recipe *recipe);
/* What takes longest of an answer, in any thread; of a recipe that was opened.
 */
void search_ledger_pace(const search_ledger *ledger,
                        const search_recipe *recipe);
/* Of a complete recipe on stages that do not differ. */
search_estimate search_ledger_ask(search_ledger *ledger,
                                  const search_recipe *recipe);

#endif
