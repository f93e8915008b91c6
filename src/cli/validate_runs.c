/* One's own runs, from the database: what was predicted of each before it ran,
 * what it took, and what the simulator says of the durations it had. */
#include "config.h"
#include "cli/validate_machines.h"
#include "cli/validate_score.h"

#include "base/clock.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A plan's runs on one machine, by one table of algorithms: medians over them.
 */
typedef struct ran {
    const char *model, *plan, *digest;
    const char *collectives; /* as run tells them; "": it did not yet */
    validate_where at;
    int32_t ranks, n;
    double *measured; /* [n] step's seconds of each run */
    double median, predicted, replayed;
    double bytes, predicted_bytes; /* of the fullest process; NAN */
} ran;

typedef struct reading {
    cli *c;
    const char *within; /* of several databases the one at hand; "" */
    const cli_machine *here;
    FS_VEC(ran) plans;
} reading;

/* Runs in order: those of a plan are each other's repetition. */
static const char query[] =
    "SELECT r.plan_digest, r.model, r.command_line,"
    " json_extract(r.json, '$.ranks'),"
    " json_extract(r.json, '$.predicted_step_s'),"
    " json_extract(r.json, '$.step_s.median'),"
    " json_extract(r.json, '$.replayed_step_s'),"
    " (SELECT value FROM figures f WHERE f.run = r.id"
    "  AND f.name = 'process_bytes'),"
    " (SELECT value FROM figures f WHERE f.run = r.id"
    "  AND f.name = 'predicted_process_bytes'),"
    " coalesce(json_extract(r.json, '$.machine'), ''),"
    " coalesce(json_extract(r.json, '$.figures_of'), ''), coalesce(r.host, ''),"
    " coalesce(json_extract(r.json, '$.collectives'), '')"
    " FROM runs r WHERE r.command = 'run' AND r.status = 0"
    " AND json_extract(r.json, '$.step_s.median') > 0 ORDER BY r.id";

static double number(const char *text)
{
    return text ? strtod(text, NULL) : NAN;
}

/* The PLAN of a command line, and how its collectives were asked for. */
static const char *plan_of(fs_arena *arena, const char *line)
{
    static const char by[] = " --collectives ";
    const char *at = line ? strstr(line, " run ") : NULL;
    if (!at)
        return "?";
    at += 5;
    const char *said = strstr(at, by);
    const int n_said =
        said ? (int)(sizeof by - 1 + strcspn(said + sizeof by - 1, " ")) : 0;
    return fs_printf(arena, "%.*s%.*s", (int)strcspn(at, " "), at, n_said,
                     said ? said : "");
}

/* Is it of these runs? All else but the figures is told. */
static bool is_one_of(const ran *one, const ran *all)
{
    return strcmp(one->digest, all->digest) == 0 &&
           strcmp(one->model, all->model) == 0 &&
           strcmp(one->collectives, all->collectives) == 0 &&
           validate_same_where(&one->at, &all->at);
}

/* `like->model` has the mark of where it ran. */
static ran *find(reading *r, const ran *like)
{
    fs_arena *arena = r->c->arena;
    for (int32_t i = 0; i < r->plans.n; i++)
        if (is_one_of(like, &r->plans.at[i]))
            return &r->plans.at[i];
    const ran one = {.digest = fs_strdup(arena, like->digest),
                     .model = fs_strdup(arena, like->model),
                     .collectives = fs_strdup(arena, like->collectives),
                     .at = {.machine = fs_strdup(arena, like->at.machine),
                            .host = fs_strdup(arena, like->at.host),
                            .figures = fs_strdup(arena, like->at.figures)}};
    fs_push(arena, &r->plans, one);
    return &r->plans.at[r->plans.n - 1];
}

