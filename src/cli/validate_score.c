/* How far predictions are off, and whether they put plans in their order. */
#include "config.h"
#include "cli/validate_score.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double validate_error(const validate_case *t, const validate_prediction *p)
{
    if (t->skip || p->failed || p->is_anchor || isnan(t->measured_s))
        return NAN;
    return p->iteration_s / t->measured_s - 1;
}

double validate_bytes_error(const validate_case *t,
                            const validate_prediction *p)
{
    if (t->skip || p->failed || isnan(t->measured_bytes) || t->out_of_memory)
        return NAN;
    return (double)(t->of_process ? p->process_bytes : p->bytes) /
               t->measured_bytes -
           1;
}

validate_verdict validate_verdict_of(const validate_case *t,
                                     const validate_prediction *p)
{
    const bool fits = p->process_bytes <= p->limit;
    if (t->out_of_memory)
        return fits ? VALIDATE_MISSED : VALIDATE_FORESEEN;
    return fits ? VALIDATE_FITS : VALIDATE_ALARM;
}

/* ---- rows told from rows of fewer devices ---- */

static bool is_data_parallel(const validate_case *t)
{
    const search_recipe *r = &t->recipe;
    return !t->skip && !isnan(t->measured_s) && r->tp == 1 && r->pp == 1 &&
           r->cp == 1 && r->zero <= 0 &&
           (strcmp(t->row->arch, "cnn") == 0 ||
            strcmp(t->row->arch, "bert") == 0);
}

/* The same work per device and micro-batch, by the same framework. */
static bool are_family(const validate_case *a, const validate_case *b)
{
    const validate_row *x = a->row, *y = b->row;
    return strcmp(x->source, y->source) == 0 &&
           strcmp(x->model, y->model) == 0 && strcmp(x->gpu, y->gpu) == 0 &&
           strcmp(x->framework, y->framework) == 0 &&
           strcmp(x->precision, y->precision) == 0 &&
           strcmp(x->seq_len, y->seq_len) == 0 &&
           x->gpu_mem_gb == y->gpu_mem_gb &&
           x->global_batch * b->recipe.dp * b->recipe.micro_batches ==
               y->global_batch * a->recipe.dp * a->recipe.micro_batches;
}

/* What is told from another row is no less than this part of it: a prediction
 * that is far off must not make a time of nothing. */
#define LEAST 0.1

/* Of fewer devices, or the earlier row. */
static bool goes_before(const validate_case *cases, int32_t a, int32_t b)
{
    const int64_t x = cases[a].row->gpus, y = cases[b].row->gpus;
    return x < y || (x == y && a < b);
}

void validate_find_anchors(const validate_case *cases, int32_t n,
                           validate_prediction *predicted)
{
    for (int32_t i = 0; i < n; i++)
        predicted[i].anchor = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t from = i;
        if (!is_data_parallel(&cases[i]) || predicted[i].failed)
            continue;
        for (int32_t k = 0; k < n; k++)
            if (is_data_parallel(&cases[k]) && !predicted[k].failed &&
                are_family(&cases[i], &cases[k]) && goes_before(cases, k, from))
                from = k;
        if (from == i)
            continue;
        predicted[i].anchor = from;
        predicted[from].is_anchor = true;
    }
}

double validate_pace(const validate_case *cases,
                     const validate_prediction *predicted, int32_t i)
{
    const int32_t from = predicted[i].is_anchor ? i : predicted[i].anchor;
    return from < 0 ? 1 : cases[from].measured_s / predicted[from].iteration_s;
}

void validate_tell_from(const validate_case *cases, int32_t n,
                        const validate_prediction *paced,
                        validate_prediction *predicted)
{
    /* an anchor has none itself: it is the first of its family */
    for (int32_t i = 0; i < n; i++) {
        const int32_t from = predicted[i].anchor;
        if (from < 0)
            continue;
        const double rounds = (double)cases[i].recipe.micro_batches /
                              (double)cases[from].recipe.micro_batches;
        const double first_s = cases[from].measured_s * rounds;
        const double more_s =
            paced[i].iteration_s - paced[from].iteration_s * rounds;
        predicted[i].iteration_s =
            fmax(fmax(first_s + more_s, LEAST * first_s), paced[i].host_s);
    }
}

