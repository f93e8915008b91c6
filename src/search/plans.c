/* Plans in the place of one. Each configuration that was solved offers the plan
 * that it found; where these are fewer than are wanted, configurations that a
 * bound had pruned are solved after all, best bound first, with little effort:
 * they prove nothing. In the end those that fit are ranked. */
#include "config.h"
#include "search/plans.h"

#include "base/clock.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/engine/prices.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/planner.h"

#include <math.h>
#include <string.h>

/* Some offers do not fit. Of the work done until then, plans that nobody needs
 * for a proof may take so much more, and some where that was little. */
enum { SPARE = 2, LOOKS = 4, FEW_PRICES = 1 };
/* Plans say what is of interest, bounds do not: these wait for no other. */
enum { AT_ONCE = 4, SOLVED_AT_ONCE = 2 };
#define MORE_WORK 0.25
#define LEAST_WORK_S 0.25

static int32_t room(const search_level0 *z)
{
    return z->problem->ranking ? SPARE * z->problem->ranking->keep : 0;
}

/* Plans that cost more are of no interest. */
static double most_s(const search_level0 *z, int32_t n)
{
    const search_ranking *ranking = z->problem->ranking;
    double most = z->offers.n >= n ? z->offers.at[n - 1].cost_s : INFINITY;
    if (z->kept.from)
        most = fmin(most, (1 + ranking->within) * z->kept.cost_s);
    return most;
}

static int32_t find_offer(const search_level0 *z, const search_candidate *c)
{
    int32_t k = 0;
    while (k < z->offers.n && z->offers.at[k].from != c)
        k++;
    return k;
}

bool search_wants(const search_level0 *z, const search_candidate *c,
                  double cost_s)
{
    if (room(z) == 0 || !isfinite(cost_s))
        return false;
    const int32_t k = find_offer(z, c);
    if (cost_s > most_s(z, INT32_MAX))
        return false;
    if (k < z->offers.n)
        return cost_s < z->offers.at[k].cost_s;
    return z->offers.n < room(z) || cost_s < most_s(z, room(z));
}

static void remove_at(search_level0 *z, int32_t k)
{
    z->offers.n--;
    memmove(&z->offers.at[k], &z->offers.at[k + 1],
            (size_t)(z->offers.n - k) * sizeof *z->offers.at);
}

bool search_is_offered(const search_level0 *z, const search_candidate *c)
{
    return z->kept.from == c || find_offer(z, c) < z->offers.n;
}

void search_withdraw(search_level0 *z, const search_candidate *c)
{
    const int32_t k = find_offer(z, c);
    if (k < z->offers.n)
        remove_at(z, k);
}

/* One that is known to fit is the one to keep of two as cheap. */
static bool confirms(const search_level0 *z, const search_kept *found)
{
    const int32_t k = find_offer(z, found->from);
    return found->fits && k < z->offers.n &&
           found->cost_s <= z->offers.at[k].cost_s;
}

/* In the place of what its configuration had. */
static void put(search_level0 *z, const search_kept *found)
{
    search_withdraw(z, found->from);
    if (z->offers.n == room(z))
        z->offers.n--;
    fs_push(z->scratch, &z->offers, *found);
    int32_t k = z->offers.n - 1;
    for (; k > 0 && z->offers.at[k - 1].cost_s > found->cost_s; k--)
        z->offers.at[k] = z->offers.at[k - 1];
    z->offers.at[k] = *found;
}

void search_offer(search_level0 *z, const search_kept *found)
{
    if (confirms(z, found) || search_wants(z, found->from, found->cost_s))
        put(z, found);
}

/* `at` has the layout of c's configuration. */
static void offer_of(search_level0 *z, search_candidate *c,
                     search_candidate *at, const search_built *built,
                     const search_solution *solution)
{
    if (!search_wants(z, c, solution->cost))
        return;
    search_kept found = search_whole_plan(
        z, at, built, &(search_mix){.value = solution->value}, solution->cost);
    found.from = c;
    found.net_nodes = built->net.n_nodes;
    found.net_edges = built->net.n_edges;
    found.kernel_nodes = solution->kernel_nodes;
    search_offer(z, &found);
}

void search_offer_values(search_level0 *z, search_candidate *c,
                         const search_built *built,
                         const search_solution *solution)
{
    offer_of(z, c, c, built, solution);
}

/* ---- configurations that were not solved ---- */

/* One of those, with the least that a plan of its cut costs: its own bound, or
 * what its nodes take; where stages hand on to each other then what its network
 * takes with quick bounds of moves, by prices that rise: exact tables of moves,
 * and an engine, are for what is left. Limits have no say. */
