#include "config.h"
#include "search/kernel.h"

#include "base/intern.h"
#include "search/limit.h"

#include <math.h>
#include <string.h>

/* ---- costs ---- */

static void pack_nodes(search_kernel *k, int32_t *number)
{
    const search_cfn *cfn = k->cfn;
    k->node = fs_new(k->arena, int32_t, cfn->n_live);
    k->dom = fs_new(k->arena, int32_t, cfn->n_live);
    k->first = fs_new(k->arena, int32_t, cfn->n_live + 1);
    for (int32_t i = 0; i < cfn->n; i++) {
        if (cfn->gone[i])
            continue;
        number[i] = k->n;
        k->node[k->n] = i;
        k->dom[k->n] = cfn->dom[i];
        k->first[k->n + 1] = k->first[k->n] + cfn->dom[i];
        k->n++;
    }
    k->n_values = k->first[k->n];
    k->unary = fs_new(k->arena, double, k->n_values);
    for (int32_t i = 0; i < k->n; i++)
        memcpy(k->unary + k->first[i], cfn->unary[k->node[i]],
               (size_t)k->dom[i] * sizeof *k->unary);
}

/* The pair's costs, or equal ones of a pair before: what is swept again and
 * again is better small. */
static double *one_of(fs_intern *intern, const search_cfn *cfn,
                      const search_pair *pair)
{
    const size_t bytes = (size_t)cfn->dom[pair->u] * (size_t)cfn->dom[pair->v] *
                         sizeof *pair->cost;
    const void *found = fs_intern_find(intern, pair->cost, bytes);
    if (!found)
        fs_intern_add(intern, pair->cost, bytes);
    return found ? (double *)found : pair->cost;
}

static void pack_links(search_kernel *k, const int32_t *number)
{
    const search_cfn *cfn = k->cfn;
    fs_intern intern = {.arena = k->arena};
    k->links = fs_new(k->arena, search_link, cfn->pairs.n);
    k->first_link = fs_new(k->arena, int32_t, k->n + 1);
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        if (pair->gone)
            continue;
        search_link link = {number[pair->u], number[pair->v],
                            one_of(&intern, cfn, pair)};
        k->links[k->n_links++] = link;
        k->first_link[link.u + 1]++;
        k->first_link[link.v + 1]++;
    }
    for (int32_t i = 0; i < k->n; i++)
        k->first_link[i + 1] += k->first_link[i];
    k->link = fs_new(k->arena, int32_t, 2 * k->n_links);
    int32_t *at =
        fs_memdup(k->arena, k->first_link, (size_t)(k->n + 1) * sizeof *at);
    for (int32_t e = 0; e < k->n_links; e++) {
        k->link[at[k->links[e].u]++] = e;
        k->link[at[k->links[e].v]++] = e;
    }
}

/* ---- time ---- */

typedef struct times {
    search_kernel *k;
    int32_t n;       /* steps of the cfn */
    int64_t *room;   /* [n] */
    int64_t *most;   /* [n + 1] what choices may hold at most: changes, then
                        sums */
    bool *up, *down; /* [n + 1] something grows, shrinks from t - 1 to t */
    int32_t *row;    /* [n + 1] steps kept before t */
} times;

/* What node i holds before and after a boundary; NULL: nothing. */
static void note_change(times *t, int32_t at, const int64_t *before,
                        const int64_t *after, int32_t dom)
{
    for (int32_t s = 0; s < dom; s++) {
        const int64_t a = before ? before[s] : 0, b = after ? after[s] : 0;
        t->up[at] |= b > a;
        t->down[at] |= b < a;
    }
}

static void note_node(times *t, const search_usages *list, int32_t dom)
{
    for (int32_t p = 0; p < list->n; p++) {
        const search_usage *u = &list->at[p];
        const search_usage *next = p + 1 < list->n ? u + 1 : NULL;
        const bool touches = next && next->from == u->to;
        int64_t most = 0;
        for (int32_t s = 0; s < dom; s++)
            most = u->bytes[s] > most ? u->bytes[s] : most;
        t->most[u->from] += most;
        t->most[u->to] -= most;
        if (p == 0 || u[-1].to < u->from)
            note_change(t, u->from, NULL, u->bytes, dom);
        note_change(t, u->to, u->bytes, touches ? next->bytes : NULL, dom);
    }
}

