#include "config.h"
#include "cli/validate_score.h"

#include "base/clock.h"
#include "base/crew.h"
#include "base/regex.h"
#include "cost/residuals.h"
#include "report/report.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORST_ROWS = 10, MOST_GROUPS = 20 };

/* What every hand of the crew sees. */
typedef struct validating {
    cli *c;
    validate_frameworks frameworks;
    int32_t n, n_asked;
    validate_case *cases;
    validate_prediction *predicted;
    validate_prediction *paced; /* where a row's kernels were measured */
    int32_t *asked;    /* [n_asked] of the cases, those that are no skips */
    fs_arena **arenas; /* [hands] */
    atomic_int done;
} validating;

static void predict_one(void *ctx, int32_t hand, int32_t k)
{
    validating *v = ctx;
    const int32_t i = v->asked[k];
    validate_predict(v->c, &v->cases[i], 1, v->arenas[hand], &v->predicted[i]);
    const int done = atomic_fetch_add(&v->done, 1) + 1;
    if (hand == 0)
        fs_progress("%d of %d rows predicted", done, v->n_asked);
}

/* Again, at the pace of the row that it is told from. */
static void predict_paced(void *ctx, int32_t hand, int32_t k)
{
    validating *v = ctx;
    const int32_t i = v->asked[k];
    const validate_prediction *p = &v->predicted[i];
    if (p->anchor >= 0 || p->is_anchor)
        validate_predict(v->c, &v->cases[i],
                         validate_pace(v->cases, v->predicted, i),
                         v->arenas[hand], &v->paced[i]);
}

static void predict_all(validating *v)
{
    const int32_t hands = fs_crew_hands();
    v->arenas = fs_new(v->c->arena, fs_arena *, hands);
    for (int32_t h = 0; h < hands; h++)
        v->arenas[h] = fs_arena_create();
    fs_keep_freed();
    fs_crew_run(predict_one, v, hands, v->n_asked);
    fs_progress("%s", "");
    validate_find_anchors(v->cases, v->n, v->predicted);
    fs_crew_run(predict_paced, v, hands, v->n_asked);
    validate_tell(v->cases, v->n, v->paced, v->predicted);
    for (int32_t h = 0; h < hands; h++)
        fs_arena_join(v->c->arena, v->arenas[h]);
}

