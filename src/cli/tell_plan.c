/* What `search` and `plan` tell of what they made: the object of --json, the
 * table of configurations, the lines for people. */
#include "config.h"
#include "cli/making.h"

#include "base/clock.h"
#include "base/hash.h"
#include "cli/predict.h"
#include "cli/states.h"
#include "ir/op.h"
#include "ir/recompute.h"
#include "plan/schedule.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

static const char *mesh_text(fs_arena *arena, const ir_mesh *mesh)
{
    fs_text text = {.arena = arena};
    for (int32_t a = 0; a < mesh->n; a++)
        fs_text_add(&text, "%s%d", a ? "x" : "", mesh->dim[a]);
    return text.n ? text.at : "1";
}

const char *cli_meshes_text(fs_arena *arena, const ir_mesh *mesh, int32_t n)
{
    fs_text text = {.arena = arena};
    for (int32_t i = 0; i < n; i++)
        fs_text_add(&text, "%s%s", i ? "/" : "", mesh_text(arena, &mesh[i]));
    return text.at;
}

const char *cli_stage_meshes_text(fs_arena *arena, const plan_strategy *s)
{
    ir_mesh *mesh = fs_new(arena, ir_mesh, s->n_stages);
    bool differ = false;
    for (int32_t i = 0; i < s->n_stages; i++) {
        mesh[i] = s->stages[i].mesh;
        differ |= !plan_same_mesh(&mesh[0], &mesh[i]);
    }
    return cli_meshes_text(arena, mesh, differ ? s->n_stages : 1);
}

const char *cli_layers_text(fs_arena *arena, const ir_graph *graph,
                            const ir_graph *bound, const plan_strategy *s)
{
    search_layers *runs = fs_new(arena, search_layers, s->n_stages);
    search_layers_of(graph, bound, s, runs);
    return search_layers_text(runs, s->n_stages, arena);
}

static const char *layers_text(const cli_making *m, const cli_plan *p)
{
    return cli_layers_text(m->c->arena, m->found.of->graph, p->model.graph,
                           p->plan->strategy);
}

static json_t *stages_json(const cli_making *m, const cli_plan *p)
{
    const plan_strategy *s = p->plan->strategy;
    json_t *list = json_array();
    for (int32_t i = 0; i < s->n_stages; i++) {
        int32_t nodes = 0;
        for (int32_t v = 0; v < s->n_nodes; v++)
            nodes += s->stage_of[v] == i;
        json_array_append_new(
            list,
            json_pack("{s:i, s:s, s:i, s:i, s:i}", "stage", i, "mesh",
                      mesh_text(m->c->arena, &s->stages[i].mesh),
                      "first_device", s->stages[i].first_device, "devices",
                      ir_mesh_size(&s->stages[i].mesh), "nodes", nodes));
    }
    return list;
}

static void set_finite(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        isfinite(value) ? json_real(value) : json_null());
}

/* NAN where there is no plan, or none worth a proof. */
static double gap_of(const search_config *k)
{
    if (!isfinite(k->iteration_s) || !isfinite(k->lower_bound_s))
        return NAN;
    return fmax(0, 1 - k->lower_bound_s / k->iteration_s);
}

/* "2x2"; where stages take groups of devices in another order than the
 * cluster's "2x2, groups 1, 0". */
static const char *stages_text(fs_arena *arena, const search_config *k)
{
    fs_text text = {.arena = arena};
    fs_text_add(&text, "%s", cli_meshes_text(arena, k->mesh, k->n_meshes));
    for (int32_t g = 0; g < k->n_groups; g++)
        fs_text_add(&text, "%s %d", g ? "," : ", groups", k->groups[g]);
    return text.at;
}

static json_t *groups_json(const search_config *k)
{
    json_t *list = json_array();
    for (int32_t g = 0; g < k->n_groups; g++)
        json_array_append_new(list, json_integer(k->groups[g]));
    return list;
}

