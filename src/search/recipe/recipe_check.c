/* Recipes: what is refused because it would change nothing. By their numbers
 * alone, and by the graph. */
#include "config.h"
#include "search/recipe/recipe.h"

#include "plan/schedule.h"
#include "search/cuts/cut.h"
#include "search/layout.h"
#include "search/recipe/recipe_parts.h"

/* ---- by numbers ---- */

/* Of all stages; 0: free. */
static int32_t most(int32_t all, const search_each *each)
{
    int32_t best = all;
    for (int32_t i = 0; i < each->n; i++)
        best = each->at[i] > best ? each->at[i] : best;
    return best;
}

static fs_status no_effect(fs_err *err, const char *key, int32_t value,
                           const char *why)
{
    return fs_fail(err, FS_INVALID, "recipe: %s=%d has no effect: %s", key,
                   value, why);
}

static fs_status check_interleave(const search_recipe *r, fs_err *err)
{
    if (r->interleave <= 1)
        return FS_OK;
    if (r->pp == 1)
        return fs_fail(err, FS_INVALID,
                       "recipe: interleave=%d (schedule %s) has no effect: "
                       "with pp=1 stages have no other devices to take turns "
                       "with; give pp of 2 or more, or leave it out",
                       r->interleave, r->schedule);
    if (r->micro_batches == 1 &&
        plan_schedule_find(r->schedule)->placing == PLAN_PLACED_ROUND)
        return fs_fail(err, FS_INVALID,
                       "recipe: interleave=%d (schedule %s) has no effect: one "
                       "micro-batch has no other to take turns with; give "
                       "micro-batches of 2 or more, or leave it out",
                       r->interleave, r->schedule);
    return FS_OK;
}

/* Of every role of a pipeline; the last one tells most. */
static bool same_order(const plan_schedule *a, const plan_schedule *b,
                       int32_t n_roles, int32_t micro_batches)
{
    bool same = true;
    fs_arena *arena = fs_arena_create();
    for (int32_t r = n_roles - 1; r >= 0 && same; r--) {
        const plan_turn turn = {r, n_roles, 1, micro_batches};
        const int32_t n = plan_schedule_slots(a, &turn);
        plan_slot *of_a = fs_new(arena, plan_slot, n);
        plan_slot *of_b = fs_new(arena, plan_slot, n);
        a->fill(&turn, of_a);
        b->fill(&turn, of_b);
        for (int32_t i = 0; i < n && same; i++)
            same = of_a[i].phase == of_b[i].phase &&
                   of_a[i].micro_batch == of_b[i].micro_batch;
    }
    fs_arena_destroy(arena);
    return same;
}

static fs_status check_schedule(const search_recipe *r, fs_err *err)
{
    const plan_schedule *usual = plan_schedule_find("1f1b"), *s;
    if (!r->schedule || r->pp == 0)
        return FS_OK;
    s = plan_schedule_find(r->schedule);
    if (s->splits && r->pp == 1)
        return fs_fail(err, FS_INVALID,
                       "recipe: schedule=%s has no effect: with pp=1 no stage "
                       "waits for another, so that there is no bubble to fill; "
                       "give pp of 2 or more, or leave it out",
                       s->name);
    if (s == usual || s->placing != PLAN_PLACED_ONCE || s->splits ||
        s->passes != usual->passes || r->micro_batches == 0 ||
        !same_order(s, usual, r->pp, r->micro_batches))
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "recipe: schedule=%s has no effect: with pp=%d and %d "
                   "micro-batch%s its order is that of %s; give micro-batches "
                   "of 2 or more, or leave it out",
                   s->name, r->pp, r->micro_batches,
                   r->micro_batches == 1 ? "" : "es", usual->name);
}

fs_status search_recipe_check_open(const search_recipe *r, fs_err *err)
{
    if (r->zero > 0 && most(r->dp, &r->dp_each) == 0 &&
        most(r->cp, &r->cp_each) <= 1)
        return no_effect(err, "zero", r->zero,
                         "without dp or cp no ranks are known that could share "
                         "states; give dp of 2 or more too, or leave it out "
                         "(search shares states where that pays)");
    if (r->seq_parallel == 1 && most(r->tp, &r->tp_each) == 0)
        return no_effect(err, "seq-parallel", 1,
                         "without tp no ranks are known that could cut the "
                         "sequence; give tp of 2 or more too, or leave it out");
    return FS_OK;
}

