/* Folds, sheets and their prices: seconds. */
#include "config.h"
#include "cost/sheet_parts.h"

#include "base/sum.h"
#include "ir/layers.h"
#include "plan/lower.h"

#include <math.h>
#include <string.h>

/* ---- folds ---- */

/* Of a run: the stage of a copy; -1: it lies in several. */
static int32_t home_of(const cost_fold *fold, const ir_layer_run *run,
                       int32_t copy)
{
    const int32_t *node = &run->node[copy * run->length];
    for (int32_t p = 1; p < run->length; p++)
        if (fold->stage_of[node[p]] != fold->stage_of[node[0]])
            return -1;
    return fold->stage_of[node[0]];
}

/* Copies of a stage, first to last: equal to the first, the second any number.
 */
static fs_status stand(cost_fold *fold, const ir_layer_run *run, int32_t number,
                       fs_err *err)
{
    int32_t first = 0, in[COST_SHEET_STAGES] = {0};
    for (int32_t c = 0; c < run->copies; c++) {
        const int32_t stage = home_of(fold, run, c);
        if (stage < 0)
            return fs_fail(err, FS_INVALID, "a layer lies in several stages");
        first = in[stage] == 0 ? c : first;
        for (int32_t p = 0; p < run->length; p++) {
            const int32_t v = run->node[c * run->length + p];
            fold->run[v] = number;
            fold->equal[v] = run->node[first * run->length + p];
            fold->copy[v] = in[stage];
        }
        in[stage]++;
    }
    fold->layers = in[0];
    for (int32_t i = 0; i < fold->n_stages; i++)
        if (in[i] < 3 || in[i] != in[0])
            return fs_fail(err, FS_INVALID,
                           "stages have %d layers and %d: want three at least, "
                           "and equally many",
                           in[0], in[i]);
    return FS_OK;
}

/* Of the middle stage all lies in layers. */
static fs_status check_plain(const cost_fold *fold, fs_err *err)
{
    for (int32_t v = 0; v < fold->graph->nodes.n; v++)
        if (fold->n_stages == 3 && fold->stage_of[v] == 1 && fold->run[v] < 0)
            return fs_fail(err, FS_INVALID,
                           "node '%s' is of no layer, and of a stage between",
                           fold->graph->nodes.at[v].name);
    return FS_OK;
}

static bool made_anywhere(const ir_node *node)
{
    return node->op == IR_OP_input || node->op == IR_OP_constant;
}

/* What several other stages read would come from further away than it does
 * here. */
static fs_status check_reads(const cost_fold *fold, fs_err *err)
{
    const ir_graph *graph = fold->graph;
    fs_arena *scratch = fs_arena_create();
    int32_t *reader = fs_new(scratch, int32_t, graph->tensors.n);
    fs_status status = FS_OK;
    for (int32_t v = 0; v < graph->nodes.n && status == FS_OK; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            const int32_t x = graph->nodes.at[v].in[k],
                          made = graph->tensors.at[x].producer;
            const int32_t to = fold->stage_of[v];
            if (made_anywhere(&graph->nodes.at[made]) ||
                fold->stage_of[made] == to)
                continue;
            if (reader[x] && reader[x] != 1 + to)
                status = fs_fail(err, FS_INVALID,
                                 "tensor '%s' is read on several other stages",
                                 graph->tensors.at[x].name);
            reader[x] = 1 + to;
        }
    fs_arena_destroy(scratch);
    return status;
}

static const int32_t *first_edges(const ir_graph *graph, fs_arena *arena)
{
    int32_t *first = fs_new(arena, int32_t, graph->nodes.n + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        first[v + 1] = first[v] + (node->op == IR_OP_variable ? 1 : node->n_in);
    }
    return first;
}

/* Where devices outnumber cores what takes how long hangs on stages and
 * micro-batches. */
static fs_status check_model(const cost_model *model, fs_arena *arena,
                             fs_err *err)
{
    if (cost_cluster(model)->n_groups > 1)
        return fs_fail(err, FS_INVALID, "the devices are of several kinds");
    if (cost_model_for(model, 2, 1, arena) != model)
        return fs_fail(err, FS_INVALID, "the devices share their node's cores");
    return FS_OK;
}

/* Copies of what changes once per step, for who runs more often. */
static bool *find_anew(const cost_fold *fold)
{
    const ir_graph *graph = fold->graph;
    bool *anew =
        fs_new(fold->arena, bool, fold->first_edge[graph->nodes.n] + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++)
            anew[fold->first_edge[v] + k] =
                plan_tensor_per_step(graph, graph->nodes.at[v].in[k]) &&
                !cost_node_per_step(graph, v);
    return anew;
}

