/* Bounds of a configuration before any attempt at it: whatever the cut, from
 * shares of its work, seconds of nodes, all tables but bytes; and of its own
 * cut, where its network is not folded. */
#include "config.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/engine/cfn.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/engine/prices.h"
#include "search/shares.h"
#include "search/space.h"

#include "ir/compact.h"

#include <math.h>
#include <string.h>

/* Where its devices may differ there are no even stages. */
static bool may_be_even(const search_level0 *z)
{
    return !z->problem->stage_mesh && z->problem->cluster->n_groups == 1;
}

/* However its stages are cut; what it has may be of its own cut. */
static void raise_any_cut(search_candidate *c, double bound_s)
{
    search_raise_bound(c, bound_s);
    c->any_cut_s = fmax(c->any_cut_s, bound_s);
    c->weighed_s = fmax(c->weighed_s, bound_s);
}

/* Have they all that a bound by shares is of? */
static bool shares_with(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->n_stages == b->n_stages &&
           a->depth == b->depth && a->schedule == b->schedule &&
           ir_mesh_size(&a->mesh) == ir_mesh_size(&b->mesh);
}

static void find_shares(search_level0 *z, search_candidate *c)
{
    c->any_cut_s = search_share_floor(z, c);
}

void search_look_at_shares(search_level0 *z, search_candidate *const *list,
                           int32_t n)
{
    if (!may_be_even(z) || n == 0)
        return;
    fs_arena *scratch = fs_arena_create();
    search_candidate **one = fs_new(scratch, search_candidate *, n);
    int32_t *which = fs_new(scratch, int32_t, n), n_ones = 0;
    for (int32_t k = 0; k < n; k++) {
        int32_t at = n_ones;
        while (at > 0 && !shares_with(one[at - 1], list[k]))
            at--;
        if (at == 0) {
            one[n_ones] = fs_new(scratch, search_candidate, 1);
            *one[n_ones] = (search_candidate){.graph = list[k]->graph,
                                              .n_stages = list[k]->n_stages,
                                              .depth = list[k]->depth,
                                              .mesh = list[k]->mesh,
                                              .schedule = list[k]->schedule,
                                              .share = 1};
            at = ++n_ones;
        }
        which[k] = at - 1;
    }
    search_crew_run(z, find_shares, one, n_ones);
    for (int32_t k = 0; k < n; k++) {
        raise_any_cut(list[k], one[which[k]]->any_cut_s);
        list[k]->sim_s = fmax(list[k]->sim_s, one[which[k]]->sim_s);
    }
    fs_arena_destroy(scratch);
}

void search_look(search_level0 *z, search_candidate *c)
{
    c->looked = true;
    if (!may_be_even(z))
        return;
    raise_any_cut(c, search_share_floor(z, c));
    if (search_proven(c->record.lower_bound_s, search_enough(z))) {
        c->looked = false; /* once more, when more is wanted */
        return;
    }
    search_look_at_nodes(z, c);
}

void search_look_at_nodes(search_level0 *z, search_candidate *c)
{
    c->looked = c->nodes = true;
    if (!may_be_even(z))
        return;
    c->arena = fs_arena_create();
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (search_node_tables(z, c)) {
        const search_crossings cuts =
            search_find_floors(&c->built, search_ranks_of(z, c->graph->graph),
                               search_groups(c), c->arena);
        raise_any_cut(c, search_even_floor(&c->built, search_groups(c), &cuts));
        if (z->problem->in_full) {
            c->sim_s = search_sim_floor(z, c);
            c->sim_nodes = true;
        }
    }
    search_drop_tables(c);
}

/* What was ruled out by shares alone may have the least bound of all: nodes say
 * more, and soon. */
void search_look_at_least(search_level0 *z)
{
    while (!search_over(z)) {
        search_candidate *least = NULL;
        for (int32_t k = 0; k < z->all.n; k++) {
            search_candidate *c = z->all.at[k];
            if (!c->covered &&
                (!least || search_bound(c) < search_bound(least)))
                least = c;
        }
        if (!least || least->looked || least->arena)
            return;
        search_look_at_nodes(z, least);
    }
}

