/* Plans that tables of planners tell in words: the columns options and notes of
 * datasets/validation/planner_runs.csv. What is told so fills empty cells; what
 * contradicts a cell is no row. Any other text is for people. */
#include "config.h"
#include "cli/validate_row.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    fs_arena *arena;
    validate_row *row;
    const char *at;
} reading;

/* Is the pattern there? '#' is a whole number (int64_t *), any other character
 * itself. Passes over it only when all of it is there. */
static bool scan(reading *r, const char *pattern, ...)
{
    const char *at = r->at;
    va_list args;
    va_start(args, pattern);
    bool good = true;
    for (; *pattern && good; pattern++) {
        const size_t n = strspn(at, "0123456789");
        if (*pattern != '#') {
            good = *at == *pattern;
            at += good;
            continue;
        }
        good = n > 0 && n < 10;
        if (good)
            *va_arg(args, int64_t *) = strtoll(at, NULL, 10);
        at += n;
    }
    va_end(args);
    if (good)
        r->at = at;
    return good;
}

/* Into an empty cell; false: the cell tells another, which is the row's fault.
 */
static bool fill(reading *r, const char *name, int64_t told, int64_t *cell)
{
    if (*cell && *cell != told && !r->row->fault)
        r->row->fault =
            fs_printf(r->arena,
                      "contradictory plan: %s is %lld, but %lld in options or "
                      "notes",
                      name, (long long)*cell, (long long)told);
    *cell = told;
    return !r->row->fault;
}

/* One rank has nothing to cut. */
static void fill_zero(reading *r, int64_t told)
{
    validate_row *row = r->row;
    told = row->dp > 1 ? told : 0;
    if (row->zero_stage >= 0 && row->zero_stage != told && !row->fault)
        row->fault = fs_printf(r->arena,
                               "contradictory plan: zero_stage is %lld, but "
                               "%lld in options",
                               (long long)row->zero_stage, (long long)told);
    row->zero_stage = told;
}

static void fill_degrees(reading *r, int64_t dp, int64_t tp, int64_t pp)
{
    validate_row *row = r->row;
    if (dp < 1 || tp < 1 || pp < 1)
        row->fault = row->fault ? row->fault : "options tell 0 ranks";
    else if (fill(r, "dp", dp, &row->dp) && fill(r, "tp", tp, &row->tp))
        fill(r, "pp", pp, &row->pp);
}

static void fill_count(reading *r, int64_t count)
{
    if (count < 1)
        r->row->fault =
            r->row->fault ? r->row->fault : "options tell 0 micro-batches";
    else
        fill(r, "grad_accum", count, &r->row->grad_accum);
}

/* ---- Alpa: fixed plans, and those that its compiler chose for a mesh ---- */

/* It cuts samples along the first axis (force_batch_dim_to_mesh_dim), what
 * products take along the second; all-reduces of gradients over the first
 * become reduce-scatters, with states in pieces (prefer_reduce_scatter). Of
 * several micro-batches gradients add up whole, and are reduced once. */
static void fill_mesh(reading *r, int64_t dp, int64_t tp, int64_t pp)
{
    const bool once = r->row->grad_accum <= 1;
    if (dp > 1 || tp > 1)
        r->row->taken =
            once ? "a logical mesh's axes as dp with ZeRO 2, and as tp"
                 : "a logical mesh's axes as dp with ZeRO 1, and as tp";
    fill_degrees(r, dp, tp, pp);
    fill_zero(r, once ? 2 : 1);
}

/* "4 stages x (1,8), logical (2,4), B=128", "2 stages (1,1)+(1,1), B=128" */
static bool read_stages(reading *r)
{
    int64_t stages, hosts, devices, dp = 0, tp = 0, count, more = 1;
    if (scan(r, "# stages x (#,#)", &stages, &hosts, &devices)) {
        if (!scan(r, ", logical (#,#)", &dp, &tp) && hosts * devices == 1)
            dp = tp = 1;
    } else if (scan(r, "# stages (#,#)", &stages, &hosts, &devices)) {
        for (; scan(r, "+(1,1)"); more++)
            ;
        if (hosts * devices == 1 && more == stages)
            dp = tp = 1;
    } else
        return false;
    if (!scan(r, ", B=#", &count) || *r->at)
        return false;
    if (dp * tp == 0) {
        r->row->untold = "the logical mesh of its stages is not told";
        return true;
    }
    fill_count(r, count);
    fill_mesh(r, dp, tp, stages);
    return true;
}

