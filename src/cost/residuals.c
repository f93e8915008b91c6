#include "config.h"
#include "cost/residuals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what is told: each regime leaves out what its row here does. */
static const struct {
    bool scale, framework;
} told[] = {{true, true}, {false, true}, {true, false}, {false, false}};
enum { N_TOLD = sizeof told / sizeof told[0] };

const char *cost_scale_name(int32_t devices, int32_t nodes)
{
    return devices < 2 ? "one device"
           : nodes < 2 ? "one node"
                       : "several nodes";
}

const char *cost_precision_name(const char *precision, bool tf32)
{
    if (precision && strcmp(precision, "fp32") != 0)
        return "16-bit";
    return tf32 ? "tf32" : "fp32";
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the sorted values. */
static double quantile(const double *sorted, int32_t n, double at)
{
    const double place = at * (n - 1);
    const int32_t k = (int32_t)place;
    if (k + 1 >= n)
        return sorted[n - 1];
    return sorted[k] + (place - k) * (sorted[k + 1] - sorted[k]);
}

cost_residual cost_residual_of(const double *ratios, int32_t n, fs_arena *arena)
{
    cost_residual out = {0};
    if (n < COST_FEWEST_RESIDUALS)
        return out;
    double *sorted = fs_memdup(arena, ratios, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    out.rows = n;
    out.low = quantile(sorted, n, 0.1);
    out.median = quantile(sorted, n, 0.5);
    out.high = quantile(sorted, n, 0.9);
    return out;
}

static bool same(const char *a, const char *b)
{
    return !a || (b && strcmp(a, b) == 0);
}

static bool is_of(const cost_residual *r, const cost_measured *run)
{
    return same(r->network, run->network) &&
           same(r->precision, run->precision) && same(r->device, run->device) &&
           same(r->scale, run->scale) && same(r->framework, run->framework);
}

static cost_residual regime_of(const cost_measured *run, int t)
{
    return (cost_residual){.network = run->network,
                           .precision = run->precision,
                           .device = run->device,
                           .scale = told[t].scale ? run->scale : NULL,
                           .framework =
                               told[t].framework ? run->framework : NULL};
}

static bool is_known(const cost_residuals *all, const cost_residual *r)
{
    const cost_measured as_run = {r->network, r->precision, r->device,
                                  r->scale,   r->framework, 0};
    for (int32_t i = 0; i < all->n; i++) {
        const cost_residual *one = &all->at[i];
        if (!one->scale == !r->scale && !one->framework == !r->framework &&
            is_of(one, &as_run))
            return true;
    }
    return false;
}

static void add_regime(const cost_measured *runs, int32_t n,
                       const cost_residual *regime, fs_arena *arena,
                       cost_residuals *out)
{
    double *ratios = fs_new(arena, double, n);
    int32_t found = 0;
    for (int32_t i = 0; i < n; i++)
        if (is_of(regime, &runs[i]))
            ratios[found++] = runs[i].ratio;
    const cost_residual made = cost_residual_of(ratios, found, arena);
    if (!made.rows)
        return;
    cost_residual *add = &out->at[out->n++];
    *add = *regime;
    add->rows = made.rows;
    add->low = made.low;
    add->median = made.median;
    add->high = made.high;
}

void cost_residuals_make(const cost_measured *runs, int32_t n, fs_arena *arena,
                         cost_residuals *out)
{
    out->n = 0;
    out->at = fs_new(arena, cost_residual, N_TOLD * n + 1);
    for (int t = 0; t < N_TOLD; t++)
        for (int32_t i = 0; i < n; i++) {
            const cost_residual regime = regime_of(&runs[i], t);
            if (!is_known(out, &regime))
                add_regime(runs, n, &regime, arena, out);
        }
}

const cost_residual *cost_residuals_find(const cost_residuals *residuals,
                                         const cost_measured *asked)
{
    for (int32_t i = 0; i < residuals->n; i++)
        if (is_of(&residuals->at[i], asked))
            return &residuals->at[i];
    return NULL;
}

/* ---- the file ---- */

static fs_status read_text(const fs_json *in, const char *key, fs_arena *arena,
                           fs_err *err, const char **out)
{
    *out = NULL;
    if (!fs_json_has(in, key))
        return FS_OK;
    return fs_json_strdup(in, key, arena, err, out);
}

static fs_status read_ratio(const fs_json *in, const char *key, fs_err *err,
                            double *out)
{
    FS_TRY(fs_json_number(in, key, err, out));
    if (*out > 0 && *out <= 1000)
        return FS_OK;
    return fs_json_fail(in, key, err, "is %g, must be above 0 and at most 1000",
                        *out);
}

static fs_status read_regime(const fs_json *list, size_t i, fs_arena *arena,
                             fs_err *err, cost_residual *out)
{
    static const char *const keys[] = {
        "network", "precision", "device", "scale", "framework",
        "rows",    "low",       "median", "high",  NULL};
    fs_json in;
    int64_t rows;
    FS_TRY(fs_json_item(list, i, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(fs_json_strdup(&in, "network", arena, err, &out->network));
    FS_TRY(fs_json_strdup(&in, "precision", arena, err, &out->precision));
    FS_TRY(fs_json_strdup(&in, "device", arena, err, &out->device));
    FS_TRY(read_text(&in, "scale", arena, err, &out->scale));
    FS_TRY(read_text(&in, "framework", arena, err, &out->framework));
    FS_TRY(fs_json_int(&in, "rows", 1, INT32_MAX, err, &rows));
    out->rows = (int32_t)rows;
    FS_TRY(read_ratio(&in, "low", err, &out->low));
    FS_TRY(read_ratio(&in, "median", err, &out->median));
    FS_TRY(read_ratio(&in, "high", err, &out->high));
    if (out->low <= out->median && out->median <= out->high)
        return FS_OK;
    return fs_json_fail(&in, "low", err,
                        "is %g, with a median of %g and a high of %g: they "
                        "must not fall",
                        out->low, out->median, out->high);
}

static fs_status read_all(const fs_json *in, fs_arena *arena, fs_err *err,
                          cost_residuals *out)
{
    static const char *const keys[] = {"source", "regimes", NULL};
    fs_json list;
    const char *source; /* for people */
    FS_TRY(fs_json_keys(in, keys, err));
    FS_TRY(fs_json_strdup(in, "source", arena, err, &source));
    FS_TRY(fs_json_array(in, "regimes", err, &list));
    const size_t n = json_array_size(list.value);
    out->at = fs_new(arena, cost_residual, n + 1);
    for (size_t i = 0; i < n; i++)
        FS_TRY(read_regime(&list, i, arena, err, &out->at[i]));
    out->n = (int32_t)n;
    return FS_OK;
}

fs_status cost_residuals_read(const char *file, fs_arena *arena, fs_err *err,
                              cost_residuals *out)
{
    json_t *root;
    FS_TRY(fs_json_load(file, err, &root));
    const fs_json in = fs_json_root(file, root);
    const fs_status status = read_all(&in, arena, err, out);
    json_decref(root);
    return status;
}

/* Three digits are all that so few runs can tell. */
static double rounded(double x)
{
    return round(x * 1000) / 1000;
}

json_t *cost_residuals_json(const cost_residuals *residuals)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < residuals->n; i++) {
        const cost_residual *r = &residuals->at[i];
        json_t *row = json_object();
        fs_json_set_text(row, "network", r->network);
        fs_json_set_text(row, "precision", r->precision);
        fs_json_set_text(row, "device", r->device);
        if (r->scale)
            fs_json_set_text(row, "scale", r->scale);
        if (r->framework)
            fs_json_set_text(row, "framework", r->framework);
        fs_json_set_int(row, "rows", r->rows);
        fs_json_set_real(row, "low", rounded(r->low));
        fs_json_set_real(row, "median", rounded(r->median));
        fs_json_set_real(row, "high", rounded(r->high));
        json_array_append_new(list, row);
    }
    return list;
}