static double bound_at(const search_level0 *z, search_candidate *c,
                       const search_prices *at, double enough)
{
    enum { SWEEPS = 20 };
    const fs_deadline deadline = fs_deadline_at(z->end, &c->steps);
    const search_effort effort = {.deadline = deadline,
                                  .sweeps = SWEEPS,
                                  .cutoff = enough,
                                  .without = z->problem->without};
    search_minimum min;
    if (c->shown.view)
        return search_lift(&c->built, at, INFINITY, enough, deadline, c->arena,
                           NULL);
    search_cfn_minimise(search_net_priced(&c->built.net, at, c->arena), &effort,
                        c->arena, &min);
    return min.bound;
}

double search_even_bound(const search_level0 *z, search_candidate *c)
{
    const search_prices even =
        search_even_prices(&c->built, search_groups(c), c->arena);
    return bound_at(z, c, &even, search_enough(z));
}

/* No potentials prove more at these prices than the folded network's own least.
 */
static double most_at(const search_level0 *z, search_candidate *c,
                      const search_prices *at)
{
    enum { SWEEPS = 20 };
    const search_effort effort = {.deadline = fs_deadline_at(z->end, &c->steps),
                                  .sweeps = SWEEPS,
                                  .cutoff = INFINITY,
                                  .without = z->problem->without};
    search_minimum min = {.cost = INFINITY};
    if (c->shown.view)
        search_cfn_minimise(search_net_priced(&c->built.net, at, c->arena),
                            &effort, c->arena, &min);
    return min.cost;
}

/* Where memory decides, what is pressed next has its potentials raised there,
 * at better prices. */
static bool is_pressed_next(const search_level0 *z, const search_candidate *c)
{
    return c->shown.view && !c->shown.tells_apart &&
           (z->memory_decides || z->refused) && search_may_press(z, c);
}

static double weighed_at(const search_level0 *z, search_candidate *c,
                         const search_prices *at, double enough)
{
    return is_pressed_next(z, c)
               ? search_lift_core(&c->built, at, enough,
                                  fs_deadline_at(z->end, &c->steps))
               : bound_at(z, c, at, enough);
}

/* The same with what cuts add; or with the fullest run of pieces in the place
 * of what stages take in the mean. */
static double cut_bound(const search_level0 *z, search_candidate *c,
                        const search_crossings *cuts)
{
    const search_net *net = &c->built.loose;
    const int32_t p = search_groups(c);
    const double enough = search_enough(z);
    search_prices at = search_even_prices(&c->built, p, c->arena);
    double rate = at.micro[0];
    for (int32_t i = 1; i < net->n_stages; i++)
        rate = fmin(rate, at.micro[i]);
    const double added_s =
        (net->fill + (net->micro_batches - net->fill) * rate) * cuts->all_s;
    const double even = added_s + weighed_at(z, c, &at, enough - added_s);
    if (search_proven(even, enough))
        return even;
    const double run_s = search_run_prices(&c->built, p, cuts, c->arena, &at);
    if (run_s == 0 || run_s + most_at(z, c, &at) <= even)
        return even;
    return fmax(even, run_s + weighed_at(z, c, &at, enough - run_s));
}

/* Of a candidate of no tables, which it leaves without any; 0: nothing. */
static double weigh_even(search_level0 *z, search_candidate *c, bool apart)
{
    const int32_t p = search_groups(c);
    const double enough = search_enough(z);
    double bound = 0;
    search_crossings cuts = {0};
    c->arena = fs_arena_create();
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    c->shown.tells_apart = apart;
    const search_ranks *ranks =
        apart ? search_ranks_of(z, c->graph->graph) : NULL;
    if (search_node_tables(z, c)) {
        if (apart)
            cuts = search_find_floors(&c->built, ranks, p, c->arena);
        bound = search_even_floor(&c->built, p, &cuts);
        search_part_heaviest(&c->built, &c->shown, p);
        if (!search_proven(bound, enough) && search_edge_tables(c)) {
            if (apart)
                cuts = search_find_crossings(&c->built, ranks, p, c->arena);
            bound = fmax(bound, cut_bound(z, c, &cuts));
        }
    }
    search_drop_tables(c);
    return bound;
}

