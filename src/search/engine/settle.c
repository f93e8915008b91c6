#include "config.h"
#include "search/engine/settle.h"

#include "search/engine/slack.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 30 };

typedef struct settling {
    search_kernel *k;
    const search_dual *dual;
    const search_cfn *cfn;
    search_slack slack;
    int32_t *place; /* [n] in the domain of the cfn; -1: not yet */
    int64_t *least; /* [pieces] of the values there are */
    bool *stale;
    double *cost;    /* [dom] */
    double *trouble; /* [dom] what is over, as a share, and forbidden pairs */
} settling;

static const int64_t *bytes_of(const settling *s, int32_t piece)
{
    return s->k->pieces[piece].bytes;
}

/* What value x of node i would break; its own bytes are not held now. */
static void weigh(settling *s, int32_t i)
{
    const search_kernel *k = s->k;
    const int32_t dom = s->cfn->dom[i], *value = s->cfn->value[i];
    memset(s->trouble, 0, (size_t)dom * sizeof *s->trouble);
    for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
        const search_piece *piece = &k->pieces[p];
        const int64_t left =
            search_slack_least(&s->slack, piece->from, piece->to);
        for (int32_t x = 0; x < dom; x++) {
            const int64_t over = piece->bytes[value[x]] - left;
            if (over > 0)
                s->trouble[x] += (double)over / k->unit;
        }
    }
}

static void add_pair(settling *s, const search_pair *pair, int32_t i)
{
    const int32_t dom = s->cfn->dom[i];
    const int32_t other = search_pair_other(pair, i);
    int64_t own, step;
    if (s->place[other] < 0) {
        const double *msg = pair->msg[pair->u == i ? 0 : 1];
        for (int32_t x = 0; x < dom; x++)
            s->cost[x] += msg[x];
        return;
    }
    search_pair_strides(s->cfn, pair, i, &own, &step);
    const double *cost = pair->cost + s->place[other] * step;
    for (int32_t x = 0; x < dom; x++) {
        if (isinf(cost[x * own]))
            s->trouble[x] += 1;
        else
            s->cost[x] += cost[x * own];
    }
}

static int32_t choose(settling *s, int32_t i)
{
    int32_t best = 0;
    for (int32_t x = 1; x < s->cfn->dom[i]; x++)
        if (s->trouble[x] < s->trouble[best] ||
            (!(s->trouble[x] > s->trouble[best]) && s->cost[x] < s->cost[best]))
            best = x;
    return best;
}

static void hold(settling *s, int32_t i, int32_t x, int sign)
{
    const search_kernel *k = s->k;
    for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++)
        search_slack_add(&s->slack, k->pieces[p].from, k->pieces[p].to,
                         -sign * bytes_of(s, p)[s->cfn->value[i][x]]);
}

static void hold_least(settling *s, int32_t i, int sign)
{
    const search_kernel *k = s->k;
    for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++)
        search_slack_add(&s->slack, k->pieces[p].from, k->pieces[p].to,
                         -sign * s->least[p]);
}

static void set_least(settling *s, int32_t i)
{
    const search_kernel *k = s->k;
    const int32_t *value = s->cfn->value[i];
    for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
        int64_t least = INT64_MAX;
        for (int32_t x = 0; x < s->cfn->dom[i]; x++) {
            const int64_t b = bytes_of(s, p)[value[x]];
            least = b < least ? b : least;
        }
        s->least[p] = least;
    }
}

static void settle_node(settling *s, int32_t i)
{
    const search_incident *at = &s->cfn->at[i];
    hold_least(s, i, -1);
    weigh(s, i);
    memcpy(s->cost, s->cfn->unary[i], (size_t)s->cfn->dom[i] * sizeof *s->cost);
    for (int32_t e = 0; e < at->pairs.n; e++)
        add_pair(s, &s->cfn->pairs.at[at->pairs.at[e]], i);
    s->place[i] = choose(s, i);
    hold(s, i, s->place[i], 1);
    s->k->steps += s->cfn->dom[i] * (1 + at->pairs.n);
}

/* At true costs: prices have done their part. */
static bool improve(settling *s, int32_t i)
{
    const search_incident *at = &s->cfn->at[i];
    const int32_t *value = s->cfn->value[i], was = s->place[i];
    hold(s, i, was, -1);
    weigh(s, i);
    for (int32_t x = 0; x < s->cfn->dom[i]; x++)
        s->cost[x] = s->k->unary[s->k->first[i] + value[x]];
    for (int32_t e = 0; e < at->pairs.n; e++)
        add_pair(s, &s->cfn->pairs.at[at->pairs.at[e]], i);
    const int32_t best = choose(s, i);
    const bool better =
        s->trouble[best] < s->trouble[was] ||
        (!(s->trouble[best] > s->trouble[was]) && s->cost[best] < s->cost[was]);
    s->place[i] = better ? best : was;
    hold(s, i, s->place[i], 1);
    s->k->steps += s->cfn->dom[i] * (1 + at->pairs.n);
    for (int32_t e = 0; better && e < at->pairs.n; e++)
        s->stale[search_pair_other(&s->cfn->pairs.at[at->pairs.at[e]], i)] =
            true;
    return better;
}

static int32_t widest(const search_cfn *cfn)
{
    int32_t most = 0;
    for (int32_t i = 0; i < cfn->n; i++)
        most = cfn->dom[i] > most ? cfn->dom[i] : most;
    return most;
}

bool search_settle(search_kernel *k, const search_dual *dual, int32_t *at)
{
    fs_arena *arena = fs_arena_create();
    settling s = {.k = k, .dual = dual, .cfn = dual->cfn};
    const int32_t most = widest(s.cfn);
    s.slack = search_slack_new(k->n_steps, arena);
    s.place = fs_new(arena, int32_t, k->n);
    s.least = fs_new(arena, int64_t, k->first_piece[k->n]);
    s.stale = fs_new(arena, bool, k->n);
    s.cost = fs_new(arena, double, most);
    s.trouble = fs_new(arena, double, most);
    search_slack_set(&s.slack, k->room);
    for (int32_t i = 0; i < k->n; i++) {
        s.place[i] = -1;
        set_least(&s, i);
        hold_least(&s, i, 1);
    }
    for (int32_t i = 0; i < k->n; i++)
        settle_node(&s, i);
    memset(s.stale, true, (size_t)k->n);
    for (int32_t round = 0, any = 1; any && round < ROUNDS; round++) {
        any = 0;
        for (int32_t i = 0; i < k->n; i++)
            if (s.stale[i]) {
                s.stale[i] = false;
                any |= improve(&s, i);
            }
    }
    for (int32_t i = 0; i < k->n; i++)
        at[i] = s.cfn->value[i][s.place[i]];
    const bool fits =
        k->n_steps == 0 || search_slack_least(&s.slack, 0, k->n_steps) >= 0;
    fs_arena_destroy(arena);
    return fits;
}
