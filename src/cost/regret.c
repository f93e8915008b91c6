#include "config.h"
#include "cost/regret.h"

#include "base/json.h"
#include "cost/parts.h"

#include <math.h>

enum {
#define COST_CONSTANT(name, what) CONSTANT_##name,
#include "cost/constants.def"
#undef COST_CONSTANT
};

static const char *const names[] = {
#define COST_CONSTANT(name, what) #name,
#include "cost/constants.def"
#undef COST_CONSTANT
    NULL};

/* ---- the file ---- */

/* A factor that says nothing, or the opposite, is a slip. */
static fs_status read_factor(const fs_json *in, const char *key, double low,
                             double high, fs_err *err, double *out)
{
    FS_TRY(fs_json_number(in, key, err, out));
    if (*out >= low && *out <= high)
        return FS_OK;
    return fs_json_fail(in, key, err, "is %g, must be from %g to %g", *out, low,
                        high);
}

static fs_status read_interval(const fs_json *all, const char *name,
                               fs_arena *arena, fs_err *err, cost_interval *out)
{
    static const char *const keys[] = {"low", "high", "source", NULL};
    const char *source; /* for people */
    fs_json in;
    FS_TRY(fs_json_object(all, name, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(fs_json_strdup(&in, "source", arena, err, &source));
    FS_TRY(read_factor(&in, "low", 0.01, 1, err, &out->low));
    return read_factor(&in, "high", 1, 100, err, &out->high);
}

static fs_status read_all(const fs_json *in, fs_arena *arena, fs_err *err,
                          cost_uncertainty *out)
{
    static const char *const keys[] = {"constants", "iteration", "source",
                                       NULL};
    fs_json constants;
    FS_TRY(fs_json_keys(in, keys, err));
    FS_TRY(read_factor(in, "iteration", 0, 1, err, &out->iteration));
    FS_TRY(fs_json_strdup(in, "source", arena, err, &out->source));
    FS_TRY(fs_json_object(in, "constants", err, &constants));
    FS_TRY(fs_json_keys(&constants, names, err));
    for (int32_t k = 0; k < COST_CONSTANTS; k++)
        FS_TRY(read_interval(&constants, names[k], arena, err, &out->of[k]));
    return FS_OK;
}

fs_status cost_uncertainty_read(const char *file, fs_arena *arena, fs_err *err,
                                cost_uncertainty *out)
{
    json_t *root;
    FS_TRY(fs_json_load(file, err, &root));
    const fs_json in = fs_json_root(file, root);
    const fs_status status = read_all(&in, arena, err, out);
    json_decref(root);
    return status;
}

/* ---- regrets ---- */

/* Bit k of a corner: is constant k at its high end? */
static hw_scale scale_of(const cost_uncertainty *within, int32_t corner)
{
    double f[COST_CONSTANTS];
    for (int32_t k = 0; k < COST_CONSTANTS; k++)
        f[k] = corner >> k & 1 ? within->of[k].high : within->of[k].low;
    const double exposed = f[CONSTANT_exposed];
    return (hw_scale){.compute = f[CONSTANT_compute],
                      .memory = f[CONSTANT_memory],
                      .launch = f[CONSTANT_latency],
                      .inner = exposed * f[CONSTANT_inner],
                      .outer = exposed * f[CONSTANT_outer],
                      .latency = exposed * f[CONSTANT_latency]};
}

static void cost_all(const cost_model *model, int32_t n,
                     const cost_formula *formulas, double *seconds)
{
    for (int32_t k = 0; k < n; k++)
        seconds[k] = cost_formula_seconds(&formulas[k], model);
}

static void add_corner(int32_t n, const double *seconds, cost_regret *out)
{
    double least = INFINITY;
    for (int32_t k = 0; k < n; k++)
        least = fmin(least, seconds[k]);
    for (int32_t k = 0; k < n; k++) {
        const double regret = seconds[k] / least - 1;
        out[k].low_s = fmin(out[k].low_s, seconds[k]);
        out[k].high_s = fmax(out[k].high_s, seconds[k]);
        out[k].most = fmax(out[k].most, regret);
        out[k].mean += regret / COST_CORNERS;
    }
}

void cost_regrets(const cost_model *model, const cost_uncertainty *within,
                  int32_t n, const cost_option *options, cost_regret *out)
{
    fs_arena *arena = fs_arena_create();
    double *seconds = fs_new(arena, double, n);
    cost_formula *formulas = fs_new(arena, cost_formula, n);
    for (int32_t k = 0; k < n; k++) {
        out[k] = (cost_regret){.low_s = INFINITY};
        formulas[k] = cost_formula_of(model, options[k].graph,
                                      options[k].strategy, arena);
    }
    for (int32_t corner = 0; corner < COST_CORNERS; corner++) {
        fs_arena *scratch = fs_arena_create();
        const hw_scale by = scale_of(within, corner);
        const hw_cluster *scaled =
            hw_cluster_scaled(cost_cluster(model), &by, scratch);
        cost_all(cost_model_on(model, scaled, scratch), n, formulas, seconds);
        add_corner(n, seconds, out);
        fs_arena_destroy(scratch);
    }
    fs_arena_destroy(arena);
}
