/* --allow-idle: a plan on a part of the cluster, so many nodes with so many
 * devices each, whose other devices have nothing to do. */
#include "config.h"
#include "cli/making.h"

#include "cli/cluster.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

enum { MOST_PARTS = 32 };
/* Of the limits, what is left for the search of the part that was chosen. */
#define LAST_SHARE 0.5

typedef struct idle_part {
    hw_cluster *cluster;
    const char *spec; /* that opens it */
    const char *why;  /* there is no plan; NULL */
    double iteration_s, lower_bound_s;
} idle_part;

struct cli_idle {
    int32_t n_devices; /* of the whole cluster */
    int32_t chosen;
    double search_s; /* spent on all parts before the one chosen is told, */
    int64_t steps;   /* and done */
    int32_t n;
    idle_part parts[MOST_PARTS];
};

static const char *spec_of(const cli_making *m, int32_t nodes, int32_t devices)
{
    const char *said = m->origin.cluster, *file = hw_cluster_file(said);
    if (strcmp(said, "local") == 0)
        return said; /* a plan's file holds what was probed */
    return fs_printf(m->c->arena, "%dx%d:%s", nodes, devices,
                     file ? file : m->cluster->groups[0].device.name);
}

static void add_part(cli_making *m, int32_t nodes, int32_t devices)
{
    struct cli_idle *idle = m->idle;
    const hw_group *group = &m->cluster->groups[0];
    const bool all =
        nodes == group->nodes && devices == group->devices_per_node;
    if (idle->n == MOST_PARTS)
        return;
    idle_part *p = &idle->parts[idle->n++];
    *p = (idle_part){.iteration_s = INFINITY};
    p->spec = all ? m->origin.cluster : spec_of(m, nodes, devices);
    p->cluster =
        all ? m->cluster
            : hw_cluster_part(m->cluster, nodes, devices, p->spec, m->c->arena);
}

static void take_part(cli_making *m, const idle_part *p)
{
    m->cluster = p->cluster;
    m->origin.cluster = p->spec;
}

static fs_status begin(cli_making *m)
{
    cli *c = m->c;
    if (m->cluster->n_groups != 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--allow-idle is for clusters of one kind of devices, "
                       "%s has %d groups",
                       m->cluster->name, m->cluster->n_groups);
    m->idle = fs_new(c->arena, struct cli_idle, 1);
    m->idle->n_devices = m->cluster->n_devices;
    return FS_OK;
}

/* ---- by hand ---- */

static bool is_complete(cli_making *m, const hw_cluster *cluster, fs_err *err)
{
    search_recipe recipe = m->recipe;
    return search_recipe_complete(cluster, m->origin.batch, m->by_hand, err,
                                  &recipe) == FS_OK;
}

/* As many devices as the recipe wants: of one node, or whole ones, or else as
 * many of each as there is a divisor for. */
static fs_status part_by_hand(cli_making *m)
{
    const search_recipe *r = &m->recipe;
    const hw_group *group = &m->cluster->groups[0];
    fs_err err = {0};
    if (is_complete(m, m->cluster, &err) ||
        r->dp_each.n + r->tp_each.n + r->cp_each.n > 0)
        return FS_OK; /* of no part, or said where the recipe is completed */
    const int64_t wanted = (int64_t)(r->dp > 0 ? r->dp : 1) *
                           (r->tp > 0 ? r->tp : 1) * (r->cp > 0 ? r->cp : 1) *
                           (r->pp > 0 ? r->pp : 1);
    for (int32_t d = group->devices_per_node; d >= 1; d--)
        if (wanted % d == 0 && wanted / d <= group->nodes &&
            wanted < m->cluster->n_devices) {
            add_part(m, (int32_t)(wanted / d), d);
            take_part(m, &m->idle->parts[0]);
            return FS_OK;
        }
    return FS_OK;
}

/* ---- a search of each ---- */

/* All numbers of devices of a node where these are few, else powers of two; of
 * whole nodes those of 2^k and 3 * 2^k; and all there is. */
static void list_parts(cli_making *m)
{
    enum { FEW = 8 };
    const hw_group *group = &m->cluster->groups[0];
    const int32_t devices = group->devices_per_node, nodes = group->nodes;
    for (int32_t d = 1; d < devices; d = d < FEW ? d + 1 : 2 * d)
        add_part(m, 1, d);
    for (int32_t n = 1; n < nodes; n *= 2) {
        add_part(m, n, devices);
        if (n > 1 && n + n / 2 < nodes)
            add_part(m, n + n / 2, devices);
    }
    add_part(m, nodes, devices);
}

