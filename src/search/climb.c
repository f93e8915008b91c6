/* How the bound of a network that was taken apart is raised: potentials, and
 * prices of bytes with them, move by subgradients (step of Polyak 1969) from
 * one minimum to the next. */
#include "config.h"
#include "search/built.h"
#include "search/lift.h"
#include "search/engine/prices.h"
#include "search/still.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 60, SWEEPS = 20 };
/* Potentials that drift cost twice as much: what is missing by more than this
 * share is not looked for there. */
#define FAR 0.04
/* Where only so much is wanted, so much more is aimed at. */
#define BEYOND 0.005
/* What is not looked for below an upper bound: of what is missing there anyway,
 * and of itself. */
#define SPARE 0.1
#define LEAST_SPARE 1e-6
/* Every few rounds: would as many times what they gained do? If not, no more
 * are tried. */
enum { LOOK = 4, HOPE = 8 };
/* Steps shrink when they lead to no better bound; not below this. */
#define SLOWEST 0.05
/* Of sums of some ten thousand terms, relative to their size. */
#define ROUNDING 1e-12

/* ---- potentials ---- */

/* How often hubs have a state beyond makers, per copy, and how far along the
 * chain. Returns the sum of the squares. Counts are added up before they are
 * divided: what cancels is 0, not what rounding leaves of it, which would make
 * a step of any length. */
double search_lift_slopes(search_lifting *l, const int32_t *value)
{
    double squares = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        search_lift_kind *k = &l->kinds.at[i];
        memset(k->slope, 0, (size_t)k->n_states * sizeof *k->slope);
        memset(k->tilt, 0, (size_t)k->n_states * sizeof *k->tilt);
    }
    for (int32_t j = 0; j < l->terms.n; j++) {
        const search_lift_term *t = &l->terms.at[j];
        const search_lift_kind *k = &l->kinds.at[t->kind];
        const int32_t s = value[t->node];
        const int32_t state = t->state_of ? t->state_of[s] : s;
        k->slope[state] += t->weight;
        /* In parts of 1 / n_mid, which are whole numbers. */
        if (l->twin && k->chain)
            k->tilt[state] += 2 * t->weight * rint(k->n_mid * t->drift);
    }
    for (int32_t i = 0; i < l->kinds.n; i++) {
        search_lift_kind *k = &l->kinds.at[i];
        for (int32_t s = 0; s < k->n_states; s++) {
            k->slope[s] /= k->read;
            k->tilt[s] /= k->chain ? 2 * k->n_mid * sqrt(k->read) : 1;
            squares += k->slope[s] * k->slope[s] + k->tilt[s] * k->tilt[s];
        }
    }
    return squares;
}

int32_t search_lift_n_phi(const search_lifting *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->kinds.n; i++)
        n += 2 * l->kinds.at[i].n_states;
    return n;
}

void search_lift_get(const search_lifting *l, bool slopes, double *flat)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const search_lift_kind *k = &l->kinds.at[i];
        const size_t bytes = (size_t)k->n_states * sizeof *flat;
        memcpy(flat, slopes ? k->slope : k->phi, bytes);
        memcpy(flat + k->n_states, slopes ? k->tilt : k->delta, bytes);
        flat += 2 * k->n_states;
    }
}

void search_lift_set(search_lifting *l, bool slopes, const double *flat)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const search_lift_kind *k = &l->kinds.at[i];
        const size_t bytes = (size_t)k->n_states * sizeof *flat;
        memcpy(slopes ? k->slope : k->phi, flat, bytes);
        memcpy(slopes ? k->tilt : k->delta, flat + k->n_states, bytes);
        flat += 2 * k->n_states;
    }
}

/* ---- prices of bytes ---- */

/* What values hold of each limit, beyond it, as a share of it, tamed: far
 * beyond it says no more of the price than beyond it. Adds the squares, but of
 * what has no price and no need of one. */
double search_lift_excess(search_lifting *l, const int32_t *value)
{
    const search_net *loose = &l->loose;
    double squares = 0;
    memset(l->excess, 0, (size_t)loose->n_limits * sizeof *l->excess);
    for (int32_t v = 0; v < loose->n_nodes; v++) {
        const search_net_node *node = &loose->nodes[v];
        for (int32_t i = v; i >= 0; i = i == v ? search_lift_twin(l, v) : -1)
            for (int32_t k = 0; k < node->n_loads; k++)
                l->excess[node->loads[k].limit] +=
                    search_lift_share(l, v) *
                    (double)node->loads[k].bytes[value[i]];
    }
    for (int32_t e = 0; e < loose->n_edges; e++) {
        const search_net_edge *edge = &loose->edges[e];
        const int32_t v = edge->v, u = search_lift_source(l, e);
        for (int32_t i = v; edge->n_loads && i >= 0;
             i = i == v ? search_lift_twin(l, v) : -1) {
            const int32_t from = value[i == v ? u : l->twin[u]];
            const int64_t at =
                (int64_t)search_lift_row(l, e, from) * loose->nodes[v].n +
                value[i];
            for (int32_t k = 0; k < edge->n_loads; k++)
                l->excess[edge->loads[k].limit] +=
                    search_lift_share(l, v) * (double)edge->loads[k].bytes[at];
        }
    }
    for (int32_t k = 0; k < loose->n_limits; k++) {
        const double limit = (double)loose->limit_bytes[k];
        const double over = l->excess[k] / limit - 1;
        const bool idle = !l->priced[k] || (over < 0 && l->at.bytes[k] <= 0);
        l->excess[k] = idle ? 0 : over > 0 ? over / (1 + over) : over;
        squares += l->excess[k] * l->excess[k];
    }
    return squares;
}