/* Rows of --source alone. */
static fs_status pick_rows(cli *c, const validate_table *table, validating *v)
{
    regex_t wanted;
    const char *source = c->args.source;
    if (source && fs_regex_compile(source, &c->err, &wanted) != FS_OK) {
        fs_err_prefix(&c->err, "--source");
        return FS_INVALID;
    }
    v->cases = fs_new(c->arena, validate_case, table->n);
    v->predicted = fs_new(c->arena, validate_prediction, table->n);
    v->paced = fs_new(c->arena, validate_prediction, table->n);
    v->asked = fs_new(c->arena, int32_t, table->n);
    for (int32_t i = 0; i < table->n; i++) {
        const validate_row *row = &table->rows[i];
        if (source && regexec(&wanted, row->source, 0, NULL, 0) != 0)
            continue;
        validate_case *t = &v->cases[v->n];
        validate_understand(row, c->data_dir, &v->frameworks, c->arena, t);
        if (!t->skip)
            v->asked[v->n_asked++] = v->n;
        v->n++;
    }
    if (source)
        regfree(&wanted);
    if (!v->n)
        return fs_fail(&c->err, FS_INVALID, "--source %s: no row is from there",
                       source);
    return FS_OK;
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

static void sources_json(cli *c, const validate_scores *s)
{
    json_t *all = json_object();
    for (int32_t k = 0; k < s->n_sources; k++) {
        const validate_score *one = &s->sources[k];
        json_t *row = json_object();
        json_object_set_new(row, "mape", real_or_null(one->mape));
        json_object_set_new(row, "simulated", json_boolean(one->simulated));
        json_object_set_new(row, "rows", json_integer(one->rows));
        json_object_set_new(row, "stated", json_integer(one->stated));
        json_object_set_new(row, "bias", real_or_null(one->bias));
        json_object_set_new(row, "worst", real_or_null(one->worst));
        json_object_set_new(row, "nearest_row_mape",
                            real_or_null(one->nearest));
        json_object_set_new(row, "mem_mape", real_or_null(one->bytes_mape));
        json_object_set_new(row, "mem_rows", json_integer(one->n_bytes));
        json_object_set_new(all, one->source, row);
    }
    json_object_set_new(c->result, "per_source", all);
}

static void groups_json(cli *c, const validate_scores *s)
{
    json_t *all = json_array();
    for (int32_t k = 0; k < s->n_groups; k++) {
        const validate_group *g = &s->groups[k];
        json_array_append_new(all, json_pack("{s:o, s:i, s:f, s:f}", "name",
                                             fs_json_string(g->name), "rows",
                                             g->rows, "tau", g->tau, "regret",
                                             g->regret));
    }
    json_object_set_new(c->result, "groups", all);
}

static const char *why_not(const validating *v, int32_t i)
{
    return v->cases[i].skip ? v->cases[i].skip : v->predicted[i].failed;
}

static const char *const part_names[VALIDATE_PARTS] = {
    "products",    "attention", "rest", "updates",
    "collectives", "per_step",  "moves"};

static json_t *detail_json(const validating *v, int32_t i)
{
    const validate_case *t = &v->cases[i];
    const validate_prediction *p = &v->predicted[i];
    json_t *row = json_object();
    json_object_set_new(row, "id", fs_json_string(t->row->id));
    json_object_set_new(row, "source", fs_json_string(t->row->source));
    json_object_set_new(row, "measured_s", real_or_null(t->measured_s));
    json_object_set_new(row, "predicted_s", real_or_null(p->iteration_s));
    json_object_set_new(row, "formula_s", real_or_null(p->formula_s));
    json_object_set_new(row, "error", real_or_null(validate_error(t, p)));
    json_object_set_new(row, "measured_bytes", real_or_null(t->measured_bytes));
    json_object_set_new(
        row, "predicted_bytes",
        json_integer(t->of_process ? p->process_bytes : p->bytes));
    json_object_set_new(row, "mem_error",
                        real_or_null(validate_bytes_error(t, p)));
    json_object_set_new(row, "model", fs_json_string(t->model));
    json_object_set_new(row, "cluster", fs_json_string(t->cluster));
    if (p->anchor >= 0)
        json_object_set_new(row, "told_from",
                            fs_json_string(v->cases[p->anchor].row->id));
    json_object_set_new(row, "anchor", json_boolean(p->is_anchor));
    json_object_set_new(row, "assumed", fs_json_string(t->assumed));
    json_object_set_new(row, "wall_s", json_real(p->wall_s));
    json_t *parts = json_object();
    for (int k = 0; k < VALIDATE_PARTS; k++)
        json_object_set_new(parts, part_names[k], json_real(p->part_s[k]));
    json_object_set_new(row, "parts", parts);
    return row;
}

static void rows_json(cli *c, const validating *v)
{
    json_t *details = json_array(), *skipped = json_array();
    int32_t predicted = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const char *why = why_not(v, i);
        if (why) {
            json_array_append_new(
                skipped,
                json_pack("{s:o, s:o, s:o}", "id",
                          fs_json_string(v->cases[i].row->id), "source",
                          fs_json_string(v->cases[i].row->source), "reason",
                          fs_json_string(why)));
            continue;
        }
        predicted++;
        json_array_append_new(details, detail_json(v, i));
    }
    json_object_set_new(c->result, "rows", json_integer(v->n));
    json_object_set_new(c->result, "predicted", json_integer(predicted));
    json_object_set_new(c->result, "skipped", skipped);
    json_object_set_new(c->result, "details", details);
}

static void source_table(cli *c, const validate_scores *s)
{
    static const char *const header[] = {"source",      "rows",       "of",
                                         "error",       "mean error", "worst",
                                         "nearest row", "memory"};
    report_table t = {.arena = c->arena, .n_columns = 8, .header = header};
    for (int32_t k = 0; k < s->n_sources; k++) {
        const validate_score *one = &s->sources[k];
        report_table_cell(&t, "%.48s", one->source[0] ? one->source : "?");
        report_table_cell(&t, "%d", one->rows);
        report_table_cell(&t, "%d", one->stated);
        report_table_cell(&t, "%s", percent(c->arena, one->mape));
        report_table_cell(&t, "%s", percent(c->arena, one->bias));
        report_table_cell(&t, "%s",
                          one->rows ? percent(c->arena, one->worst) : "");
        report_table_cell(&t, "%s", percent(c->arena, one->nearest));
        report_table_cell(&t, "%s", percent(c->arena, one->bytes_mape));
    }
    report_table_print(&t, stdout);
}

typedef struct worst {
    double error;
    int32_t at;
} worst;

static int compare_worst(const void *a, const void *b)
{
    const worst *x = a, *y = b;
    if (fabs(x->error) != fabs(y->error))
        return fabs(x->error) < fabs(y->error) ? 1 : -1;
    return x->at - y->at;
}