static json_t *configs_json(const cli_making *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->found.n_configs; i++) {
        const search_config *k = &m->found.configs[i];
        json_t *row = json_pack(
            "{s:i, s:i, s:s, s:s, s:s, s:I, s:f}", "stages", k->n_stages,
            "micro_batches", k->micro_batches, "mesh",
            cli_meshes_text(m->c->arena, k->mesh, k->n_meshes), "schedule",
            k->schedule ? k->schedule : "", "status", k->status, "peak_bytes",
            (json_int_t)k->peak_bytes, "seconds", k->seconds);
        set_finite(row, "iteration_s", k->iteration_s);
        set_finite(row, "lower_bound_s", k->lower_bound_s);
        set_finite(row, "gap", gap_of(k));
        fs_json_set_int(row, "interleave", k->depth);
        if (k->n_groups)
            json_object_set_new(row, "groups", groups_json(k));
        if (k->states)
            fs_json_set_text(row, "states", k->states);
        if (k->again)
            json_object_set_new(row, "recompute_chosen", json_true());
        if (k->need_bytes > 0)
            fs_json_set_int(row, "need_bytes", k->need_bytes);
        json_array_append_new(list, row);
    }
    return list;
}

static void set_digest(json_t *object, const char *key, uint64_t digest)
{
    char hex[17];
    fs_hex(digest, hex);
    json_object_set_new(object, key, json_string(hex));
}

void cli_making_question(const cli_making *m)
{
    const search_result *f = &m->found;
    json_t *r = m->c->result;
    json_object_set_new(r, "configs", configs_json(m));
    if (!f->space_digest)
        return;
    json_object_set_new(r, "bounded", json_integer(f->n_bounded));
    json_object_set_new(r, "expanded", json_integer(f->n_expanded));
    json_object_set_new(r, "closed", json_integer(f->n_closed));
    json_object_set_new(r, "other_cuts", json_integer(f->n_recuts));
    json_object_set_new(r, "every_cut", json_boolean(f->every_cut));
    if (f->any_cut_s > 0) {
        json_object_set_new(r, "any_cut_bound_s", json_real(f->any_cut_s));
        set_finite(r, "any_cut_gap",
                   isfinite(f->iteration_s) ? 1 - f->any_cut_s / f->iteration_s
                                            : NAN);
    }
    set_digest(r, "question_digest", f->question_digest);
    set_digest(r, "space_digest", f->space_digest);
    set_digest(r, "cost_digest", f->cost_digest);
}

/* What was asked, and how far it was answered. */
static void tell_question(const cli_making *m)
{
    const search_result *f = &m->found;
    char space[17], cost[17];
    if (m->by_hand || !f->space_digest)
        return;
    fs_hex(f->space_digest, space);
    fs_hex(f->cost_digest, cost);
    cli_say(m->c,
            "                %d of %d configurations bounded, %d expanded, %d "
            "closed; of space %s under cost model %s\n",
            f->n_bounded, f->n_configs, f->n_expanded, f->n_closed, space,
            cost);
}

/* No simulation of the plan goes below it. */
static double sim_floor(const cli_making *m, const cli_plan *p)
{
    const plan_lower_options options =
        cli_making_lowering(m, p->model.graph, p->plan->strategy);
    return cost_least(p->cost, p->model.graph, p->plan->strategy, &options);
}

/* Of the simulated time to the bound of all simulations; NAN: there is none. */
static double sim_gap(const search_result *f, const sim_result *sim)
{
    if (f->sim_bound_s <= 0)
        return NAN;
    return (sim->iteration_s - f->sim_bound_s) / sim->iteration_s;
}

void cli_making_no_plan(const cli_making *m)
{
    static const char *const none[] = {"iteration_s", "gap", "plan"};
    const search_result *f = &m->found;
    json_t *r = m->c->result;
    json_object_set_new(r, "status", json_string(f->status ? f->status : ""));
    json_object_set_new(r, "engine", json_string(cli_making_engine(m)));
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        json_object_set_new(r, none[k], json_null());
    set_finite(r, "search_s", f->search_s);
    json_object_set_new(r, "peak_bytes", json_array());
    if (!json_object_get(r, "stages"))
        json_object_set_new(r, "stages", json_array());
    if (m->by_hand)
        return;
    set_finite(r, "lower_bound_s",
               f->lower_bound_s > 0 ? f->lower_bound_s : (double)NAN);
    cli_making_question(m);
}

