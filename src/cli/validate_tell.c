/* What `validate` tells of a table of measured runs: the JSON object, tables,
 * the worst first. */
#include "config.h"
#include "cli/validate_score.h"

#include "base/clock.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORST_ROWS = 10,
    MOST_GROUPS = 20,
    MOST_IDS = 5,
    MOST_UNKNOWN = 10,
    MOST_ASSUMED = 10,
    ID_WIDTH = 40
};

const char *validate_why_not(const validate_all *v, int32_t i)
{
    return v->cases[i].skip ? v->cases[i].skip : v->predicted[i].failed;
}

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80; /* of a character of UTF-8 */
}

const char *validate_short(fs_arena *arena, const char *name, size_t most)
{
    size_t n = most - 2;
    if (strlen(name) <= most)
        return name;
    while (n > 0 && is_inside(name[n]))
        n--;
    return fs_printf(arena, "%.*s..", (int)n, name);
}

const char *validate_short_path(fs_arena *arena, const char *path, size_t most)
{
    const size_t length = strlen(path);
    if (length <= most)
        return path;
    const char *at = path + length - (most - 2);
    while (is_inside(*at))
        at++;
    return fs_printf(arena, "..%s", at);
}

/* ---- JSON ---- */

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static const char *percent(fs_arena *arena, double value)
{
    return isfinite(value) ? fs_printf(arena, "%.1f %%", 100 * value) : "";
}

/* "1 row", "3 rows" */
static const char *rows_text(fs_arena *arena, int32_t n)
{
    return fs_printf(arena, "%d row%s", n, n == 1 ? "" : "s");
}

