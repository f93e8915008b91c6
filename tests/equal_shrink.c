/* Smaller cases that fail in the same way: each move changes one thing, and
 * what still fails is kept. */
#include "config.h"

#include "equal.h"

#include <string.h>

typedef struct shrinking {
    equal_case best;
    equal_verdict verdict;
    int32_t budget;
    fs_arena *arena;
} shrinking;

static bool still_fails(shrinking *s, const equal_case *smaller)
{
    equal_verdict v;
    if (s->budget <= 0)
        return false;
    s->budget--;
    equal_try_apart(smaller, &v);
    if (v.end != s->verdict.end)
        return false;
    s->best = *smaller;
    s->verdict = v;
    return true;
}

/* ---- places ---- */

static bool fewer_stages(shrinking *s)
{
    equal_case c = s->best;
    if (c.n_stages == 1)
        return false;
    c.n_stages--;
    c.ranks = 0;
    for (int32_t i = 0; i < c.n_stages; i++)
        c.ranks += ir_mesh_size(&c.mesh[i]);
    return c.ranks > 1 && still_fails(s, &c);
}

static bool plain_schedule(shrinking *s)
{
    equal_case c = s->best;
    if (c.chunks == 1)
        return false;
    c.chunks = 1;
    c.schedule = "1f1b";
    return still_fails(s, &c);
}

/* Stage `i` gets the mesh; below 0 all stages do. */
static bool fails_on(shrinking *s, int32_t i, const ir_mesh *mesh)
{
    equal_case c = s->best;
    c.ranks = 0;
    for (int32_t k = 0; k < c.n_stages; k++) {
        if (i < 0 || i == k)
            c.mesh[k] = *mesh;
        c.ranks += ir_mesh_size(&c.mesh[k]);
    }
    return c.ranks > 1 && still_fails(s, &c);
}

static bool without_axis(shrinking *s, int32_t i, int32_t a)
{
    const ir_mesh whole = s->best.mesh[i < 0 ? 0 : i];
    ir_mesh mesh = {.n = whole.n - 1};
    for (int32_t b = 0; b < mesh.n; b++)
        mesh.dim[b] = whole.dim[b < a ? b : b + 1];
    return fails_on(s, i, &mesh);
}

static bool with_shorter(shrinking *s, int32_t i, int32_t a)
{
    ir_mesh mesh = s->best.mesh[i < 0 ? 0 : i];
    if (mesh.dim[a] <= 2)
        return false;
    mesh.dim[a] = mesh.dim[a] % 2 == 0 ? mesh.dim[a] / 2 : 2;
    return fails_on(s, i, &mesh);
}

typedef bool axis_change(shrinking *s, int32_t i, int32_t a);

/* On all stages at once first. */
static bool change_axes(shrinking *s, axis_change *change)
{
    for (int32_t i = -1; i < s->best.n_stages; i++)
        for (int32_t a = 0; a < s->best.mesh[i < 0 ? 0 : i].n; a++)
            if (change(s, i, a))
                return true;
    return false;
}

static bool fewer_axes(shrinking *s)
{
    return change_axes(s, without_axis);
}

static bool shorter_axes(shrinking *s)
{
    return change_axes(s, with_shorter);
}

/* ---- the network ---- */

static bool fewer_ops(shrinking *s)
{
    bool less = false;
    if (s->best.model)
        return false;
    for (int32_t many = s->best.n_ops / 2; many > 0; many /= 2)
        for (int32_t k = 0; k < s->best.n_ops; k += many) {
            equal_case c = s->best;
            for (int32_t i = k; i < k + many && i < c.n_ops; i++)
                c.left_out |= (uint64_t)1 << i;
            if (c.left_out != s->best.left_out)
                less |= still_fails(s, &c);
        }
    return less;
}

static bool fewer_layers(shrinking *s)
{
    equal_case c = s->best;
    const char *at = c.model ? strstr(c.model, "layers=2") : NULL;
    if (!at)
        return false;
    char *model = fs_strdup(s->arena, c.model);
    model[at - c.model + 7] = '1';
    c.model = model;
    return still_fails(s, &c);
}

static bool fewer_samples(shrinking *s)
{
    equal_case c = s->best;
    c.samples--;
    return c.samples > 0 && still_fails(s, &c);
}

static bool fewer_micro_batches(shrinking *s)
{
    equal_case c = s->best;
    c.micro_batches = c.micro_batches > 2 ? 2 : 1;
    return c.micro_batches < s->best.micro_batches && still_fails(s, &c);
}

/* ---- options ---- */

static bool plainer_options(shrinking *s)
{
    bool less = false;
#define WITHOUT(field, value)                                                  \
    do {                                                                       \
        equal_case c = s->best;                                                \
        c.field = (value);                                                     \
        if (c.field != s->best.field)                                          \
            less |= still_fails(s, &c);                                        \
    } while (0)
    WITHOUT(recompute, NULL);
    WITHOUT(optimizer, IR_SGD);
    WITHOUT(clipped, false);
    WITHOUT(compress.kind, IR_COMPRESS_NONE);
    WITHOUT(narrow_states, false);
    WITHOUT(overlap, false);
    WITHOUT(bucket_bytes, 0);
    WITHOUT(unshared, false);
    WITHOUT(anew, false);
    WITHOUT(rewritten, false);
    WITHOUT(chained, false);
    if (strcmp(s->best.schedule, "1f1b") != 0 && s->best.chunks == 1)
        WITHOUT(schedule, "1f1b");
#undef WITHOUT
    return less;
}

/* ---- signatures ---- */

/* Once the graph stays as it is. */
static bool plainer_nodes(shrinking *s)
{
    const int32_t n = s->verdict.n_nodes;
    bool less = false;
    for (int32_t many = n; many > 0; many /= 2)
        for (int32_t k = 0; k < n; k += many) {
            equal_case c = s->best;
            bool *plain = fs_new(s->arena, bool, n), more = false;
            for (int32_t i = 0; i < n; i++) {
                const bool was = c.plain && c.plain[i];
                plain[i] = was || (i >= k && i < k + many);
                more |= plain[i] && !was;
            }
            c.plain = plain;
            if (more)
                less |= still_fails(s, &c);
        }
    return less;
}

equal_case equal_shrink(const equal_case *c, const equal_verdict *v,
                        int32_t budget, fs_arena *arena)
{
    shrinking s = {*c, *v, budget, arena};
    bool (*const moves[])(shrinking *) = {
        fewer_micro_batches, plain_schedule, fewer_stages,
        fewer_axes,          shorter_axes,   plainer_options,
        fewer_ops,           fewer_layers,   fewer_samples};
    bool less = true;
    while (less && s.budget > 0) {
        less = false;
        for (size_t k = 0; k < sizeof moves / sizeof *moves; k++)
            less |= moves[k](&s);
    }
    while (plainer_nodes(&s) && s.budget > 0)
        ;
    return s.best;
}