void cli_making_json(const cli_making *m, const cli_plan *p,
                     const sim_result *sim)
{
    const search_result *f = &m->found;
    json_t *r = m->c->result;
    json_object_set_new(r, "status", json_string(f->status));
    json_object_set_new(r, "engine", json_string(cli_making_engine(m)));
    set_finite(r, "iteration_s", f->iteration_s);
    if (!m->by_hand) {
        set_finite(r, "lower_bound_s", f->lower_bound_s);
        set_finite(r, "gap", f->gap);
        set_finite(r, "first_s", f->first_s);
        json_object_set_new(r, "late", json_boolean(f->late));
        json_object_set_new(r, "space", json_string(f->space ? f->space : ""));
        cli_making_question(m);
    }
    set_finite(r, "graphs_s", m->graphs_s);
    set_finite(r, "search_s", f->search_s);
    set_finite(r, "work_s", (double)f->steps / FS_STEPS_PER_S);
    set_finite(r, "sim_iteration_s", sim->iteration_s);
    set_finite(r, "sim_floor_s", sim_floor(m, p));
    if (!m->by_hand) {
        set_finite(r, "sim_bound_s", f->sim_bound_s > 0 ? f->sim_bound_s : NAN);
        set_finite(r, "sim_gap", sim_gap(f, sim));
    }
    json_object_set_new(r, "micro_batches",
                        json_integer(p->plan->micro_batches));
    json_object_set_new(r, "stages", stages_json(m, p));
    json_object_set_new(r, "layers", json_string(layers_text(m, p)));
    cli_ranks_json(m);
    fs_json_set_int(m->c->result, "ahead", m->ahead);
    cli_front_json(m);
    cli_idle_json(m);
    json_object_set_new(r, "plan", fs_json_string(m->c->args.output));
    cli_plan_digest(m->c, p);
}

static const char *seconds_text(fs_arena *arena, double seconds)
{
    char text[32];
    if (!isfinite(seconds))
        return "-";
    return fs_strdup(arena, fs_human_seconds(text, seconds));
}

static const char *gap_text(fs_arena *arena, double gap)
{
    return isnan(gap) ? "-" : fs_printf(arena, "%.3g %%", 100 * gap);
}

enum { MOST_ROWS = 40 };

