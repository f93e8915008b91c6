#include "config.h"
#include "search/engine/kernel.h"

#include "base/intern.h"
#include "search/engine/binding.h"

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

static void pack_pieces(search_kernel *k, const int32_t *before)
{
    int32_t n = 0;
    for (int32_t i = 0; i < k->n; i++)
        n += k->cfn->usage[k->node[i]].n;
    k->pieces = fs_new(k->arena, search_piece, n);
    k->first_piece = fs_new(k->arena, int32_t, k->n + 1);
    for (int32_t i = 0, at = 0; i < k->n; i++) {
        const search_usages *list = &k->cfn->usage[k->node[i]];
        for (int32_t p = 0; p < list->n; p++) {
            const search_usage *u = &list->at[p];
            if (before[u->from] < before[u->to])
                k->pieces[at++] =
                    (search_piece){before[u->from], before[u->to], u->bytes};
        }
        k->first_piece[i + 1] = at;
    }
}

static fs_status pack_time(search_kernel *k, int64_t limit)
{
    fs_arena *scratch = fs_arena_create();
    const search_binding b = search_binding_find(k->cfn, limit, scratch);
    k->room = fs_new(k->arena, int64_t, b.before[b.n]);
    k->origin = fs_new(k->arena, int32_t, b.before[b.n]);
    for (int32_t t = 0; t < b.n; t++)
        if (b.before[t + 1] > b.before[t]) {
            k->origin[k->n_steps] = t;
            k->room[k->n_steps++] = b.room[t];
        }
    pack_pieces(k, b.before);
    fs_arena_destroy(scratch);
    return b.full ? FS_NO : FS_OK;
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