static bool read_alpa(reading *r)
{
    const char *begin = r->at;
    const int64_t gpus = r->row->gpus;
    int64_t dp, tp, pp, count, zero = 0;
    if (scan(r, "dp# tp# pp# mb#", &dp, &tp, &pp, &count) && !*r->at) {
        fill_degrees(r, dp, tp, pp);
        fill_count(r, count);
        return true;
    }
    r->at = begin;
    if (scan(r, "logical mesh #x#", &dp, &tp) && !*r->at) {
        fill_mesh(r, dp, tp, 1);
        return true;
    }
    r->at = begin;
    if ((scan(r, "data_parallel") || scan(r, "zero_#", &zero)) && !*r->at &&
        zero <= 3) {
        fill_degrees(r, gpus, 1, 1);
        fill_zero(r, zero);
        return true;
    }
    r->at = begin;
    return read_stages(r);
}

/* ---- Mist: each stage's own ---- */

enum { MOST_STAGES = 64 };

/* "'13', '11']" */
static int32_t read_counts(reading *r, int64_t counts[MOST_STAGES])
{
    int32_t n = 0;
    while (n < MOST_STAGES && scan(r, "'#'", &counts[n])) {
        n++;
        if (!scan(r, ", "))
            break;
    }
    return scan(r, "]") ? n : 0;
}

/* A share "0.375" of what is offloaded. */
static bool read_share(reading *r, bool *more)
{
    const size_t n = strspn(r->at, "0123456789.");
    *more |= strspn(r->at, "0.") < n;
    r->at += n;
    return n > 0;
}

typedef struct mist_stage {
    int64_t samples, dp, tp, zero;
    bool offloads;
} mist_stage;

/* "'1/2/1/0/0/1/0.0/0.0/0.375/0.0'": samples, dp, tp, which of weights,
 * gradients and states are cut, what is offloaded of these and of activations
 */
static bool read_stage(reading *r, mist_stage *out)
{
    int64_t weights, gradients, states;
    if (!scan(r, "'#/#/#/#/#/#", &out->samples, &out->dp, &out->tp, &weights,
              &gradients, &states))
        return false;
    for (int k = 0; k < 4; k++)
        if (!scan(r, "/") || !read_share(r, &out->offloads))
            return false;
    out->zero = weights ? 3 : gradients ? 2 : states > 0;
    return scan(r, "'");
}

static void take_mist(reading *r, int32_t n, const int64_t *layers,
                      const int64_t *again, const mist_stage *stages)
{
    validate_row *row = r->row;
    bool same = true;
    for (int32_t i = 1; i < n; i++)
        same &= stages[i].dp == stages[0].dp && stages[i].tp == stages[0].tp &&
                stages[i].zero == stages[0].zero &&
                stages[i].samples == stages[0].samples;
    if (!same)
        row->untold = "stages that are laid out otherwise each are not read";
    for (int32_t i = 0; i < n; i++)
        if (stages[i].offloads)
            row->untold = "what is offloaded to the host is not modelled";
    fill_degrees(r, stages[0].dp, stages[0].tp, n);
    fill_zero(r, stages[0].zero);
    fill(r, "micro_batch", stages[0].samples, &row->micro_batch);
    row->n_stages = n;
    row->stage_layers = fs_memdup(r->arena, layers, (size_t)n * sizeof *layers);
    row->stage_again = fs_memdup(r->arena, again, (size_t)n * sizeof *again);
}

static bool read_mist(reading *r)
{
    int64_t layers[MOST_STAGES], again[MOST_STAGES];
    mist_stage stages[MOST_STAGES] = {0};
    if (!scan(r, "layers ["))
        return false;
    const int32_t n = read_counts(r, layers);
    if (!scan(r, "; ckpt [") || read_counts(r, again) != n || n < 1 ||
        !scan(r, "; per stage [b,dp,tp,w,g,o shard,W,G,O,A offload] ["))
        return false;
    for (int32_t i = 0; i < n; i++)
        if (!read_stage(r, &stages[i]) || (i < n - 1 && !scan(r, ", ")))
            return false;
    if (!scan(r, "]") || *r->at)
        return false;
    take_mist(r, n, layers, again, stages);
    return true;
}

/* ---- notes: NAME=NUMBER among other words ---- */

static void read_notes(reading *r)
{
    validate_row *row = r->row;
    int64_t value;
    for (r->at = row->notes; *r->at;) {
        const bool begins =
            r->at == row->notes || isspace((unsigned char)r->at[-1]);
        if (begins && scan(r, "micro_batches=#", &value))
            fill_count(r, value);
        else if (begins && scan(r, "experts=#", &value))
            fill(r, "experts", value, &row->experts);
        else
            r->at++;
    }
}

void validate_read_options(fs_arena *arena, validate_row *row)
{
    reading r = {arena, row, row->options};
    if (row->fault)
        return;
    read_notes(&r);
    r.at = row->options;
    if (!read_alpa(&r)) {
        r.at = row->options;
        read_mist(&r);
    }
}