static void take_run(void *ctx, int n, const char *const *columns,
                     const char *const *values)
{
    reading *r = ctx;
    fs_arena *arena = r->c->arena;
    (void)n;
    (void)columns;
    if (!values[0] || !values[1])
        return;
    const validate_where at = {
        .machine = values[9], .figures = values[10], .host = values[11]};
    const ran like = {.digest = values[0],
                      .model = fs_printf(arena, "%s%s%s", values[1], r->within,
                                         validate_mark(arena, &at, r->here)),
                      .collectives = values[12],
                      .at = at};
    ran *one = find(r, &like);
    double *all = fs_new(arena, double, one->n + 1);
    for (int32_t i = 0; i < one->n; i++)
        all[i] = one->measured[i];
    all[one->n++] = number(values[5]);
    one->measured = all;
    one->plan = plan_of(arena, values[2]);
    one->ranks = (int32_t)number(values[3]);
    one->predicted = number(values[4]);
    one->replayed = number(values[6]);
    one->bytes = number(values[7]);
    one->predicted_bytes = number(values[8]);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(fs_arena *arena, const double *values, int32_t n)
{
    if (n == 0)
        return NAN;
    double *sorted = fs_memdup(arena, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/* ---- a network's plans ---- */

typedef struct of_model {
    const char *model;
    int32_t plans, runs;
    double mape, median, bias; /* of predictions */
    double replay;             /* median error of the simulator alone */
    double bytes;              /* median error of memory; NAN */
    double tau, regret;
    /* Of the pairs of plans that every run put in the same order; NAN: none. */
    double sure_tau;
    int32_t sure_pairs;
    /* The best that can be had: one round of runs as the prediction of the
     * rest. NAN: each plan ran once. */
    double noise, noise_tau, noise_regret;
} of_model;

typedef struct list {
    int32_t n;
    double *at;
} list;

static void add(list *l, double value)
{
    if (isfinite(value))
        l->at[l->n++] = value;
}

/* Of run `k` of each plan as a prediction of what its others took. */
static void score_round(const reading *r, const char *model, int32_t k,
                        list *error, list *tau, list *regret)
{
    fs_arena *arena = r->c->arena;
    double *rest = fs_new(arena, double, r->plans.n);
    double *one = fs_new(arena, double, r->plans.n);
    int32_t n = 0;
    for (int32_t i = 0; i < r->plans.n; i++) {
        const ran *p = &r->plans.at[i];
        if (strcmp(p->model, model) != 0 || p->n <= k || p->n < 2)
            continue;
        double *others = fs_new(arena, double, p->n);
        for (int32_t x = 0, m = 0; x < p->n; x++)
            if (x != k)
                others[m++] = p->measured[x];
        one[n] = p->measured[k];
        rest[n] = median_of(arena, others, p->n - 1);
        add(error, fabs(one[n] / rest[n] - 1));
        n++;
    }
    if (n < 3)
        return;
    validate_group order = {0};
    validate_order(rest, one, n, &order);
    add(tau, order.tau);
    add(regret, order.regret);
}

static void score_noise(const reading *r, of_model *m)
{
    fs_arena *arena = r->c->arena;
    int32_t rounds = 0;
    for (int32_t i = 0; i < r->plans.n; i++)
        if (r->plans.at[i].n > rounds)
            rounds = r->plans.at[i].n;
    const int32_t room = rounds * r->plans.n + 1;
    list error = {0, fs_new(arena, double, room)};
    list tau = {0, fs_new(arena, double, room)};
    list regret = {0, fs_new(arena, double, room)};
    for (int32_t k = 0; k < rounds; k++)
        score_round(r, m->model, k, &error, &tau, &regret);
    m->noise = median_of(arena, error.at, error.n);
    m->noise_tau = median_of(arena, tau.at, tau.n);
    m->noise_regret = median_of(arena, regret.at, regret.n);
}

/* Every run of one plan took less than every run of the other. */
static bool below(const ran *one, const ran *other)
{
    for (int32_t i = 0; i < one->n; i++)
        for (int32_t k = 0; k < other->n; k++)
            if (one->measured[i] >= other->measured[k])
                return false;
    return true;
}

/* Kendall's tau of what runs repeat: a pair whose runs overlap has no order
 * that a prediction could keep. */
static void score_sure(const reading *r, of_model *m)
{
    int32_t agree = 0;
    for (int32_t i = 0; i < r->plans.n; i++)
        for (int32_t k = 0; k < r->plans.n; k++) {
            const ran *x = &r->plans.at[i], *y = &r->plans.at[k];
            if (strcmp(x->model, m->model) != 0 ||
                strcmp(y->model, m->model) != 0 || x->n < 2 || y->n < 2 ||
                !below(x, y))
                continue;
            m->sure_pairs++;
            agree +=
                (x->predicted < y->predicted) - (x->predicted > y->predicted);
        }
    m->sure_tau = m->sure_pairs ? (double)agree / m->sure_pairs : NAN;
}

static of_model score_model(const reading *r, const char *model)
{
    fs_arena *arena = r->c->arena;
    const int32_t most = r->plans.n;
    of_model m = {.model = model, .tau = NAN, .regret = NAN};
    list error = {0, fs_new(arena, double, most)};
    list replay = {0, fs_new(arena, double, most)};
    list bytes = {0, fs_new(arena, double, most)};
    double *measured = fs_new(arena, double, most);
    double *predicted = fs_new(arena, double, most);
    for (int32_t i = 0; i < most; i++) {
        const ran *p = &r->plans.at[i];
        if (strcmp(p->model, model) != 0)
            continue;
        const double off = p->predicted / p->median - 1;
        measured[m.plans] = p->median;
        predicted[m.plans++] = p->predicted;
        m.runs += p->n;
        m.bias += off;
        m.mape += fabs(off);
        add(&error, fabs(off));
        add(&replay, fabs(p->replayed / p->median - 1));
        add(&bytes, fabs(p->predicted_bytes / p->bytes - 1));
    }
    m.bias /= m.plans;
    m.mape /= m.plans;
    m.median = median_of(arena, error.at, error.n);
    m.replay = median_of(arena, replay.at, replay.n);
    m.bytes = median_of(arena, bytes.at, bytes.n);
    if (m.plans >= 3) {
        validate_group order = {0};
        validate_order(measured, predicted, m.plans, &order);
        m.tau = order.tau;
        m.regret = order.regret;
    }
    score_sure(r, &m);
    score_noise(r, &m);
    return m;
}

/* ---- what is told ---- */

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static const char *percent(fs_arena *arena, double value)
{
    return isfinite(value) ? fs_printf(arena, "%.1f %%", 100 * value) : "";
}

static int by_error(const void *a, const void *b)
{
    const ran *x = a, *y = b;
    const double ex = fabs(x->predicted / x->median - 1);
    const double ey = fabs(y->predicted / y->median - 1);
    return ex != ey ? (ex < ey) - (ex > ey) : strcmp(x->plan, y->plan);
}

static void plan_table(cli *c, const reading *r)
{
    static const char *const header[] = {"plan",  "network",  "ranks",
                                         "runs",  "measured", "predicted",
                                         "error", "replayed", "error"};
    report_table t = {.arena = c->arena, .n_columns = 9, .header = header};
    for (int32_t i = 0; i < r->plans.n; i++) {
        const ran *p = &r->plans.at[i];
        char text[32];
        report_table_cell(&t, "%s", validate_short_path(c->arena, p->plan, 40));
        report_table_cell(&t, "%s",
                          validate_short_path(c->arena, p->model, 32));
        report_table_cell(&t, "%d", p->ranks);
        report_table_cell(&t, "%d", p->n);
        report_table_cell(&t, "%s", fs_human_seconds(text, p->median));
        report_table_cell(&t, "%s", fs_human_seconds(text, p->predicted));
        report_table_cell(&t, "%+.1f %%", 100 * (p->predicted / p->median - 1));
        report_table_cell(
            &t, "%s",
            isfinite(p->replayed) ? fs_human_seconds(text, p->replayed) : "");
        report_table_cell(&t, "%s",
                          percent(c->arena, p->replayed / p->median - 1));
    }
    puts("worst first");
    report_table_print(&t, stdout);
}

static void model_table(cli *c, const of_model *models, int32_t n)
{
    static const char *const header[] = {
        "network",  "plans",   "median error", "mean error", "bias",
        "replayed", "memory",  "tau",          "regret",     "sure tau",
        "noise",    "its tau", "its regret"};
    report_table t = {.arena = c->arena, .n_columns = 13, .header = header};
    for (int32_t i = 0; i < n; i++) {
        const of_model *m = &models[i];
        report_table_cell(&t, "%s",
                          validate_short_path(c->arena, m->model, 48));
        report_table_cell(&t, "%d", m->plans);
        report_table_cell(&t, "%s", percent(c->arena, m->median));
        report_table_cell(&t, "%s", percent(c->arena, m->mape));
        report_table_cell(&t, "%+.1f %%", 100 * m->bias);
        report_table_cell(&t, "%s", percent(c->arena, m->replay));
        report_table_cell(&t, "%s", percent(c->arena, m->bytes));
        report_table_cell(&t, "%s",
                          isfinite(m->tau) ? fs_printf(c->arena, "%.2f", m->tau)
                                           : "");
        report_table_cell(&t, "%s", percent(c->arena, m->regret));
        report_table_cell(
            &t, "%s",
            isfinite(m->sure_tau)
                ? fs_printf(c->arena, "%.2f of %d", m->sure_tau, m->sure_pairs)
                : "");
        report_table_cell(&t, "%s", percent(c->arena, m->noise));
        report_table_cell(&t, "%s",
                          isfinite(m->noise_tau)
                              ? fs_printf(c->arena, "%.2f", m->noise_tau)
                              : "");
        report_table_cell(&t, "%s", percent(c->arena, m->noise_regret));
    }
    puts("");
    report_table_print(&t, stdout);
    puts("bias: the mean with its sign; replayed: the simulator with measured "
         "durations; sure tau: of the pairs of plans that all runs put in one "
         "order; noise: one run of each plan as the prediction of its others");
}

static void fill_json(cli *c, const reading *r, const of_model *models,
                      int32_t n)
{
    json_t *sources = json_object(), *details = json_array();
    json_t *skipped = json_array();
    for (int32_t i = 0; i < n; i++) {
        const of_model *m = &models[i];
        json_object_set_new(
            sources, m->model,
            json_pack("{s:f, s:f, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                      "s:o, s:i}",
                      "mape", m->mape, "bias", m->bias, "rows", m->plans,
                      "runs", m->runs, "median", real_or_null(m->median),
                      "replayed", real_or_null(m->replay), "mem_mape",
                      real_or_null(m->bytes), "tau", real_or_null(m->tau),
                      "regret", real_or_null(m->regret), "noise",
                      real_or_null(m->noise), "noise_tau",
                      real_or_null(m->noise_tau), "sure_tau",
                      real_or_null(m->sure_tau), "sure_pairs", m->sure_pairs));
    }
    for (int32_t i = 0; i < r->plans.n; i++) {
        const ran *p = &r->plans.at[i];
        json_array_append_new(
            details,
            json_pack("{s:o, s:s, s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:o, s:f}",
                      "id", fs_json_string(p->plan), "machine", p->at.machine,
                      "figures_of", p->at.figures, "model",
                      fs_json_string(p->model), "plan_digest", p->digest,
                      "ranks", p->ranks, "runs", p->n, "measured_s", p->median,
                      "predicted_s", p->predicted, "replayed_s",
                      real_or_null(p->replayed), "error",
                      p->predicted / p->median - 1));
        if (validate_misplaced(&p->at))
            json_array_append_new(
                skipped, json_pack("{s:o, s:s}", "id", fs_json_string(p->plan),
                                   "reason", validate_left_out(&p->at)));
    }
    json_object_set_new(c->result, "rows", json_integer(r->plans.n));
    json_object_set_new(
        c->result, "predicted",
        json_integer(r->plans.n - (json_int_t)json_array_size(skipped)));
    json_object_set_new(c->result, "skipped", skipped);
    json_object_set_new(c->result, "per_source", sources);
    json_object_set_new(c->result, "details", details);
}

static fs_status check_bound(cli *c, double median)
{
    const double most = c->args.max_error;
    if (isnan(most) || median <= most)
        return FS_OK;
    return fs_fail(&c->err, FS_NO,
                   "the median error is %.2f %%, above the bound of %.2f %%",
                   100 * median, 100 * most);
}

/* A point per plan, networks as series. */
static fs_status draw(cli *c, const reading *r, const of_model *models,
                      int32_t n)
{
    FS_VEC(report_scatter_point) points = {0};
    const char **names = fs_new(c->arena, const char *, n);
    for (int32_t k = 0; k < n; k++) {
        names[k] = fs_printf(c->arena, "%s, %.1f %%",
                             validate_short_path(c->arena, models[k].model, 48),
                             100 * models[k].mape);
        for (int32_t i = 0; i < r->plans.n; i++)
            if (strcmp(r->plans.at[i].model, models[k].model) == 0)
                fs_push(c->arena, &points,
                        (report_scatter_point){r->plans.at[i].median,
                                               r->plans.at[i].predicted, k});
    }
    return validate_draw(c, &(report_scatter){"predicted against measured",
                                              points.n, n, points.at, names});
}

/* By machine and figures. */
static void tell_machines(const reading *r)
{
    FS_VEC(validate_where) places = {0};
    for (int32_t i = 0; i < r->plans.n; i++) {
        const ran *p = &r->plans.at[i];
        int32_t k = 0;
        while (k < places.n && !validate_same_where(&places.at[k], &p->at))
            k++;
        if (k == places.n)
            fs_push(r->c->arena, &places, p->at);
        places.at[k].plans++;
        places.at[k].runs += p->n;
    }
    validate_tell_machines(r->c, places.at, places.n, r->here);
}

static json_t *mean_json(double sum, int32_t n)
{
    return n ? json_real(sum / n) : json_null();
}

static fs_status tell_all(cli *c, const list *error, double sum)
{
    const int32_t n = error->n;
    const int32_t out =
        (int32_t)json_array_size(json_object_get(c->result, "skipped"));
    const double median = median_of(c->arena, error->at, n);
    json_object_set_new(c->result, "mape", mean_json(sum, n));
    json_object_set_new(c->result, "median", real_or_null(median));
    if (n)
        cli_say(c,
                "\n%d plan%s that ran: median error %.1f %%, mean error "
                "%.1f %%\n",
                n, n == 1 ? "" : "s", 100 * median, 100 * sum / n);
    if (out)
        cli_say(c,
                "%d plan%s counted in neither: predicted with the figures of "
                "another machine than the one that ran %s\n",
                out, out == 1 ? " is" : "s are", out == 1 ? "it" : "them");
    if (!n)
        return fs_fail(&c->err, FS_NO,
                       "no run was predicted with the figures of the machine "
                       "that it ran on");
    return check_bound(c, median);
}

static fs_status score_all(cli *c, reading *r)
{
    FS_VEC(of_model) models = {0};
    list error = {0, fs_new(c->arena, double, r->plans.n)};
    double sum = 0;
    for (int32_t i = 0; i < r->plans.n; i++) {
        ran *p = &r->plans.at[i];
        p->median = median_of(c->arena, p->measured, p->n);
        if (validate_misplaced(&p->at))
            continue;
        add(&error, fabs(p->predicted / p->median - 1));
        sum += fabs(p->predicted / p->median - 1);
    }
    qsort(r->plans.at, (size_t)r->plans.n, sizeof *r->plans.at, by_error);
    for (int32_t i = 0; i < r->plans.n; i++) {
        bool known = false;
        for (int32_t k = 0; k < models.n && !known; k++)
            known = strcmp(models.at[k].model, r->plans.at[i].model) == 0;
        if (!known)
            fs_push(c->arena, &models, score_model(r, r->plans.at[i].model));
    }
    fill_json(c, r, models.at, models.n);
    if (!c->args.json) {
        plan_table(c, r);
        model_table(c, models.at, models.n);
    }
    tell_machines(r);
    if (c->args.output)
        FS_TRY(draw(c, r, models.at, models.n));
    return tell_all(c, &error, sum);
}

static fs_status read_runs(reading *r, const char *path)
{
    cli *c = r->c;
    store_db *db;
    bool read_only;
    FS_TRY(store_open_reading(path, &c->err, &db, &read_only));
    const fs_status status = store_query(db, query, take_run, r, &c->err);
    store_close(db);
    return status;
}

/* Runs of one network in different databases, as on different links, are plans
 * of different groups. */
fs_status validate_runs(cli *c)
{
    reading r = {.c = c, .within = ""};
    if (c->args.source)
        return fs_fail(&c->err, FS_INVALID,
                       "--source %.80s has no effect: it picks rows of a "
                       "FILE.csv by their column `source`",
                       c->args.source);
    if (c->args.residuals)
        return fs_fail(&c->err, FS_INVALID,
                       "--residuals %.80s has no effect: it is of a FILE.csv; "
                       "`sim` takes runs from the database itself",
                       c->args.residuals);
    FS_TRY(validate_check_picture(c));
    FS_TRY(cli_check_outputs(c, NULL, NULL));
    FS_TRY(cli_machine_here(c, &r.here));
    for (int i = 0; i < c->args.n_operands; i++) {
        const char *path = c->args.operands[i];
        if (c->args.n_operands > 1)
            r.within = fs_printf(c->arena, " (%s)", path);
        FS_TRY(read_runs(&r, path));
    }
    if (!r.plans.n)
        return fs_fail(&c->err, FS_NO, "%s: no run that ended well is in it",
                       c->args.operands[0]);
    return score_all(c, &r);
}
