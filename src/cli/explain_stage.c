/* A stage: what it costs and holds, and what other meshes, or layers more or
 * less, would make of the plan. */
#include "config.h"
#include "cli/explain.h"

#include "base/clock.h"
#include "cli/making.h"
#include "plan/schedule.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { MOST_AXES = 2, MOST_OTHERS = 64 };

typedef struct others {
    const cli_explaining *e;
    int32_t stage;
    plan_pipeline pipe;
    const ir_mesh *mesh;         /* [groups] of the plan, */
    const ir_graph *graph;       /* its network, bound to no stages, */
    const search_layers *layers; /* [stages] and cut; NULL: one stage */
    int32_t n;
    cli_other at[MOST_OTHERS];
} others;

static const char *mesh_name(fs_arena *arena, const ir_mesh *mesh)
{
    return cli_meshes_text(arena, mesh, 1);
}

static void look(others *o, const char *what, search_variant variant)
{
    if (o->n == MOST_OTHERS)
        return;
    cli_other *other = &o->at[o->n++];
    variant.node = -1;
    variant.graph = o->graph;
    *other = (cli_other){.what = what, .variant = variant};
    cli_other_begin(o->e, other);
}

/* ---- other meshes ---- */

static void look_at_mesh(others *o, const ir_mesh *mesh)
{
    const cli_explaining *e = o->e;
    const int32_t group = o->pipe.role_of[o->stage];
    fs_arena *arena = e->c->arena;
    if (plan_same_mesh(mesh, &o->mesh[group]))
        return;
    ir_mesh *all =
        fs_memdup(arena, o->mesh, (size_t)o->pipe.n_roles * sizeof *all);
    all[group] = *mesh;
    look(o,
         fs_printf(arena, "mesh %s in the place of %s", mesh_name(arena, mesh),
                   mesh_name(arena, &o->mesh[group])),
         (search_variant){.mesh = all, .layers = o->layers});
}

/* All ordered factorisations, as search has them. */
static void look_at_meshes(others *o, int32_t devices, ir_mesh *mesh)
{
    if (devices == 1) {
        look_at_mesh(o, mesh);
        return;
    }
    if (mesh->n == MOST_AXES)
        return;
    const int32_t axis = mesh->n++;
    for (int32_t d = devices; d >= 2; d--)
        if (devices % d == 0) {
            mesh->dim[axis] = d;
            look_at_meshes(o, devices / d, mesh);
        }
    mesh->dim[axis] = 0;
    mesh->n--;
}

/* ---- layers more or less ---- */

/* So many blocks from stage `from` to stage `to`. What that would take,
 * whatever it holds; INFINITY: it is not possible. */
static double look_at_moved(others *o, int32_t from, int32_t to, int32_t by)
{
    const int32_t n = o->pipe.n_stages;
    fs_arena *arena = o->e->c->arena;
    search_layers *layers =
        fs_memdup(arena, o->layers, (size_t)n * sizeof *layers);
    layers[from].blocks -= by;
    layers[to].blocks += by;
    const char *much = by == 1 ? "a layer" : fs_printf(arena, "%d layers", by);
    look(o,
         fs_printf(arena, "%s %s, %s stage %d: layers %s", much,
                   to == o->stage ? "more" : "less",
                   to == o->stage ? "from" : "to", to == o->stage ? from : to,
                   search_layers_text(layers, n, arena)),
         (search_variant){.layers = layers});
    const double free_s = o->at[o->n - 1].free_s;
    return isfinite(free_s) ? free_s : (double)INFINITY;
}

/* One block, two, four, .. between neighbours: two in any case, as what comes
 * in pairs may need both, then on as long as more of them take less. */
static void look_at_layers(others *o, int32_t from, int32_t to)
{
    const int32_t n = o->pipe.n_stages;
    double before_s = INFINITY;
    if (from < 0 || to < 0 || from >= n || to >= n)
        return;
    for (int32_t by = 1; by <= o->layers[from].blocks; by *= 2) {
        const double now_s = look_at_moved(o, from, to, by);
        if (by > 1 && !(now_s < before_s))
            break;
        before_s = now_s;
    }
}

static void look_at_cuts(others *o)
{
    look_at_layers(o, o->stage - 1, o->stage);
    look_at_layers(o, o->stage + 1, o->stage);
    look_at_layers(o, o->stage, o->stage - 1);
    look_at_layers(o, o->stage, o->stage + 1);
}

/* The graph that is bound to no stages is made once more, and cut by layers as
 * the plan has them. */
static fs_status open_graph(others *o, cli_model *model)
{
    const cli_explaining *e = o->e;
    const plan_origin *origin = &e->p->model.origin;
    o->graph = e->p->model.graph;
    if (o->pipe.n_stages == 1)
        return FS_OK;
    FS_TRY(cli_model_train(e->c, origin, origin->micro_batches, model));
    search_layers *now = fs_new(e->c->arena, search_layers, o->pipe.n_stages);
    search_layers_of(model->graph, o->graph, e->p->plan->strategy, now);
    o->graph = model->graph;
    o->layers = now;
    return FS_OK;
}

/* ---- telling ---- */

static const cli_other *next_best(const others *o)
{
    const cli_other *best = NULL;
    for (int32_t k = 0; k < o->n; k++)
        if (isfinite(o->at[k].iteration_s) &&
            (!best || o->at[k].iteration_s < best->iteration_s))
            best = &o->at[k];
    return best;
}

/* Of those that do not fit as they are: the one that may be the best when it
 * does; NULL: none may be. */
