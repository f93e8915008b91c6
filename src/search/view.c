/* Folding a placed graph: equal layers of a stage, equal stages in a row. */
#include "config.h"
#include "search/view.h"

#include "ir/compact.h"
#include "ir/recompute.h"

#include <string.h>

/* Of the copies of a run that lie wholly in a stage: how many there are, and
 * are meant. */
typedef struct stretch {
    int32_t first, n, meant;
} stretch;

typedef struct folder {
    const ir_layers *layers;
    const int32_t *stage_of;
    int32_t n_stages, n_runs;
    fs_arena *arena; /* of the result */
    fs_arena *scratch;
    int32_t **home;    /* [run][copy] its stage; -1: lies in several */
    stretch *stretch;  /* [stage * n_runs + run] */
    bool *plain;       /* [stage] has whole copies and nothing else */
    int32_t *explicit; /* [stage] place among the stages kept, or -1 */
    int32_t *shown_by; /* [stage] the stage that stands for it */
    search_fold *out;
} folder;

static int32_t n_nodes(const folder *f)
{
    return f->layers->graph->nodes.n;
}

static stretch *stretch_at(const folder *f, int32_t stage, int32_t run)
{
    return &f->stretch[stage * f->n_runs + run];
}

/* ---- what stages have ---- */

static void find_homes(folder *f)
{
    const ir_layers *l = f->layers;
    f->home = fs_new(f->scratch, int32_t *, f->n_runs);
    for (int32_t r = 0; r < f->n_runs; r++) {
        const ir_layer_run *run = &l->runs.at[r];
        f->home[r] = fs_new(f->scratch, int32_t, run->copies);
        for (int32_t c = 0; c < run->copies; c++) {
            const int32_t *node = &run->node[c * run->length];
            f->home[r][c] = f->stage_of[node[0]];
            for (int32_t p = 1; p < run->length; p++)
                if (f->stage_of[node[p]] != f->home[r][c]) {
                    f->home[r][c] = -1;
                    break;
                }
        }
    }
}

static void find_stretches(folder *f)
{
    f->stretch =
        fs_new(f->scratch, stretch, (size_t)f->n_stages * (size_t)f->n_runs);
    for (int32_t r = 0; r < f->n_runs; r++)
        for (int32_t c = 0; c < f->layers->runs.at[r].copies; c++) {
            if (f->home[r][c] < 0)
                continue;
            stretch *s = stretch_at(f, f->home[r][c], r);
            if (s->n++ == 0)
                s->first = c;
            s->meant += ir_copy_times(f->layers, r, c);
        }
}

static void find_plain(folder *f)
{
    const ir_layers *l = f->layers;
    f->plain = fs_new(f->scratch, bool, f->n_stages);
    memset(f->plain, true, (size_t)f->n_stages);
    for (int32_t v = 0; v < n_nodes(f); v++)
        if (l->run[v] < 0 || f->home[l->run[v]][l->copy[v]] < 0)
            f->plain[f->stage_of[v]] = false;
    /* A last copy is kept as it is. */
    for (int32_t r = 0; r < f->n_runs; r++) {
        int32_t last = f->home[r][l->runs.at[r].copies - 1];
        if (last >= 0)
            f->plain[last] = false;
    }
}

static bool alike(const folder *f, int32_t a, int32_t b)
{
    if (!f->plain[a] || !f->plain[b])
        return false;
    for (int32_t r = 0; r < f->n_runs; r++)
        if (stretch_at(f, a, r)->meant != stretch_at(f, b, r)->meant)
            return false;
    return true;
}

/* ---- which are kept ---- */

static void add_stage(folder *f, int32_t stage, int32_t last)
{
    search_fold *out = f->out;
    const int32_t at = out->n_stages++;
    f->explicit[stage] = at;
    out->stage[at] = stage;
    out->last[at] = last;
    out->like[at] = last - stage + 1;
    for (int32_t s = stage; s <= last; s++)
        f->shown_by[s] = stage;
}

static void choose_stages(folder *f)
{
    f->explicit = fs_new(f->scratch, int32_t, f->n_stages);
    f->shown_by = fs_new(f->scratch, int32_t, f->n_stages);
    memset(f->explicit, 0xff, (size_t)f->n_stages * sizeof *f->explicit);
    for (int32_t s = 0; s < f->n_stages;) {
        int32_t end = s + 1;
        while (end < f->n_stages && alike(f, s, end))
            end++;
        add_stage(f, s, s);
        if (end - s > 1)
            add_stage(f, s + 1, end - 1);
        s = end;
    }
}