static void move_prices(search_lifting *l, double step)
{
    const search_net *loose = &l->loose;
    for (int32_t k = 0; k < loose->n_limits; k++) {
        const double by = step * l->excess[k] / (double)loose->limit_bytes[k];
        l->at.bytes[k] = fmax(0, l->at.bytes[k] + by);
    }
    l->over = search_price_excess(loose, &l->at);
}

/* What sums in which potentials cancel may be off by. */
double search_lift_rounding(const search_lifting *l)
{
    double sum = 0;
    for (int32_t i = 0; i < l->kinds.n; i++) {
        const search_lift_kind *k = &l->kinds.at[i];
        double most = 0;
        for (int32_t s = 0; s < k->n_states; s++)
            most = fmax(most, fabs(k->phi[s]) + fabs(k->delta[s]));
        sum += k->read * most;
    }
    return ROUNDING * sum;
}

static void move_potentials(search_lifting *l, double step)
{
    for (int32_t i = 0; i < l->kinds.n; i++) {
        search_lift_kind *k = &l->kinds.at[i];
        for (int32_t s = 0; s < k->n_states; s++) {
            k->phi[s] += step * k->slope[s] / k->read;
            k->delta[s] += step * k->tilt[s] / sqrt(k->read);
        }
    }
}

void search_lift_move(search_lifting *l, double step)
{
    move_potentials(l, step);
    if (l->excess)
        move_prices(l, step);
}

/* Prices of stages that stand for others bind bytes that those do not hold. */
static void drop_prices(search_lifting *l)
{
    const search_built *built = l->built;
    const cost_moment *at;
    if (built->loose.n_limits == 0)
        return;
    l->priced = fs_new(l->arena, bool, built->loose.n_limits);
    cost_memory_moments(built->memory, &at);
    for (int32_t k = 0; k < built->loose.n_limits; k++) {
        l->priced[k] = l->view->fold->like[at[built->moment[k]].stage] == 1;
        if (!l->priced[k])
            l->at.bytes[k] = 0;
    }
}

/* What a minimum at potentials as they are tells. */
typedef struct look {
    double bound;
    double squares; /* of slopes; 0: the way up is not known */
    bool vague;     /* the assignment found costs more than the bound */
} look;

static search_effort effort_of(const search_lifting *l,
                               const search_lift_aim *aim)
{
    return (search_effort){.deadline = aim->deadline,
                           .sweeps = SWEEPS,
                           .cutoff = aim->enough + l->over};
}

static double look_at_core(const search_lifting *l, const search_lift_aim *aim)
{
    fs_arena *scratch = fs_arena_create();
    search_cfn *cfn = search_lift_apart(l, NULL, SEARCH_LIFT_CORE, scratch);
    const search_effort effort = effort_of(l, aim);
    search_minimum min;
    search_cfn_minimise(cfn, &effort, scratch, &min);
    fs_arena_destroy(scratch);
    return min.bound - l->over - search_lift_rounding(l);
}

static look look_at(search_lifting *l, search_lift_still *still,
                    const search_lift_aim *aim)
{
    fs_arena *scratch = fs_arena_create();
    const search_effort effort = effort_of(l, aim);
    search_minimum min;
    search_lift_still_minimise(still, &effort, scratch, &min);
    look out = {.bound = min.bound - l->over - search_lift_rounding(l),
                .vague = !search_proven(min.bound, min.cost)};
    if (isfinite(min.cost)) {
        out.squares = search_lift_slopes(l, min.value);
        if (l->excess)
            out.squares += search_lift_excess(l, min.value);
    }
    fs_arena_destroy(scratch);
    return out;
}

static double hoped_for(const search_lift_aim *aim, double best)
{
    return isfinite(aim->upper) ? aim->upper
                                : best + SEARCH_LIFT_UNKNOWN * fabs(best);
}

static void note_best(search_lifting *l, const search_lift_aim *aim)
{
    search_lift_get(l, false, aim->phi);
    if (aim->prices)
        search_prices_copy(&l->loose, aim->prices, &l->at);
}

/* Rounds of one kind of potentials. Where minima are out of reach, messages do
 * for them. */