fs_status cost_fold_create(const cost_model *model, cost_pipes *pipes,
                           const cost_folding *of, fs_arena *arena, fs_err *err,
                           cost_fold **out)
{
    const int32_t n = of->graph->nodes.n;
    cost_fold *fold = fs_new(arena, cost_fold, 1);
    ir_layers layers;
    FS_ASSERT(of->n_stages >= 1 && of->n_stages <= COST_SHEET_STAGES);
    *fold = (cost_fold){.model = model,
                        .graph = of->graph,
                        .arena = arena,
                        .n_stages = of->n_stages,
                        .stage_of = of->stage_of,
                        .run = fs_new(arena, int32_t, n),
                        .equal = fs_new(arena, int32_t, n),
                        .copy = fs_new(arena, int32_t, n),
                        .first_edge = first_edges(of->graph, arena),
                        .pipes_arena = pipes->arena,
                        .pipes = &pipes->of[of->n_stages - 1],
                        .program_of = {.known = {.arena = arena}},
                        .moments_of = {.known = {.arena = arena}},
                        .made_of = {.known = {.arena = arena}},
                        .shape_of = {.known = {.arena = arena}},
                        .term_of = {.known = {.arena = arena}},
                        .mesh_of = {.known = {.arena = arena}},
                        .kinds_of = {.known = {.arena = arena}},
                        .home = fold};
    fold->anew = find_anew(fold);
    for (int32_t v = 0; v < n; v++) {
        fold->run[v] = fold->copy[v] = -1;
        fold->equal[v] = v;
    }
    FS_TRY(check_model(model, arena, err));
    ir_find_layers(of->graph, arena, &layers);
    if (layers.runs.n != 1)
        return fs_fail(err, FS_INVALID, "%d runs of equal layers: want one",
                       layers.runs.n);
    FS_TRY(stand(fold, &layers.runs.at[0], 0, err));
    FS_TRY(check_plain(fold, err));
    FS_TRY(check_reads(fold, err));
    fold->kinds = sheet_kinds(fold);
    *out = fold;
    return FS_OK;
}

/* Node by node, but for sizes. */
static bool alike(const ir_graph *a, const ir_graph *b)
{
    bool same = a->nodes.n == b->nodes.n && a->tensors.n == b->tensors.n;
    for (int32_t v = 0; same && v < a->nodes.n; v++) {
        const ir_node *x = &a->nodes.at[v], *y = &b->nodes.at[v];
        same = x->op == y->op && x->phase == y->phase && x->n_in == y->n_in &&
               x->n_out == y->n_out &&
               memcmp(x->in, y->in, (size_t)x->n_in * sizeof *x->in) == 0 &&
               memcmp(x->out, y->out, (size_t)x->n_out * sizeof *x->out) == 0;
    }
    return same;
}

fs_status cost_fold_like(const cost_fold *fold, const ir_graph *graph,
                         fs_arena *arena, fs_err *err, cost_fold **out)
{
    if (!alike(fold->graph, graph))
        return fs_fail(err, FS_INVALID, "the graphs differ by more than sizes");
    cost_fold *made = fs_new(arena, cost_fold, 1);
    *made = *fold;
    made->graph = graph;
    made->arena = arena;
    made->program_of = (cost_numbers){.known = {.arena = arena}};
    made->moments_of = (cost_numbers){.known = {.arena = arena}};
    memset(&made->moments, 0, sizeof made->moments);
    memset(&made->asked, 0, sizeof made->asked);
    made->mesh_of = (cost_numbers){.known = {.arena = arena}};
    memset(&made->seconds, 0, sizeof made->seconds);
    made->of = ++made->home->n_alike;
    made->kinds = sheet_kinds(made);
    *out = made;
    return FS_OK;
}

/* ---- sheets ---- */

/* What a layer hands on to another one of its stage has to lie as that of the
 * first does: then any number of them can stand between. */
static bool hands_on_alike(const cost_fold *fold, const plan_strategy *s,
                           int32_t v, int32_t slot)
{
    const int32_t x = plan_edge_tensor(fold->graph, s, v, slot);
    if (x < 0)
        return true;
    const ir_tensor *tensor = &fold->graph->tensors.at[x];
    const int32_t u = tensor->producer, first = fold->equal[u];
    if (fold->stage_of[u] != fold->stage_of[v] || fold->copy[u] < 0 ||
        fold->copy[u] == fold->copy[v])
        return true;
    return ir_nd_sbp_equal(&s->sig[u].out[tensor->slot],
                           &s->sig[first].out[tensor->slot], IR_MAX_MESH);
}

