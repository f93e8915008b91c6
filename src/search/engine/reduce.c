/* The worklist of the reductions: one queue for each, of the nodes or pairs
 * that it has to look at again. */
#include "config.h"
#include "search/engine/reduce.h"

#include "search/engine/content.h"

#include <string.h>

typedef struct turn {
    search_reduction_fn *look;
    bool at_pairs;
} turn;

enum { of_node = false, of_pair = true };
static const turn turns[] = {
#define SEARCH_REDUCTION(NAME, name, of, what) {search_reduce_##name, of_##of},
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
};

typedef struct queue {
    FS_VEC(int32_t) list;
    int32_t head;
} queue;

struct search_work {
    fs_arena *arena;
    uint32_t mask;
    queue queues[SEARCH_N_REDUCTIONS];
    uint8_t *waiting; /* [node] for these reductions */
    char *room;
    size_t n_room;
};

static uint32_t sort_of(bool pairs)
{
    uint32_t mask = 0;
    for (int32_t k = 0; k < SEARCH_N_REDUCTIONS; k++)
        if (turns[k].at_pairs == pairs)
            mask |= 1u << k;
    return mask;
}

static void enlist(struct search_work *work, uint8_t *waiting, int32_t at,
                   uint32_t reductions)
{
    uint32_t fresh = reductions & work->mask & ~(uint32_t)*waiting;
    *waiting |= (uint8_t)fresh;
    for (; fresh; fresh &= fresh - 1)
        fs_push(work->arena, &work->queues[__builtin_ctz(fresh)].list, at);
}

static void enlist_node(search_cfn *cfn, int32_t node, uint32_t reductions)
{
    if (cfn->work && !cfn->gone[node])
        enlist(cfn->work, &cfn->work->waiting[node], node, reductions);
}

static void enlist_pair(search_cfn *cfn, int32_t pair, uint32_t reductions)
{
    if (cfn->work)
        enlist(cfn->work, &cfn->pairs.at[pair].waiting, pair, reductions);
}

/* Dominance weighs costs; a value may have become infinite. */
void search_unary_changed(search_cfn *cfn, int32_t node)
{
    enlist_node(cfn, node, SEARCH_ARCS | SEARCH_GOLDSTEIN);
}

void search_pair_changed(search_cfn *cfn, int32_t pair)
{
    const search_pair *p = &cfn->pairs.at[pair];
    uint32_t of_ends = SEARCH_GOLDSTEIN | (p->forbids ? SEARCH_ARCS : 0);
    enlist_pair(cfn, pair, SEARCH_SPLIT | SEARCH_FOLLOW);
    enlist_node(cfn, p->u, of_ends);
    enlist_node(cfn, p->v, of_ends);
}

/* Fewer columns: neighbours may have lost what went with a value, and what
 * kept one value from dominating another. */
void search_domain_fell(search_cfn *cfn, int32_t node)
{
    const search_incident *at = &cfn->at[node];
    if (!cfn->work)
        return;
    if (cfn->dom[node] == 1)
        enlist_node(cfn, node, SEARCH_FOLD);
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        uint32_t of_other =
            SEARCH_GOLDSTEIN | (pair->forbids ? SEARCH_ARCS : 0);
        enlist_node(cfn, search_pair_other(pair, node), of_other);
        enlist_pair(cfn, at->pairs.at[k], SEARCH_SPLIT | SEARCH_FOLLOW);
    }
}

void search_degree_fell(search_cfn *cfn, int32_t node)
{
    if (cfn->at[node].pairs.n <= 2)
        enlist_node(cfn, node, SEARCH_FOLD);
}

void *search_reduce_room(search_cfn *cfn, size_t bytes)
{
    struct search_work *work = cfn->work;
    if (bytes > work->n_room) {
        work->n_room = bytes > 2 * work->n_room ? bytes : 2 * work->n_room;
        work->room = fs_alloc(work->arena, work->n_room, 1);
    }
    return work->room;
}

static void look(search_cfn *cfn, int32_t reduction, int32_t at)
{
    bool pair = turns[reduction].at_pairs;
    uint8_t *waiting =
        pair ? &cfn->pairs.at[at].waiting : &cfn->work->waiting[at];
    *waiting &= (uint8_t) ~(1u << reduction);
    if (!(pair ? cfn->pairs.at[at].gone : cfn->gone[at]))
        turns[reduction].look(cfn, at);
}

/* One turn: what waits when it begins. What comes up meanwhile waits for the
 * next one, by when more may have come together: a node of many neighbours is
 * not looked at once for each of them. False: nothing waited. */
static bool take_turn(search_cfn *cfn, int32_t reduction)
{
    queue *q = &cfn->work->queues[reduction];
    int32_t end = q->list.n;
    for (; q->head < end && !cfn->infeasible; q->head++)
        look(cfn, reduction, q->list.at[q->head]);
    if (q->head == q->list.n)
        q->head = q->list.n = 0;
    return end > 0;
}

void search_cfn_reduce(search_cfn *cfn, uint32_t mask)
{
    struct search_work work = {.arena = fs_arena_create(), .mask = mask};
    work.waiting = fs_new(work.arena, uint8_t, cfn->n);
    cfn->work = &work;
    search_contents_begin(cfn, work.arena);
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        cfn->pairs.at[p].waiting = 0;
        if (!cfn->pairs.at[p].gone)
            enlist_pair(cfn, p, sort_of(true));
    }
    for (int32_t i = 0; i < cfn->n; i++)
        enlist_node(cfn, i, sort_of(false));
    for (bool any = true; any && !cfn->infeasible;) {
        any = false;
        for (int32_t k = 0; k < SEARCH_N_REDUCTIONS; k++)
            any |= take_turn(cfn, k);
    }
    search_usage_pack_all(cfn);
    search_contents_end(cfn);
    cfn->work = NULL;
    fs_arena_destroy(work.arena);
}