static void config_table(const cli_making *m)
{
    static const char *const header[] = {
        "stages", "mesh", "micro-batches", "verdict", "iteration",
        "bound",  "gap",  "searched",      "states"};
    cli *c = m->c;
    report_table t = {.arena = c->arena,
                      .n_columns = m->any_states ? 9 : 8,
                      .header = header};
    const int32_t n = m->found.n_configs;
    for (int32_t i = 0; i < n && i < MOST_ROWS; i++) {
        const search_config *k = &m->found.configs[i];
        report_table_cell(&t, "%d", k->n_stages);
        report_table_cell(&t, "%s", stages_text(c->arena, k));
        report_table_cell(&t, "%d", k->micro_batches);
        report_table_cell(&t, "%s", k->status);
        report_table_cell(&t, "%s", seconds_text(c->arena, k->iteration_s));
        report_table_cell(&t, "%s", seconds_text(c->arena, k->lower_bound_s));
        report_table_cell(&t, "%s", gap_text(c->arena, gap_of(k)));
        report_table_cell(&t, "%s", seconds_text(c->arena, k->seconds));
        if (m->any_states)
            report_table_cell(&t, "%s", k->states);
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
    if (n > MOST_ROWS)
        cli_say(c, "(and %d more configurations, all in --json)\n",
                n - MOST_ROWS);
}

static void tell_stop(const cli_making *m)
{
    const search_result *f = &m->found;
    const char *name = sigabbrev_np(m->stopped);
    char after[32], best[32];
    if (!m->stopped)
        return;
    name = fs_printf(m->c->arena, "SIG%s", name ? name : "?");
    json_object_set_new(m->c->result, "stopped", json_string(name));
    cli_say(m->c, "stopped by %s after %s: best so far %s, gap %s\n", name,
            fs_human_seconds(after, f->search_s),
            fs_human_seconds(best, f->iteration_s),
            f->lower_bound_s > 0 ? gap_text(m->c->arena, f->gap)
                                 : "unknown (no bound yet)");
}

/* What the certificate says of the plan. */
static const char *proof_text(const cli_making *m)
{
    const search_result *f = &m->found;
    double asked = cli_making_gap(m);
    if (strcmp(f->status, "optimal") == 0)
        return "optimal: gap 0 %";
    if (f->gap <= asked + 1e-9)
        return fs_printf(m->c->arena, "within %g %%: gap %.3g %%", 100 * asked,
                         100 * f->gap);
    return fs_printf(m->c->arena, "gap %.3g %%", 100 * f->gap);
}

/* The formula's bound is none for the simulator: what readers share, it counts
 * for each of them, and it grants no overlap. So there is another. */
static void tell_simulated(const cli_making *m, const sim_result *sim)
{
    const search_result *f = &m->found;
    const json_t *floor_s = json_object_get(m->c->result, "sim_floor_s");
    char least[32], all[32];
    fs_human_seconds(least, json_number_value(floor_s));
    fs_human_seconds(all, f->sim_bound_s);
    if (m->by_hand || f->sim_bound_s <= 0)
        cli_say(m->c, "simulated       this plan in no less than %s\n", least);
    else
        cli_say(m->c,
                "simulated       no plan in less than %s (gap %.3g %%), this "
                "one in no less than %s\n",
                all, 100 * sim_gap(f, sim), least);
}

/* Where that is what was limited. */
static const char *work_text(const cli_making *m)
{
    const double most = m->c->args.work_limit;
    if (isnan(most))
        return "";
    return fs_printf(m->c->arena, " (%.3g of %g s of work)",
                     (double)m->found.steps / FS_STEPS_PER_S, most);
}

static void tell_recomputed(const cli_making *m)
{
    const ir_graph *graph = m->found.graph;
    const int32_t again = ir_count_recomputed(graph);
    fs_json_set_int(m->c->result, "recomputed_ops", again);
    if (m->origin.recompute && m->origin.recompute[0] && !cli_making_any(m))
        cli_say(m->c,
                "recompute       %s: %d of %d forward ops once more in the "
                "backward pass\n",
                m->origin.recompute, again, ir_forward_nodes(graph));
    else if (m->origin.again && m->origin.again[0])
        cli_say(m->c,
                "recompute       chosen op by op from '%s': %d of %d forward "
                "ops once more in the backward pass\n",
                m->origin.again, again, ir_forward_nodes(graph));
}

/* What several stages of a device gain depends on how many micro-batches go
 * round; the bubble counts slots of equal length. */
static void tell_interleaving(const cli_making *m, const cli_plan *p)
{
    const plan_strategy *s = p->plan->strategy;
    fs_arena *arena = m->c->arena;
    const plan_pipeline pipe = plan_pipeline_of(
        s->stages, s->n_stages, s->schedule, s->micro_batches, arena);
    const double left = plan_schedule_fill(&pipe, s->stages);
    const char *text = NULL;
    if (pipe.n_roles == s->n_stages)
        return;
    if (left >= 1)
        text = fs_printf(arena,
                         "gives nothing: with %d micro-batch%s over %d groups "
                         "of devices the bubble is that of one stage each",
                         s->micro_batches, s->micro_batches == 1 ? "" : "es",
                         pipe.n_roles);
    else if (s->micro_batches < pipe.n_roles)
        text = fs_printf(arena,
                         "gives less than it could: with %d micro-batch%s, "
                         "fewer than the %d groups of devices, %.0f %% of the "
                         "bubble of one stage each is left",
                         s->micro_batches, s->micro_batches == 1 ? "" : "es",
                         pipe.n_roles, 100 * left);
    if (!text)
        return;
    cli_say(m->c, "note            several stages per device: %s\n", text);
    fs_json_set_text(m->c->result, "interleaving", text);
}

enum { HEADS = 1 }; /* the axis of queries (B, heads, T, D) that holds them */

/* On how many ranks a tensor that lies so is cut along the axis. */
static int32_t ranks_along(const ir_mesh *mesh, const ir_nd_sbp *sbp,
                           int32_t axis)
{
    int32_t n = 1;
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S && sbp->at[a].axis == axis)
            n *= mesh->dim[a];
    return n;
}