static fs_status check_layers(const cost_fold *fold, const plan_strategy *s,
                              fs_err *err)
{
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            if (!hands_on_alike(fold, s, v, e - s->first_edge[v]))
                return fs_fail(err, FS_INVALID,
                               "what node '%s' reads does not lie as in the "
                               "first layer of its stage",
                               fold->graph->nodes.at[v].name);
    return FS_OK;
}

static fs_status check_strategy(const cost_fold *fold, const plan_strategy *s,
                                fs_err *err)
{
    if (s->n_nodes != fold->graph->nodes.n || s->n_stages != fold->n_stages ||
        memcmp(s->stage_of, fold->stage_of,
               (size_t)s->n_nodes * sizeof *s->stage_of) != 0)
        return fs_fail(err, FS_INVALID, "the strategy is of another fold");
    for (int32_t i = 0; i < s->n_stages; i++)
        if (!plan_same_mesh(&s->stages[i].mesh, &s->stages[0].mesh))
            return fs_fail(err, FS_INVALID, "stages have different meshes");
    return check_layers(fold, s, err);
}

static bool same_path(const plan_boxing *a, const plan_boxing *b)
{
    return a->n == b->n && a->cross == b->cross &&
           (a->sharing > 0) == (b->sharing > 0) &&
           memcmp(a->at, b->at, (size_t)(a->n + 1) * sizeof *a->at) == 0;
}

/* Does it lie as the node of its place in the first layer of its stage, and
 * read alike from its stage? */
static bool is_like(const cost_fold *fold, const plan_strategy *s, int32_t v,
                    int32_t u)
{
    const ir_graph *graph = fold->graph;
    const ir_node *node = &graph->nodes.at[v];
    bool same = memcmp(s->sig[v].in, s->sig[u].in,
                       (size_t)node->n_in * sizeof *s->sig[v].in) == 0 &&
                memcmp(s->sig[v].out, s->sig[u].out,
                       (size_t)node->n_out * sizeof *s->sig[v].out) == 0;
    const int32_t n = s->first_edge[v + 1] - s->first_edge[v];
    for (int32_t k = 0; same && k < n; k++) {
        const int32_t x = plan_edge_tensor(graph, s, v, k),
                      y = plan_edge_tensor(graph, s, u, k);
        same = (x < 0) == (y < 0);
        if (!same || x < 0)
            continue;
        const int32_t a = graph->tensors.at[x].producer,
                      b = graph->tensors.at[y].producer;
        same = s->stage_of[a] == s->stage_of[b] &&
               graph->nodes.at[a].op == graph->nodes.at[b].op &&
               same_path(&s->edge[s->first_edge[v] + k],
                         &s->edge[s->first_edge[u] + k]);
    }
    return same;
}

/* plan_strategy's */
static const int32_t *find_like(const cost_fold *fold, const plan_strategy *s,
                                fs_arena *arena)
{
    int32_t *like = fs_new(arena, int32_t, s->n_nodes);
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const int32_t u = fold->equal[v];
        like[v] = u < v && is_like(fold, s, v, u) ? u : v;
    }
    return like;
}

fs_status cost_sheet_create(cost_fold *fold, const plan_strategy *strategy,
                            fs_arena *arena, fs_err *err, cost_sheet **out)
{
    sheet_lists *known = sheet_known_lists(fold, strategy);
    if (!known)
        FS_TRY(check_strategy(fold, strategy, err));
    cost_sheet *sheet = fs_new(arena, cost_sheet, 1);
    *sheet = (cost_sheet){
        .fold = fold, .strategy = *strategy, .arena = arena, .lists = known};
    if (!known)
        sheet_make_lists(sheet, strategy,
                         find_like(fold, strategy, fold->home->arena));
    sheet->strategy.like = sheet->lists->like;
    sheet->instance.sizes =
        fs_new(arena, sheet_sizes, sheet->lists->contents.n);
    sheet->instance.seconds = fs_new(arena, double, sheet->lists->n_terms);
    sheet->instance.peaks = fs_new(arena, int64_t, 1);
    *out = sheet;
    return FS_OK;
}

/* ---- on a mesh ---- */

static bool fits(const cost_sheet *sheet, int32_t v)
{
    const ir_graph *graph = sheet->fold->graph;
    ir_io io;
    ir_node_io(graph, &graph->nodes.at[v], &io);
    return ir_signature_fits(&graph->nodes.at[v], &io, &sheet->instance.mesh,
                             &sheet->strategy.sig[v]);
}

