/* search --pareto: time against memory on the cluster, and, where a price is
 * known, time against cost over parts of it. */
#include "config.h"
#include "cli/making.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { MEMORY_POINTS = 10, MOST_PARTS = 32 };

/* A part of the cluster and the best plan on it. */
typedef struct part {
    hw_cluster *cluster;
    fs_status status;
    const char *why;     /* there is none */
    search_result found; /* FS_OK */
    double usd;          /* an iteration; 0: no price is known */
    bool kept;           /* no other is faster and as cheap */
} part;

/* Each of the two has half the search's work and time, and is proven to what
 * the plan chosen is proven to. */
struct cli_front {
    search_front memory;
    int32_t n_parts;
    part parts[MOST_PARTS];
    double usd_per_h; /* of a device; 0: not known */
    const char *price_source;
    double front_s;
};

fs_status cli_front_check(cli *c)
{
    const cli_args *a = &c->args;
    if (!a->pareto) {
        if (!isnan(a->price))
            return fs_fail(&c->err, FS_INVALID, "--price is for --pareto");
        return FS_OK;
    }
    if (a->overlap || a->no_sharing || a->compress || a->allow_idle ||
        a->bucket_bytes)
        return fs_fail(&c->err, FS_INVALID,
                       "--pareto and --%s do not go together",
                       a->allow_idle     ? "allow-idle"
                       : a->overlap      ? "overlap"
                       : a->no_sharing   ? "no-sharing"
                       : a->bucket_bytes ? "bucket-bytes"
                                         : "compress");
    if (a->pick == 0 || a->pick > MEMORY_POINTS)
        return fs_fail(&c->err, FS_INVALID, "--pick must be 1 to %d",
                       MEMORY_POINTS);
    if (!isnan(a->price) && !(a->price > 0 && a->price < 1e6))
        return fs_fail(&c->err, FS_INVALID,
                       "--price %g: USD per device and hour, more than 0, are "
                       "wanted",
                       a->price);
    if (!a->pareto[0])
        return FS_OK;
    FS_TRY(report_check_picture(a->pareto, &c->err));
    return cli_check_writable(c, a->pareto);
}

/* The best by the formula, which the simulator may not have chosen. */
static search_result first_of(const cli_making *m)
{
    search_result first = m->found;
    if (first.n_plans > 0) {
        first.of = first.plans[0].of;
        first.graph = first.plans[0].graph;
        first.strategy = first.plans[0].strategy;
        first.again = first.plans[0].again;
        first.iteration_s = first.plans[0].iteration_s;
    }
    first.n_plans = 0;
    return first;
}

/* ---- parts of the cluster ---- */

static void add_part(cli_making *m, int32_t nodes, int32_t devices)
{
    struct cli_front *f = m->front;
    const hw_group *group = &m->cluster->groups[0];
    if (f->n_parts == MOST_PARTS)
        return;
    f->parts[f->n_parts++].cluster = hw_cluster_part(
        m->cluster, nodes, devices,
        fs_printf(m->c->arena, "%dx%d:%s", nodes, devices, group->device.name),
        m->c->arena);
}

/* Powers of two: devices of a node, then nodes; all of it. */
static void list_parts(cli_making *m)
{
    const hw_group *group = &m->cluster->groups[0];
    for (int32_t d = 1; d < group->devices_per_node; d *= 2)
        add_part(m, 1, d);
    for (int32_t n = 1; n < group->nodes; n *= 2)
        add_part(m, n, group->devices_per_node);
    add_part(m, group->nodes, group->devices_per_node);
}

static void search_part(cli_making *m, const search_problem *problem, part *p)
{
    search_problem one = *problem;
    fs_err err = {0};
    char devices[32];
    snprintf(devices, sizeof devices, "%d devices", p->cluster->n_devices);
    fs_progress("the best plan on %s", devices);
    one.cluster = p->cluster;
    one.cost = cli_cost_model(m->c, p->cluster);
    one.ranking = NULL;
    one.in_full = false;
    p->status = search_run(&one, m->c->arena, &err, &p->found);
    if (p->status != FS_OK)
        p->why = strcmp(p->found.status, "infeasible") == 0
                     ? "nothing fits: proven"
                     : "nothing found";
}

