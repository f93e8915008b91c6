/* Numbers of graph objects in the order in which they are made. cgraph's own
 * are addresses of their names, and it walks subgraphs by number: the same plan
 * would be drawn and written in another order from run to run. */
#include "config.h"
#include "report/draw.h"

#include "base/hash.h"

typedef struct ids {
    Agraph_t *graph;
    fs_arena *arena;
    fs_map number;
    FS_VEC(char *)
    name; /* [number] among the graph's own strings: cgraph looks
             in front of them; NULL: an edge without one */
} ids;

static void *open_ids(Agraph_t *graph, Agdisc_t *disc)
{
    fs_arena *arena = fs_arena_create();
    ids *s = fs_new(arena, ids, 1);
    (void)disc;
    s->graph = graph;
    s->arena = s->number.arena = arena;
    return s;
}

static long map(void *state, int kind, char *name, IDTYPE *id, int create)
{
    ids *s = state;
    (void)kind;
    int32_t known = name ? fs_map_get(&s->number, name) : -1;
    if (known < 0 && !create)
        return 0;
    if (known < 0) {
        char *kept = name ? agstrdup(s->graph, name) : NULL;
        known = (int32_t)s->name.n;
        fs_push(s->arena, &s->name, kept);
        if (kept)
            *fs_map_at(&s->number, kept) = known;
    }
    *id = (IDTYPE)known;
    return 1;
}

static long claim(void *state, int kind, IDTYPE id)
{
    (void)state, (void)kind, (void)id;
    return 0; /* none is asked for by number */
}

static void release(void *state, int kind, IDTYPE id)
{
    ids *s = state;
    (void)kind;
    if (s->name.at[id])
        agstrfree(s->graph, s->name.at[id]);
    s->name.at[id] = NULL;
}

static char *name_of(void *state, int kind, IDTYPE id)
{
    const ids *s = state;
    (void)kind;
    return id < (IDTYPE)s->name.n ? s->name.at[id] : NULL;
}

static void close_ids(void *state)
{
    const ids *s = state;
    fs_arena_destroy(s->arena);
}

static void note(void *state, int kind, void *object)
{
    (void)state, (void)kind, (void)object;
}

Agraph_t *draw_open(const char *name)
{
    static Agiddisc_t numbers = {open_ids, map,       claim, release,
                                 name_of,  close_ids, note};
    Agdisc_t disc = {&AgMemDisc, &numbers, &AgIoDisc};
    return agopen((char *)name, Agdirected, &disc);
}