/* INFINITY: that is none on this mesh. */
static double find_seconds(const cost_sheet *sheet, const cost_term *term)
{
    const cost_sum sum = {.model = sheet->fold->model,
                          .micro = sheet->fold->model,
                          .graph = sheet->fold->graph,
                          .strategy = &sheet->instance.strategy};
    if (term->slot >= 0)
        return cost_sum_edge(&sum, term->node, term->slot);
    return fits(sheet, term->node) ? cost_sum_node(&sum, term->node)
                                   : (double)INFINITY;
}

/* Terms that several of the fold's strategies have are asked for once. */
static sheet_seconds *seconds_on(cost_fold *fold, const ir_mesh *mesh)
{
    int64_t word[IR_WORDS_OF_MESH];
    ir_words key = {0, IR_WORDS_OF_MESH, word};
    bool known;
    ir_put_mesh(&key, mesh);
    const int32_t number = cost_number_of(&fold->mesh_of, &key, &known);
    if (!known)
        fs_push(fold->arena, &fold->seconds, (sheet_seconds){0});
    sheet_seconds *all = &fold->seconds.at[number];
    fs_reserve(fold->arena, all, fold->home->term_of.n);
    while (all->n < fold->home->term_of.n)
        all->at[all->n++] = -1;
    return all;
}

static double term_seconds(const cost_sheet *sheet, const cost_term *term,
                           sheet_seconds *all)
{
    double *at = &all->at[term->number];
    if (*at < 0)
        *at = find_seconds(sheet, term);
    return *at;
}

static void sum_terms(cost_sheet *sheet)
{
    sheet_seconds *all = seconds_on(sheet->fold, &sheet->instance.mesh);
    sheet_instance *on = &sheet->instance;
    double *seconds = on->seconds;
    fs_sum once[2 * COST_SHEET_STAGES] = {{0}},
                    between[2 * COST_SHEET_STAGES] = {{0}};
    on->legal = true;
    for (int32_t k = 0; k < sheet->lists->n_terms && on->legal; k++) {
        seconds[k] = term_seconds(sheet, &sheet->lists->terms[k], all);
        on->legal = isfinite(seconds[k]);
    }
    for (int32_t k = 0; on->legal && k < sheet->lists->counts.n; k++) {
        const sheet_count *c = &sheet->lists->counts.at[k];
        fs_sum_add_times(&once[c->sum], c->once, seconds[c->term]);
        fs_sum_add_times(&between[c->sum], c->between, seconds[c->term]);
    }
    for (int32_t i = 0; i < 2 * COST_SHEET_STAGES; i++) {
        on->once[i] = fs_sum_value(&once[i]);
        on->between[i] = fs_sum_value(&between[i]);
    }
}

/* The one instance that is kept, in its place. */
static void instantiate(cost_sheet *sheet, const ir_mesh *mesh)
{
    sheet_instance *on = &sheet->instance;
    if (on->made && plan_same_mesh(&on->mesh, mesh))
        return;
    on->made = true;
    on->mesh = *mesh;
    on->n_stages = 0;
    on->strategy = sheet->strategy;
    on->strategy.stages = on->stages;
    for (int32_t i = 0; i < sheet->fold->n_stages; i++)
        on->stages[i] = (plan_stage){*mesh, i * ir_mesh_size(mesh)};
    memset(on->sizes, 0, (size_t)sheet->lists->contents.n * sizeof *on->sizes);
    memset(on->peaks, 0xff, (size_t)on->n_peaks * sizeof *on->peaks);
    sum_terms(sheet);
}

/* ---- prices ---- */