static bool is_dominated(const struct cli_front *f, const part *p)
{
    for (int32_t k = 0; k < f->n_parts; k++) {
        const part *q = &f->parts[k];
        if (q == p || q->status != FS_OK)
            continue;
        const bool less =
            q->usd < p->usd || q->found.iteration_s < p->found.iteration_s;
        if (less && q->usd <= p->usd &&
            q->found.iteration_s <= p->found.iteration_s)
            return true;
    }
    return false;
}

static double usd_of(const struct cli_front *f, const part *p, double seconds)
{
    return f->usd_per_h * p->cluster->n_devices * seconds / 3600;
}

static void search_parts(cli_making *m, const search_problem *problem)
{
    struct cli_front *f = m->front;
    search_problem one = *problem;
    list_parts(m);
    one.most_steps = search_most_steps(problem) / f->n_parts;
    one.time_limit_s = 2 * problem->time_limit_s / f->n_parts;
    for (int32_t k = 0; k < f->n_parts; k++) {
        part *p = &f->parts[k];
        if (k == f->n_parts - 1)
            p->found = first_of(m);
        else
            search_part(m, &one, p);
        if (p->status == FS_OK)
            p->usd = usd_of(f, p, p->found.iteration_s);
    }
    for (int32_t k = 0; k < f->n_parts; k++) {
        part *p = &f->parts[k];
        p->kept = p->status == FS_OK && !is_dominated(f, p);
        if (p->status == FS_OK && !p->kept)
            p->why = "another is faster and as cheap";
    }
}

/* What the user says, else the device's file. */
static void find_price(cli_making *m)
{
    struct cli_front *f = m->front;
    const hw_device *device = &m->cluster->groups[0].device;
    const bool said = !isnan(m->c->args.price);
    f->usd_per_h = said ? m->c->args.price : device->usd_per_h;
    f->price_source = said ? "--price" : device->price_source;
}

fs_status cli_front_find(cli_making *m, const search_problem *problem)
{
    cli *c = m->c;
    const int64_t start_ns = fs_now_ns();
    if (!c->args.pareto)
        return FS_OK;
    struct cli_front *f = m->front = fs_new(c->arena, struct cli_front, 1);
    const search_result first = first_of(m);
    search_problem half = *problem;
    half.most_steps = search_most_steps(problem) / 2;
    half.time_limit_s /= 2;
    half.gap = m->ranks.asked.promise;
    FS_TRY(search_front_run(&half, &first, MEMORY_POINTS, c->arena, &c->err,
                            &f->memory));
    find_price(m);
    if (m->cluster->n_groups == 1 && f->usd_per_h > 0)
        search_parts(m, &half);
    fs_progress("%s", "");
    f->front_s = 1e-9 * (double)(fs_now_ns() - start_ns);
    if (c->args.pick > f->memory.n)
        return fs_fail(&c->err, FS_INVALID,
                       "--pick %d: the front has %d point%s", (int)c->args.pick,
                       f->memory.n, f->memory.n == 1 ? "" : "s");
    if (c->args.pick > 1) {
        const search_front_point *p = &f->memory.points[c->args.pick - 1];
        m->found = p->found;
        m->origin.memory_bytes = p->limit_bytes;
    }
    return FS_OK;
}

/* ---- telling ---- */

static const char *shape_text(const cli_making *m, const search_result *r)
{
    const plan_strategy *s = r->strategy;
    return cli_shape_text(m->c->arena, r->of->graph, r->graph, s);
}

static json_t *point_json(const cli_making *m, const char *kind, int32_t place,
                          const search_result *r)
{
    const plan_strategy *s = r->strategy;
    json_t *row = json_pack(
        "{s:s, s:i, s:f, s:f, s:f, s:b, s:i, s:s, s:i, s:s}", "kind", kind,
        "point", place, "iteration_s", r->iteration_s, "lower_bound_s",
        r->lower_bound_s, "gap", r->gap, "late", r->late, "stages", s->n_stages,
        "mesh", cli_stage_meshes_text(m->c->arena, s), "micro_batches",
        s->micro_batches, "schedule", s->schedule);
    cli_shape_json(row, m->c->arena, r->of->graph, r->graph, s);
    return row;
}

