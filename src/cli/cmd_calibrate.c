#include "config.h"
#include "cli/calibrate.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "exec/calibrate.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what it was given ---- */

static fs_status check_operands(cli *c, const char **model,
                                const char *const **plans)
{
    const cli_args *a = &c->args;
    const char **files = fs_new(c->arena, const char *, a->n_operands + 1);
    int n = 0;
    *model = NULL;
    for (int i = 0; i < a->n_operands; i++) {
        const char *said = a->operands[i];
        if (strcmp(said, "local") == 0)
            continue;
        if (cli_is_model(said) && *model)
            return fs_fail(&c->err, FS_INVALID,
                           "calibrate takes one MODEL at a time, not %s and %s",
                           *model, said);
        if (cli_is_model(said))
            *model = said;
        else if (access(said, F_OK) == 0)
            files[n++] = said; /* if it is a plan: its reader says */
        else
            return fs_fail(&c->err, FS_INVALID,
                           "calibrate measures this machine: its operands are "
                           "`local`, a MODEL and PLANs, not %s",
                           said);
    }
    *plans = files;
    return FS_OK;
}

/* What says how a MODEL is planned; NULL: nothing was said. */
static const char *of_model(const cli_args *a)
{
    const struct {
        bool said;
        const char *flag;
    } flags[] = {{a->batch >= 0, "--batch"},
                 {a->bind.n > 0, "--bind"},
                 {a->loss != NULL, "--loss"},
                 {a->params != NULL, "--params"},
                 {a->precision != NULL, "--precision"},
                 {a->optimizer != NULL, "--optimizer"}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].said)
            return flags[i].flag;
    return NULL;
}

static fs_status no_effect(cli *c, const char *flag, const char *why)
{
    return fs_fail(&c->err, FS_INVALID, "%s has no effect: %s", flag, why);
}

/* What is said is done or refused. */
static fs_status check_options(cli *c, const char *model, bool plans)
{
    const cli_args *a = &c->args;
    const bool keeps = strcmp(cli_db_path(c), "none") != 0;
    const char *flag = of_model(a);
    FS_TRY(cli_check_ranks(c));
    if (a->passes == 0 || a->passes > 1000)
        return fs_fail(&c->err, FS_INVALID, "--passes must be 1 to 1000");
    if (!model && flag)
        return no_effect(c, flag, "it is of a MODEL, and none is named");
    if (model && a->batch < 1)
        return fs_fail(&c->err, FS_INVALID,
                       "calibrate %s wants --batch N, of the plans to measure",
                       model);
    if ((model || plans) && !keeps)
        return fs_fail(&c->err, FS_INVALID,
                       "what steps of a plan take is kept in the database: "
                       "calibrate of a MODEL or PLAN wants one (--db none is "
                       "set)");
    if (!keeps && !a->output)
        return fs_fail(&c->err, FS_INVALID,
                       "--db none without -o FILE: what is measured would be "
                       "kept nowhere");
    if (!keeps && a->anew)
        return no_effect(c, "--anew", "--db none has nothing to forget");
    if (a->ranks > 0 && !model && !a->output)
        return no_effect(c, "--ranks",
                         "it is of the plans of a MODEL, and of the machine "
                         "that -o FILE says; what is measured is of the host");
    return FS_OK;
}

/* Plans must be of one number of ranks of this host. */
static fs_status check_plans(cli *c, const char *const *plans, int32_t *ranks)
{
    *ranks = 0;
    for (int i = 0; plans[i]; i++) {
        cli_plan p = {0};
        fs_status status = cli_plan_open(c, plans[i], &p);
        const int32_t n = status == FS_OK ? p.cluster->n_devices : 0;
        if (status == FS_OK && p.cluster->groups[0].cores_per_node < 1)
            status = fs_fail(&c->err, FS_INVALID,
                             "%s is for %s, a machine that was described: only "
                             "plans for ranks of this host can be measured",
                             plans[i], p.cluster->name);
        if (status == FS_OK && *ranks && *ranks != n)
            status = fs_fail(&c->err, FS_INVALID,
                             "%s is for %d ranks, those before for %d: measure "
                             "them one after the other",
                             plans[i], n, *ranks);
        *ranks = n;
        cli_plan_close(&p);
        FS_TRY(status);
    }
    return FS_OK;
}