static fs_status search_part(cli_making *m, idle_part *p,
                             fs_status (*attempt)(cli_making *m))
{
    cli *c = m->c;
    const search_recipe recipe = m->recipe;
    take_part(m, p);
    fs_progress("the best plan on %d devices", p->cluster->n_devices);
    fs_status status = search_recipe_complete(p->cluster, m->origin.batch,
                                              m->by_hand, &c->err, &m->recipe);
    m->found = (search_result){.status = "limit"};
    if (status == FS_OK)
        status = attempt(m);
    else
        m->found.status = "infeasible";
    m->recipe = recipe;
    m->idle->search_s += m->found.search_s;
    m->idle->steps += m->found.steps;
    p->lower_bound_s = m->found.lower_bound_s;
    if (status == FS_OK) {
        p->iteration_s = m->found.iteration_s;
    } else if (status == FS_NO || status == FS_INVALID) {
        p->why = fs_strdup(c->arena, c->err.text);
        if (strcmp(m->found.status, "infeasible") == 0)
            p->lower_bound_s = INFINITY;
        c->err = (fs_err){0};
        status = FS_OK;
    }
    m->graphs_s = 0;
    return status;
}

static fs_status choose_part(cli_making *m, fs_status (*attempt)(cli_making *m))
{
    struct cli_idle *idle = m->idle;
    const double share = m->time_share > 0 ? m->time_share : 1;
    list_parts(m);
    m->time_share = share * (1 - LAST_SHARE) / idle->n;
    for (int32_t k = 0; k < idle->n; k++) {
        idle_part *p = &idle->parts[k];
        FS_TRY(search_part(m, p, attempt));
        if (p->iteration_s <= idle->parts[idle->chosen].iteration_s)
            idle->chosen = k;
        if (m->stop && atomic_load(m->stop))
            idle->n = k + 1;
    }
    take_part(m, &idle->parts[idle->chosen]);
    m->time_share = share * LAST_SHARE;
    m->found = (search_result){0};
    return FS_OK;
}

fs_status cli_idle_begin(cli_making *m, fs_status (*attempt)(cli_making *m))
{
    if (!m->c->args.allow_idle)
        return FS_OK;
    FS_TRY(begin(m));
    return m->by_hand ? part_by_hand(m) : choose_part(m, attempt);
}

/* What is proven is of all parts. */
void cli_idle_bound(cli_making *m)
{
    const struct cli_idle *idle = m->idle;
    search_result *f = &m->found;
    double least = f->lower_bound_s;
    if (!idle || m->by_hand)
        return;
    for (int32_t k = 0; k < idle->n; k++)
        if (k != idle->chosen)
            least = fmin(least, idle->parts[k].lower_bound_s);
    f->search_s += idle->search_s;
    f->first_s += idle->search_s;
    f->steps += idle->steps;
    f->space = fs_printf(m->c->arena, "%s; on %d parts of the cluster",
                         f->space, idle->n);
    if (least >= f->lower_bound_s)
        return;
    f->lower_bound_s = least;
    f->gap = fmax(0, (f->iteration_s - least) / f->iteration_s);
    if (f->gap > 1e-9)
        f->status = "feasible";
}

void cli_idle_json(const cli_making *m)
{
    const struct cli_idle *idle = m->idle;
    json_t *r = m->c->result, *list = json_array();
    if (!idle) {
        json_decref(list);
        return;
    }
    for (int32_t k = 0; k < idle->n && !m->by_hand; k++) {
        const idle_part *p = &idle->parts[k];
        json_t *row = json_object();
        fs_json_set_text(row, "cluster", p->spec);
        fs_json_set_int(row, "devices", p->cluster->n_devices);
        fs_json_set_real(row, "iteration_s", p->iteration_s);
        fs_json_set_real(row, "lower_bound_s", p->lower_bound_s);
        if (p->why)
            fs_json_set_text(row, "why", p->why);
        json_array_append_new(list, row);
    }
    fs_json_set_int(r, "devices_used", m->cluster->n_devices);
    fs_json_set_int(r, "devices_idle", idle->n_devices - m->cluster->n_devices);
    json_object_set_new(r, "parts", list);
}

static const char *seconds(const cli_making *m, double s)
{
    char text[32];
    return isfinite(s) ? fs_strdup(m->c->arena, fs_human_seconds(text, s))
                       : "none";
}

void cli_idle_tell(const cli_making *m)
{
    static const char *const header[] = {"devices", "cluster", "iteration",
                                         "bound", ""};
    const struct cli_idle *idle = m->idle;
    report_table t = {.arena = m->c->arena, .n_columns = 5, .header = header};
    if (!idle)
        return;
    cli_say(m->c, "devices         %d of %d, %d idle\n", m->cluster->n_devices,
            idle->n_devices, idle->n_devices - m->cluster->n_devices);
    for (int32_t k = 0; k < idle->n && !m->by_hand; k++) {
        const idle_part *p = &idle->parts[k];
        report_table_cell(&t, "%d", p->cluster->n_devices);
        report_table_cell(&t, "%s", p->cluster->name);
        report_table_cell(&t, "%s", seconds(m, p->iteration_s));
        report_table_cell(&t, "%s", seconds(m, p->lower_bound_s));
        report_table_cell(&t, "%.60s",
                          k == idle->chosen ? "chosen"
                          : p->why          ? p->why
                                            : "");
    }
    if (!m->by_hand && !m->c->args.json) {
        cli_say(m->c, "\nparts of the cluster, each searched in a share of the "
                      "limits\n");
        report_table_print(&t, stdout);
    }
}