fs_status search_recipe_effects(const search_recipe *r, fs_err *err)
{
    if (r->zero > 0 && most(r->dp, &r->dp_each) == 1 &&
        most(r->cp, &r->cp_each) == 1)
        return no_effect(err, "zero", r->zero,
                         "with dp=1 (and cp=1) there are no ranks to share "
                         "states with; give dp of 2 or more, or leave it out");
    if (r->seq_parallel == 1 && most(r->tp, &r->tp_each) == 1)
        return no_effect(err, "seq-parallel", 1,
                         "with tp=1 there are no ranks to cut the sequence "
                         "among; give tp of 2 or more, or leave it out (cp "
                         "cuts sequences without tp)");
    FS_TRY(check_interleave(r, err));
    return check_schedule(r, err);
}

/* ---- by the graph ---- */

static fs_status check_experts(const search_recipe *r, const search_marks *m,
                               fs_err *err)
{
    const ir_graph *graph = m->graph;
    bool found = false;
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        const ir_tensor *w = &graph->tensors.at[t];
        if (!m->expert[t] || w->role != IR_PARAM)
            continue;
        found = true;
        if (w->shape.dim[0] < r->ep)
            return fs_fail(err, FS_INVALID,
                           "recipe: ep=%d: %s is of %lld experts", r->ep,
                           w->name, (long long)w->shape.dim[0]);
    }
    return found ? FS_OK
                 : fs_fail(err, FS_INVALID, "recipe: ep=%d: %s has no experts",
                           r->ep, graph->name);
}

static bool shares_places(const ir_node *node)
{
    const ir_op_class kind = ir_op_class_of(node->op);
    return node->phase == IR_FORWARD && node->n_out > 0 &&
           (kind == IR_CLASS_MATMUL || kind == IR_CLASS_CONV ||
            kind == IR_CLASS_ATTENTION);
}

/* Ranks of cp share work where a product, a convolution or an attention has
 * places in what it makes. An axis of an input that such an op sums over is one
 * of features. */
static fs_status check_places(const search_recipe *r, const search_marks *m,
                              fs_err *err)
{
    const ir_graph *graph = m->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (shares_places(&graph->nodes.at[v]) &&
            m->place[graph->nodes.at[v].out[0]] >= 0)
            return FS_OK;
    return fs_fail(
        err, FS_INVALID,
        "recipe: cp=%d has no effect: no op of %s works on places of "
        "a sequence or of an image, which ranks could share; leave "
        "it out, or give these ranks to dp or tp",
        r->cp, graph->name);
}

static fs_status check_stream(const search_marks *m, fs_err *err)
{
    for (int32_t t = 0; t < m->graph->tensors.n; t++)
        if (m->stream[t])
            return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "recipe: seq-parallel=1: %s has no layer norms, between "
                   "which a sequence could be cut",
                   m->graph->name);
}

fs_status search_recipe_check_marked(const search_recipe *recipe,
                                     const search_marks *marks, fs_err *err)
{
    fs_status status = FS_OK;
    if (recipe->ep > 1)
        status = check_experts(recipe, marks, err);
    if (status == FS_OK && recipe->cp > 1)
        status = check_places(recipe, marks, err);
    if (status == FS_OK && recipe->seq_parallel == 1 && recipe->tp != 1)
        status = check_stream(marks, err);
    if (status == FS_OK && recipe->dp > 0 && recipe->tp > 0)
        status = search_recipe_check_cuts(recipe, marks, err);
    if (status == FS_OK && recipe->n_layers)
        status = search_cut_check(marks->graph, recipe->layers,
                                  recipe->n_layers, err);
    return status;
}

/* One that leaves all that open says nothing of any graph. */
static bool asks_marks(const search_recipe *r)
{
    return r->ep > 1 || r->cp > 1 || r->seq_parallel == 1 ||
           (r->dp > 0 && r->tp > 0);
}

fs_status search_recipe_check(const search_recipe *recipe,
                              const ir_graph *graph, fs_err *err)
{
    search_marks marks = {.graph = graph};
    fs_arena *arena = fs_arena_create();
    if (asks_marks(recipe))
        search_marks_make(graph, arena, &marks);
    const fs_status status = search_recipe_check_marked(recipe, &marks, err);
    fs_arena_destroy(arena);
    return status;
}