/* Can it be trained? Before minutes of measuring. */
static fs_status check_model(cli *c, const char *model)
{
    const plan_origin origin = cli_origin(c, model, "local");
    cli_model opened;
    FS_TRY(cli_model_train(c, &origin, 1, &opened));
    cli_model_close(&opened);
    return FS_OK;
}

/* ---- what is told ---- */

/* Of the points of one form each. */
typedef struct counted {
    int32_t forms, curves;
    int32_t repeated; /* forms of several passes, which tell a deviation */
    double spread;    /* mean of deviation / seconds */
    int32_t n_doubtful, n_doubtful_links;
    const hw_point **doubtful; /* [n_doubtful] links, then that deviate most
                                  first */
} counted;

/* Deviations of so much of what was measured: the mean says little. */
#define DOUBTFUL 0.5

static double deviation_of(const hw_point *point)
{
    return point->deviation_s / point->seconds;
}

/* Of a message or a meeting: a figure of its own, no form of a kernel. */
static bool is_link(const hw_point *point)
{
    return strcmp(point->what, HW_PING) == 0 ||
           strcmp(point->what, HW_TURN) == 0 ||
           strcmp(point->what, HW_FIRING) == 0;
}

/* Links first: there are few, and each plan stands on them. */
static int more_doubtful(const void *a, const void *b)
{
    const hw_point *x = *(const hw_point *const *)a,
                   *y = *(const hw_point *const *)b;
    const double dx = deviation_of(x), dy = deviation_of(y);
    if (is_link(x) != is_link(y))
        return is_link(y) - is_link(x);
    return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->what, y->what);
}

static counted count_points(const hw_device *device, fs_arena *arena)
{
    counted n = {0};
    n.doubtful = fs_new(arena, const hw_point *, device->n_points + 1);
    for (int32_t i = 0; i < device->n_points; i++) {
        const hw_point *point = &device->points[i];
        const bool form = point->form && !is_link(point);
        n.curves += !point->form;
        n.forms += form;
        if (!point->form || !(point->deviation_s > 0)) /* all of one pass */
            continue;
        n.repeated += form;
        n.spread += form ? deviation_of(point) : 0;
        n.n_doubtful_links += !form && deviation_of(point) > DOUBTFUL;
        if (deviation_of(point) > DOUBTFUL)
            n.doubtful[n.n_doubtful++] = point;
    }
    n.spread /= fmax(1, n.repeated);
    if (n.n_doubtful)
        qsort(n.doubtful, (size_t)n.n_doubtful, sizeof *n.doubtful,
              more_doubtful);
    return n;
}

static const char *deviation_text(fs_arena *arena, const counted *n)
{
    if (!n->repeated)
        return fs_printf(arena,
                         "%d forms, each measured once: one pass tells no "
                         "deviation",
                         n->forms);
    return fs_printf(arena, "%d forms, deviation %.1f %% in the mean", n->forms,
                     100 * n->spread);
}

