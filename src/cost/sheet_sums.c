/* The bytes of programs: a sum over a strategy's different contents. */
#include "config.h"
#include "cost/sheet_parts.h"

#include <string.h>

/* ---- shapes by contents ---- */

typedef struct summing {
    sheet_lists *lists;
    sheet_sums *out;
    fs_arena *scratch;
    int32_t *of;            /* [contents] their first group of this task, */
    int32_t begin;          /* which begin here; before: none yet */
    FS_VEC(int32_t) others; /* [groups] the next of the content */
} summing;

static void add_group(summing *s, int32_t content, int32_t holding, int32_t n)
{
    sheet_sums *out = s->out;
    const bool met = s->of[content] >= s->begin;
    int32_t at = met ? s->of[content] : -1;
    while (at >= 0 && out->groups.at[at].holding != holding)
        at = s->others.at[at];
    if (at >= 0) {
        out->groups.at[at].n += n;
        return;
    }
    fs_push(s->scratch, &s->others, met ? s->of[content] : -1);
    s->of[content] = out->groups.n;
    fs_push(s->lists->arena, &out->groups, (sheet_group){content, holding, n});
}

static void add_held(summing *s, const cost_holding *holdings,
                     const sheet_held *held)
{
    const sheet_lists *lists = s->lists;
    const int32_t holding = lists->anew[held->edge] ? held->anew : held->kept;
    const int32_t content =
        lists->of_edge[holdings[holding].arrives][held->edge];
    if (content >= 0)
        add_group(s, content, holding, 1);
}

static void sum_task(summing *s, const sheet_shape *of,
                     const cost_holding *holdings, int32_t k)
{
    const sheet_task none = {0}, *at = &of->tasks.at[k],
                     *before = k > 0 ? at - 1 : &none;
    s->begin = s->out->groups.n;
    for (int32_t i = before->end_stock; i < at->end_stock; i++) {
        const sheet_stock *stock = &of->stocks.at[i];
        add_group(s, s->lists->of_node[stock->node], -1, stock->copies);
    }
    for (int32_t e = before->end_held; e < at->end_held; e++)
        add_held(s, holdings, &of->held.at[e]);
    fs_push(s->lists->arena, &s->out->ends, s->out->groups.n);
}

static const sheet_sums *sums_of(sheet_lists *lists, const cost_fold *home,
                                 const sheet_program *program)
{
    const sheet_shape *of = &home->shapes.at[program->shape];
    while (lists->sums.n <= program->shape)
        fs_push(lists->arena, &lists->sums, (sheet_sums){0});
    sheet_sums *out = &lists->sums.at[program->shape];
    if (out->made)
        return out;
    fs_arena *scratch = fs_arena_create();
    summing s = {.lists = lists,
                 .out = out,
                 .scratch = scratch,
                 .of = fs_new(scratch, int32_t, lists->contents.n)};
    memset(s.of, 0xff, (size_t)lists->contents.n * sizeof *s.of);
    for (int32_t k = 0; k < of->tasks.n; k++)
        sum_task(&s, of, program->holdings.at, k);
    out->made = true;
    fs_arena_destroy(scratch);
    return out;
}

/* ---- their bytes on a mesh ---- */

static int64_t made_bytes(const cost_sheet *sheet, int32_t v)
{
    const ir_graph *graph = sheet->fold->graph;
    const ir_node *node = &graph->nodes.at[v];
    int64_t bytes = 0;
    for (int32_t o = 0; o < node->n_out; o++)
        bytes += cost_aligned_bytes(&graph->tensors.at[node->out[o]],
                                    &sheet->strategy.sig[v].out[o],
                                    &sheet->instance.mesh);
    return bytes;
}

static void find_sizes(const cost_sheet *sheet, int32_t content, bool scratch)
{
    const sheet_content *of = &sheet->lists->contents.at[content];
    const cost_sum sum = {.graph = sheet->fold->graph,
                          .strategy = &sheet->instance.strategy};
    sheet_sizes *sizes = &sheet->instance.sizes[content];
    cost_edge edge;
    if (of->slot < 0)
        sizes->of.first = made_bytes(sheet, of->node);
    else if (cost_sum_edge_at(&sum, of->node, of->slot, &edge))
        sizes->of = cost_sizes_of(&edge.ends, edge.path, of->arrives, scratch);
    sizes->known = true;
    sizes->scratch = scratch;
}

static inline const cost_sizes *sizes_at(const cost_sheet *sheet,
                                         int32_t content, bool scratch)
{
    const sheet_sizes *sizes = &sheet->instance.sizes[content];
    if (!sizes->known || sizes->scratch < scratch)
        find_sizes(sheet, content, scratch);
    return &sizes->of;
}

/* The edge leaves from where it is boxed. */
static int64_t scratch_bytes(const cost_sheet *sheet, int32_t edge)
{
    const int32_t content = edge < 0 ? -1 : sheet->lists->of_edge[false][edge];
    return content < 0 ? 0 : sizes_at(sheet, content, true)->scratch;
}

static int64_t task_bytes(const cost_sheet *sheet, const sheet_sums *of,
                          const cost_holding *holdings, int32_t k)
{
    int64_t bytes = 0;
    for (int32_t i = k > 0 ? of->ends.at[k - 1] : 0; i < of->ends.at[k]; i++) {
        const sheet_group *group = &of->groups.at[i];
        const cost_sizes *sizes = sizes_at(sheet, group->content, false);
        bytes += group->n *
                 (group->holding < 0
                      ? sizes->first
                      : cost_held_bytes(&holdings[group->holding], sizes));
    }
    return bytes;
}

static int64_t find_peak(const cost_sheet *sheet, int32_t number)
{
    const cost_fold *home = sheet->fold->home;
    const sheet_program *program = &home->programs.at[number];
    const sheet_shape *of = &home->shapes.at[program->shape];
    const sheet_sums *sums = sums_of(sheet->lists, home, program);
    int64_t bytes = 0, peak = 0;
    for (int32_t k = 0, task = -1; k < of->moments.n; k++) {
        const sheet_moment *at = &of->moments.at[k];
        if (at->task != task)
            bytes = task_bytes(sheet, sums, program->holdings.at, at->task);
        task = at->task;
        const int64_t all = bytes + scratch_bytes(sheet, at->edge);
        peak = all > peak ? all : peak;
    }
    return peak;
}

int64_t sheet_peak(cost_sheet *sheet, int32_t program)
{
    sheet_instance *on = &sheet->instance;
    const int32_t n = 2 * sheet->fold->home->programs.n;
    if (program >= on->n_peaks) {
        on->peaks = fs_regrow(sheet->arena, on->peaks, (size_t)on->n_peaks,
                              (size_t)n, sizeof *on->peaks);
        memset(on->peaks + on->n_peaks, 0xff,
               (size_t)(n - on->n_peaks) * sizeof *on->peaks);
        on->n_peaks = n;
    }
    if (on->peaks[program] < 0)
        on->peaks[program] = find_peak(sheet, program);
    return on->peaks[program];
}