typedef enum open_step {
    OPEN_UNKNOWN,
    OPEN_LOOKED,
    OPEN_PRESSED,
    OPEN_SOLVED
} open_step;
typedef struct open_one {
    search_candidate *c;
    double least_s;
    open_step step; /* how far it came */
    bool folds;     /* and its network is small: solved as soon as pressed */
    bool taken;     /* among those that are chosen */
    const search_prices *prices; /* that proved most of it; NULL: none did */
} open_one;
typedef struct open_list {
    open_one *at;
    int32_t n;
} open_list;

/* Those that have no offer, but for other cuts that their bounds ruled out. */
static open_list list_open(search_level0 *z)
{
    open_list list = {.at = fs_new(z->scratch, open_one, z->all.n)};
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (find_offer(z, c) == z->offers.n && !search_narrowed(c) &&
            (!c->part || c->solved))
            list.at[list.n++] = (open_one){.c = c, .least_s = search_bound(c)};
    }
    return list;
}

static open_step next_step(const open_one *open)
{
    const bool moves = open->c->n_stages > 1 && !open->folds;
    return open->step == OPEN_LOOKED && !moves ? OPEN_SOLVED : open->step + 1;
}

/* The least of those that may have a plan of interest; NULL: no other may. */
static open_one *next_open(const search_level0 *z, const open_list *list)
{
    double least_s = most_s(z, z->problem->ranking->keep);
    open_one *least = NULL;
    for (int32_t k = 0; k < list->n; k++) {
        open_one *one = &list->at[k];
        if (!one->taken && one->step < OPEN_SOLVED && one->least_s < least_s) {
            least = one;
            least_s = one->least_s;
        }
    }
    return least;
}

/* Do they differ by their meshes alone? */
static bool beside(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->n_stages == b->n_stages &&
           a->depth == b->depth && a->order == b->order;
}

/* Those that proved most of one that differs by its mesh, or of its plan; NULL:
 * none are known. */
static const search_prices *prices_beside(const search_level0 *z,
                                          const open_list *list,
                                          const search_candidate *c)
{
    for (int32_t k = 0; k < list->n; k++)
        if (list->at[k].prices && beside(list->at[k].c, c))
            return list->at[k].prices;
    const search_candidate *best = z->best;
    return best && best->measured && beside(best, c) ? best->measured->prices
                                                     : NULL;
}

/* Another one will say where it is best begun. */
static bool waits(const search_level0 *z, const open_list *list,
                  const open_one *one, open_one *const *few, int32_t n)
{
    if (next_step(one) != OPEN_PRESSED || prices_beside(z, list, one->c))
        return false;
    for (int32_t k = 0; k < n; k++)
        if (beside(few[k]->c, one->c))
            return true;
    return false;
}

/* Of those, with the first, as many as are brought to that step at once. */
static int32_t choose_few(const search_level0 *z, const open_list *list,
                          open_step step, int32_t most, open_one **few)
{
    open_one *next;
    int32_t n = 0;
    for (int32_t k = 0; k < list->n; k++)
        list->at[k].taken = false;
    while (n < most && (next = next_open(z, list)) && next_step(next) == step) {
        next->taken = true;
        if (!waits(z, list, next, few, n))
            few[n++] = next;
    }
    for (int32_t k = 0; k < list->n; k++)
        list->at[k].taken = false;
    return n;
}

/* One to be looked at in the place of c, laid out in an arena of its own;
 * NULL: there is nothing to look at. */
static search_candidate *make_anew(search_level0 *z, const search_candidate *c,
                                   double most_steps)
{
    search_candidate *anew = fs_new(z->scratch, search_candidate, 1);
    fs_err ignored = {0};
    *anew = search_anew(c);
    if (!anew->schedule)
        anew->schedule = z->problem->schedule;
    if (search_lay_out_cut(z, anew, &ignored) != FS_OK) {
        fs_arena_destroy(anew->arena);
        return NULL;
    }
    anew->shown.seconds_only = true; /* who lists it sees whether it fits */
    anew->asked = fs_new(anew->arena, search_asked, 1);
    anew->asked->status = FS_NO;
    anew->asked->left = most_steps;
    anew->asked->budget =
        (search_budget){.cutoff = most_s(z, z->problem->ranking->keep),
                        .gap = z->problem->gap,
                        .reduce = z->problem->reduce,
                        .without = z->problem->without,
                        .rounds = FEW_PRICES};
    return anew;
}

/* Crew's jobs. */
static void look_soon(search_level0 *z, search_candidate *anew)
{
    search_floor_own(z, anew);
}

static void press_soon(search_level0 *z, search_candidate *anew)
{
    anew->asked->solution.prices =
        search_press_own(z, anew, 0, anew->asked->budget.cutoff);
}

static void solve_soon(search_level0 *z, search_candidate *anew)
{
    search_asked *asked = anew->asked;
    if (!search_build_own(z, anew))
        return;
    asked->budget.deadline =
        fs_deadline_after(asked->left, &anew->steps, z->end);
    asked->status = search_engine_find(z->problem->engine)(
        &anew->built.net, &asked->budget, anew->arena, &asked->err,
        &asked->solution);
}