static void memory_json(const cli_making *m, json_t *list)
{
    const search_front *f = &m->front->memory;
    for (int32_t k = 0; k < f->n; k++) {
        const search_front_point *p = &f->points[k];
        json_t *row = point_json(m, "memory", k + 1, &p->found);
        fs_json_set_int(row, "limit_bytes", p->limit_bytes);
        fs_json_set_int(row, "peak_bytes", p->peak_bytes);
        fs_json_set_bool(row, "bound_inherited", p->inherited);
        json_array_append_new(list, row);
    }
}

static void cost_json(const cli_making *m, json_t *list)
{
    const struct cli_front *f = m->front;
    int32_t place = 0;
    for (int32_t k = f->n_parts - 1; k >= 0; k--) {
        const part *p = &f->parts[k];
        if (!p->kept)
            continue;
        json_t *row = point_json(m, "cost", ++place, &p->found);
        fs_json_set_text(row, "cluster", p->cluster->name);
        fs_json_set_int(row, "devices", p->cluster->n_devices);
        fs_json_set_real(row, "usd_per_iteration", p->usd);
        fs_json_set_real(row, "usd_lower_bound",
                         usd_of(f, p, p->found.lower_bound_s));
        json_array_append_new(list, row);
    }
}

void cli_front_json(const cli_making *m)
{
    const struct cli_front *f = m->front;
    json_t *r = m->c->result, *list = json_array();
    if (!f) {
        json_decref(list);
        return;
    }
    memory_json(m, list);
    cost_json(m, list);
    json_object_set_new(r, "pareto", list);
    json_object_set_new(r, "pareto_end",
                        json_pack("{s:I, s:b, s:I}", "limit_bytes",
                                  (json_int_t)f->memory.end_bytes, "none",
                                  f->memory.none, "need_bytes",
                                  (json_int_t)f->memory.need_bytes));
    if (f->usd_per_h > 0) {
        fs_json_set_real(r, "usd_per_device_hour", f->usd_per_h);
        fs_json_set_text(r, "price_source", f->price_source);
    }
    fs_json_set_real(r, "pareto_s", f->front_s);
    fs_json_set_int(r, "picked", m->c->args.pick > 0 ? m->c->args.pick : 1);
}

/* `mark`: of a bound that something is to be said of, or "". */
static void seconds_cells(report_table *t, const search_result *r,
                          const char *mark)
{
    char text[32];
    report_table_cell(t, "%s", fs_human_seconds(text, r->iteration_s));
    report_table_cell(t, "%s%s", fs_human_seconds(text, r->lower_bound_s),
                      mark);
    report_table_cell(t, "%.3g %%", 100 * r->gap);
}

static void print(const cli_making *m, const report_table *t)
{
    if (!m->c->args.json)
        report_table_print(t, stdout);
}

static void tell_end(const cli_making *m)
{
    const search_front *f = &m->front->memory;
    char limit[32], need[32];
    if (f->end_bytes == 0)
        return;
    fs_human_bytes(limit, (double)f->end_bytes);
    fs_human_bytes(need, (double)f->need_bytes);
    cli_say(m->c, "no plan within %s per device %s%s%s\n", limit,
            f->none ? "exists: proven" : "was found, which is no proof",
            f->need_bytes ? "; every plan needs at least " : "",
            f->need_bytes ? need : "");
}

static void tell_memory(const cli_making *m)
{
    static const char *const header[] = {
        "point", "memory", "limit", "iteration", "bound", "gap", "stages"};
    const search_front *f = &m->front->memory;
    report_table t = {.arena = m->c->arena, .n_columns = 7, .header = header};
    bool inherited = false;
    char text[32];
    cli_say(m->c,
            "\ntime against memory per device (--pick N writes point N)\n");
    for (int32_t k = 0; k < f->n; k++) {
        const search_front_point *p = &f->points[k];
        report_table_cell(&t, "%d", k + 1);
        report_table_cell(&t, "%s",
                          fs_human_bytes(text, (double)p->peak_bytes));
        report_table_cell(&t, "%s",
                          fs_human_bytes(text, (double)p->limit_bytes));
        seconds_cells(&t, &p->found, p->inherited ? " ^" : "");
        report_table_cell(&t, "%s", shape_text(m, &p->found));
        inherited |= p->inherited;
    }
    print(m, &t);
    if (inherited)
        cli_say(m->c, "^ proven with more memory, by a point above, which "
                      "holds with less; the search within this limit proved "
                      "less, so that the gap may be larger than it is\n");
    tell_end(m);
}