void search_weigh(search_level0 *z, search_candidate *c)
{
    c->weighed = true;
    if (!may_be_even(z))
        return;
    raise_any_cut(c, weigh_even(z, c, false));
    /* Once more, when more is wanted. */
    c->weighed = !search_proven(c->record.lower_bound_s, search_enough(z));
}

void search_weigh_every_cut(search_level0 *z, search_candidate *c)
{
    search_candidate anew = search_anew(c);
    const double bound = weigh_even(z, &anew, true);
    c->steps += anew.steps;
    c->any_cut_s = fmax(c->any_cut_s, bound);
    c->every_cut = !search_proven(bound, search_enough(z));
    search_raise_bound(c, bound);
}

const int32_t *search_even_values(search_level0 *z, search_candidate *c)
{
    enum { SWEEPS = 20 };
    search_minimum min;
    if (z->problem->stage_mesh)
        return NULL;
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (!search_node_tables(z, c) || !search_edge_tables(c))
        return NULL;
    const search_prices even =
        search_even_prices(&c->built, search_groups(c), c->arena);
    const search_effort effort = {.deadline = search_rest(z, c),
                                  .sweeps = SWEEPS,
                                  .cutoff = INFINITY,
                                  .without = z->problem->without};
    search_cfn_minimise(search_net_priced(&c->built.net, &even, c->arena),
                        &effort, c->arena, &min);
    return isfinite(min.cost) ? min.value : NULL;
}

/* Is one of as many stages known to fold? Then this one is not cut to see that
 * it does. */
static bool folds(const search_level0 *z, const search_candidate *c)
{
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *one = z->all.at[k];
        if (one->view && one->n_stages == c->n_stages && one->cut > 0)
            return true;
    }
    return false;
}

/* Do they differ by their meshes alone? */
static bool beside(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->n_stages == b->n_stages &&
           a->depth == b->depth && a->part == b->part && a->order == b->order &&
           a->again == b->again && a->schedule && b->schedule &&
           strcmp(a->schedule, b->schedule) == 0;
}

/* What its cut takes at least whatever its mesh: so do all that have it. */
static void note_shared(search_level0 *z, search_candidate *c, double bound_s)
{
    search_raise_bound(c, bound_s);
    c->shared = true;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *one = z->all.at[k];
        if (!beside(one, c) || search_narrowed(one))
            continue;
        search_raise_bound(one, bound_s);
        one->shared = true;
    }
}

static bool may_share(const search_level0 *z, const search_candidate *c)
{
    return !c->again && may_be_even(z);
}

static bool has_own_cut(const search_level0 *z, const search_candidate *c)
{
    return c->n_stages > 1 && !c->arena && !search_narrowed(c) && !folds(z, c);
}

bool search_lay_out_own(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    const int32_t before = c->cut;
    c->cut = SEARCH_CUT;
    if (!has_own_cut(z, c))
        return false;
    c->arena = fs_arena_create();
    if (search_lay_out_cut(z, c, &err) != FS_OK)
        search_reject(c, "infeasible", err.text);
    c->unfolded = !c->settled && !c->view;
    if (c->unfolded && !c->shared && may_share(z, c))
        note_shared(z, c, search_share_cut_floor(z, &c->layout));
    const bool out = search_proven(c->record.lower_bound_s, search_enough(z));
    if (!c->view) /* once more, when more is wanted */
        c->cut = out ? before : before + 1;
    if (c->settled || c->view || out) {
        search_drop_tables(c);
        return false;
    }
    c->weighed = true;
    return true;
}