static bool same_place(const cost_model *model, const plan_stage *a,
                       const plan_stage *b, const plan_stage *c,
                       const plan_stage *d)
{
    const cost_place x = cost_place_of(model, a, b),
                     y = cost_place_of(model, c, d);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Is each pair of neighbours to each other as the first two are, and the ends
 * as those of the fold? */
static bool places_alike(const cost_fold *fold, const cost_degrees *d)
{
    const cost_model *model = fold->model;
    const int32_t size = ir_mesh_size(&d->mesh), last = d->n_stages - 1;
    const plan_stage first = {d->mesh, 0}, second = {d->mesh, size},
                     third = {d->mesh, 2 * size}, end = {d->mesh, last * size};
    bool alike = true;
    for (int32_t i = 1; alike && i < d->n_stages; i++) {
        const plan_stage a = {d->mesh, (i - 1) * size}, b = {d->mesh, i * size};
        alike = same_place(model, &a, &a, &first, &first) &&
                same_place(model, &b, &b, &first, &first) &&
                same_place(model, &a, &b, &first, &second) &&
                same_place(model, &b, &a, &second, &first);
    }
    if (fold->n_stages == 3)
        alike = alike && same_place(model, &first, &end, &first, &third) &&
                same_place(model, &end, &first, &third, &first);
    return alike;
}

static fs_status check_mesh(const cost_sheet *sheet, const ir_mesh *mesh,
                            fs_err *err)
{
    if (mesh->n != sheet->strategy.stages[0].mesh.n)
        return fs_fail(err, FS_INVALID, "a mesh of %d axes: the sheet's has %d",
                       mesh->n, sheet->strategy.stages[0].mesh.n);
    for (int32_t a = 0; a < mesh->n; a++)
        if (mesh->dim[a] < 2)
            return fs_fail(err, FS_INVALID, "an axis of length %d",
                           mesh->dim[a]);
    return FS_OK;
}

static fs_status check_degrees(const cost_sheet *sheet, const cost_degrees *d,
                               fs_err *err)
{
    const cost_fold *fold = sheet->fold;
    const int32_t n = fold->n_stages;
    FS_TRY(check_mesh(sheet, &d->mesh, err));
    if (n < 3 ? d->n_stages != n : d->n_stages < n)
        return fs_fail(err, FS_INVALID, "%d stages: the fold is of %d%s",
                       d->n_stages, n, n < 3 ? "" : " or more");
    if (d->layers < fold->layers || d->micro_batches < 1)
        return fs_fail(err, FS_INVALID,
                       "%d layers, %d micro-batches: want %d layers or more, "
                       "and one micro-batch",
                       d->layers, d->micro_batches, fold->layers);
    const int32_t most = cost_cluster(fold->model)->n_devices;
    if ((int64_t)d->n_stages * ir_mesh_size(&d->mesh) > most)
        return fs_fail(err, FS_INVALID, "there are %d devices", most);
    return FS_OK;
}

/* Of an instance; what was said of as many stages holds. */
static fs_status check_places(cost_sheet *sheet, const cost_degrees *d,
                              fs_err *err)
{
    if (sheet->instance.n_stages == d->n_stages)
        return FS_OK;
    if (!places_alike(sheet->fold, d))
        return fs_fail(err, FS_INVALID,
                       "stages lie differently in the cluster's nodes");
    sheet->instance.n_stages = d->n_stages;
    return FS_OK;
}

static double stage_seconds(const cost_sheet *sheet, int32_t sum,
                            int32_t layers)
{
    const sheet_instance *on = &sheet->instance;
    return on->once[sum] + sheet_times(sheet->fold, layers) * on->between[sum];
}

static void add_seconds(const cost_sheet *sheet, const cost_degrees *d,
                        cost_price *p)
{
    const int32_t n = sheet->fold->n_stages;
    double sum = 0, slowest = 0, step = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t like = n == 3 && i == 1 ? d->n_stages - 2 : 1;
        p->micro_s[i] = stage_seconds(sheet, 2 * i, d->layers);
        p->step_s[i] = stage_seconds(sheet, 2 * i + 1, d->layers);
        sum += like * p->micro_s[i];
        slowest = fmax(slowest, p->micro_s[i]);
        step = fmax(step, p->step_s[i]);
    }
    p->iteration_s =
        p->fill * sum + (d->micro_batches - p->fill) * slowest + step;
}

static int64_t stage_peak(cost_sheet *sheet, const cost_degrees *d,
                          const sheet_pipe *pipe, int32_t stage)
{
    int64_t most = 0;
    for (int32_t k = 0; k < pipe->slots[stage].n; k++) {
        const int32_t program =
            sheet_find_program(sheet->fold, d, pipe->slots[stage].at[k]);
        const int64_t peak = sheet_peak(sheet, program);
        most = peak > most ? peak : most;
    }
    return most;
}

fs_status cost_sheet_price(cost_sheet *sheet, const cost_degrees *degrees,
                           fs_err *err, cost_price *out)
{
    const sheet_pipe *pipe;
    FS_TRY(check_degrees(sheet, degrees, err));
    FS_TRY(sheet_find_pipe(sheet->fold, degrees, err, &pipe));
    instantiate(sheet, &degrees->mesh);
    FS_TRY(check_places(sheet, degrees, err));
    if (!sheet->instance.legal)
        return fs_fail(err, FS_INVALID,
                       "what is to be cut is shorter than the mesh is long");
    *out = (cost_price){.fill = pipe->fill, .n_stages = sheet->fold->n_stages};
    add_seconds(sheet, degrees, out);
    for (int32_t i = 0; i < out->n_stages; i++)
        out->peak_bytes[i] = stage_peak(sheet, degrees, pipe, i);
    return FS_OK;
}
