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

static void predict_asked(validating *v, fs_crew_job *job)
{
    const int32_t hands = fs_crew_hands();
    v->arenas = fs_new(v->c->arena, fs_arena *, hands);
    for (int32_t h = 0; h < hands; h++)
        v->arenas[h] = fs_arena_create();
    fs_keep_freed();
    fs_crew_run(job, v, hands, v->n_asked);
    fs_progress("%s", "");
    for (int32_t h = 0; h < hands; h++)
        fs_arena_join(v->c->arena, v->arenas[h]);
}

static void predict_all(validating *v)
{
    predict_asked(v, predict_one);
    validate_find_anchors(v->cases, v->n, v->predicted);
    predict_asked(v, predict_paced);
    validate_tell_from(v->cases, v->n, v->paced, v->predicted);
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
        validate_understand(row, &v->frameworks, c->arena, t);
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

/* ---- what is drawn and written ---- */

fs_status validate_check_picture(cli *c)
{
    if (!c->args.output)
        return FS_OK;
    FS_TRY(report_check_picture(c->args.output, &c->err));
    return cli_check_writable(c, c->args.output);
}

fs_status validate_draw(cli *c, const report_scatter *scatter)
{
    report_drawn drawn;
    FS_TRY(report_draw_scatter(scatter, c->args.output, &c->err, &drawn));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    cli_say(c, "\ndrawn           %s\n", c->args.output);
    return FS_OK;
}

/* Series are sources that have a row. */
static fs_status draw(cli *c, const validating *v, const validate_scores *s)
{
    FS_VEC(report_scatter_point) points = {0};
    FS_VEC(const char *) names = {0};
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
                    fs_printf(c->arena, "%s, %.1f %%",
                              validate_short(c->arena, source, 48),
                              100 * s->sources[k].mape));
    }
    if (!points.n)
        return fs_fail(&c->err, FS_NO, "no row was predicted: nothing to draw");
    return validate_draw(c, &(report_scatter){"predicted against measured",
                                              points.n, names.n, points.at,
                                              names.at});
}

/* As cli_network_kind says of graphs. */
static const char *kind_of(const char *arch)
{
    return strcmp(arch, "cnn") == 0                         ? "cnn"
           : strstr(arch, "moe") || strstr(arch, "mixtral") ? "experts"
                                                            : "transformer";
}

/* "2x8:a100-sxm4-80g" */
static const char *device_of(const char *cluster)
{
    const char *colon = strrchr(cluster, ':');
    return colon ? colon + 1 : cluster;
}

/* A row told from another says less than it seems, one that nobody ran
 * nothing. */
static bool has_residual(const validating *v, int32_t i)
{
    return !isnan(validate_error(&v->cases[i], &v->predicted[i])) &&
           v->predicted[i].anchor < 0 && !v->cases[i].simulated;
}

/* Whether anything is fitted to the row's source. */
static bool is_fitted(const validate_case *as_told, const validate_case *as_sim)
{
    return as_told->source != as_sim->source ||
           as_told->outer_efficiency != as_sim->outer_efficiency ||
           (as_told->framework &&
            as_told->framework->jitter != as_sim->framework->jitter);
}

/* Rows as `sim` has them, in cases and predictions of their own: the report is
 * the same whether residuals are written or not. */
static void predict_as_sim(const validating *v, validating *out)
{
    cli *c = v->c;
    const size_t n = (size_t)v->n;
    *out = (validating){
        .c = c,
        .frameworks = v->frameworks,
        .n = v->n,
        .cases = fs_memdup(c->arena, v->cases, n * sizeof *v->cases),
        .predicted =
            fs_memdup(c->arena, v->predicted, n * sizeof *v->predicted),
        .asked = fs_new(c->arena, int32_t, v->n)};
    out->frameworks.as_sim = true;
    for (int32_t i = 0; i < v->n; i++) {
        if (!has_residual(v, i))
            continue;
        validate_understand(v->cases[i].row, &out->frameworks, c->arena,
                            &out->cases[i]);
        if (is_fitted(&v->cases[i], &out->cases[i]))
            out->asked[out->n_asked++] = i;
    }
    predict_asked(out, predict_one);
}

/* What predictions of the same regimes are worth, for those to come. */
static fs_status write_residuals(cli *c, const validating *told)
{
    const char *file = c->args.residuals;
    validating v;
    cost_measured *runs = fs_new(c->arena, cost_measured, told->n + 1);
    cost_residuals made;
    int32_t n = 0;
    predict_as_sim(told, &v);
    for (int32_t i = 0; i < v.n; i++) {
        const validate_case *t = &v.cases[i];
        const double error = validate_error(t, &v.predicted[i]);
        if (!has_residual(told, i) || isnan(error))
            continue;
        const int64_t per_node = t->row->gpus_per_node;
        const int32_t devices = (int32_t)t->row->gpus;
        const bool one = per_node <= 0 ? devices <= 8 : devices <= per_node;
        runs[n++] = (cost_measured){
            .network = kind_of(t->row->arch),
            .precision = cost_precision_name(t->precision, t->tf32),
            .device = device_of(t->cluster),
            .scale = cost_scale_name(devices, one ? 1 : 2),
            .framework = t->framework ? t->framework->name : NULL,
            .ratio = 1 / (1 + error)};
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
    json_object_set_new(c->result, "residual_regimes", json_integer(made.n));
    json_object_set_new(c->result, "residual_rows", json_integer(n));
    json_object_set_new(c->result, "residual_rows_anew",
                        json_integer(v.n_asked));
    cli_say(c, "residuals       of %d regimes of %d rows: %s\n", made.n, n,
            file);
    if (v.n_asked)
        cli_say(c,
                "                %d of these predicted once more as sim does, "
                "without what is fitted to their source; all above is with "
                "it\n",
                v.n_asked);
    return FS_OK;
}

/* Of nothing there is no answer, and whoever asked wants one. */
static fs_status check_any(cli *c, const validating *v)
{
    for (int32_t k = 0; k < v->n_asked; k++)
        if (!v->predicted[v->asked[k]].failed)
            return FS_OK;
    return fs_fail(&c->err, FS_NO,
                   "no row was predicted: all %d are skipped, each with its "
                   "reason",
                   v->n);
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
    FS_TRY(validate_check_picture(c));
    if (c->args.residuals)
        FS_TRY(cli_check_writable(c, c->args.residuals));
    validating v = {.c = c};
    FS_TRY(validate_open_frameworks(c->data_dir, c->arena, &c->err,
                                    &v.frameworks));
    FS_TRY(pick_rows(c, &table, &v));
    FS_TRY(cli_begin(c, NULL, NULL));
    validate_tell_unknown(c, &table);
    predict_all(&v);
    const validate_scores s =
        validate_score_all(v.cases, v.predicted, v.n, c->arena);
    const validate_all all = {v.n, v.cases, v.predicted, &s};
    validate_tell(c, &all);
    if (c->args.residuals)
        FS_TRY(write_residuals(c, &v));
    if (c->args.output)
        FS_TRY(draw(c, &v, &s));
    if (isfinite(s.mape)) {
        cli_figure(c, "mape", s.mape, "");
        cli_figure(c, "source_mape", s.source_mape, "");
    }
    FS_TRY(check_bound(c, &s));
    return check_any(c, &v);
}
