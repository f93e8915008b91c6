#include "config.h"
#include "sim/noise.h"

#include "base/hash.h"

#include <math.h>

/* What a role computed since its ranks last met on a communicator. */
typedef struct segment {
    double mean_s, variance; /* of any rank */
    double own_s;            /* of the one that is played, its waits too */
    int32_t within; /* 1 + place of the largest communicator within this one
                       that has met meanwhile; 0: none */
} segment;

/* The largest of n standard normals. */
typedef struct largest {
    double mean, variance;
} largest;

struct sim_noise {
    double shape;        /* deviation of the factor's logarithm */
    double square;       /* relative variance of a firing */
    int32_t *n_comms;    /* [roles] */
    int32_t **comm;      /* [roles][n_comms] that its ranks meet on */
    segment **segment;   /* [roles][n_comms] */
    int32_t *size;       /* [comms] ranks of an instance; 0: unknown yet */
    largest *largest;    /* [comms] of that many */
    int64_t *n_meetings; /* [comms] so far, for what is drawn */
};

/* ---- the normal distribution ---- */

/* Abramowitz and Stegun 26.2.23 to 4.5e-4, then Newton steps on the logarithm
 * of the tail, which is nearly quadratic: for tails below a half. */
static double upper_tail(double tail)
{
    const double t = sqrt(-2 * log(tail));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int i = 0; i < 3; i++) {
        const double is = erfc(z * M_SQRT1_2) / 2;
        const double slope = exp(-z * z / 2) / sqrt(2 * M_PI);
        z += log(is / tail) * is / slope;
    }
    return z;
}

/* Numerator and denominator of degree 7, from the constants up. */
static double ratio(const double top[8], const double bottom[8], double x)
{
    double a = top[7], b = bottom[7];
    for (int i = 6; i >= 0; i--) {
        a = a * x + top[i];
        b = b * x + bottom[i];
    }
    return a / b;
}

/* M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal
 * Distribution", Applied Statistics 37(3), 1988 (PPND16), relatively good to
 * some 1e-16. A simulated firing draws one: of most the tail is nearer to a
 * half than .425, and takes no logarithm. Beyond e^-25 as above. */
double sim_normal_tail(double tail)
{
    static const double middle[2][8] = {
        {3.3871328727963666080e0, 1.3314166789178437745e2,
         1.9715909503065514427e3, 1.3731693765509461125e4,
         4.5921953931549871457e4, 6.7265770927008700853e4,
         3.3430575583588128105e4, 2.5090809287301226727e3},
        {1, 4.2313330701600911252e1, 6.8718700749205790830e2,
         5.3941960214247511077e3, 2.1213794301586595867e4,
         3.9307895800092710610e4, 2.8729085735721942674e4,
         5.2264952788528545610e3}};
    static const double outer[2][8] = {
        {1.42343711074968357734e0, 4.63033784615654529590e0,
         5.76949722146069140550e0, 3.64784832476320460504e0,
         1.27045825245236838258e0, 2.41780725177450611770e-1,
         2.27238449892691845833e-2, 7.74545014278341407640e-4},
        {1, 2.05319162663775882187e0, 1.67638483018380384940e0,
         6.89767334985100004550e-1, 1.48103976427480074590e-1,
         1.51986665636164571966e-2, 5.47593808499534494600e-4,
         1.05075007164441684324e-9}};
    const double q = 0.5 - tail, least = tail < 0.5 ? tail : 1 - tail;
    if (fabs(q) <= 0.425)
        return q * ratio(middle[0], middle[1], 0.180625 - q * q);
    const double r = sqrt(-log(least)) - 1.6;
    const double z =
        r <= 5 - 1.6 ? ratio(outer[0], outer[1], r) : upper_tail(least);
    return q > 0 ? z : -z;
}

/* By the middle rule over the largest's quantiles: value and square at the
 * quantile u of the largest of n are those of the normal at u^(1/n). */
static largest largest_of(int32_t n)
{
    enum { POINTS = 4096 };
    double mean = 0, square = 0;
    for (int32_t i = 0; i < POINTS && n > 0; i++) {
        const double u = (i + 0.5) / POINTS;
        const double z = sim_normal_tail(-expm1(log(u) / n));
        mean += z / POINTS;
        square += z * z / POINTS;
    }
    return (largest){mean, fmax(square - mean * mean, 0)};
}

/* ---- making ---- */

static void add_role(sim_noise *n, const simulation *s, int32_t r)
{
    const plan_role *role = &s->p->roles[r];
    bool *seen = fs_new(s->arena, bool, s->p->n_comms);
    n->comm[r] = fs_new(s->arena, int32_t, s->p->n_comms);
    n->segment[r] = fs_new(s->arena, segment, s->p->n_comms);
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const int32_t comm = role->tasks[t].comm;
        if (comm < 0 || seen[comm])
            continue;
        seen[comm] = true;
        n->comm[r][n->n_comms[r]++] = comm;
    }
}

sim_noise *sim_noise_create(const simulation *s)
{
    if (s->options->jitter <= 0)
        return NULL;
    sim_noise *n = fs_new(s->arena, sim_noise, 1);
    n->square = s->options->jitter * s->options->jitter;
    n->shape = sqrt(log1p(n->square));
    n->n_comms = fs_new(s->arena, int32_t, s->p->n_roles);
    n->comm = fs_new(s->arena, int32_t *, s->p->n_roles);
    n->segment = fs_new(s->arena, segment *, s->p->n_roles);
    n->size = fs_new(s->arena, int32_t, s->p->n_comms);
    n->largest = fs_new(s->arena, largest, s->p->n_comms);
    n->n_meetings = fs_new(s->arena, int64_t, s->p->n_comms);
    for (int32_t c = 0; c < s->p->n_comms; c++) {
        n->size[c] = plan_comm_size(s->p, &s->p->comms[c]);
        n->largest[c] = largest_of(n->size[c]);
    }
    for (int32_t r = 0; r < s->p->n_roles; r++)
        add_role(n, s, r);
    return n;
}