/* Which points are not to be trusted. */
static void tell_doubtful(cli *c, const counted *n)
{
    enum { FEW = 5 };
    static const char *const header[] = {"in doubt", "work", "mean",
                                         "deviation", "times"};
    report_table t = {.arena = c->arena, .n_columns = 5, .header = header};
    json_t *list = json_array();
    for (int32_t i = 0; i < n->n_doubtful; i++) {
        const hw_point *point = n->doubtful[i];
        char text[32];
        json_array_append_new(
            list,
            json_pack("{s:s, s:f, s:f, s:f, s:i}", "what", point->what, "work",
                      point->work, "seconds", point->seconds, "deviation",
                      deviation_of(point), "times", (int)point->count));
        if (i >= n->n_doubtful_links + FEW)
            continue;
        report_table_cell(&t, "%s", point->what);
        report_table_cell(&t, "%.4g", point->work);
        report_table_cell(&t, "%s", fs_human_seconds(text, point->seconds));
        report_table_cell(&t, "%.0f %%", 100 * deviation_of(point));
        report_table_cell(&t, "%d", point->count);
    }
    json_object_set_new(c->result, "doubtful", list);
    if (c->args.json || !n->n_doubtful)
        return;
    report_table_print(&t, stdout);
    printf("%d point%s by more than %.0f %% of %s mean: what is predicted of "
           "them is in doubt; more --passes tell more, --anew begins again\n",
           n->n_doubtful, n->n_doubtful == 1 ? " deviates" : "s deviate",
           100 * DOUBTFUL, n->n_doubtful == 1 ? "its" : "their");
}

/* Of messages between two ranks, or of meetings: the median over their sizes,
 * of what passes deviate. NAN: one pass tells none. */
static double link_spread(const hw_device *device, const char *what)
{
    enum { MOST = 64 };
    double spread[MOST];
    int32_t n = 0;
    for (int32_t i = 0; i < device->n_points && n < MOST; i++) {
        const hw_point *p = &device->points[i];
        if (strcmp(p->what, what) != 0 || p->deviation_s <= 0)
            continue;
        int32_t at = n++;
        const double own = deviation_of(p);
        for (; at > 0 && spread[at - 1] > own; at--)
            spread[at] = spread[at - 1];
        spread[at] = own;
    }
    return n ? spread[n / 2] : NAN;
}

static const char *spread_text(cli *c, double spread)
{
    return isnan(spread)
               ? "one pass tells no deviation"
               : fs_printf(c->arena, "deviation %.1f %%", 100 * spread);
}

static const char *firing_text(cli *c, const hw_group *group)
{
    char text[32];
    if (group->firing_s <= 0)
        return "not measured";
    return fs_printf(c->arena, "%s of the runtime's beside each task, %s",
                     fs_human_seconds(text, group->firing_s),
                     spread_text(c, link_spread(&group->device, HW_FIRING)));
}

static const char *turn_text(cli *c, const hw_group *group)
{
    char text[32];
    for (int32_t i = 0; i < group->device.n_points; i++)
        if (strcmp(group->device.points[i].what, HW_TURN) == 0)
            return fs_printf(
                c->arena, "%s longer at a meeting, %s",
                fs_human_seconds(text, group->turn_s),
                spread_text(c, link_spread(&group->device, HW_TURN)));
    return "not measured on so many cores";
}

static void set_spread(cli *c, const char *key, double spread)
{
    json_object_set_new(c->result, key,
                        isnan(spread) ? json_null() : json_real(spread));
}

static void row(report_table *t, const char *what, const char *value)
{
    report_table_cell(t, "%s", what);
    report_table_cell(t, "%s", value);
}