static void sources_json(cli *c, const validate_scores *s)
{
    json_t *all = json_object();
    for (int32_t k = 0; k < s->n_sources; k++) {
        const validate_score *one = &s->sources[k];
        json_t *row = json_object();
        json_object_set_new(row, "mape", real_or_null(one->mape));
        json_object_set_new(row, "simulated", json_integer(one->simulated));
        json_object_set_new(row, "runs_mape", real_or_null(one->runs_mape));
        json_object_set_new(row, "rows", json_integer(one->rows));
        json_object_set_new(row, "stated", json_integer(one->stated));
        json_object_set_new(row, "bias", real_or_null(one->bias));
        json_object_set_new(row, "worst", real_or_null(one->worst));
        json_object_set_new(row, "nearest_row_mape",
                            real_or_null(one->nearest));
        json_object_set_new(row, "mem_mape", real_or_null(one->bytes_mape));
        json_object_set_new(row, "mem_rows", json_integer(one->n_bytes));
        json_object_set_new(row, "nearest_row_mem_mape",
                            real_or_null(one->nearest_bytes));
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

/* So much more or less is no prediction's error. */
#define FAR_OFF 10.0

/* What may be wrong with a row that is that far off. */
static const char *hint_of(const validate_case *t, double error)
{
    const double times = 1 / (1 + error); /* measured over predicted */
    const bool thousand = times > 300 && times < 3000;
    if (times <= FAR_OFF && times >= 1 / FAR_OFF)
        return NULL;
    if (thousand && !isnan(t->row->iter_time_s.at))
        return "is iter_time_s in milliseconds? It is of seconds";
    return "is a unit, the batch, seq_len or the number of devices another?";
}

static const char *const part_names[VALIDATE_PARTS] = {
    "products",    "attention", "rest", "updates",
    "collectives", "per_step",  "moves"};

static json_t *detail_json(const validate_all *v, int32_t i)
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
    json_object_set_new(row, "process_bytes", json_integer(p->process_bytes));
    json_object_set_new(row, "limit_bytes", json_integer(p->limit));
    json_object_set_new(row, "fits",
                        json_boolean(p->process_bytes <= p->limit));
    json_object_set_new(row, "mem_error",
                        real_or_null(validate_bytes_error(t, p)));
    json_object_set_new(row, "model", fs_json_string(t->model));
    json_object_set_new(row, "cluster", fs_json_string(t->cluster));
    if (p->anchor >= 0)
        json_object_set_new(row, "told_from",
                            fs_json_string(v->cases[p->anchor].row->id));
    json_object_set_new(row, "anchor", json_boolean(p->is_anchor));
    const char *hint =
        isnan(validate_error(t, p)) ? NULL : hint_of(t, validate_error(t, p));
    if (hint)
        json_object_set_new(row, "hint", json_string(hint));
    json_object_set_new(row, "assumed", fs_json_string(t->assumed));
    json_object_set_new(row, "wall_s", json_real(p->wall_s));
    json_t *parts = json_object();
    for (int k = 0; k < VALIDATE_PARTS; k++)
        json_object_set_new(parts, part_names[k], json_real(p->part_s[k]));
    json_object_set_new(row, "parts", parts);
    return row;
}

static void rows_json(cli *c, const validate_all *v)
{
    json_t *details = json_array(), *skipped = json_array();
    int32_t predicted = 0;
    for (int32_t i = 0; i < v->n; i++) {
        const char *why = validate_why_not(v, i);
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

static void verdicts_json(cli *c, const int32_t of[VALIDATE_VERDICTS])
{
    json_object_set_new(
        c->result, "out_of_memory",
        json_pack("{s:i, s:i, s:i, s:i}", "foreseen", of[VALIDATE_FORESEEN],
                  "missed", of[VALIDATE_MISSED], "false_alarms",
                  of[VALIDATE_ALARM], "ran", of[VALIDATE_FITS]));
}

/* ---- tables ---- */

static void source_table(cli *c, const validate_scores *s)
{
    static const char *const header[] = {
        "source", "rows",        "of",     "error",          "mean error",
        "worst",  "nearest row", "memory", "its nearest row"};
    report_table t = {.arena = c->arena, .n_columns = 9, .header = header};
    for (int32_t k = 0; k < s->n_sources; k++) {
        const validate_score *one = &s->sources[k];
        report_table_cell(
            &t, "%s",
            one->source[0] ? validate_short(c->arena, one->source, 56) : "?");
        report_table_cell(&t, "%d", one->rows);
        report_table_cell(&t, "%d", one->stated);
        report_table_cell(&t, "%s", percent(c->arena, one->mape));
        report_table_cell(&t, "%s", percent(c->arena, one->bias));
        report_table_cell(&t, "%s",
                          one->rows ? percent(c->arena, one->worst) : "");
        report_table_cell(&t, "%s", percent(c->arena, one->nearest));
        report_table_cell(&t, "%s", percent(c->arena, one->bytes_mape));
        report_table_cell(&t, "%s", percent(c->arena, one->nearest_bytes));
    }
    report_table_print(&t, stdout);
}

/* Rows in an order. */
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

static const char *plan_text(fs_arena *arena, const validate_case *t)
{
    const search_recipe *r = &t->recipe;
    fs_text text = {.arena = arena};
    fs_text_add(&text, "dp %d tp %d pp %d", r->dp, r->tp, r->pp);
    if (r->cp > 1)
        fs_text_add(&text, " cp %d", r->cp);
    if (r->zero > 0)
        fs_text_add(&text, " zero %d", r->zero);
    fs_text_add(&text, ", %d micro-batch%s", r->micro_batches,
                r->micro_batches == 1 ? "" : "es");
    return text.at;
}

static const char *framework_text(fs_arena *arena, const validate_case *t)
{
    return t->framework ? validate_short(arena, t->row->framework, 32)
                        : "(this runtime)";
}

/* Row, network, framework, devices, plan. */
static void row_cells(report_table *table, const validate_case *t)
{
    fs_arena *arena = table->arena;
    report_table_cell(table, "%s", validate_short(arena, t->row->id, ID_WIDTH));
    report_table_cell(table, "%s", validate_short(arena, t->row->model, 32));
    report_table_cell(table, "%s", framework_text(arena, t));
    report_table_cell(table, "%s", t->cluster);
    report_table_cell(table, "%s", plan_text(arena, t));
}

static void tell_hints(cli *c, const validate_all *v, const worst *list,
                       int32_t n)
{
    for (int32_t k = 0; k < n && k < WORST_ROWS; k++) {
        const validate_case *t = &v->cases[list[k].at];
        const char *hint = hint_of(t, list[k].error);
        const double times = 1 / (1 + list[k].error);
        if (hint)
            printf("row %s (line %d): measured %.*f times what is predicted: "
                   "%s\n",
                   validate_short(c->arena, t->row->id, ID_WIDTH), t->row->line,
                   times < 10 ? 4 : 0, times, hint);
    }
}

static void worst_table(cli *c, const validate_all *v)
{
    static const char *const header[] = {"row",       "network", "framework",
                                         "devices",   "plan",    "measured",
                                         "predicted", "error"};
    report_table t = {.arena = c->arena, .n_columns = 8, .header = header};
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
        char text[32];
        row_cells(&t, one);
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
    tell_hints(c, v, list, n);
}

/* ---- memory ---- */

/* Rows whose verdict is wrong, the furthest from their limit first. */
static int32_t list_wrong(const validate_all *v, fs_arena *arena, worst **out)
{
    int32_t n = 0;
    *out = fs_new(arena, worst, v->n);
    for (int32_t i = 0; i < v->n; i++) {
        const validate_prediction *p = &v->predicted[i];
        if (validate_why_not(v, i))
            continue;
        const validate_verdict verdict = validate_verdict_of(&v->cases[i], p);
        if (verdict == VALIDATE_ALARM || verdict == VALIDATE_MISSED)
            (*out)[n++] =
                (worst){(double)p->process_bytes / (double)p->limit - 1, i};
    }
    if (n)
        qsort(*out, (size_t)n, sizeof **out, compare_worst);
    return n;
}

static void memory_table(cli *c, const validate_all *v)
{
    static const char *const header[] = {"row",     "network", "framework",
                                         "devices", "plan",    "predicted",
                                         "of",      "but it"};
    report_table t = {.arena = c->arena, .n_columns = 8, .header = header};
    worst *list;
    const int32_t n = list_wrong(v, c->arena, &list);
    for (int32_t k = 0; k < n && k < WORST_ROWS; k++) {
        const validate_case *one = &v->cases[list[k].at];
        const validate_prediction *p = &v->predicted[list[k].at];
        char text[32];
        row_cells(&t, one);
        report_table_cell(&t, "%s",
                          fs_human_bytes(text, (double)p->process_bytes));
        report_table_cell(&t, "%s", fs_human_bytes(text, (double)p->limit));
        report_table_cell(&t, "%s",
                          one->out_of_memory ? "ran out of memory" : "ran");
    }
    if (!n)
        return;
    puts("\nwrong of memory, worst first");
    report_table_print(&t, stdout);
    if (n > WORST_ROWS)
        printf("(and %d more: `fits` of --json)\n", n - WORST_ROWS);
}

static void tell_verdicts(fs_arena *arena, const int32_t of[VALIDATE_VERDICTS])
{
    const int32_t ran = of[VALIDATE_FITS] + of[VALIDATE_ALARM];
    const int32_t full = of[VALIDATE_FORESEEN] + of[VALIDATE_MISSED];
    if (ran)
        printf("out of memory   predicted of %d of the %s that ran (false "
               "alarms)\n",
               of[VALIDATE_ALARM], rows_text(arena, ran));
    if (full)
        printf("%-15s %d of %s that ran out of it %s foreseen\n",
               ran ? "" : "out of memory", of[VALIDATE_FORESEEN],
               rows_text(arena, full), full == 1 ? "was" : "were");
}

/* ---- order, skips, what is odd ---- */

static void group_table(cli *c, const validate_scores *s)
{
    static const char *const header[] = {"source", "plans of",  "devices",
                                         "batch",  "framework", "seq",
                                         "rows",   "tau",       "regret"};
    report_table t = {.arena = c->arena, .n_columns = 9, .header = header};
    if (!s->n_groups)
        return;
    for (int32_t k = 0; k < s->n_groups && k < MOST_GROUPS; k++) {
        const validate_group *g = &s->groups[k];
        const validate_row *row = g->row;
        report_table_cell(&t, "%s", validate_short(c->arena, row->source, 24));
        report_table_cell(&t, "%s", validate_short(c->arena, row->model, 32));
        report_table_cell(&t, "%lld %s", (long long)row->gpus,
                          validate_short(c->arena, row->gpu, 32));
        report_table_cell(&t, "%lld", (long long)row->global_batch);
        report_table_cell(&t, "%s",
                          validate_short(c->arena, row->framework, 32));
        report_table_cell(&t, "%s", validate_short(c->arena, row->seq_len, 16));
        report_table_cell(&t, "%d", g->rows);
        report_table_cell(&t, "%.2f", g->tau);
        report_table_cell(&t, "%s", percent(c->arena, g->regret));
    }
    printf("\norder of plans   %d group%s: Kendall's tau %.2f in the mean; the "
           "plan predicted best is %.1f %% slower than the best\n",
           s->n_groups, s->n_groups == 1 ? "" : "s", s->tau, 100 * s->regret);
    report_table_print(&t, stdout);
    if (s->n_groups > MOST_GROUPS)
        printf("(worst first; and %d more: `groups` of --json)\n",
               s->n_groups - MOST_GROUPS);
}

/* Reasons, in the order of the rows; whose they are. */
static void skip_table(cli *c, const validate_all *v)
{
    static const char *const header[] = {"rows", "skipped because", "which"};
    report_table t = {.arena = c->arena, .n_columns = 3, .header = header};
    bool *told = fs_new(c->arena, bool, v->n);
    for (int32_t i = 0; i < v->n; i++) {
        const char *why = validate_why_not(v, i);
        fs_text ids = {.arena = c->arena};
        int32_t n = 0;
        for (int32_t k = i; why && !told[i] && k < v->n; k++) {
            const char *other = validate_why_not(v, k);
            if (!other || strcmp(other, why) != 0)
                continue;
            told[k] |= k > i;
            if (n++ < MOST_IDS)
                fs_text_add(
                    &ids, "%s%s", ids.n ? ", " : "",
                    validate_short(c->arena, v->cases[k].row->id, ID_WIDTH));
        }
        if (!n)
            continue;
        if (n > MOST_IDS)
            fs_text_add(&ids, " and %d more", n - MOST_IDS);
        report_table_cell(&t, "%d", n);
        report_table_cell(&t, "%s", validate_short(c->arena, why, 160));
        report_table_cell(&t, "%s", ids.at);
    }
    if (!t.cells.n)
        return;
    puts("");
    report_table_print(&t, stdout);
}

static int compare_ids(const void *a, const void *b)
{
    const validate_row *x = (*(const validate_case *const *)a)->row,
                       *y = (*(const validate_case *const *)b)->row;
    const int by_id = strcmp(x->id, y->id);
    return by_id ? by_id : x->line - y->line;
}

/* "and counts too", of so many of them that are predicted. */
static const char *counted_text(fs_arena *arena, int32_t n, int32_t counted)
{
    if (counted == 0)
        return n == 1 ? "and is skipped" : "and are skipped";
    if (counted == n)
        return n == 1 ? "and counts too" : "and count too";
    return fs_printf(arena,
                     "and %d of them count%s too, the others are "
                     "skipped",
                     counted, counted == 1 ? "s" : "");
}

/* Rows of one id are rows of their own; whoever pasted them twice is told. */
static void tell_repeated(cli *c, const validate_all *v)
{
    const validate_case **list = fs_new(c->arena, const validate_case *, v->n);
    fs_text text = {.arena = c->arena};
    json_t *ids = json_array();
    int32_t n = 0, counted = 0;
    for (int32_t i = 0; i < v->n; i++)
        list[i] = &v->cases[i];
    qsort(list, (size_t)v->n, sizeof *list, compare_ids);
    for (int32_t i = 1; i < v->n; i++) {
        const validate_row *row = list[i]->row, *before = list[i - 1]->row;
        if (strcmp(row->id, before->id) != 0)
            continue;
        json_array_append_new(ids, fs_json_string(row->id));
        counted += !validate_why_not(v, (int32_t)(list[i] - v->cases));
        if (n++ < MOST_IDS)
            fs_text_add(&text, "%s%s (lines %d and %d)", text.n ? ", " : "",
                        validate_short(c->arena, row->id, ID_WIDTH),
                        before->line, row->line);
    }
    json_object_set_new(c->result, "repeated_ids", ids);
    if (n)
        cli_say(c, "\n%d row%s an id that another has, %s: %s%s\n", n,
                n == 1 ? " has" : "s have", counted_text(c->arena, n, counted),
                text.at, n > MOST_IDS ? " .." : "");
}

/* A part of what was assumed, and of how many rows. */
typedef struct assumed {
    const char *text;
    int32_t rows;
} assumed;
typedef FS_VEC(assumed) assumptions;

static void count_assumed(fs_arena *arena, const char *text, assumptions *all)
{
    while (*text) {
        const char *end = strstr(text, "; ");
        const char *part =
            end ? fs_strndup(arena, text, (size_t)(end - text)) : text;
        int32_t k = 0;
        while (k < all->n && strcmp(all->at[k].text, part) != 0)
            k++;
        if (k == all->n)
            fs_push(arena, all, (assumed){part, 0});
        all->at[k].rows++;
        text = end ? end + 2 : "";
    }
}

static int compare_assumed(const void *a, const void *b)
{
    const assumed *x = a, *y = b;
    return x->rows != y->rows ? y->rows - x->rows : strcmp(x->text, y->text);
}

/* Of rows that are predicted: what most of them leave out first. */
static void tell_assumed(fs_arena *arena, const validate_all *v)
{
    assumptions all = {0};
    for (int32_t i = 0; i < v->n; i++)
        if (!validate_why_not(v, i))
            count_assumed(arena, v->cases[i].assumed, &all);
    if (all.n)
        qsort(all.at, (size_t)all.n, sizeof *all.at, compare_assumed);
    for (int32_t k = 0; k < all.n && k < MOST_ASSUMED; k++)
        printf("%-15s %s: %s\n", k ? "" : "assumed",
               rows_text(arena, all.at[k].rows), all.at[k].text);
    if (all.n > MOST_ASSUMED)
        printf("%-15s (and %d more: `assumed` of --json)\n", "",
               all.n - MOST_ASSUMED);
}

/* What the other rows of a source come to, or that it has none. */
static const char *others_text(cli *c, const validate_score *one)
{
    const int32_t others = one->rows - one->simulated;
    if (others == 0)
        return "it has no others";
    return fs_printf(c->arena, "the other%s: %s",
                     others == 1 ? "" : fs_printf(c->arena, " %d", others),
                     percent(c->arena, one->runs_mape));
}

/* Rows that nobody ran: what is said with them and without. */
static void tell_simulated(cli *c, const validate_scores *s)
{
    for (int32_t k = 0; k < s->n_sources; k++) {
        const validate_score *one = &s->sources[k];
        const bool any = isfinite(s->runs_mape);
        if (!one->simulated)
            continue;
        printf("%s: %s of these %s another simulator's sums, no run%s; %s; %s"
               "%s\n",
               one->source, rows_text(c->arena, one->simulated),
               one->simulated == 1 ? "is" : "are",
               one->simulated == 1 ? "" : "s", others_text(c, one),
               any ? "averaged over sources without them " : "no run is left",
               any ? percent(c->arena, s->runs_mape) : "");
    }
}

static void tell(cli *c, const validate_all *v)
{
    const validate_scores *s = v->scores;
    source_table(c, s);
    if (isnan(s->mape))
        puts("\nno row's time was predicted");
    else
        printf("\nerror over rows %s, averaged over sources %s; %s of the rows "
               "that state a configuration predicted\n",
               percent(c->arena, s->mape), percent(c->arena, s->source_mape),
               percent(c->arena, s->coverage));
    tell_simulated(c, s);
    if (isfinite(s->bytes_mape))
        printf("memory          %s off\n", percent(c->arena, s->bytes_mape));
    tell_verdicts(c->arena, s->verdicts);
    tell_assumed(c->arena, v);
    worst_table(c, v);
    memory_table(c, v);
    group_table(c, s);
    skip_table(c, v);
}

void validate_tell_unknown(cli *c, const validate_table *table)
{
    fs_text text = {.arena = c->arena};
    json_t *all = json_array();
    for (int32_t i = 0; i < table->n_unknown; i++) {
        const validate_unknown *u = &table->unknown[i];
        json_array_append_new(all, json_pack("{s:o, s:i}", "name",
                                             fs_json_string(u->name), "column",
                                             u->column));
        if (i >= MOST_UNKNOWN)
            continue;
        fs_text_add(&text, "%s%s (column %d", i ? ", " : "",
                    u->name[0] ? validate_short(c->arena, u->name, ID_WIDTH)
                               : "one without a name",
                    u->column);
        fs_text_add(&text, "%s%s)", u->near ? "; meant: " : "",
                    u->near ? u->near : "");
    }
    json_object_set_new(c->result, "unknown_columns", all);
    if (table->n_unknown)
        cli_say(c, "columns that are not known, and not read: %s%s\n\n",
                text.at, table->n_unknown > MOST_UNKNOWN ? " .." : "");
}

void validate_tell(cli *c, const validate_all *v)
{
    const validate_scores *s = v->scores;
    rows_json(c, v);
    sources_json(c, s);
    groups_json(c, s);
    verdicts_json(c, s->verdicts);
    json_object_set_new(c->result, "mape", real_or_null(s->mape));
    json_object_set_new(c->result, "source_mape", real_or_null(s->source_mape));
    json_object_set_new(c->result, "runs_mape", real_or_null(s->runs_mape));
    json_object_set_new(c->result, "mem_mape", real_or_null(s->bytes_mape));
    json_object_set_new(c->result, "coverage", real_or_null(s->coverage));
    json_object_set_new(c->result, "tau", real_or_null(s->tau));
    json_object_set_new(c->result, "regret", real_or_null(s->regret));
    if (!c->args.json)
        tell(c, v);
    tell_repeated(c, v);
}