/* Of one that is to be forgotten: a crew's job, whose layout is the hand's. */
static void share_anew(search_level0 *z, search_candidate *anew)
{
    fs_err err = {0};
    if (search_lay_out_cut(z, anew, &err) != FS_OK) {
        search_reject(anew, "infeasible", err.text);
    } else if (!anew->view && may_share(z, anew)) {
        anew->record.lower_bound_s = search_share_cut_floor(z, &anew->layout);
        anew->shared = true;
    }
    search_drop_tables(anew);
}

static void take_shared(search_level0 *z, search_candidate *c,
                        const search_candidate *anew)
{
    if (anew->settled)
        search_reject(c, "infeasible", anew->why);
    c->view = anew->view;
    if (c->view)
        c->cut = SEARCH_CUT;
    c->unfolded = !c->settled && !c->view;
    if (anew->shared)
        note_shared(z, c, anew->record.lower_bound_s);
}

static void share_here(search_level0 *z, search_candidate *c)
{
    const bool weighed = c->weighed;
    if (!search_lay_out_own(z, c))
        return;
    c->cut = 0;
    c->weighed = weighed;
    search_drop_tables(c);
}

static bool is_beside_any(const search_candidate *c,
                          search_candidate *const *list, int32_t n)
{
    int32_t k = 0;
    while (k < n && !beside(list[k], c))
        k++;
    return k < n;
}

void search_share_own(search_level0 *z, search_candidate *const *list,
                      int32_t n)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate *all = fs_new(scratch, search_candidate, n);
    search_candidate **anew = fs_new(scratch, search_candidate *, n);
    int32_t *of = fs_new(scratch, int32_t, n), n_anew = 0;
    for (int32_t k = 0; k < n; k++) {
        const search_candidate *c = list[k];
        if (c->shared || !has_own_cut(z, c) ||
            ir_is_compact(c->graph->graph) || /* all hands would tell */
            is_beside_any(c, anew, n_anew))
            continue;
        all[k] = search_anew(c);
        of[n_anew] = k;
        anew[n_anew++] = &all[k];
    }
    search_crew_run(z, share_anew, anew, n_anew);
    for (int32_t k = 0; k < n_anew; k++)
        take_shared(z, list[of[k]], anew[k]);
    for (int32_t k = 0; k < n; k++)
        if (!list[k]->shared &&
            (ir_is_compact(list[k]->graph->graph) || !has_own_cut(z, list[k])))
            share_here(z, list[k]); /* it folds, or is of one stage */
    fs_arena_destroy(scratch);
}

/* Its tables are built here, by this hand's model. */
bool search_own_nodes(search_level0 *z, search_candidate *c)
{
    c->shown.rates =
        search_rates_for(z, search_groups(c), c->shown.graph->micro_batches);
    return search_node_tables(z, c);
}

bool search_floor_own(search_level0 *z, search_candidate *c)
{
    c->shown.seconds_only = true;
    if (!search_own_nodes(z, c))
        return false;
    search_raise_bound(c, c->view ? search_net_floor(&c->built.loose, c->arena)
                                  : search_cut_floor(&c->built, c->arena));
    return true;
}

const search_prices *search_press_own(search_level0 *z, search_candidate *c,
                                      int32_t rounds, double enough)
{
    c->shown.least_moves = true;
    if (!search_floor_own(z, c) ||
        search_proven(c->record.lower_bound_s, enough) ||
        !search_edge_tables(c))
        return NULL;
    search_prices *at = fs_new(c->arena, search_prices, 1);
    *at = search_prices_new(&c->built.net, c->arena);
    search_raise_bound(
        c, search_net_press(&c->built.net, c->prices, rounds, enough,
                            fs_deadline_at(z->end, &c->steps), at));
    return at;
}

bool search_build_own(search_level0 *z, search_candidate *c)
{
    return search_own_nodes(z, c) && search_edge_tables(c);
}

void search_weigh_own(search_level0 *z, search_candidate *c)
{
    search_press_own(z, c, c->cut < SEARCH_CUT ? 1 : 0, search_enough(z));
    search_drop_tables(c);
}
