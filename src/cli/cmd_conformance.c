/* conformance: every case under a folder, in one process on one rank; training
 * cases, when a recipe is given, on ranks. */
#include "config.h"
#include "cli/conformance.h"

#include "base/clock.h"
#include "report/report.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

void conformance_failed(conformance_case *t, const char *format, ...)
{
    va_list args;
    if (t->why[0])
        return;
    va_start(args, format);
    vsnprintf(t->why, sizeof t->why, format, args);
    va_end(args);
}

bool conformance_is_unsupported(const char *path, bool readable,
                                const char *why)
{
    size_t n = strlen(path);
    const char *after = strncmp(why, path, n) == 0 ? why + n : why;
    return strstr(after, "supported") ||
           (readable && strncmp(after, ": node ", 7) == 0);
}

bool conformance_has(const conformance_case *t, const char *name)
{
    return access(fs_printf(t->arena, "%s/%s", t->dir, name), R_OK) == 0;
}

fs_status conformance_plan(conformance_case *t, const ir_graph *graph,
                           plan **out)
{
    plan_lower_options options = plan_lower_defaults();
    plan_strategy *s = plan_strategy_new(graph, 1, t->arena);
    s->micro_batches = 1;
    s->batch = graph->batch;
    s->schedule = "1f1b";
    return plan_lower(graph, t->cluster, s, &options, t->arena, &t->c->err,
                      out);
}

/* What is compared, in the order of the table's columns. */
enum { OUTPUT, LOSS, GRADIENTS, GRADIENT, STEPS, CURVES, N_FIGURES };

typedef struct case_row {
    const char *name, *status, *remark;
    double figures[N_FIGURES]; /* NAN: not compared */
} case_row;

typedef struct tally {
    int32_t cases, passed, failed, refused;
    int32_t training;                 /* of the cases */
    const conformance_recipe *recipe; /* NULL without --plan */
    bool every_row;                   /* also of what passed: there are few */
    json_t *details;
    FS_VEC(case_row) rows;
    conformance_ops *ops;
} tally;

/* The operator that the importer's message names, as `operator "Op"` or as
 * `node 3 "name" (Op)`; "" when it names none. */
static const char *refused_op(cli *c, const char *why)
{
    static const char before[] = "operator \"", node[] = ": node ";
    const char *at = strstr(why, before);
    if (at)
        return fs_strndup(c->arena, at + sizeof before - 1,
                          strcspn(at + sizeof before - 1, "\""));
    at = strstr(why, node);
    at = at ? strstr(at, "\" (") : NULL;
    return at ? fs_strndup(c->arena, at + 3, strcspn(at + 3, ")")) : "";
}

/* The one refused, or the only one of the model. */
static const char *op_of(const conformance_case *t, const char *why)
{
    const char *refused = t->refused ? refused_op(t->c, why) : "";
    return refused[0] ? refused : t->op ? t->op : "";
}

static void figure_cell(report_table *table, int32_t figure, double value)
{
    if (isnan(value))
        report_table_cell(table, "-");
    else
        report_table_cell(
            table, figure == GRADIENTS || figure == STEPS ? "%.0f" : "%.1e",
            value);
}

static void set_figure(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        isfinite(value) ? json_real(value) : json_null());
}

/* As [{tensor, row}]. */
static json_t *padding_json(const conformance_case *t)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < t->padding.n; i++) {
        const char *said = t->padding.at[i], *equals = strrchr(said, '=');
        json_array_append_new(out, json_pack("{s:s%, s:I}", "tensor", said,
                                             (size_t)(equals - said), "row",
                                             (json_int_t)atoll(equals + 1)));
    }
    return out;
}

/* By optimizer. */
static json_t *steps_json(const conformance_case *t)
{
    json_t *out = json_object();
    for (int i = 0; i < CONFORMANCE_CURVES; i++)
        if (t->curve_steps[i])
            json_object_set_new(out, conformance_curve(i),
                                json_integer(t->curve_steps[i]));
    return out;
}