/* ---- drawing ---- */

/* In (0, 1), the same for the same who, what and when. */
static double draw(const simulation *s, uint64_t who, uint64_t what,
                   uint64_t when)
{
    const uint64_t counter = fs_mix(fs_mix(fs_mix(who) + what) + when);
    const double u = fs_draw_unit(s->options->seed, counter);
    return fmin(fmax(u, 0x1p-53), 1 - 0x1p-53);
}

static double log_normal(double mean, double variance, double z)
{
    const double square = log1p(variance / (mean * mean));
    return mean * exp(sqrt(square) * z - square / 2);
}

static double factor(const sim_noise *n, double u)
{
    return exp(n->shape * sim_normal_tail(u) - n->shape * n->shape / 2);
}

double sim_noise_alone(sim_noise *n, const simulation *s, int32_t stream,
                       double seconds)
{
    if (!n)
        return seconds;
    const int32_t r = s->role_of[stream], local = s->jobs[stream].stream;
    const plan_actors *a = s->actors[r];
    const plan_cursor *c = &a->cursor[local];
    const int64_t firing =
        c->step * s->p->micro_batches + plan_actor_micro_batch(a, local);
    const double is_s =
        seconds *
        factor(n, draw(s, (uint64_t)r, (uint64_t)c->task, (uint64_t)firing));
    if (!plan_task_computes(&s->p->roles[r].tasks[c->task]))
        return is_s;
    for (int32_t k = 0; k < n->n_comms[r]; k++) {
        segment *x = &n->segment[r][k];
        x->mean_s += seconds;
        x->variance += n->square * seconds * seconds;
        x->own_s += is_s;
    }
    return is_s;
}

/* How much later than the played one the slowest of so many others comes. */
static double wait_for_others(const sim_noise *n, const simulation *s,
                              int32_t comm, int32_t others, const segment *x)
{
    if (others < 1 || x->mean_s <= 0 || x->variance <= 0)
        return 0;
    const double u = draw(s, ~(uint64_t)others, (uint64_t)comm,
                          (uint64_t)n->n_meetings[comm]);
    const double z = sim_normal_tail(-expm1(log(u) / others));
    return fmax(log_normal(x->mean_s, x->variance, z) - x->own_s, 0);
}

static bool is_within(const plan *p, int32_t inner, int32_t outer)
{
    const uint32_t a = p->comms[inner].axes, b = p->comms[outer].axes;
    return a != b && (a & ~b) == 0;
}

/* The ranks of communicator k of a role have met, the played one has waited so
 * long: others inherit it. */
static void meet(sim_noise *n, const simulation *s, int32_t r, int32_t k,
                 double wait_s)
{
    const int32_t comm = n->comm[r][k];
    const segment met = n->segment[r][k];
    const largest *of = &n->largest[comm];
    n->n_meetings[comm]++;
    n->segment[r][k] = (segment){0};
    for (int32_t i = 0; i < n->n_comms[r]; i++) {
        segment *x = &n->segment[r][i];
        const double least = fmin(met.variance, x->variance);
        if (i == k)
            continue;
        x->mean_s += of->mean * sqrt(least);
        x->variance += (of->variance - 1) * least;
        x->own_s += wait_s;
        if (is_within(s->p, comm, n->comm[r][i]) &&
            (!x->within || n->size[n->comm[r][x->within - 1]] < n->size[comm]))
            x->within = k + 1;
    }
}

/* Ranks that have met within a smaller communicator come as one: so they meet
 * there once more, and then their group meets the other groups. */
static double settle(sim_noise *n, const simulation *s, int32_t r, int32_t k)
{
    const int32_t comm = n->comm[r][k], inner = n->segment[r][k].within - 1;
    int32_t parties = n->size[comm];
    double wait_s = 0;
    if (inner >= 0) {
        parties /= n->size[n->comm[r][inner]];
        wait_s = settle(n, s, r, inner);
        meet(n, s, r, inner, wait_s);
    }
    return wait_s + wait_for_others(n, s, comm, parties - 1, &n->segment[r][k]);
}

static int32_t place_of(const sim_noise *n, int32_t r, int32_t comm)
{
    int32_t k = 0;
    while (n->comm[r][k] != comm)
        k++;
    return k;
}

double sim_noise_meeting(sim_noise *n, const simulation *s, int32_t line,
                         double seconds)
{
    if (!n)
        return seconds;
    const sim_line *l = &s->lines[line];
    const int32_t lead = l->arrived[0], r = s->role_of[lead];
    const plan_cursor *c = &s->actors[r]->cursor[s->jobs[lead].stream];
    const int64_t firing =
        c->step * s->p->micro_batches +
        plan_actor_micro_batch(s->actors[r], s->jobs[lead].stream);
    seconds *=
        factor(n, draw(s, (uint64_t)r, (uint64_t)c->task, (uint64_t)firing));
    if (line >= s->p->n_comms)
        return seconds;
    double wait_s = 0;
    for (int32_t i = 0; i < l->n_members; i++) {
        const int32_t role = s->role_of[l->arrived[i]];
        wait_s = fmax(wait_s, settle(n, s, role, place_of(n, role, line)));
    }
    for (int32_t i = 0; i < l->n_members; i++) {
        const int32_t role = s->role_of[l->arrived[i]];
        meet(n, s, role, place_of(n, role, line), wait_s);
    }
    return seconds + wait_s;
}