/* ---- the nearest other row ---- */

/* Operations of a step on a device, but for a factor that all rows of a source
 * share: what a time is scaled by when it is taken from another row. */
static double work_of(const validate_row *r)
{
    const double seq = fmax(1, atof(r->seq_len)), h = (double)r->hidden;
    const double layers = (double)r->layers;
    const double sample =
        h > 0 ? seq * (layers * h * (12 * h + 2 * seq) + h * (double)r->vocab)
              : 1;
    return sample * (double)r->global_batch / fmax(1, (double)r->gpus);
}

enum { SIZES = 8, WORDS = 4 };

/* What a configuration is told from others by. */
typedef struct place {
    const char *words[WORDS];
    double sizes[SIZES];
} place;

static place place_of(const validate_row *r)
{
    return (place){{r->framework, r->precision, r->recompute, r->schedule},
                   {(double)r->layers, (double)r->hidden, atof(r->seq_len),
                    (double)r->micro_batch, (double)r->grad_accum,
                    (double)r->tp, (double)r->pp, (double)r->dp}};
}

/* Of two configurations; at least `most` where it is that far. */
static double distance(const place *a, const place *b, double most)
{
    double apart = 0, sum = 0;
    for (int k = 0; k < WORDS && apart < most; k++)
        apart += strcmp(a->words[k], b->words[k]) == 0 ? 0 : 2;
    for (int k = 0; k < SIZES && apart + sum < most; k++)
        if (a->sizes[k] != b->sizes[k])
            sum += fabs(log(fmax(a->sizes[k], 1) / fmax(b->sizes[k], 1)));
    return sum + apart;
}

/* Others have no distance: of other networks or devices altogether. */
static bool are_near(const validate_row *a, const validate_row *b)
{
    return strcmp(a->source, b->source) == 0 && strcmp(a->arch, b->arch) == 0 &&
           strcmp(a->gpu, b->gpu) == 0;
}

static bool has_time(const validate_case *t, const validate_case *like)
{
    (void)like;
    return !t->skip && !isnan(t->measured_s);
}

static bool has_bytes(const validate_case *t, const validate_case *like)
{
    return !t->skip && !isnan(t->measured_bytes) && !t->out_of_memory &&
           t->of_process == like->of_process;
}

/* Of the same source, with that figure; -1: there is none. */
static int32_t nearest_row(const validate_case *cases, int32_t n, int32_t i,
                           bool has(const validate_case *,
                                    const validate_case *))
{
    const place here = place_of(cases[i].row);
    double best = INFINITY;
    int32_t found = -1;
    for (int32_t k = 0; k < n && best > 0; k++) {
        if (k == i || !has(&cases[k], &cases[i]) ||
            !are_near(cases[k].row, cases[i].row))
            continue;
        const place there = place_of(cases[k].row);
        const double d = distance(&here, &there, best);
        if (!(d < best))
            continue;
        best = d;
        found = k;
    }
    return found;
}

static double nearest_error(const validate_case *cases, int32_t n, int32_t i)
{
    const int32_t k = nearest_row(cases, n, i, has_time);
    return k < 0 ? NAN
                 : cases[k].measured_s * work_of(cases[i].row) /
                           work_of(cases[k].row) / cases[i].measured_s -
                       1;
}

/* Bytes as they are: what they grow with is another thing in each plan. */
static double nearest_bytes_error(const validate_case *cases, int32_t n,
                                  int32_t i)
{
    const int32_t k = nearest_row(cases, n, i, has_bytes);
    return k < 0 ? NAN : cases[k].measured_bytes / cases[i].measured_bytes - 1;
}

/* ---- sources ---- */

/* Does it state what a prediction wants? What is not modelled does. */
static bool is_stated(const validate_case *t)
{
    return !t->skip || !strstr(t->skip, "not told");
}

