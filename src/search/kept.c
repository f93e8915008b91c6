/* Memory of whole plans. Of a deep network one takes some megabytes, a search
 * makes many and few stay: each has an arena of its own, and what nothing
 * refers to any more goes when the next one is made. */
#include "config.h"
#include "search/kept.h"

static bool is_used(const search_level0 *z, const plan_strategy *strategy)
{
    bool used = z->kept.strategy == strategy || z->misfit == strategy;
    for (int32_t k = 0; k < z->offers.n && !used; k++)
        used = z->offers.at[k].strategy == strategy;
    return strategy && used;
}

static void drop_at(search_level0 *z, int32_t k)
{
    fs_arena_destroy(z->whole.at[k].arena);
    z->whole.at[k] = z->whole.at[--z->whole.n];
}

fs_arena *search_plan_arena(search_level0 *z)
{
    for (int32_t k = z->whole.n - 1; k >= 0; k--)
        if (!is_used(z, z->whole.at[k].strategy))
            drop_at(z, k);
    return fs_arena_create();
}

void search_plan_made(search_level0 *z, fs_arena *arena,
                      const plan_strategy *strategy)
{
    fs_push(z->scratch, &z->whole, (search_whole){arena, strategy});
}

void search_plan_told(search_level0 *z, const plan_strategy *strategy)
{
    for (int32_t k = z->whole.n - 1; k >= 0; k--)
        if (z->whole.at[k].strategy == strategy) {
            fs_arena_join(z->arena, z->whole.at[k].arena);
            z->whole.at[k] = z->whole.at[--z->whole.n];
        }
}

void search_drop_plans(search_level0 *z)
{
    while (z->whole.n)
        drop_at(z, z->whole.n - 1);
}