static void tell_left_out(const cli_making *m)
{
    const struct cli_front *f = m->front;
    for (int32_t k = 0; k < f->n_parts; k++)
        if (!f->parts[k].kept)
            cli_say(m->c, "left out        %s: %s\n", f->parts[k].cluster->name,
                    f->parts[k].why);
}

static void tell_cost(const cli_making *m)
{
    static const char *const header[] = {
        "--cluster", "iteration", "bound", "gap", "USD", "bound", "stages"};
    const struct cli_front *f = m->front;
    const hw_device *device = &m->cluster->groups[0].device;
    report_table t = {.arena = m->c->arena, .n_columns = 7, .header = header};
    if (m->cluster->n_groups > 1 || f->usd_per_h <= 0) {
        cli_say(m->c, "time against cost: %s\n",
                m->cluster->n_groups > 1
                    ? "not for clusters of several kinds of devices"
                    : fs_printf(m->c->arena,
                                "no price of %s is known; --price USD",
                                device->name));
        return;
    }
    cli_say(m->c,
            "\ntime against cost of an iteration, %g USD per device and "
            "hour (%s)\n",
            f->usd_per_h, f->price_source);
    for (int32_t k = f->n_parts - 1; k >= 0; k--) {
        const part *p = &f->parts[k];
        if (!p->kept)
            continue;
        report_table_cell(&t, "%s", p->cluster->name);
        seconds_cells(&t, &p->found, "");
        report_table_cell(&t, "%.4g", p->usd);
        report_table_cell(&t, "%.4g", usd_of(f, p, p->found.lower_bound_s));
        report_table_cell(&t, "%s", shape_text(m, &p->found));
    }
    print(m, &t);
    tell_left_out(m);
}

void cli_front_tell(const cli_making *m)
{
    char text[32];
    if (!m->front)
        return;
    tell_memory(m);
    tell_cost(m);
    cli_say(m->c, "fronts          after %s more\n",
            fs_human_seconds(text, m->front->front_s));
}

/* ---- the picture ---- */

static report_front memory_panel(const cli_making *m, report_front_point *at)
{
    const search_front *f = &m->front->memory;
    for (int32_t k = 0; k < f->n; k++)
        at[k] =
            (report_front_point){.x = (double)f->points[k].peak_bytes,
                                 .seconds = f->points[k].found.iteration_s,
                                 .bound_s = f->points[k].found.lower_bound_s,
                                 .label = fs_printf(m->c->arena, "%d", k + 1)};
    return (report_front){.title = "time against memory",
                          .x_name = "memory per device",
                          .what = REPORT_BYTES,
                          .n = f->n,
                          .points = at};
}

static report_front cost_panel(const cli_making *m, report_front_point *at)
{
    const struct cli_front *f = m->front;
    int32_t n = 0;
    for (int32_t k = f->n_parts - 1; k >= 0; k--)
        if (f->parts[k].kept)
            at[n++] =
                (report_front_point){.x = f->parts[k].usd,
                                     .seconds = f->parts[k].found.iteration_s,
                                     .bound_s = f->parts[k].found.lower_bound_s,
                                     .label = f->parts[k].cluster->name};
    return (report_front){.title = "time against cost",
                          .x_name = "USD per iteration",
                          .what = REPORT_USD,
                          .n = n,
                          .points = at};
}

fs_status cli_front_draw(const cli_making *m)
{
    const char *file = m->c->args.pareto;
    report_front_point memory[MEMORY_POINTS], cost[MOST_PARTS];
    report_drawn drawn;
    if (!m->front || !file[0])
        return FS_OK;
    const report_front fronts[] = {memory_panel(m, memory),
                                   cost_panel(m, cost)};
    FS_TRY(report_draw_fronts(fronts, fronts[1].n > 0 ? 2 : 1, file, &m->c->err,
                              &drawn));
    cli_say(m->c, "picture         %s\n", file);
    fs_json_set_text(m->c->result, "picture", file);
    return FS_OK;
}