static cli_other *promising(others *o)
{
    const cli_other *best = next_best(o);
    cli_other *least = NULL;
    for (int32_t k = 0; k < o->n; k++)
        if (o->at[k].open && (!least || o->at[k].bound_s < least->bound_s))
            least = &o->at[k];
    return least && best && least->bound_s >= best->iteration_s ? NULL : least;
}

/* JSON tells it in full. */
static const char *short_why(const cli_other *other)
{
    if (other->open)
        return "too much memory";
    if (strncmp(other->why, "memory", 6) == 0)
        return strcmp(other->found.status, "infeasible") == 0
                   ? "does not fit"
                   : "none found that fits";
    return "not possible";
}

static const char *seconds_text(char text[32], double seconds)
{
    return isfinite(seconds) ? fs_human_seconds(text, seconds) : "-";
}

static void print_others(const others *o, const cli_other *same)
{
    static const char *const header[] = {"all else on its stages chosen anew",
                                         "iteration", "against this",
                                         "no less than", ""};
    report_table t = {
        .arena = o->e->c->arena, .n_columns = 5, .header = header};
    const cli_other *best = next_best(o);
    char text[32];
    for (int32_t k = -1; k < o->n; k++) {
        const cli_other *other = k < 0 ? same : &o->at[k];
        report_table_cell(&t, "%s", other->what);
        report_table_cell(&t, "%s", seconds_text(text, other->iteration_s));
        report_table_cell(&t, "%s", cli_against(o->e, other->iteration_s));
        report_table_cell(&t, "%s", seconds_text(text, other->bound_s));
        report_table_cell(&t, "%s",
                          !isfinite(other->iteration_s) ? short_why(other)
                          : other == best               ? "next best"
                          : other->over                 ? "memory binds"
                                                        : "");
    }
    report_table_print(&t, stdout);
}

static json_t *others_json(const others *o)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < o->n; k++)
        json_array_append_new(list, cli_other_json(o->e, &o->at[k]));
    return list;
}

static void bind_stage(const others *o, const cli_other *same)
{
    cli *c = o->e->c;
    cli_binds binds = {o->e, json_array()};
    char text[32];
    cli_bind_memory(&binds, o->stage);
    if (same->over && same->free_s < o->e->cost.iteration_s)
        cli_bind(&binds, "memory",
                 "these stages would take %s (%s) where memory is no limit, "
                 "but %s",
                 fs_human_seconds(text, same->free_s),
                 cli_against(o->e, same->free_s), same->over);
    cli_bind_pace(&binds, o->stage);
    cli_bind_told(&binds, same->iteration_s);
    json_object_set_new(c->result, "binds", binds.list);
}

static void tell_others(const others *o, const cli_other *same)
{
    cli *c = o->e->c;
    const cli_other *best = next_best(o);
    cli_say(c, "\n");
    if (!c->args.json)
        print_others(o, same);
    cli_say(c, "\n");
    json_object_set_new(c->result, "anew", cli_other_json(o->e, same));
    json_object_set_new(c->result, "others", others_json(o));
    json_object_set_new(c->result, "next_best",
                        best ? cli_other_json(o->e, best) : json_null());
}

/* Roles are in the order of their ranks. */
static int32_t role_of(const plan *p, int32_t stage)
{
    int32_t r = 0;
    while (!plan_role_has_stage(&p->roles[r], stage))
        r++;
    return r;
}

static void tell_stage(const others *o)
{
    cli *c = o->e->c;
    const cli_plan *p = o->e->p;
    const plan_breakdown memory = plan_memory_tree(p->plan, c->arena);
    const plan_breakdown *time = &o->e->cost.time.child[o->stage];
    const plan_breakdown *bytes = &memory.child[role_of(p->plan, o->stage)];
    json_object_set_new(c->result, "iteration_s",
                        json_real(o->e->cost.iteration_s));
    json_object_set_new(c->result, "tree",
                        json_pack("{s:i, s:o, s:o}", "stage", (int)o->stage,
                                  "time", cli_tree_json(time), "memory",
                                  cli_tree_json(bytes)));
    if (c->args.json)
        return;
    report_tree_print(time, "s", 0, stdout);
    report_tree_print(bytes, "B", 0, stdout);
}

fs_status cli_explain_stage(const cli_explaining *e, int64_t stage)
{
    cli *c = e->c;
    const plan_strategy *s = e->p->plan->strategy;
    if (stage >= s->n_stages)
        return fs_fail(&c->err, FS_INVALID,
                       "--stage %lld: the plan has stages 0 to %d",
                       (long long)stage, s->n_stages - 1);
    others o = {.e = e, .stage = (int32_t)stage};
    cli_other same = {.what = "the stages as they are",
                      .variant = {.node = -1}},
              *open;
    cli_model model = {0};
    o.pipe = plan_pipeline_of(s->stages, s->n_stages, s->schedule,
                              s->micro_batches, c->arena);
    ir_mesh *mesh = fs_new(c->arena, ir_mesh, o.pipe.n_roles), other = {0};
    for (int32_t i = 0; i < s->n_stages; i++)
        mesh[o.pipe.role_of[i]] = s->stages[i].mesh;
    o.mesh = mesh;
    tell_stage(&o);
    FS_TRY(open_graph(&o, &model));
    same.variant.graph = o.graph;
    same.variant.layers = o.layers;
    cli_other_begin(e, &same);
    cli_other_finish(e, &same);
    look_at_meshes(&o, ir_mesh_size(&s->stages[stage].mesh), &other);
    look_at_cuts(&o);
    while ((open = promising(&o)))
        cli_other_finish(e, open);
    tell_others(&o, &same);
    bind_stage(&o, &same);
    if (o.layers)
        cli_model_close(&model);
    return FS_OK;
}