/* The copy of a stretch that stands for number k of one that means as many. */
static int32_t shown_in(stretch s, stretch of, int32_t k)
{
    if (s.meant < 4 || k == 0)
        return s.first + k;
    return k == of.n - 1 ? s.first + s.n - 1 : s.first + 1;
}

static bool **choose_copies(const folder *f)
{
    const ir_layers *l = f->layers;
    bool **keep = fs_new(f->scratch, bool *, f->n_runs);
    for (int32_t r = 0; r < f->n_runs; r++) {
        const int32_t n = l->runs.at[r].copies;
        keep[r] = fs_new(f->scratch, bool, n);
        for (int32_t c = 0; c < n; c++)
            keep[r][c] = f->home[r][c] < 0;
        for (int32_t i = 0; i < f->out->n_stages; i++) {
            const stretch s = *stretch_at(f, f->out->stage[i], r);
            for (int32_t k = 0; k < s.n; k++)
                keep[r][shown_in(s, s, k)] = true;
        }
    }
    return keep;
}

/* ---- what they stand for ---- */

static void describe_node(const folder *f, int32_t i)
{
    const ir_layers *l = f->layers;
    search_fold *out = f->out;
    const int32_t v = out->folded.from[i], r = l->run[v];
    out->stage_of[i] = f->explicit[f->stage_of[v]];
    out->times[i] = 1;
    out->equal[i] = i;
    if (r < 0 || f->home[r][l->copy[v]] < 0)
        return;
    const stretch s = *stretch_at(f, f->stage_of[v], r);
    const ir_layer_run *run = &l->runs.at[r];
    if (s.meant >= 4 && l->copy[v] == s.first + 1)
        out->times[i] = s.meant - 2;
    out->equal[i] =
        out->folded.rep[run->node[s.first * run->length + l->position[v]]];
}

static int32_t rep_of(const folder *f, int32_t v)
{
    const ir_layers *l = f->layers;
    const int32_t r = l->run[v];
    if (r < 0 || f->home[r][l->copy[v]] < 0)
        return f->out->folded.rep[v];
    const int32_t stage = f->stage_of[v];
    const ir_layer_run *run = &l->runs.at[r];
    const stretch own = *stretch_at(f, stage, r);
    const stretch s = *stretch_at(f, f->shown_by[stage], r);
    const int32_t shown = shown_in(s, own, l->copy[v] - own.first);
    return f->out->folded.rep[run->node[shown * run->length + l->position[v]]];
}

static void describe(const folder *f)
{
    search_fold *out = f->out;
    const int32_t n = out->folded.graph->nodes.n;
    out->stage_of = fs_new(f->arena, int32_t, n);
    out->times = fs_new(f->arena, int32_t, n);
    out->equal = fs_new(f->arena, int32_t, n);
    out->rep = fs_new(f->arena, int32_t, n_nodes(f));
    for (int32_t i = 0; i < n; i++)
        describe_node(f, i);
    for (int32_t v = 0; v < n_nodes(f); v++)
        out->rep[v] = rep_of(f, v);
}

/* Does each copy that stands for more lie in one stage with those beside it? */
static bool are_groups_whole(const folder *f)
{
    for (int32_t r = 0; r < f->n_runs; r++)
        for (int32_t c = 1; c + 1 < f->layers->runs.at[r].copies; c++)
            if (ir_copy_times(f->layers, r, c) > 1 &&
                (f->home[r][c] < 0 || f->home[r][c - 1] != f->home[r][c] ||
                 f->home[r][c + 1] != f->home[r][c]))
                return false;
    return true;
}

static bool fold(folder *f)
{
    fs_err err = {0};
    find_homes(f);
    if (!are_groups_whole(f))
        return false;
    find_stretches(f);
    find_plain(f);
    choose_stages(f);
    bool **keep = choose_copies(f);
    if (ir_fold(f->layers, (const bool *const *)keep, f->arena, &err,
                &f->out->folded) != FS_OK)
        return false;
    describe(f);
    ir_graph *graph = f->out->folded.graph;
    for (int32_t i = 0; i < graph->nodes.n; i++)
        graph->nodes.at[i].more = 0; /* out->times says */
    graph->meant = 0;
    return graph->nodes.n < n_nodes(f) || ir_is_compact(f->layers->graph);
}