/* What costs less than its bound exceeds a limit. */
static bool may_fit(const search_candidate *c, double cost_s)
{
    const double bound_s = search_bound(c);
    return cost_s >= bound_s || search_proven(cost_s, bound_s);
}

static search_job *const job_to[] = {[OPEN_LOOKED] = look_soon,
                                     [OPEN_PRESSED] = press_soon,
                                     [OPEN_SOLVED] = solve_soon};

static void conclude_soon(search_level0 *z, open_one *open,
                          search_candidate *anew)
{
    const search_solution *found = &anew->asked->solution;
    open->least_s = fmax(open->least_s, anew->record.lower_bound_s);
    open->folds = anew->view != NULL;
    if (anew->asked->status == FS_OK && may_fit(open->c, found->cost))
        offer_of(z, open->c, anew, &anew->built, found);
    if (open->step == OPEN_PRESSED && found->prices) {
        const search_net *net = &anew->built.net;
        search_prices *kept = fs_new(z->scratch, search_prices, 1);
        *kept = search_prices_new(net, z->scratch);
        search_prices_copy(net, kept, found->prices);
        open->prices = kept;
    }
    z->other_steps += anew->steps;
    fs_arena_destroy(anew->arena);
}

/* A step of some at once. */
static void go_on_soon(search_level0 *z, const open_list *all, open_one **list,
                       int32_t n, open_step step, double most_steps)
{
    search_candidate *anew[AT_ONCE] = {NULL};
    open_one *laid[AT_ONCE];
    int32_t n_laid = 0;
    for (int32_t k = 0; k < n; k++) {
        anew[n_laid] = make_anew(z, list[k]->c, most_steps);
        if (anew[n_laid] && step == OPEN_PRESSED)
            anew[n_laid]->prices = prices_beside(z, all, list[k]->c);
        list[k]->step = anew[n_laid] ? step : OPEN_SOLVED;
        laid[n_laid] = list[k];
        n_laid += anew[n_laid] != NULL;
    }
    search_crew_run(z, job_to[step], anew, n_laid);
    for (int32_t k = 0; k < n_laid; k++)
        conclude_soon(z, laid[k], anew[k]);
}

/* How many more may be brought to that step, each of which takes longer. */
static int32_t room_for(const search_level0 *z, const int32_t *count,
                        open_step step)
{
    const int32_t most = step == OPEN_LOOKED ? LOOKS * room(z) : room(z);
    const int32_t few = step == OPEN_SOLVED ? SOLVED_AT_ONCE : AT_ONCE;
    return most - count[step] < few ? most - count[step] : few;
}

void search_more_plans(search_level0 *z)
{
    if (room(z) == 0 || z->problem->ranking->keep == 1 || !z->kept.from)
        return;
    const double done = (double)search_steps(z);
    double most = done + fmax(MORE_WORK * done, LEAST_WORK_S * FS_STEPS_PER_S);
    const open_list all = list_open(z);
    open_one *few[AT_ONCE], *next;
    int32_t count[OPEN_SOLVED + 1] = {0};
    while (!search_over(z) && (next = next_open(z, &all))) {
        const open_step step = next_step(next);
        const int32_t most_few = room_for(z, count, step);
        const double left = most - (double)search_steps(z);
        if (left <= 0 || most_few <= 0)
            break;
        const int32_t n_few = choose_few(z, &all, step, most_few, few);
        count[step] += n_few;
        go_on_soon(z, &all, few, n_few, step, left);
        if (step == OPEN_PRESSED) /* it is less than what it spares */
            most = left + (double)search_steps(z);
    }
}

/* ---- what they are worth ---- */

static bool fits(search_level0 *z, search_kept *offer)
{
    const plan_strategy *s = offer->strategy;
    int64_t *limit = fs_new(z->scratch, int64_t, s->n_stages);
    int64_t *bytes = fs_new(z->scratch, int64_t, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++)
        limit[i] = search_device_bytes(z->problem, &s->stages[i]);
    return (offer->fits && !offer->guessed) ||
           search_fits(z->problem, offer->graph, limit, offer->strategy, bytes);
}

search_again search_again_of(const search_level0 *z, const search_kept *kept)
{
    search_again again = {.chosen = kept->from->again, .casts = kept->casts};
    if (!kept->left)
        return again;
    again.left = fs_new(z->arena, const char *, kept->all->nodes.n);
    for (int32_t v = 0; v < kept->all->nodes.n; v++) {
        const ir_node *node = &kept->all->nodes.at[v];
        if (kept->left[v])
            again.left[again.n_left++] =
                fs_strdup(z->arena, kept->all->nodes.at[node->forward].name);
    }
    return again;
}

