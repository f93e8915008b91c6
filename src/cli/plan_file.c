/* Opening a plan: its file names model and cluster, so that a command needs
 * nothing else. */
#include "config.h"
#include "cli/cli.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/part.h"
#include "cli/machine.h"
#include "cli/places.h"
#include "cost/points.h"
#include "plan/check.h"

#include <string.h>

/* It stands in the plan's file, or where that says. */
static fs_status open_cluster(cli *c, const char *path, plan_origin *origin,
                              hw_cluster **out)
{
    if (*out)
        return cost_points_check(*out, path, &c->err);
    FS_TRY(cli_place_find(c, path, "cluster", &origin->cluster));
    FS_TRY(cli_part(
        origin, "cluster", &c->err,
        hw_cluster_open(origin->cluster, c->data_dir, c->arena, &c->err, out)));
    return cli_part(origin, "cluster", &c->err,
                    cost_points_check(*out, origin->cluster, &c->err));
}

fs_status cli_plan_open(cli *c, const char *path, cli_plan *out)
{
    cli_plan p = {0};
    plan_origin origin = {0};
    if (cli_is_model(path))
        return fs_fail(&c->err, FS_INVALID,
                       "%s wants a PLAN, and %s is a MODEL (a network): "
                       "`flowsearch search` or `flowsearch plan` makes a plan "
                       "of it",
                       c->command, path);
    FS_TRY(plan_read_origin(path, c->arena, &c->err, &origin, &p.cluster));
    FS_TRY(cli_place_find(c, path, "model", &origin.model));
    FS_TRY(open_cluster(c, path, &origin, &p.cluster));
    plan *read;
    fs_status status =
        cli_model_train(c, &origin, origin.micro_batches, &p.model);
    if (status == FS_NO)
        c->err.status = status = FS_INVALID;
    FS_TRY(status);
    status = plan_read_places(path, c->arena, &c->err, p.model.graph);
    if (status == FS_OK)
        status =
            plan_read(path, p.model.graph, p.cluster, c->arena, &c->err, &read);
    if (status != FS_OK) {
        cli_model_close(&p.model);
        return status;
    }
    p.plan = read;
    p.cost = cli_cost_model(c, p.cluster);
    *out = p;
    return FS_OK;
}

void cli_plan_close(cli_plan *p)
{
    cli_model_close(&p->model);
}

/* The word behind --shuffle is its seed only when it is a number. */
fs_status cli_check_one_plan(cli *c)
{
    const cli_args *a = &c->args;
    const bool seedless = a->shuffle && !a->shuffle[0];
    if (a->n_operands == 0)
        return fs_fail(&c->err, FS_INVALID, "%s wants one PLAN", c->command);
    if (a->n_operands == 1)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s wants one PLAN: '%s' is a second one beside '%s'%s",
                   c->command, a->operands[1], a->operands[0],
                   seedless ? " (--shuffle takes a whole number as its seed, "
                              "and neither is one)"
                            : "");
}

fs_status cli_with_plan(cli *c, fs_status (*body)(cli *c, const cli_plan *p))
{
    cli_plan p;
    FS_TRY(cli_check_one_plan(c));
    FS_TRY(cli_plan_open(c, c->args.operands[0], &p));
    c->args.seed = (int64_t)cli_seed(c, &p.model.origin); /* the one in use */
    fs_status status = cli_machine_tell(c, c->args.operands[0], p.cluster);
    if (status == FS_OK)
        status = cli_begin_plan(c, &p);
    cli_plan_digest(c, &p);
    if (status == FS_OK)
        status = body(c, &p);
    cli_plan_close(&p);
    return status;
}

static json_t *findings_json(const plan_report *report)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < report->n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s}", "kind",
                            plan_finding_name(report->findings[i].kind), "text",
                            report->findings[i].text));
    return list;
}

/* The role whose arena exceeds its bound by most. */
static const plan_role *widest_gap(const plan *p)
{
    const plan_role *widest = &p->roles[0];
    for (int32_t r = 1; r < p->n_roles; r++)
        if (plan_role_gap(&p->roles[r]) > plan_role_gap(widest))
            widest = &p->roles[r];
    return widest;
}

void cli_tell_offsets(cli *c, const cli_plan *p)
{
    const plan_role *role = widest_gap(p->plan);
    const double gap = plan_role_gap(role);
    char text[32];
    json_t *bounds = json_array();
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        json_array_append_new(bounds,
                              json_integer(p->plan->roles[r].bound_bytes));
    json_object_set_new(c->result, "offset_bound_bytes", bounds);
    json_object_set_new(c->result, "offset_gap", json_real(gap));
    if (gap > 0)
        cli_say(c,
                "offsets         at most %.3g %% above what is live at once "
                "(%s: %s)\n",
                100 * gap, plan_role_stages_text(role, c->arena),
                fs_human_bytes(text, (double)role->bound_bytes));
    else
        cli_say(c, "offsets         no byte above what is live at once\n");
}

static fs_status prove(cli *c, const cli_plan *p, plan_report *report)
{
    fs_status status =
        plan_check(p->model.graph, p->cluster, p->plan, c->arena, report);
    json_object_set_new(c->result, "live", json_boolean(report->live));
    json_object_set_new(c->result, "findings", findings_json(report));
    for (int32_t i = 0; i < report->n; i++)
        cli_say(c, "%s: %s\n", plan_finding_name(report->findings[i].kind),
                report->findings[i].text);
    return status;
}

void cli_tell_unsound(cli *c, const cli_plan *p)
{
    plan_report report = {0};
    if (prove(c, p, &report) != FS_OK)
        cli_say(c, "note: this plan %s, `run` refuses it\n",
                report.deadlocks ? "deadlocks" : "is not sound");
}

fs_status cli_plan_prove(cli *c, const cli_plan *p, plan_report *report)
{
    fs_status status = prove(c, p, report);
    json_t *peaks = json_array();
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        json_array_append_new(peaks,
                              json_integer(p->plan->roles[r].arena_bytes));
    json_object_set_new(c->result, "ok", json_boolean(status == FS_OK));
    json_object_set_new(c->result, "peak_bytes", peaks);
    if (status != FS_OK)
        return fs_fail(&c->err, FS_NO, "the plan is not sound: %d finding%s%s",
                       report->n, report->n == 1 ? "" : "s",
                       report->deadlocks ? "; it deadlocks" : "");
    return FS_OK;
}

void cli_plan_digest(cli *c, const cli_plan *p)
{
    char hex[17];
    fs_hex(p->plan->digest, hex);
    json_object_set_new(c->result, "plan_digest", json_string(hex));
}

void cli_say_digest(const cli *c, const cli_plan *p)
{
    char hex[17];
    fs_hex(p->plan->digest, hex);
    cli_say(c, "plan digest     %s\n", hex);
}