bool search_fold_find(const ir_layers *layers, const int32_t *stage_of,
                      int32_t n_stages, fs_arena *arena, search_fold *out)
{
    folder f = {.layers = layers,
                .stage_of = stage_of,
                .n_stages = n_stages,
                .n_runs = layers->runs.n,
                .arena = arena,
                .scratch = fs_arena_create(),
                .out = out};
    *out = (search_fold){.layers = layers,
                         .whole_stage = stage_of,
                         .n_whole = n_stages,
                         .stage = fs_new(arena, int32_t, n_stages),
                         .last = fs_new(arena, int32_t, n_stages),
                         .like = fs_new(arena, int32_t, n_stages)};
    const bool less = layers->runs.n > 0 && fold(&f);
    fs_arena_destroy(f.scratch);
    return less;
}

/* ---- bound to stages ---- */

/* Nodes of a graph that was bound to its stages, as nodes of the one before:
 * names are the same, in the same order. */
static int32_t *nodes_before(const ir_graph *before, const ir_graph *bound,
                             fs_arena *arena)
{
    int32_t *at = fs_new(arena, int32_t, bound->nodes.n), v = 0;
    for (int32_t i = 0; i < bound->nodes.n; i++, v++) {
        while (strcmp(before->nodes.at[v].name, bound->nodes.at[i].name) != 0)
            v++;
        at[i] = v;
    }
    return at;
}

/* Binding drops nodes at the rims of stages: others of their position stand for
 * them then, as they do for each other. */
static int32_t *nodes_behind(const search_fold *fold, const int32_t *before,
                             int32_t n, fs_arena *arena)
{
    const int32_t all = fold->folded.graph->nodes.n;
    int32_t *behind = fs_new(arena, int32_t, all);
    int32_t *any = fs_new(arena, int32_t, all);
    memset(behind, 0xff, (size_t)all * sizeof *behind);
    memset(any, 0xff, (size_t)all * sizeof *any);
    for (int32_t i = 0; i < n; i++) {
        behind[before[i]] = i;
        any[fold->equal[before[i]]] = i;
    }
    for (int32_t v = 0; v < all; v++)
        if (behind[v] < 0)
            behind[v] = any[fold->equal[v]];
    return behind;
}

void search_view_make(const search_fold *fold, fs_arena *arena,
                      search_view *out)
{
    const ir_graph *folded = fold->folded.graph;
    const int32_t n_whole = fold->layers->graph->nodes.n;
    ir_graph *graph = ir_graph_copy(folded, arena);
    *out = (search_view){.fold = fold, .graph = graph};
    out->stage_of = fs_memdup(arena, fold->stage_of,
                              (size_t)folded->nodes.n * sizeof(int32_t));
    ir_recompute_bind(graph, out->stage_of);
    const int32_t n = graph->nodes.n;
    const int32_t *before = nodes_before(folded, graph, arena);
    const int32_t *behind = nodes_behind(fold, before, n, arena);
    int32_t *leader = fs_new(arena, int32_t, folded->nodes.n);
    memset(leader, 0xff, (size_t)folded->nodes.n * sizeof *leader);
    out->times = fs_new(arena, int32_t, n);
    out->equal = fs_new(arena, int32_t, n);
    out->rep = fs_new(arena, int32_t, n_whole);
    out->run = fs_new(arena, int32_t, n);
    out->copy = fs_new(arena, int32_t, n);
    out->position = fs_new(arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t *first = &leader[fold->equal[before[i]]];
        *first = *first < 0 ? i : *first;
        out->equal[i] = *first;
        out->times[i] = fold->times[before[i]];
        const int32_t v = fold->folded.from[before[i]];
        out->run[i] = fold->layers->run[v];
        out->copy[i] = fold->layers->copy[v];
        out->position[i] = fold->layers->position[v];
    }
    for (int32_t v = 0; v < n_whole; v++)
        out->rep[v] = behind[fold->rep[v]];
}

int32_t *search_view_before(const search_view *view, const ir_graph *bound,
                            fs_arena *arena)
{
    return nodes_before(view->fold->layers->graph, bound, arena);
}

int32_t *search_view_nodes(const search_view *view, const ir_graph *bound,
                           fs_arena *arena)
{
    const int32_t *before = search_view_before(view, bound, arena);
    int32_t *rep = fs_new(arena, int32_t, bound->nodes.n);
    for (int32_t i = 0; i < bound->nodes.n; i++)
        rep[i] = view->rep[before[i]];
    return rep;
}