typedef struct sums {
    double error, absolute, ran, nearest, bytes, near_bytes;
    int32_t n_nearest, n_near_bytes;
} sums;

static void add_bytes(const validate_case *cases,
                      const validate_prediction *predicted, int32_t n,
                      int32_t i, validate_score *s, sums *sum)
{
    const double error = validate_bytes_error(&cases[i], &predicted[i]);
    if (isnan(error))
        return;
    const double nearest = nearest_bytes_error(cases, n, i);
    s->n_bytes++;
    sum->bytes += fabs(error);
    if (isnan(nearest))
        return;
    sum->near_bytes += fabs(nearest);
    sum->n_near_bytes++;
}

static void add_case(const validate_case *cases,
                     const validate_prediction *predicted, int32_t n, int32_t i,
                     validate_score *s, sums *sum)
{
    const double error = validate_error(&cases[i], &predicted[i]);
    s->stated += is_stated(&cases[i]);
    add_bytes(cases, predicted, n, i, s, sum);
    if (isnan(error))
        return;
    const double nearest = nearest_error(cases, n, i);
    s->rows++;
    sum->error += error;
    sum->absolute += fabs(error);
    s->simulated += cases[i].simulated;
    sum->ran += cases[i].simulated ? 0 : fabs(error);
    s->worst = fmax(s->worst, fabs(error));
    if (isnan(nearest))
        return;
    sum->nearest += fabs(nearest);
    sum->n_nearest++;
}

static validate_score score_source(const validate_case *cases,
                                   const validate_prediction *predicted,
                                   int32_t n, const char *source)
{
    validate_score s = {.source = source};
    sums sum = {0};
    for (int32_t i = 0; i < n; i++)
        if (strcmp(cases[i].row->source, source) == 0)
            add_case(cases, predicted, n, i, &s, &sum);
    s.mape = s.rows ? sum.absolute / s.rows : NAN;
    s.runs_mape = s.rows > s.simulated ? sum.ran / (s.rows - s.simulated) : NAN;
    s.bias = s.rows ? sum.error / s.rows : NAN;
    s.nearest = sum.n_nearest ? sum.nearest / sum.n_nearest : NAN;
    s.bytes_mape = s.n_bytes ? sum.bytes / s.n_bytes : NAN;
    s.nearest_bytes =
        sum.n_near_bytes ? sum.near_bytes / sum.n_near_bytes : NAN;
    return s;
}

/* ---- groups of plans ---- */

static const char *group_name(const validate_case *t, fs_arena *arena)
{
    const validate_row *r = t->row;
    return fs_printf(arena, "%s, %s, %lld %s, batch %lld, %s%s%s", r->source,
                     r->model, (long long)r->gpus, r->gpu,
                     (long long)r->global_batch, r->framework,
                     r->seq_len[0] ? ", seq " : "", r->seq_len);
}

static int sign_of(double x)
{
    return (x > 0) - (x < 0);
}

void validate_order(const double *measured, const double *predicted, int32_t n,
                    validate_group *out)
{
    double agree = 0, pairs_m = 0, pairs_p = 0, best = INFINITY;
    int32_t chosen = 0;
    for (int32_t i = 0; i < n; i++) {
        best = fmin(best, measured[i]);
        if (predicted[i] < predicted[chosen])
            chosen = i;
        for (int32_t k = 0; k < i; k++) {
            const int m = sign_of(measured[i] - measured[k]);
            const int p = sign_of(predicted[i] - predicted[k]);
            agree += m * p;
            pairs_m += m != 0;
            pairs_p += p != 0;
        }
    }
    out->rows = n;
    out->tau = agree / sqrt(pairs_m * pairs_p);
    out->regret = measured[chosen] / best - 1;
}