/* The shortest curve that was compared, NAN when none was. */
static double least_steps(const conformance_case *t)
{
    double least = NAN;
    for (int i = 0; i < CONFORMANCE_CURVES; i++)
        if (t->curve_steps[i])
            least = fmin(least, t->curve_steps[i]);
    return least;
}

/* What the last column says of a case. */
static const char *remark(const conformance_case *t, const char *why)
{
    const char *out = why;
    for (int32_t i = 0; i < t->padding.n; i++)
        out = fs_printf(t->arena, "%s%spadding %s", out, out[0] ? "; " : "",
                        t->padding.at[i]);
    return out;
}

static json_t *detail_json(const conformance_case *t, const char *name,
                           const char *word, const char *why)
{
    json_t *detail = json_pack("{s:s, s:s, s:s, s:s, s:i}", "case", name,
                               "status", word, "op", op_of(t, why), "reason",
                               why, "gradients", t->gradients);
    json_object_set_new(detail, "padding", padding_json(t));
    json_object_set_new(detail, "plan",
                        t->training && t->recipe ? json_string(t->recipe->text)
                                                 : json_null());
    set_figure(detail, "loss_error", t->worst_loss);
    set_figure(detail, "gradient_error", t->worst_gradient);
    set_figure(detail, "curve_error", t->worst_curve);
    json_object_set_new(detail, "curve_steps", steps_json(t));
    set_figure(detail, "output_error", t->worst_output);
    return detail;
}

/* The last part of its path. */
static const char *name_of(const conformance_case *t)
{
    const char *slash = strrchr(t->dir, '/');
    const char *name = slash ? slash + 1 : t->dir;
    return t->flat ? fs_strndup(t->c->arena, name, strlen(name) - 5) : name;
}

static void add_row(const conformance_case *t, const char *word,
                    const char *why, tally *all)
{
    case_row row = {
        .name = name_of(t),
        .status = word,
        .remark = fs_strdup(t->c->arena, remark(t, why)),
        .figures = {[OUTPUT] = t->worst_output,
                    [LOSS] = t->worst_loss,
                    [GRADIENTS] = t->gradients ? t->gradients : NAN,
                    [GRADIENT] = t->worst_gradient,
                    [STEPS] = least_steps(t),
                    [CURVES] = t->worst_curve},
    };
    fs_push(t->c->arena, &all->rows, row);
}

static void record(cli *c, tally *all, const conformance_case *t,
                   fs_status status)
{
    const char *word = "passed", *why = t->why;
    all->cases++;
    all->training += t->training;
    if (status != FS_OK) {
        word = t->refused ? "refused" : "failed";
        why = c->err.text;
    } else if (t->why[0]) {
        word = "failed";
    }
    all->passed += word[0] == 'p';
    all->failed += word[0] == 'f';
    all->refused += word[0] == 'r';
    json_array_append_new(all->details, detail_json(t, name_of(t), word, why));
    conformance_ops_add(all->ops, t, t->op ? t->op : "", word);
    if (all->every_row || word[0] != 'p')
        add_row(t, word, why, all);
    c->err = (fs_err){0};
}

/* Whatever a case alone has: one that lost its model failed, it is not passed
 * over. Anything may be called `grad`. */
static bool is_case(cli *c, const char *dir)
{
    static const char *const parts[] = {"model.onnx", "train.json",
                                        "test_data_set_0"};
    for (int i = 0; i < 3; i++)
        if (access(fs_printf(c->arena, "%s/%s", dir, parts[i]), F_OK) == 0)
            return true;
    return false;
}