/* What was said is true when it is said. */
static void tell(cli *c, const hw_cluster *cluster, const cli_machine *machine)
{
    static const char *const header[] = {"this machine", ""};
    const hw_group *group = &cluster->groups[0];
    const counted n = count_points(&group->device, c->arena);
    report_table t = {.arena = c->arena, .n_columns = 2, .header = header};
    char a[32], b[32];
    json_object_set_new(c->result, "points", json_integer(n.forms));
    json_object_set_new(c->result, "curve_points", json_integer(n.curves));
    json_object_set_new(c->result, "spread",
                        n.repeated ? json_real(n.spread) : json_null());
    const double pings = link_spread(&group->device, HW_PING);
    set_spread(c, "link_spread", pings);
    set_spread(c, "turn_spread", link_spread(&group->device, HW_TURN));
    json_object_set_new(c->result, "machine",
                        json_string(machine->fingerprint));
    json_object_set_new(c->result, "facts", fs_json_string(machine->facts));
    json_object_set_new(c->result, "file",
                        fs_json_string(c->args.output ? c->args.output : ""));
    row(&t, "is", machine->facts);
    row(&t, "fingerprint", machine->fingerprint);
    row(&t, "products",
        fs_printf(c->arena, "%sFLOP/s on a core",
                  fs_human_count(a, group->device.fp32_flops)));
    row(&t, "memory",
        fs_printf(c->arena, "%s/s read and written by a core",
                  fs_human_bytes(a, group->device.memory_bps)));
    row(&t, "ranks",
        fs_printf(c->arena, "%s and %s/s between two, %s",
                  fs_human_seconds(a, group->inner.latency_s),
                  fs_human_bytes(b, group->inner.bandwidth_bps),
                  spread_text(c, pings)));
    row(&t, "firing", firing_text(c, group));
    row(&t, "more ranks than cores", turn_text(c, group));
    row(&t, "kernels", deviation_text(c->arena, &n));
    if (!c->args.json)
        report_table_print(&t, stdout);
    tell_doubtful(c, &n);
    if (n.spread > 0.1 || pings > 0.25)
        cli_say(c, "passes differ by more than 10 %%: was this machine busy? "
                   "calibrate --anew measures all of it again\n");
    if (c->db)
        cli_say(c, "`local` now means these figures\n");
    if (c->args.output)
        cli_say(c, "written to %s\n", c->args.output);
}

/* A network is planned on what is known of the machine so far: what nobody has
 * measured may look better than it is, and is then chosen. So plans are made
 * anew with what was measured of the ones before, a few times. */
static fs_status measure_model(cli *c, const char *model, int32_t passes,
                               hw_cluster *cluster)
{
    enum { ROUNDS = 3 };
    hw_cluster *seen = fs_memdup(c->arena, cluster, sizeof *cluster);
    for (int32_t round = ROUNDS; round >= 1; round--) {
        const char *const *plans;
        seen->groups =
            fs_memdup(c->arena, cluster->groups, sizeof *seen->groups);
        cli_see_local(c, seen);
        FS_TRY(cli_usual_plans(c, model, seen, &plans));
        const int32_t share = (passes + round - 1) / round;
        FS_TRY(cli_probe_plans(c, share, plans, seen->n_devices, cluster));
        passes -= share;
        if (passes < 1)
            break;
    }
    return FS_OK;
}

static fs_status forget(cli *c, const cli_machine *machine)
{
    if (!c->args.anew || !c->db)
        return FS_OK;
    return store_samples_forget(c->db, machine->digest, &c->err);
}

fs_status cli_cmd_calibrate(cli *c)
{
    const char *model;
    const char *const *plans = NULL;
    int32_t ranks;
    hw_cluster *cluster;
    const cli_machine *machine;
    if (cli_am_rank())
        return cli_probe_as_rank(c);
    FS_TRY(check_operands(c, &model, &plans));
    FS_TRY(check_options(c, model, plans[0] != NULL));
    if (c->args.output)
        FS_TRY(cli_check_writable(c, c->args.output));
    FS_TRY(check_plans(c, plans, &ranks));
    if (model)
        FS_TRY(check_model(c, model));
    FS_TRY(cli_begin(c, model, "local"));
    FS_TRY(cli_measure_alone(c));
    const int32_t passes =
        c->args.passes > 0 ? (int32_t)c->args.passes : CLI_PASSES;
    FS_TRY(cli_machine_here(c, &machine));
    FS_TRY(forget(c, machine));
    FS_TRY(cli_probe(c, passes, &cluster));
    FS_TRY(cli_remember_local(c, cluster));
    if (model)
        FS_TRY(measure_model(c, model, passes, cluster));
    if (plans[0])
        FS_TRY(cli_probe_plans(c, passes, plans, ranks, cluster));
    FS_TRY(cli_remember_local(c, cluster));
    cli_see_local(c, cluster);
    if (c->args.output)
        FS_TRY(hw_cluster_save(cluster, c->args.output, &c->err));
    tell(c, cluster, machine);
    return FS_OK;
}