/* A step is left out when the one before or behind it always holds as much
 * with as little room, or when nothing can fill it. */
static void choose_steps(times *t)
{
    for (int32_t at = 1; at < t->n; at++) {
        t->most[at] += t->most[at - 1];
        t->up[at] |= t->room[at] < t->room[at - 1];
        t->down[at] |= t->room[at] > t->room[at - 1];
    }
    for (int32_t at = 0; at < t->n; at++) {
        const bool by_next = at + 1 < t->n && !t->down[at + 1];
        const bool by_last = at > 0 && !t->up[at] && t->down[at];
        const bool kept = !by_next && !by_last && t->most[at] > t->room[at];
        t->row[at + 1] = t->row[at] + kept;
        if (kept) {
            t->k->origin[t->k->n_steps] = at;
            t->k->room[t->k->n_steps++] = t->room[at];
        }
    }
}

static void pack_pieces(times *t)
{
    search_kernel *k = t->k;
    int32_t n = 0;
    for (int32_t i = 0; i < k->n; i++)
        n += k->cfn->usage[k->node[i]].n;
    k->pieces = fs_new(k->arena, search_piece, n);
    k->first_piece = fs_new(k->arena, int32_t, k->n + 1);
    for (int32_t i = 0, at = 0; i < k->n; i++) {
        const search_usages *list = &k->cfn->usage[k->node[i]];
        for (int32_t p = 0; p < list->n; p++) {
            const search_usage *u = &list->at[p];
            if (t->row[u->from] < t->row[u->to])
                k->pieces[at++] =
                    (search_piece){t->row[u->from], t->row[u->to], u->bytes};
        }
        k->first_piece[i + 1] = at;
    }
}

static fs_status pack_time(search_kernel *k, int64_t limit)
{
    const search_cfn *cfn = k->cfn;
    fs_arena *scratch = fs_arena_create();
    times t = {.k = k, .n = search_usage_steps(cfn)};
    fs_status status = FS_OK;
    t.room = fs_new(scratch, int64_t, t.n);
    t.most = fs_new(scratch, int64_t, t.n + 1);
    t.up = fs_new(scratch, bool, t.n + 1);
    t.down = fs_new(scratch, bool, t.n + 1);
    t.row = fs_new(scratch, int32_t, t.n + 1);
    for (int32_t at = 0; at < t.n; at++)
        t.room[at] = limit;
    for (int32_t h = 0; h < cfn->held.n; h++)
        for (int32_t at = cfn->held.at[h].from; at < cfn->held.at[h].to; at++)
            t.room[at] -= cfn->held.at[h].bytes[0];
    for (int32_t at = 0; at < t.n; at++)
        if (t.room[at] < 0)
            status = FS_NO;
    for (int32_t i = 0; i < k->n; i++)
        note_node(&t, &cfn->usage[k->node[i]], k->dom[i]);
    k->room = fs_new(k->arena, int64_t, t.n);
    k->origin = fs_new(k->arena, int32_t, t.n);
    choose_steps(&t);
    pack_pieces(&t);
    fs_arena_destroy(scratch);
    return status;
}

fs_status search_kernel_new(const search_cfn *cfn, int64_t limit,
                            fs_arena *arena, search_kernel **out)
{
    search_kernel *k = fs_new(arena, search_kernel, 1);
    k->arena = arena;
    k->cfn = cfn;
    k->offset = cfn->offset;
    k->unit = limit > 0 ? (double)limit : 1;
    int32_t *number = fs_new(arena, int32_t, cfn->n);
    pack_nodes(k, number);
    pack_links(k, number);
    if (cfn->usage)
        FS_TRY(pack_time(k, limit));
    else
        k->first_piece = fs_new(arena, int32_t, k->n + 1);
    k->usage = fs_new(arena, int64_t, k->n_steps + 1);
    k->has_row = fs_new(arena, bool, k->n_steps);
    *out = k;
    return FS_OK;
}

