/* Cuts of one configuration differ by a few edges, and stages of one mesh have
 * one table for what looks alike, however others are cut: tables take most of
 * what it takes to look at a cut (a bert of 2 layers on 4x8: fifteen times what
 * greedy does with them). So they are made once for all cuts, each by one hand
 * at a time. Folded networks, whose nodes stand for several, have their own. */
#include "config.h"
#include "search/tables.h"

/* What they may hold in all: beyond it networks have their own; hands that may
 * have some of a kind at once. */
enum { MOST_BYTES = 128 << 20, HANDS = 2 };

typedef struct search_shelf_entry {
    const search_candidate *of;
    search_tables *tables;
    bool taken;
} search_shelf_entry;

struct search_shelf {
    FS_VEC(search_shelf_entry) all;
    size_t bytes; /* of those that are not taken */
};

search_tables *search_tables_create(fs_arena *arena)
{
    search_tables *t = fs_new(arena, search_tables, 1);
    const search_memo none = {.arena = arena};
    *t = (search_tables){.arena = arena,
                         .alike = none,
                         .filtered = none,
                         .lasting = none,
                         .loose = none,
                         .gone = none,
                         .pairs = none,
                         .scaler = {.arena = arena, .known = none}};
    return t;
}

/* What keys do not tell: rates, and what devices a number means. */
static bool may_share(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->again == b->again &&
           a->order == b->order && a->layout.rates == b->layout.rates &&
           a->layout.chooses == b->layout.chooses;
}

search_tables *search_take_tables(search_level0 *z, const search_candidate *c)
{
    if (!c->part || c->view)
        return NULL;
    if (!z->shelf)
        z->shelf = fs_new(z->scratch, struct search_shelf, 1);
    struct search_shelf *shelf = z->shelf;
    int32_t n_taken = 0;
    for (int32_t k = 0; k < shelf->all.n; k++) {
        search_shelf_entry *one = &shelf->all.at[k];
        if (!may_share(one->of, c))
            continue;
        if (!one->taken) {
            one->taken = true;
            shelf->bytes -= fs_arena_bytes(one->tables->arena);
            return one->tables;
        }
        n_taken++;
    }
    if (shelf->bytes > MOST_BYTES || n_taken == HANDS)
        return NULL;
    const search_shelf_entry new = {fs_memdup(z->scratch, c, sizeof *c),
                                    search_tables_create(fs_arena_create()),
                                    true};
    fs_push(z->scratch, &shelf->all, new);
    return new.tables;
}

void search_put_back_tables(search_level0 *z, search_tables *tables)
{
    struct search_shelf *shelf = z->shelf;
    for (int32_t k = 0; tables && k < shelf->all.n; k++)
        if (shelf->all.at[k].tables == tables) {
            shelf->all.at[k].taken = false;
            shelf->bytes += fs_arena_bytes(tables->arena);
        }
}

void search_destroy_tables(search_level0 *z)
{
    for (int32_t k = 0; z->shelf && k < z->shelf->all.n; k++)
        fs_arena_destroy(z->shelf->all.at[k].tables->arena);
    z->shelf = NULL;
}