/* By tau, then by what its choice costs. */
static int worse_order(const void *a, const void *b)
{
    const validate_group *x = a, *y = b;
    if (x->tau != y->tau)
        return x->tau < y->tau ? -1 : 1;
    if (x->regret != y->regret)
        return x->regret > y->regret ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void find_groups(const validate_case *cases,
                        const validate_prediction *predicted, int32_t n,
                        fs_arena *arena, validate_scores *out)
{
    enum { FEWEST = 3 };
    FS_VEC(validate_group) groups = {0};
    const char **name = fs_new(arena, const char *, n);
    double *measured = fs_new(arena, double, n);
    double *ours = fs_new(arena, double, n);
    int32_t *earlier = fs_new(arena, int32_t, n); /* of the group; -1 */
    fs_map last = {.arena = arena};
    for (int32_t i = 0; i < n; i++) {
        if (isnan(validate_error(&cases[i], &predicted[i])))
            continue;
        name[i] = group_name(&cases[i], arena);
        int32_t *at = fs_map_at(&last, name[i]);
        earlier[i] = *at;
        *at = i;
    }
    for (int32_t i = 0; i < n; i++) {
        validate_group group = {.name = name[i], .row = cases[i].row};
        int32_t found = 0;
        if (!name[i] || earlier[i] >= 0)
            continue;
        for (int32_t k = fs_map_get(&last, name[i]); k >= 0; k = earlier[k]) {
            measured[found] = cases[k].measured_s;
            ours[found++] = predicted[k].iteration_s;
        }
        if (found < FEWEST)
            continue;
        validate_order(measured, ours, found, &group);
        if (!isnan(group.tau))
            fs_push(arena, &groups, group);
    }
    out->n_groups = groups.n;
    out->groups = groups.at;
    out->tau = out->regret = groups.n ? 0 : NAN;
    if (groups.n)
        qsort(groups.at, (size_t)groups.n, sizeof *groups.at, worse_order);
    for (int32_t k = 0; k < groups.n; k++) {
        out->tau += groups.at[k].tau / groups.n;
        out->regret += groups.at[k].regret / groups.n;
    }
}

/* ---- all of it ---- */

static void find_sources(const validate_case *cases,
                         const validate_prediction *predicted, int32_t n,
                         fs_arena *arena, validate_scores *out)
{
    FS_VEC(validate_score) sources = {0};
    for (int32_t i = 0; i < n; i++) {
        bool known = false;
        for (int32_t k = 0; k < sources.n && !known; k++)
            known = strcmp(sources.at[k].source, cases[i].row->source) == 0;
        if (!known)
            fs_push(arena, &sources,
                    score_source(cases, predicted, n, cases[i].row->source));
    }
    out->n_sources = sources.n;
    out->sources = sources.at;
}

validate_scores validate_score_all(const validate_case *cases,
                                   const validate_prediction *predicted,
                                   int32_t n, fs_arena *arena)
{
    validate_scores out = {0};
    double sum = 0, sources = 0, ran = 0, bytes = 0;
    int32_t rows = 0, stated = 0, n_sources = 0, n_ran = 0, n_bytes = 0,
            done = 0;
    find_sources(cases, predicted, n, arena, &out);
    find_groups(cases, predicted, n, arena, &out);
    for (int32_t k = 0; k < out.n_sources; k++) {
        const validate_score *s = &out.sources[k];
        stated += s->stated;
        n_bytes += s->n_bytes;
        bytes += s->n_bytes ? s->bytes_mape * s->n_bytes : 0;
        if (s->rows > s->simulated) {
            ran += s->runs_mape;
            n_ran++;
        }
        if (!s->rows)
            continue;
        rows += s->rows;
        sum += s->mape * s->rows;
        sources += s->mape;
        n_sources++;
    }
    for (int32_t i = 0; i < n; i++) {
        const bool predictable = !cases[i].skip && !predicted[i].failed;
        done += predictable;
        if (predictable)
            out.verdicts[validate_verdict_of(&cases[i], &predicted[i])]++;
    }
    out.mape = rows ? sum / rows : NAN;
    out.source_mape = n_sources ? sources / n_sources : NAN;
    out.runs_mape = n_ran ? ran / n_ran : NAN;
    out.bytes_mape = n_bytes ? bytes / n_bytes : NAN;
    out.coverage = stated ? (double)done / stated : NAN;
    return out;
}