static void worst_table(cli *c, const validating *v)
{
    static const char *const header[] = {"row",      "network",   "plan",
                                         "measured", "predicted", "error"};
    report_table t = {.arena = c->arena, .n_columns = 6, .header = header};
    worst *list = fs_new(c->arena, worst, v->n);
    int32_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const double error = validate_error(&v->cases[i], &v->predicted[i]);
        if (!isnan(error))
            list[n++] = (worst){error, i};
    }
    qsort(list, (size_t)n, sizeof *list, compare_worst);
    for (int32_t k = 0; k < n && k < WORST_ROWS; k++) {
        const validate_case *one = &v->cases[list[k].at];
        const search_recipe *r = &one->recipe;
        char text[32];
        report_table_cell(&t, "%s", one->row->id);
        report_table_cell(&t, "%.32s", one->row->model);
        report_table_cell(&t, "dp %d tp %d pp %d, %d micro-batches", r->dp,
                          r->tp, r->pp, r->micro_batches);
        report_table_cell(&t, "%s", fs_human_seconds(text, one->measured_s));
        report_table_cell(
            &t, "%s",
            fs_human_seconds(text, v->predicted[list[k].at].iteration_s));
        report_table_cell(&t, "%+.1f %%", 100 * list[k].error);
    }
    if (!n)
        return;
    puts("\nworst first");
    report_table_print(&t, stdout);
}

static void group_table(cli *c, const validate_scores *s)
{
    static const char *const header[] = {"plans of", "rows", "tau", "regret"};
    report_table t = {.arena = c->arena, .n_columns = 4, .header = header};
    if (!s->n_groups)
        return;
    for (int32_t k = 0; k < s->n_groups && k < MOST_GROUPS; k++) {
        const validate_group *g = &s->groups[k];
        report_table_cell(&t, "%.72s", g->name);
        report_table_cell(&t, "%d", g->rows);
        report_table_cell(&t, "%.2f", g->tau);
        report_table_cell(&t, "%s", percent(c->arena, g->regret));
    }
    printf("\norder of plans (%d groups; Kendall's tau, and how much slower "
           "the plan predicted best is than the best)\n",
           s->n_groups);
    report_table_print(&t, stdout);
}

/* Reasons, the most frequent first. */
static void skip_table(cli *c, const validating *v)
{
    static const char *const header[] = {"rows", "skipped because"};
    report_table t = {.arena = c->arena, .n_columns = 2, .header = header};
    bool *told = fs_new(c->arena, bool, v->n);
    int32_t rows = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const char *why = why_not(v, i);
        int32_t n = 0;
        for (int32_t k = i; why && !told[i] && k < v->n; k++)
            if (why_not(v, k) && strcmp(why_not(v, k), why) == 0) {
                told[k] |= k > i;
                n++;
            }
        if (!n)
            continue;
        report_table_cell(&t, "%d", n);
        report_table_cell(&t, "%.100s", why);
        rows++;
    }
    if (!rows)
        return;
    puts("");
    report_table_print(&t, stdout);
}

static void tell(cli *c, const validating *v, const validate_scores *s)
{
    if (c->args.json)
        return;
    source_table(c, s);
    if (isnan(s->mape) && isnan(s->bytes_mape))
        puts("\nno row was predicted");
    else
        printf("\nerror over rows %s, averaged over sources %s; %s of the rows "
               "that state a configuration predicted\n",
               percent(c->arena, s->mape), percent(c->arena, s->source_mape),
               percent(c->arena, s->coverage));
    if (isfinite(s->bytes_mape))
        printf("memory          %s off\n", percent(c->arena, s->bytes_mape));
    if (s->verdicts)
        printf("out of memory   %d of %d such rows were foreseen\n", s->right,
               s->verdicts);
    worst_table(c, v);
    group_table(c, s);
    skip_table(c, v);
}

/* Series are sources that have a row. */
static fs_status draw(cli *c, const validating *v, const validate_scores *s)
{
    FS_VEC(report_scatter_point) points = {0};
    FS_VEC(const char *) names = {0};
    report_drawn drawn;
    for (int32_t k = 0; k < s->n_sources; k++) {
        const char *source = s->sources[k].source;
        for (int32_t i = 0; i < v->n && s->sources[k].rows; i++)
            if (strcmp(source, v->cases[i].row->source) == 0 &&
                !isnan(validate_error(&v->cases[i], &v->predicted[i])))
                fs_push(c->arena, &points,
                        (report_scatter_point){v->cases[i].measured_s,
                                               v->predicted[i].iteration_s,
                                               names.n});
        if (s->sources[k].rows)
            fs_push(c->arena, &names,
                    fs_printf(c->arena, "%.48s, %s", source,
                              percent(c->arena, s->sources[k].mape)));
    }
    if (!points.n)
        return fs_fail(&c->err, FS_NO, "no row was predicted: nothing to draw");
    const report_scatter scatter = {"predicted against measured", points.n,
                                    names.n, points.at, names.at};
    FS_TRY(report_draw_scatter(&scatter, c->args.output, &c->err, &drawn));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    cli_say(c, "\ndrawn           %s\n", c->args.output);
    return FS_OK;
}

