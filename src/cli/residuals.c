#include "config.h"
#include "cli/residuals.h"

#include "cli/predict.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef FS_VEC(cli_residual) residual_list;

static const char *kind_of(const plan_task *task)
{
    switch (task->kind) {
    case PLAN_COMPUTE:
        return "compute";
    case PLAN_BOX:
        return plan_box_is_collective(task->box.kind) ? "collective" : "local";
    case PLAN_LOAD:
        return "load";
    default:
        return "move";
    }
}

static const char *name_of(const ir_graph *graph, const plan_task *task)
{
    switch (task->kind) {
    case PLAN_COMPUTE:
        return ir_op_table[graph->nodes.at[task->node].op]->name;
    case PLAN_BOX:
        return plan_box_name(task->box.kind);
    case PLAN_LOAD:
        return "load";
    case PLAN_SEND:
        return "send";
    default:
        return "receive";
    }
}

static cli_residual *find(cli *c, residual_list *list, const char *kind,
                          const char *what)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].what, what) == 0 &&
            strcmp(list->at[i].kind, kind) == 0)
            return &list->at[i];
    const cli_residual one = {.kind = kind, .what = what};
    fs_push(c->arena, list, one);
    return &list->at[list->n - 1];
}

static void add_task(cli *c, const cli_plan *p, int32_t role, int32_t task,
                     const plan_timing *predicted, const plan_timing *measured,
                     residual_list *list)
{
    const plan_role *r = &p->plan->roles[role];
    const plan_task *t = &r->tasks[task];
    const double once = plan_phase_once(t->phase) ? 1 : p->plan->micro_batches;
    const double firings = once * r->n_ranks / p->cluster->n_devices;
    const double ours = predicted->demand[role][task].total_s;
    const double theirs = measured->demand[role][task].total_s;
    if (ours <= 0 && theirs <= 0)
        return;
    cli_residual *one = find(c, list, kind_of(t), name_of(p->model.graph, t));
    one->firings += firings;
    one->predicted_s += firings * ours;
    one->measured_s += firings * theirs;
}

static int by_difference(const void *a, const void *b)
{
    const cli_residual *x = a, *y = b;
    const double dx = fabs(x->measured_s - x->predicted_s);
    const double dy = fabs(y->measured_s - y->predicted_s);
    return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->what, y->what);
}

/* The simulator takes it as it takes a predicted one. */
static plan_timing *with_meetings(cli *c, const cli_plan *p,
                                  const plan_timing *measured)
{
    plan_timing *t = plan_timing_new(p->plan, measured->source, c->arena);
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        memcpy(t->demand[r], measured->demand[r],
               (size_t)p->plan->roles[r].n_tasks * sizeof *t->demand[r]);
    cost_timing_meet(p->cost, p->plan, t);
    return t;
}

fs_status cli_residuals_of(cli *c, const cli_plan *p,
                           const plan_timing *measured, cli_residuals *out)
{
    residual_list list = {0};
    sim_result sim;
    plan_timing *predicted =
        cost_timing(p->cost, p->model.graph, p->plan, c->arena);
    const sim_options options = {.steps = CLI_SIM_STEPS, .straggler = 1.0};
    measured = with_meetings(c, p, measured);
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        for (int32_t t = 0; t < p->plan->roles[r].n_tasks; t++)
            add_task(c, p, r, t, predicted, measured, &list);
    if (list.n > 1)
        qsort(list.at, (size_t)list.n, sizeof *list.at, by_difference);
    FS_TRY(sim_run(p->model.graph, p->plan, p->cluster, measured, &options,
                   c->arena, &c->err, &sim));
    *out = (cli_residuals){list.n, list.at, sim.iteration_s, sim.comm_s,
                           sim.exposed_comm_s};
    return FS_OK;
}

static void tell_json(cli *c, const cli_residuals *r)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < r->n; i++) {
        const cli_residual *one = &r->at[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:f, s:f, s:f}", "kind", one->kind, "what",
                      one->what, "firings", one->firings, "predicted_s",
                      one->predicted_s, "measured_s", one->measured_s));
    }
    json_object_set_new(c->result, "residuals", list);
    json_object_set_new(c->result, "replayed_step_s", json_real(r->replayed_s));
    json_object_set_new(c->result, "comm_s", json_real(r->comm_s));
    json_object_set_new(c->result, "exposed_comm_s", json_real(r->exposed_s));
    json_object_set_new(c->result, "overlap_efficiency",
                        r->comm_s > 0 ? json_real(cli_residuals_hidden(r))
                                      : json_null());
}

double cli_residuals_hidden(const cli_residuals *r)
{
    return 1 - r->exposed_s / r->comm_s;
}

/* By the measured durations, as the plan's order lets them lie. */
static void say_overlap(cli *c, const cli_residuals *r)
{
    char comm[32], exposed[32];
    if (r->comm_s > 0)
        cli_say(c,
                "communication of a rank and step: %s, of which %s is not "
                "hidden behind kernels (overlap efficiency %.0f %%)\n",
                fs_human_seconds(comm, r->comm_s),
                fs_human_seconds(exposed, r->exposed_s),
                100 * cli_residuals_hidden(r));
}

static void row_of(report_table *t, const cli_residual *one)
{
    char text[32];
    report_table_cell(t, "%s", one->what);
    report_table_cell(t, "%s", one->kind);
    report_table_cell(t, "%.4g", one->firings);
    report_table_cell(t, "%s", fs_human_seconds(text, one->predicted_s));
    report_table_cell(t, "%s", fs_human_seconds(text, one->measured_s));
    if (one->measured_s > 0)
        report_table_cell(t, "%+.1f %%",
                          100 * (one->predicted_s / one->measured_s - 1));
    else
        report_table_cell(t, "%s", "");
}

/* What a step's time is off by most. */
void cli_residuals_tell(cli *c, const cli_residuals *r, double measured_s)
{
    enum { ROWS = 8 };
    static const char *const header[] = {
        "per rank and step", "", "firings", "predicted", "measured", "error"};
    report_table t = {.arena = c->arena, .n_columns = 6, .header = header};
    cli_residual rest = {.what = "all others", .kind = ""};
    char text[32];
    tell_json(c, r);
    for (int32_t i = 0; i < r->n; i++) {
        if (i < ROWS || r->n == ROWS + 1) {
            row_of(&t, &r->at[i]);
            continue;
        }
        rest.firings += r->at[i].firings;
        rest.predicted_s += r->at[i].predicted_s;
        rest.measured_s += r->at[i].measured_s;
    }
    if (rest.firings > 0)
        row_of(&t, &rest);
    cli_say(c, "\nwhere the prediction is off most\n");
    if (!c->args.json)
        report_table_print(&t, stdout);
    cli_say(c,
            "with the measured durations the simulator says %s (%+.1f %%): "
            "that much is its own error, the rest the durations'\n",
            fs_human_seconds(text, r->replayed_s),
            100 * (r->replayed_s / measured_s - 1));
    say_overlap(c, r);
}

fs_status cli_residuals_keep(cli *c, const cli_residuals *r, fs_err *err)
{
    store_residual *rows = fs_new(c->arena, store_residual, r->n + 1);
    if (!cli_keeps(c))
        return FS_OK;
    for (int32_t i = 0; i < r->n; i++)
        rows[i] =
            (store_residual){r->at[i].kind, r->at[i].what, r->at[i].firings,
                             r->at[i].predicted_s, r->at[i].measured_s};
    return store_residuals(c->db, c->run, rows, r->n, err);
}
