/* `sim --critical`: which tasks a step waits for from its end to its begin, and
 * which communication nothing hides. */
#include "config.h"
#include "cli/simulate.h"

#include "base/clock.h"
#include "report/report.h"

#include <string.h>

enum { TOLD_TASKS = 12 };

static int by_seconds(const void *a, const void *b, void *sums)
{
    const sim_sum *x = (const sim_sum *)sums + *(const int32_t *)a;
    const sim_sum *y = (const sim_sum *)sums + *(const int32_t *)b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return *(const int32_t *)a - *(const int32_t *)b;
}

/* Classes that took part, most seconds first. */
static int32_t order(sim_sum *sums, int32_t at[SIM_CLASSES])
{
    int32_t n = 0;
    for (int32_t k = 0; k < SIM_CLASSES; k++)
        if (sums[k].seconds > 0 || sums[k].firings > 0)
            at[n++] = k;
    qsort_r(at, (size_t)n, sizeof *at, by_seconds, sums);
    return n;
}

static double share_of(double seconds, double all_s)
{
    return all_s > 0 ? seconds / all_s : 0;
}

/* ---- the path ---- */

static json_t *classes_json(sim_critical *path, double all_s)
{
    int32_t at[SIM_CLASSES];
    json_t *list = json_array();
    const int32_t n = order(path->path, at);
    for (int32_t i = 0; i < n; i++) {
        const sim_sum *sum = &path->path[at[i]];
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:f, s:I}", "class",
                                        sim_class_name((sim_class)at[i]),
                                        "seconds", sum->seconds, "share",
                                        share_of(sum->seconds, all_s),
                                        "firings", (json_int_t)sum->firings));
    }
    return list;
}

static const plan_task *task_on(const cli_plan *p, const sim_on_path *on)
{
    return &p->plan->roles[on->role].tasks[on->task];
}

static json_t *tasks_json(cli *c, const cli_plan *p, const sim_critical *path)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < path->n_tasks; i++) {
        const sim_on_path *on = &path->tasks[i];
        const plan_role *role = &p->plan->roles[on->role];
        const plan_task *task = task_on(p, on);
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:i, s:i, s:f, s:I}", "task",
                            fs_json_string(
                                plan_task_name(p->model.graph, task, c->arena)),
                            "class", sim_class_name(sim_class_of(task)),
                            "stage", plan_task_stage(role, task), "rank",
                            role->first_rank, "seconds", on->sum.seconds,
                            "firings", (json_int_t)on->sum.firings));
    }
    return list;
}

static json_t *waits_json(const sim_critical *path)
{
    json_t *out = json_object();
    for (int32_t k = 0; k < SIM_WHYS; k++)
        json_object_set_new(out, sim_why_name((sim_why)k),
                            json_integer(path->why[k]));
    json_object_set_new(out, "meeting", json_integer(path->meetings));
    return out;
}

static void path_table(cli *c, sim_critical *path, double all_s)
{
    static const char *const header[] = {"critical path", "time", "share",
                                         "firings"};
    report_table t = {.arena = c->arena, .n_columns = 4, .header = header};
    int32_t at[SIM_CLASSES];
    const int32_t n = order(path->path, at);
    for (int32_t i = 0; i < n; i++) {
        const sim_sum *sum = &path->path[at[i]];
        char text[32];
        report_table_cell(&t, "%s", sim_class_name((sim_class)at[i]));
        report_table_cell(&t, "%s", fs_human_seconds(text, sum->seconds));
        report_table_cell(&t, "%.1f %%", 100 * share_of(sum->seconds, all_s));
        report_table_cell(&t, "%lld", (long long)sum->firings);
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
}

static void task_table(cli *c, const cli_plan *p, const sim_critical *path,
                       double all_s)
{
    static const char *const header[] = {"longest on it", "stage", "time",
                                         "share", "firings"};
    report_table t = {.arena = c->arena, .n_columns = 5, .header = header};
    for (int32_t i = 0; i < path->n_tasks && i < TOLD_TASKS; i++) {
        const sim_on_path *on = &path->tasks[i];
        const plan_task *task = task_on(p, on);
        char text[32];
        report_table_cell(&t, "%s",
                          plan_task_name(p->model.graph, task, c->arena));
        report_table_cell(&t, "%d",
                          plan_task_stage(&p->plan->roles[on->role], task));
        report_table_cell(&t, "%s", fs_human_seconds(text, on->sum.seconds));
        report_table_cell(&t, "%.1f %%",
                          100 * share_of(on->sum.seconds, all_s));
        report_table_cell(&t, "%lld", (long long)on->sum.firings);
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
}

/* ---- communication ---- */

static json_t *exposed_json(sim_critical *path)
{
    int32_t at[SIM_CLASSES];
    json_t *list = json_array();
    const int32_t n = order(path->exposed, at);
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:f, s:f, s:I}", "kind",
                            sim_class_name((sim_class)at[i]), "exposed_s",
                            path->exposed[at[i]].seconds, "comm_s",
                            path->whole_s[at[i]], "firings",
                            (json_int_t)path->exposed[at[i]].firings));
    return list;
}

static void exposed_table(cli *c, sim_critical *path)
{
    static const char *const header[] = {"communication", "in all", "exposed",
                                         "hidden"};
    report_table t = {.arena = c->arena, .n_columns = 4, .header = header};
    int32_t at[SIM_CLASSES];
    const int32_t n = order(path->exposed, at);
    for (int32_t i = 0; i < n; i++) {
        const double seconds = path->exposed[at[i]].seconds;
        const double whole_s = path->whole_s[at[i]];
        char text[32];
        report_table_cell(&t, "%s", sim_class_name((sim_class)at[i]));
        report_table_cell(&t, "%s", fs_human_seconds(text, whole_s));
        report_table_cell(&t, "%s", fs_human_seconds(text, seconds));
        report_table_cell(
            &t, "%.1f %%",
            100 * share_of(whole_s > seconds ? whole_s - seconds : 0, whole_s));
    }
    if (c->args.json || n == 0)
        return;
    report_table_print(&t, stdout);
    puts("(in all: time in which two kinds run counts for both; a stage's "
         "`comm` counts it once)");
}

void cli_tell_critical(cli *c, const cli_plan *p, sim_critical *path,
                       const sim_result *sim)
{
    const double all_s = sim->step_s[sim->last_step];
    json_object_set_new(c->result, "critical_path", classes_json(path, all_s));
    json_object_set_new(c->result, "critical_tasks", tasks_json(c, p, path));
    json_object_set_new(c->result, "critical_waits", waits_json(path));
    json_object_set_new(c->result, "exposed", exposed_json(path));
    path_table(c, path, all_s);
    task_table(c, p, path, all_s);
    exposed_table(c, path);
}