/* "4 of NAME over 3 ranks: ..", NULL where the ranks of tp, the last axis of a
 * mesh, share the heads evenly, or there are none. */
static const char *heads_text(const cli_making *m, const plan_strategy *s,
                              int32_t v, int64_t heads)
{
    const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
    const ir_nd_sbp *queries = &s->sig[v].in[0];
    const long long n = ranks_along(mesh, queries, HEADS);
    const int32_t tp = search_recipe_at(&m->recipe, s->stage_of[v]).tp;
    if (heads % n)
        return fs_printf(m->c->arena,
                         "over %lld ranks: some have %lld, others %lld and "
                         "wait for these",
                         n, heads / n + 1, heads / n);
    if (tp <= 1 || n > 1)
        return NULL;
    const ir_sbp along = queries->at[mesh->n - 1];
    return fs_printf(m->c->arena, "are not cut by tp=%d: its ranks %s", tp,
                     along.kind != IR_S   ? "each compute all of them"
                     : along.axis > HEADS ? "share queries instead"
                                          : "share samples instead");
}

/* Heads that ranks do not share evenly are legal, and cost. The first attention
 * tells for those like it. */
static void tell_heads(const cli_making *m, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op != IR_OP_attention || node->phase != IR_FORWARD)
            continue;
        const int64_t heads = graph->tensors.at[node->in[0]].shape.dim[HEADS];
        const char *text = heads_text(m, p->plan->strategy, v, heads);
        if (!text)
            continue;
        cli_say(m->c, "heads           %lld of %s %s\n", (long long)heads,
                node->name, text);
        fs_json_set_text(m->c->result, "heads", text);
        return;
    }
}

static void tell_uncut_part(const cli_making *m, const char *part,
                            int32_t degree, const search_uncut *u, json_t *all)
{
    char bytes[32];
    if (u->n == 0)
        return;
    json_object_set_new(all, part,
                        json_pack("{s:i, s:i, s:I, s:o}", "tensors", u->n, "of",
                                  u->of, "bytes", (json_int_t)u->bytes, "first",
                                  fs_json_string(u->first)));
    cli_say(m->c,
            "not cut         %s=%d: %d of %d tensors that persist (%s), too "
            "short for so many ranks, as %s\n",
            part, degree, u->n, u->of, fs_human_bytes(bytes, (double)u->bytes),
            u->first);
}

/* What a recipe is to cut and has no room for is whole on those ranks. */
static void tell_uncut(const cli_making *m, const cli_plan *p)
{
    search_uncut zero, tp;
    json_t *all = json_object();
    search_recipe_uncut(&m->recipe, p->model.graph, p->plan->strategy, &zero,
                        &tp);
    tell_uncut_part(m, "zero", m->recipe.zero, &zero, all);
    tell_uncut_part(m, "tp", m->recipe.tp, &tp, all);
    if (json_object_size(all) > 0)
        json_object_set(m->c->result, "uncut", all);
    json_decref(all);
}

const char *cli_shape_text(fs_arena *arena, const ir_graph *whole,
                           const ir_graph *bound, const plan_strategy *s)
{
    fs_text text = {.arena = arena};
    fs_text_add(&text, "%d of %s, m %d, %s", s->n_stages,
                cli_stage_meshes_text(arena, s), s->micro_batches, s->schedule);
    if (s->n_stages > 1 && whole)
        fs_text_add(&text, ", layers %s",
                    cli_layers_text(arena, whole, bound, s));
    const char *devices = cli_stage_devices_text(arena, s);
    if (devices)
        fs_text_add(&text, ", devices %s", devices);
    return text.at;
}