/* ---- choices ---- */

double search_kernel_cost(const search_kernel *k, const int32_t *at)
{
    double cost = k->offset;
    for (int32_t i = 0; i < k->n; i++)
        cost += k->unary[k->first[i] + at[i]];
    for (int32_t e = 0; e < k->n_links; e++) {
        const search_link *link = &k->links[e];
        cost +=
            link->cost[(int64_t)at[link->u] * k->dom[link->v] + at[link->v]];
    }
    return cost;
}

static void add_row(search_kernel *k, int32_t step)
{
    search_row row = {.step = step,
                      .load = fs_new(k->arena, double, k->n_values),
                      .room = (double)k->room[step] / k->unit};
    for (int32_t i = 0; i < k->n; i++)
        for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
            const search_piece *piece = &k->pieces[p];
            if (step < piece->from || step >= piece->to)
                continue;
            for (int32_t s = 0; s < k->dom[i]; s++)
                row.load[k->first[i] + s] = (double)piece->bytes[s] / k->unit;
        }
    k->has_row[step] = true;
    fs_push(k->arena, &k->rows, row);
}

static void sum_usage(search_kernel *k, const int32_t *at)
{
    int64_t *usage = k->usage;
    memset(usage, 0, (size_t)(k->n_steps + 1) * sizeof *usage);
    for (int32_t i = 0; i < k->n; i++)
        for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
            usage[k->pieces[p].from] += k->pieces[p].bytes[at[i]];
            usage[k->pieces[p].to] -= k->pieces[p].bytes[at[i]];
        }
    for (int32_t t = 0; t < k->n_steps; t++)
        usage[t + 1] += usage[t];
    k->steps += k->n_steps + k->first_piece[k->n];
}

/* The highest of each stretch of steps that are over; then the highest of
 * these, as many as are wanted. */
double search_kernel_over(search_kernel *k, const int32_t *at, int32_t most)
{
    sum_usage(k, at);
    int64_t over = INT64_MIN;
    for (int32_t t = 0; t < k->n_steps; t++) {
        const int64_t o = k->usage[t] - k->room[t];
        over = o > over ? o : over;
    }
    for (int32_t n = 0; over > 0 && n < most; n++) {
        int32_t best = -1;
        int64_t high = 0;
        for (int32_t t = 0, top = -1; t < k->n_steps; t++) {
            const int64_t o = k->usage[t] - k->room[t];
            if (o <= 0) {
                top = -1;
                continue;
            }
            if (top < 0 || o > k->usage[top] - k->room[top])
                top = t;
            if (!k->has_row[t] && o > high) {
                high = o;
                best = t;
            }
        }
        if (best < 0)
            break;
        add_row(k, best);
    }
    return over == INT64_MIN ? -1 : (double)over / k->unit;
}

int32_t search_kernel_step(const search_kernel *k, int32_t origin)
{
    int32_t low = 0, high = k->n_steps - 1;
    while (low < high) {
        const int32_t mid = (low + high) / 2;
        if (k->origin[mid] < origin)
            low = mid + 1;
        else
            high = mid;
    }
    return high < 0 ? -1 : low;
}

int32_t search_kernel_row(search_kernel *k, int32_t step)
{
    if (!k->has_row[step])
        add_row(k, step);
    int32_t r = 0;
    while (k->rows.at[r].step != step)
        r++;
    return r;
}

void search_kernel_loads(const search_kernel *k, const int32_t *at,
                         double *over)
{
    for (int32_t r = 0; r < k->rows.n; r++) {
        const search_row *row = &k->rows.at[r];
        over[r] = -row->room;
        for (int32_t i = 0; i < k->n; i++)
            over[r] += row->load[k->first[i] + at[i]];
    }
}

void search_kernel_finish(const search_kernel *k, const int32_t *at,
                          int32_t *value)
{
    for (int32_t i = 0; i < k->n; i++)
        value[k->node[i]] = k->cfn->value[k->node[i]][at[i]];
    search_cfn_finish(k->cfn, value);
}
