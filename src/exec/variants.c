#include "config.h"
#include "exec/variants.h"

#include "base/hash.h"
#include "exec/probe.h"

#include <math.h>
#include <string.h>

typedef struct asked {
    const hw_device *figures;
    const kernel_call *call;
    hw_sample of; /* what, form, work */
} asked;

static asked ask(const hw_device *figures, const exec_probe_piece *piece,
                 const kernel_call *call)
{
    asked a = {.figures = figures, .call = call};
    if (!exec_piece_sample(piece, &a.of))
        a.figures = NULL;
    return a;
}

static bool is_alike(const kernel_call *call, const kernel *k)
{
    return !call->alike || !k->by_place;
}

static bool is_candidate(const kernel_call *call, const char *name)
{
    int32_t n;
    const kernel *const *all = kernel_candidates(call, &n);
    for (int32_t i = 0; i < n; i++)
        if (strcmp(all[i]->variant, name) == 0)
            return is_alike(call, all[i]);
    return false;
}

/* Times of one kernel alone tell nothing of the others. */
static const char *fastest_of_form(const asked *a)
{
    int32_t n;
    const hw_variant *all =
        hw_variants_of(a->figures, a->of.what, a->of.form, &n);
    for (int32_t i = 0; n > 1 && i < n; i++)
        if (is_candidate(a->call, all[i].name))
            return all[i].name;
    return NULL;
}

/* Forms of as much work, within a factor of two. */
static bool in_bucket(const asked *a, const hw_variant *v)
{
    return strcmp(v->what, a->of.what) == 0 &&
           ilogb(v->work) == ilogb(a->of.work);
}

static double seconds_of(const hw_variant *forms, int32_t n, const char *name)
{
    for (int32_t i = 0; i < n; i++)
        if (strcmp(forms[i].name, name) == 0)
            return forms[i].seconds;
    return INFINITY;
}

/* What a kernel takes beside the fastest, summed over the bucket: beyond any
 * number where one of its forms was not measured of it. */
static double in_bucket_s(const asked *a, const char *name)
{
    const hw_variant *all = a->figures->variants;
    double sum = 0;
    for (int32_t i = 0, n; i < a->figures->n_variants; i += n) {
        for (n = 1; i + n < a->figures->n_variants; n++)
            if (all[i + n].form != all[i].form ||
                strcmp(all[i + n].what, all[i].what) != 0)
                break;
        if (in_bucket(a, &all[i]) && n > 1)
            sum += seconds_of(&all[i], n, name) / all[i].seconds;
    }
    return sum > 0 ? sum : INFINITY;
}

/* Of those that pay for the call, which likeness does not tell: a product of
 * few rows. Not the reference, which is measured of little work alone. */
static const char *fastest_of_bucket(const asked *a)
{
    const char *best = NULL;
    double best_s = INFINITY;
    int32_t n, pay = 0;
    const kernel *const *all = kernel_candidates(a->call, &n);
    for (int32_t i = 0; i < n - 1; i++) {
        if (!is_alike(a->call, all[i]) ||
            (all[i]->pays && !all[i]->pays(a->call)))
            continue;
        pay++;
        const double own_s = in_bucket_s(a, all[i]->variant);
        if (own_s < best_s)
            best = all[i]->variant;
        best_s = fmin(best_s, own_s);
    }
    return pay > 1 ? best : NULL;
}

/* NULL: figures do not tell. */
static const char *pick(const asked *a, exec_chosen_by *by)
{
    const char *name;
    *by = EXEC_BY_ORDER;
    if (!a->figures || !a->figures->n_variants)
        return NULL;
    if ((name = fastest_of_form(a)))
        *by = EXEC_BY_TIMES;
    else if ((name = fastest_of_bucket(a)))
        *by = EXEC_BY_BUCKET;
    return name;
}

/* A kernel that figures name may not take this very call. */
fs_status exec_choose_kernel(const hw_device *figures,
                             const exec_probe_piece *piece,
                             const kernel_call *call, fs_err *err,
                             const kernel **out, void **state)
{
    fs_err none = {0};
    exec_chosen_by by;
    const asked a = ask(figures, piece, call);
    const char *name = pick(&a, &by);
    if (name && kernel_choose(call, name, &none, out, state) == FS_OK)
        return FS_OK;
    return kernel_choose(call, "auto", err, out, state);
}

const char *exec_variant_of(const hw_device *figures,
                            const exec_probe_piece *piece, exec_chosen_by *by)
{
    kernel_call call;
    int32_t n;
    const kernel *k;
    void *state;
    fs_err none = {0};
    exec_piece_call(piece, &call);
    call.alike = exec_wants_alike(piece->graph);
    kernel_candidates(&call, &n);
    if (n < 2 ||
        exec_choose_kernel(figures, piece, &call, &none, &k, &state) != FS_OK)
        return NULL;
    const asked a = ask(figures, piece, &call);
    const char *name = pick(&a, by);
    if (!name || strcmp(name, k->variant) != 0)
        *by = EXEC_BY_ORDER;
    if (k->release && state)
        k->release(state);
    return k->variant;
}

static bool same_form(const exec_kernel *a, const hw_sample *b)
{
    return a->form == b->form && strcmp(a->what, b->what) == 0;
}

/* Each form once. */
static void add_kernel(const exec_ran *of, const exec_probe_piece *piece,
                       fs_arena *arena, exec_kernels *list)
{
    hw_sample sample;
    kernel_call call;
    exec_kernel one = {.node = piece->node, .n_tasks = 1};
    if (!exec_piece_sample(piece, &sample))
        return;
    for (int32_t i = 0; i < list->n; i++)
        if (same_form(&list->at[i], &sample)) {
            list->at[i].n_tasks++;
            return;
        }
    exec_piece_call(piece, &call);
    one.name = exec_variant_of(of->figures, piece, &one.by);
    if (!one.name)
        return;
    one.what = sample.what;
    one.form = sample.form;
    one.work = sample.work;
    for (int32_t i = 0; i < call.n_in; i++)
        one.in[one.n_in++] = call.in[i].shape;
    if (of->figures)
        one.timed =
            hw_variants_of(of->figures, one.what, one.form, &one.n_timed);
    fs_push(arena, list, one);
}

uint64_t exec_kernels_digest(const exec_ran *of, const char *said)
{
    exec_kernels all;
    uint64_t digest = fs_hash_text(0, said);
    if (strcmp(said, "auto") != 0)
        return digest;
    fs_arena *arena = fs_arena_create();
    exec_list_kernels(of, arena, &all);
    for (int32_t i = 0; i < all.n; i++) {
        digest = fs_hash(digest, &all.at[i].form, sizeof all.at[i].form);
        digest = fs_hash_text(digest, all.at[i].name);
    }
    fs_arena_destroy(arena);
    return digest;
}

void exec_list_kernels(const exec_ran *of, fs_arena *arena, exec_kernels *out)
{
    exec_piece_at at = {0};
    exec_probe_piece piece;
    *out = (exec_kernels){0};
    while (exec_next_piece(of->graph, of->plan, &at, &piece))
        add_kernel(of, &piece, arena, out);
}