static double climb_with(search_lifting *l, search_lift_still *still,
                         double best, const search_lift_aim *aim)
{
    double pace = 1, before = -INFINITY;
    if (isinf(best))
        best = look_at_core(l, aim);
    for (int32_t round = 0; round < ROUNDS && pace > SLOWEST; round++) {
        if (best >= aim->enough || fs_deadline_over(&aim->deadline))
            break;
        if (round % LOOK == LOOK - 1) {
            if (HOPE * (best - before) < aim->enough - best)
                break;
            before = best;
        }
        const look at = look_at(l, still, aim);
        pace *= at.bound > best ? 1 : 0.7;
        if (at.bound > best)
            note_best(l, aim);
        best = fmax(best, at.bound);
        if (best < aim->enough && at.vague) {
            best = search_lift_rise(l, still, aim, best);
            note_best(l, aim); /* it comes back to where it was best */
            return best;
        }
        if (at.squares <= 0)
            break;
        const double far = hoped_for(aim, best) - at.bound;
        search_lift_move(l, pace * fmax(far, 0) / at.squares);
    }
    return best;
}

static double climb(search_lifting *l, double best, const search_lift_aim *aim)
{
    search_lift_still still = search_lift_still_new(l);
    best = climb_with(l, &still, best, aim);
    search_lift_still_end(&still);
    return best;
}

/* Until the bound is enough or comes no nearer to what is hoped for. What
 * stands for many may do alone. */
static double raise(search_lifting *l, const search_lift_aim *aim)
{
    const double best = climb(l, -INFINITY, aim);
    if (best >= aim->enough || isinf(aim->upper) ||
        aim->enough - best > FAR * aim->enough ||
        fs_deadline_over(&aim->deadline) || !search_lift_drift(l))
        return best;
    return climb(l, best, aim);
}

static double *numbers(const search_lifting *l)
{
    return fs_new(l->arena, double, search_lift_n_phi(l));
}

/* From the potentials at hand, if there are any, to the best. */
static double raise_from(search_lifting *l, const search_lift_aim *aim,
                         fs_arena *arena, double **phi)
{
    if (phi && *phi)
        search_lift_set(l, false, *phi);
    search_lift_get(l, false, aim->phi);
    l->over = search_price_excess(&l->loose, &l->at);
    const double bound = raise(l, aim);
    if (phi)
        *phi = fs_memdup(arena, aim->phi,
                         (size_t)search_lift_n_phi(l) * sizeof *aim->phi);
    return bound;
}

/* No potentials prove more than `upper`. */
static double reachable(double upper, double enough)
{
    const double missing = enough > upper ? enough - upper : 0;
    return fmin(enough,
                upper - fmax(SPARE * missing, LEAST_SPARE * fabs(upper)));
}

double search_lift(const search_built *built, const search_prices *at,
                   double upper, double enough, fs_deadline deadline,
                   fs_arena *arena, double **phi)
{
    search_lifting l;
    double bound = 0;
    if (!built->layout->view)
        return upper;
    if (search_lift_begin(&l, built)) {
        const search_lift_aim aim = {upper, reachable(upper, enough), deadline,
                                     NULL, numbers(&l)};
        search_prices_copy(&built->loose, &l.at, at);
        drop_prices(&l);
        bound = raise_from(&l, &aim, arena, phi);
    }
    fs_arena_destroy(l.arena);
    return bound;
}

double search_lift_core(const search_built *built, const search_prices *at,
                        double enough, fs_deadline deadline)
{
    search_lifting l;
    double bound = 0;
    if (search_lift_begin(&l, built)) {
        const search_lift_aim aim = {INFINITY, enough, deadline, NULL, NULL};
        search_prices_copy(&built->loose, &l.at, at);
        drop_prices(&l);
        l.over = search_price_excess(&l.loose, &l.at);
        bound = look_at_core(&l, &aim);
    }
    fs_arena_destroy(l.arena);
    return bound;
}

double search_press(const search_built *built, bool memory, double enough,
                    fs_deadline deadline, fs_arena *arena,
                    search_prices *prices, double **phi)
{
    search_lifting l;
    double bound = 0;
    if (search_lift_begin(&l, built)) {
        /* Aimed at is a little more, so that enough is reached. */
        const search_lift_aim aim = {enough * (1 + BEYOND), enough, deadline,
                                     prices, numbers(&l)};
        search_prices_copy(&built->loose, &l.at, prices);
        drop_prices(&l);
        if (memory && built->loose.n_limits)
            l.excess = fs_new(l.arena, double, built->loose.n_limits);
        bound = raise_from(&l, &aim, arena, phi);
    }
    fs_arena_destroy(l.arena);
    return bound;
}

double search_lift_bytes(const search_built *built, int32_t limit,
                         fs_deadline deadline)
{
    search_lifting l;
    double bytes = 0;
    const int32_t n = built->loose.n_stages;
    if (search_lift_begin(&l, built)) {
        const search_lift_aim aim = {INFINITY,
                                     1 + (double)l.loose.limit_bytes[limit],
                                     deadline, NULL, numbers(&l)};
        l.loose.fill = 0; /* no second counts */
        for (int32_t i = 0; i < n; i++)
            l.at.micro[i] = l.at.step[i] = 0;
        l.at.bytes[limit] = 1;
        drop_prices(&l);
        bytes = raise(&l, &aim);
    }
    fs_arena_destroy(l.arena);
    return bytes;
}