/* Who scores plans lowers them, which tells whether they fit. */
double search_score_plan(const search_ranking *ranking, int32_t place,
                         const search_plan *p)
{
    return ranking->score ? ranking->score(ranking->ctx, place, p)
                          : p->iteration_s;
}

/* Nothing is to choose from. */
static bool is_alone(const search_level0 *z, const search_kept *offer)
{
    return offer->fits && offer == &z->offers.at[0] &&
           (z->offers.n == 1 || z->offers.at[1].cost_s > most_s(z, INT32_MAX));
}

/* That it fits, where that was a guess. Of compact graphs who expands it says.
 */
static void prove(search_level0 *z, search_kept *offer, bool lowered)
{
    if (!offer->guessed || (z->problem->outgrown && !lowered))
        return;
    offer->guessed = !lowered && !fits(z, offer);
    if (offer->strategy == z->kept.strategy)
        z->kept.guessed = offer->guessed;
}

bool search_prove_fit(search_level0 *z)
{
    search_kept *kept = &z->kept;
    const bool claims = z->problem->claims || z->problem->outgrown;
    if (kept->guessed && !claims)
        kept->guessed = !fits(z, kept);
    return !kept->guessed || claims;
}

static bool same_graph(const ir_graph *a, const ir_graph *b)
{
    bool same = a->nodes.n == b->nodes.n && a->tensors.n == b->tensors.n;
    for (int32_t v = 0; same && a != b && v < a->nodes.n; v++) {
        const ir_node *x = &a->nodes.at[v], *y = &b->nodes.at[v];
        same = x->op == y->op && x->n_in == y->n_in &&
               memcmp(x->in, y->in, (size_t)x->n_in * sizeof *x->in) == 0;
    }
    return same;
}

/* Configurations may end with one plan: their cuts may differ in what is of no
 * stage, or in what is computed again of which nothing is. */
static bool is_listed(const search_kept *offer, const search_result *out)
{
    for (int32_t k = 0; k < out->n_plans; k++) {
        const search_plan *p = &out->plans[k];
        if (p->of == offer->from->graph &&
            plan_same_strategy(p->strategy, offer->strategy) &&
            same_graph(p->graph, offer->graph))
            return true;
    }
    return false;
}

/* The next of them, where it is of any use. */
static void add_plan(search_level0 *z, search_kept *offer, search_result *out)
{
    const search_ranking *ranking = z->problem->ranking;
    search_plan *p = (search_plan *)&out->plans[out->n_plans];
    /* who scores knows of no share */
    const double share = z->problem->memory_share;
    if ((!ranking->score || (share > 0 && share < 1)) && !fits(z, offer))
        return;
    *p = (search_plan){.of = offer->from->graph,
                       .graph = search_lasting(z, offer->graph),
                       .strategy = offer->strategy,
                       .again = search_again_of(z, offer),
                       /* a claim is not trusted, here as anywhere */
                       .iteration_s = cost_strategy_seconds(
                           z->problem->cost, offer->graph, offer->strategy)};
    p->score_s = is_alone(z, offer)
                     ? INFINITY
                     : search_score_plan(ranking, out->n_plans, p);
    prove(z, offer, isfinite(p->score_s));
    if (isinf(p->score_s) &&
        (!offer->fits || (offer->guessed && !is_alone(z, offer))))
        return;
    search_plan_told(z, offer->strategy);
    if (out->n_plans++ == 0 && offer->cost_s <= z->kept.cost_s)
        z->kept = *offer;
}

void search_list_plans(search_level0 *z, search_result *out)
{
    if (room(z) == 0)
        return;
    const int32_t keep = z->problem->ranking->keep;
    out->plans = fs_new(z->arena, search_plan, keep);
    z->kept.fits = true; /* whatever cheaper ones did not */
    put(z, &z->kept);
    for (int32_t k = 0; k < z->offers.n && out->n_plans < keep; k++) {
        search_kept *offer = &z->offers.at[k];
        if (offer->cost_s > most_s(z, INT32_MAX))
            break;
        if (is_listed(offer, out))
            out->n_same++;
        else
            add_plan(z, offer, out);
    }
}

static double gap_of(double seconds, double bound_s)
{
    return fmax(0, (seconds - bound_s) / seconds);
}

void search_choose_plan(const search_ranking *ranking, search_result *out)
{
    search_plan *plans = (search_plan *)out->plans;
    for (int32_t k = 0; k < out->n_plans; k++) {
        search_plan *p = &plans[k];
        p->gap = gap_of(p->iteration_s, out->lower_bound_s);
        if (p->score_s < plans[out->chosen].score_s &&
            p->gap <= fmax(ranking->promise, plans[0].gap))
            out->chosen = k;
    }
}