void cli_shape_json(json_t *row, fs_arena *arena, const ir_graph *whole,
                    const ir_graph *bound, const plan_strategy *s)
{
    const char *devices = cli_stage_devices_text(arena, s);
    if (s->n_stages > 1 && whole)
        fs_json_set_text(row, "layers",
                         cli_layers_text(arena, whole, bound, s));
    if (devices)
        fs_json_set_text(row, "devices", devices);
}

const char *cli_stage_devices_text(fs_arena *arena, const plan_strategy *s)
{
    fs_text text = {.arena = arena};
    bool in_order = true;
    for (int32_t i = 0; i < s->n_stages; i++) {
        const int32_t first = s->stages[i].first_device,
                      last = first + ir_mesh_size(&s->stages[i].mesh) - 1;
        in_order &= i == 0 || first >= s->stages[i - 1].first_device;
        fs_text_add(&text, first == last ? "%s%d" : "%s%d-%d", i ? ", " : "",
                    first, last);
    }
    return in_order ? NULL : text.at;
}

static void tell_devices(cli *c, const plan_strategy *s)
{
    const char *text = cli_stage_devices_text(c->arena, s);
    if (text && s->n_stages <= MOST_ROWS)
        cli_say(c, "devices         %s: stage by stage\n", text);
}

void cli_making_tell(const cli_making *m, const cli_plan *p,
                     const sim_result *sim, const plan_report *proof)
{
    cli *c = m->c;
    const search_result *f = &m->found;
    const plan_strategy *s = p->plan->strategy;
    char a[32], b[32];
    if (!m->by_hand)
        config_table(m);
    tell_stop(m);
    cli_say(c, "plan            %d stage%s of mesh %s, %d micro-batch%s, %s\n",
            s->n_stages, s->n_stages == 1 ? "" : "s",
            cli_stage_meshes_text(c->arena, s), s->micro_batches,
            s->micro_batches == 1 ? "" : "es", s->schedule);
    if (s->n_stages > 1)
        cli_say(c, "layers          %s\n", layers_text(m, p));
    tell_devices(c, s);
    tell_interleaving(m, p);
    if (m->ahead > 1)
        cli_say(c, "registers       up to %d more than the schedule needs\n",
                m->ahead);
    cli_tell_statistics(c, &p->model);
    tell_recomputed(m);
    tell_heads(m, p);
    tell_uncut(m, p);
    cli_tell_states(c, m->origin.states, p->model.graph);
    cli_tell_compressed(c, p, &m->packed);
    cli_tell_cores(c, m->cluster);
    cli_say(c, "iteration       %s by the formula, %s simulated\n",
            fs_human_seconds(a, f->iteration_s),
            fs_human_seconds(b, sim->iteration_s));
    if (!m->by_hand && f->lower_bound_s <= 0)
        cli_say(c, "proof           none: %s\n", f->space);
    else if (!m->by_hand)
        cli_say(c,
                "proof           nothing below %s by the formula (%s)%s%s%s\n",
                fs_human_seconds(a, f->lower_bound_s), proof_text(m),
                f->every_cut ? "" : " of the cuts looked at",
                f->space ? ": " : "", f->space ? f->space : "");
    tell_question(m);
    cli_say(c,
            "                sound and live: %lld transitions, %lld places, "
            "no token-free cycle\n",
            (long long)proof->n_transitions, (long long)proof->n_places);
    tell_simulated(m, sim);
    cli_say(c, "memory          %s per device at most\n",
            fs_human_bytes(a, (double)proof->peak_bytes_max));
    cli_tell_offsets(c, p);
    if (!m->by_hand)
        cli_say(c, "first plan      after %s\n",
                fs_human_seconds(a, f->first_s));
    cli_say(c,
            "search          %s%s, network of %lld nodes and "
            "%lld edges, %lld "
            "left after exact reductions\n",
            fs_human_seconds(a, f->search_s), work_text(m),
            (long long)f->net_nodes, (long long)f->net_edges,
            (long long)f->kernel_nodes);
    cli_say(c, "written to      %s\n", c->args.output);
    cli_say_digest(c, p);
    cli_ranks_tell(m);
    cli_front_tell(m);
    cli_idle_tell(m);
}