static const char *kind_of(const char *arch)
{
    return strcmp(arch, "cnn") == 0 ? "cnn" : "transformer";
}

/* "2x8:a100-sxm4-80g" */
static const char *device_of(const char *cluster)
{
    const char *colon = strrchr(cluster, ':');
    return colon ? colon + 1 : cluster;
}

/* What predictions of the same regimes are worth, for those to come. */
static fs_status write_residuals(cli *c, const validating *v)
{
    const char *file = c->args.residuals;
    cost_measured *runs = fs_new(c->arena, cost_measured, v->n + 1);
    cost_residuals made;
    int32_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const validate_case *t = &v->cases[i];
        const double error = validate_error(t, &v->predicted[i]);
        if (isnan(error) || v->predicted[i].anchor >= 0 || t->simulated)
            continue; /* told from another row: it says less than it seems */
        const int64_t per_node = t->row->gpus_per_node;
        const int32_t devices = (int32_t)t->row->gpus;
        const bool one = per_node <= 0 ? devices <= 8 : devices <= per_node;
        runs[n++] = (cost_measured){
            kind_of(t->row->arch), device_of(t->cluster),
            cost_scale_name(devices, one ? 1 : 2), 1 / (1 + error)};
    }
    cost_residuals_make(runs, n, c->arena, &made);
    json_t *root = json_object();
    fs_json_set_text(root, "source",
                     fs_printf(c->arena, "flowsearch validate %s --residuals",
                               c->args.operands[0]));
    json_object_set_new(root, "regimes", cost_residuals_json(&made));
    const fs_status status = fs_json_save(root, file, &c->err);
    json_decref(root);
    FS_TRY(status);
    cli_say(c, "residuals       of %d regimes: %s\n", made.n, file);
    return FS_OK;
}

static fs_status check_bound(cli *c, const validate_scores *s)
{
    const double most = c->args.max_error;
    if (isnan(most) || s->source_mape <= most)
        return FS_OK;
    if (isnan(s->source_mape))
        return fs_fail(&c->err, FS_NO,
                       "no row's time was predicted: nothing is within "
                       "--max-error %g",
                       most);
    return fs_fail(&c->err, FS_NO,
                   "the error averaged over sources is %.2f %%, above the "
                   "bound of %.2f %%",
                   100 * s->source_mape, 100 * most);
}

static bool are_databases(const cli *c)
{
    for (int i = 0; i < c->args.n_operands; i++) {
        const char *file = c->args.operands[i];
        const size_t length = strlen(file);
        if (length <= 3 || strcmp(file + length - 3, ".db") != 0)
            return false;
    }
    return true;
}

fs_status cli_cmd_validate(cli *c)
{
    validate_table table;
    if (c->args.n_operands > 0 && are_databases(c))
        return validate_runs(c);
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID,
                       "validate wants one FILE.csv of measured runs, or "
                       "databases FILE.db of one's own");
    FS_TRY(validate_read(c->args.operands[0], c->arena, &c->err, &table));
    if (c->args.output) {
        FS_TRY(report_check_picture(c->args.output, &c->err));
        FS_TRY(cli_check_writable(c, c->args.output));
    }
    if (c->args.residuals)
        FS_TRY(cli_check_writable(c, c->args.residuals));
    validating v = {.c = c};
    FS_TRY(validate_open_frameworks(c->data_dir, c->arena, &c->err,
                                    &v.frameworks));
    FS_TRY(pick_rows(c, &table, &v));
    FS_TRY(cli_begin(c, NULL, NULL));
    predict_all(&v);
    const validate_scores s =
        validate_score_all(v.cases, v.predicted, v.n, c->arena);
    rows_json(c, &v);
    sources_json(c, &s);
    groups_json(c, &s);
    json_object_set_new(c->result, "mape", real_or_null(s.mape));
    json_object_set_new(c->result, "source_mape", real_or_null(s.source_mape));
    json_object_set_new(c->result, "mem_mape", real_or_null(s.bytes_mape));
    json_object_set_new(c->result, "coverage", real_or_null(s.coverage));
    tell(c, &v, &s);
    if (c->args.residuals)
        FS_TRY(write_residuals(c, &v));
    if (c->args.output)
        FS_TRY(draw(c, &v, &s));
    if (isfinite(s.mape)) {
        cli_figure(c, "mape", s.mape, "");
        cli_figure(c, "source_mape", s.source_mape, "");
    }
    return check_bound(c, &s);
}