static int no_dots(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

typedef FS_VEC(const char *) folders;

enum { DEEPEST = 4 };

/* The length of `name` without that ending; 0: it has another. */
static size_t stem(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0 ? n - m : 0;
}

static const char RECORD[] = "_output_0.pb", MODEL[] = ".onnx";

/* A folder of NAME.onnx and NAME_output_N.pb. There every model is a case, and
 * so is a record that lost its model. */
static void find_flat(cli *c, const char *dir, struct dirent *const *list,
                      int n, folders *out)
{
    bool records = false;
    for (int i = 0; i < n; i++)
        records = records || stem(list[i]->d_name, RECORD);
    for (int i = 0; i < n && records; i++) {
        const char *name = list[i]->d_name;
        size_t model = stem(name, MODEL), record = stem(name, RECORD);
        const char *path =
            fs_printf(c->arena, "%s/%.*s%s", dir, (int)(model ? model : record),
                      name, MODEL);
        if (model || (record && access(path, F_OK) != 0))
            fs_push(c->arena, out, path);
    }
}

/* Cases below `dir`, in order of name. */
static fs_status find_cases(cli *c, const char *dir, int32_t depth,
                            folders *out)
{
    if (is_case(c, dir)) {
        fs_push(c->arena, out, dir);
        return FS_OK;
    }
    struct dirent **list;
    int n = scandir(dir, &list, no_dots, alphasort);
    if (n < 0 && depth > 0 && errno == ENOTDIR)
        return FS_OK;
    if (n < 0)
        return fs_fail(&c->err, FS_INVALID, "%s: cannot be read: %s", dir,
                       strerror(errno));
    fs_status status = FS_OK;
    find_flat(c, dir, list, n, out);
    for (int i = 0; i < n; i++) {
        const char *path = fs_printf(c->arena, "%s/%s", dir, list[i]->d_name);
        if (status == FS_OK && depth < DEEPEST)
            status = find_cases(c, path, depth + 1, out);
        free(list[i]);
    }
    free(list);
    return status;
}

static fs_status run_case(conformance_case *t)
{
    if (conformance_has(t, "grad") || conformance_has(t, "train.json"))
        return conformance_train(t);
    if (access(t->model, R_OK) != 0)
        return fs_fail(&t->c->err, FS_INVALID, "%s cannot be read: %s",
                       t->model, strerror(errno));
    return conformance_infer(t);
}

/* An interrupt ends the command, not the case alone. */
static fs_status try_case(const conformance_case *like, const char *dir,
                          tally *all)
{
    conformance_case t = *like;
    t.dir = dir;
    t.flat = stem(dir, MODEL) > 0 &&
             access(fs_printf(like->c->arena, "%s/.", dir), F_OK) != 0;
    t.model = t.flat ? dir : fs_printf(like->c->arena, "%s/model.onnx", dir);
    t.arena = fs_arena_create();
    t.worst_loss = t.worst_gradient = t.worst_curve = t.worst_output = NAN;
    fs_status status = run_case(&t);
    if (!t.c->interrupted) {
        record(t.c, all, &t, status);
        status = FS_OK;
    }
    fs_arena_destroy(t.arena);
    return status;
}

enum { FEW = 40 };

static fs_status try_all(const conformance_case *like, const char *dir,
                         tally *all)
{
    folders cases = {0};
    cli *c = like->c;
    FS_TRY(find_cases(c, dir, 0, &cases));
    if (cases.n == 0)
        return fs_fail(&c->err, FS_INVALID,
                       "%s holds no case: a folder with model.onnx and "
                       "test_data_set_0/{input,output}_N.pb, or with grad/ and "
                       "train.json too; or NAME.onnx and NAME_output_N.pb",
                       dir);
    all->every_row = cases.n <= FEW;
    for (int32_t i = 0; i < cases.n; i++) {
        fs_progress("case %d of %d: %s", i + 1, cases.n, cases.at[i]);
        FS_TRY(try_case(like, cases.at[i], all));
    }
    return FS_OK;
}

/* Columns that no case has are left out. */
static void print_rows(cli *c, const tally *all)
{
    static const char *const figures[N_FIGURES] = {"output off",  "loss off",
                                                   "gradients",   "worst off",
                                                   "curve steps", "curves off"};
    const char *header[N_FIGURES + 3] = {"case", "status"};
    bool shown[N_FIGURES] = {0};
    int32_t n = 2;
    for (int32_t k = 0; k < N_FIGURES; k++) {
        for (int32_t i = 0; i < all->rows.n; i++)
            shown[k] = shown[k] || !isnan(all->rows.at[i].figures[k]);
        if (shown[k])
            header[n++] = figures[k];
    }
    header[n++] = "reason";
    report_table table = {.arena = c->arena, .n_columns = n, .header = header};
    for (int32_t i = 0; i < all->rows.n; i++) {
        const case_row *row = &all->rows.at[i];
        report_table_cell(&table, "%s", row->name);
        report_table_cell(&table, "%s", row->status);
        for (int32_t k = 0; k < N_FIGURES; k++)
            if (shown[k])
                figure_cell(&table, k, row->figures[k]);
        report_table_cell(&table, "%s", row->remark);
    }
    report_table_print(&table, stdout);
}

/* Which plan the figures are of. */
static void tell_plan(cli *c, const tally *all)
{
    const conformance_recipe *recipe = all->recipe;
    json_object_set_new(c->result, "plan",
                        recipe ? json_string(recipe->text) : json_null());
    if (!recipe)
        return;
    json_object_set_new(c->result, "ranks", json_integer(recipe->ranks));
    cli_say(c, "%d training case%s under --plan %s on %d rank%s", all->training,
            all->training == 1 ? "" : "s", recipe->text, recipe->ranks,
            recipe->ranks == 1 ? "" : "s");
    if (all->cases > all->training)
        cli_say(c,
                "; %d of the ONNX backend forward on one, which --plan "
                "does not touch",
                all->cases - all->training);
    cli_say(c, "\n");
}

static fs_status verdict(cli *c, const tally *all)
{
    tell_plan(c, all);
    json_object_set_new(c->result, "cases", json_integer(all->cases));
    json_object_set_new(c->result, "passed", json_integer(all->passed));
    json_object_set_new(c->result, "failed", json_integer(all->failed));
    json_object_set_new(c->result, "refused", json_integer(all->refused));
    json_object_set_new(c->result, "ops", conformance_ops_json(all->ops));
    if (!c->args.json)
        print_rows(c, all);
    if (!c->args.json && !all->every_row)
        conformance_ops_print(all->ops, stdout);
    if (c->args.by_op)
        FS_TRY(conformance_ops_write(all->ops, c->args.by_op, &c->err));
    cli_say(c, "%d case%s: %d passed, %d failed, %d refused\n", all->cases,
            all->cases == 1 ? "" : "s", all->passed, all->failed, all->refused);
    if (all->failed)
        return fs_fail(&c->err, FS_NO, "%d case%s failed", all->failed,
                       all->failed == 1 ? "" : "s");
    return all->passed ? FS_OK : fs_fail(&c->err, FS_NO, "no case passed");
}

fs_status cli_cmd_conformance(cli *c)
{
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "conformance wants one DIR");
    FS_TRY(cli_check_kernels(c));
    conformance_recipe recipe;
    conformance_case like = {.c = c};
    if (c->args.plan) {
        FS_TRY(conformance_recipe_open(c, c->args.plan, &recipe));
        like.recipe = &recipe;
    }
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &like.cluster));
    FS_TRY(cli_begin(c, c->args.operands[0], NULL));
    FS_TRY(exec_world_open(&c->err, &like.world));
    tally all = {.ops = conformance_ops_new(c->arena),
                 .details = json_array(),
                 .recipe = like.recipe};
    json_object_set_new(c->result, "details", all.details);
    fs_status status = try_all(&like, c->args.operands[0], &all);
    exec_world_close(like.world);
    return status == FS_OK ? verdict(c, &all) : status;
}
