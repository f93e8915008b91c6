/* Where a role's program is fullest. Firings are numbered in the order of the
 * program; a register that shares bytes is live from its producer's to the last
 * beside which a reader may run (plan/places.h), any other always. */
#include "config.h"
#include "plan/fullest.h"

#include "plan/memory.h"
#include "plan/offsets.h"
#include "plan/shorten.h"

typedef struct walk {
    const ir_graph *graph;
    const plan_role *role;
    plan_places places;
    fs_arena *scratch;
    int32_t m, n_firings;
    int32_t *first;  /* [sections + 1] first task of a section */
    int32_t *before; /* [section * m + micro-batch] firings before its slot */
} walk;

const char *plan_term_name(plan_term term)
{
    static const char *const names[PLAN_TERMS] = {
        "parameters",  "optimizer state", "constants", "gradients",
        "activations", "copies",          "scratch",   "gaps"};
    return names[term];
}

static plan_term term_of(const walk *w, const plan_register *r)
{
    const plan_bytes_kind kind = plan_memory_kind(w->graph, w->role, r);
    const plan_task *maker =
        r->producer < 0 ? NULL : &w->role->tasks[r->producer];
    if (r->persistent)
        return kind == PLAN_BYTES_STATE   ? PLAN_TERM_STATE
               : kind == PLAN_BYTES_CONST ? PLAN_TERM_CONSTANTS
                                          : PLAN_TERM_PARAMETERS;
    if (kind == PLAN_BYTES_GRADIENT)
        return PLAN_TERM_GRADIENTS;
    if (kind == PLAN_BYTES_PARAM || maker->kind == PLAN_BOX ||
        maker->kind == PLAN_RECV)
        return PLAN_TERM_COPIES;
    return PLAN_TERM_ACTIVATIONS;
}

/* Where the firings of a section begin; those of BEGIN and END are one slot. */
static int32_t *begin_of(const walk *w, int32_t section, plan_phase phase,
                         int32_t micro_batch)
{
    return &w->before[section * w->m +
                      (plan_phase_once(phase) ? 0 : micro_batch)];
}

static void number_firings(walk *w)
{
    const plan_role *role = w->role;
    const int32_t sections = plan_n_sections(role);
    w->first = fs_new(w->scratch, int32_t, sections + 1);
    w->before = fs_new(w->scratch, int32_t, sections * w->m);
    for (int32_t t = 0; t < role->n_tasks; t++)
        w->first[plan_task_section(role, &role->tasks[t]) + 1]++;
    for (int32_t k = 0; k < sections; k++)
        w->first[k + 1] += w->first[k];
    for (int32_t s = 0; s < role->n_slots; s++) {
        const plan_slot *slot = &role->slots[s];
        const int32_t k = plan_slot_section(role, slot);
        *begin_of(w, k, slot->phase, slot->micro_batch) = w->n_firings;
        w->n_firings += w->first[k + 1] - w->first[k];
    }
}

static int32_t firing(const walk *w, int32_t task, int32_t micro_batch)
{
    const plan_task *t = &w->role->tasks[task];
    const int32_t k = plan_task_section(w->role, t);
    return *begin_of(w, k, t->phase, micro_batch) + task - w->first[k];
}

/* Of a piece, as plan_check has it. */
static int32_t last_use(const walk *w, const plan_register *r, int32_t mb)
{
    int32_t last = -1;
    for (int32_t c = 0; c < r->n_consumers; c++) {
        const int32_t at = firing(w, w->places.end[r->consumers[c]], mb);
        last = at > last ? at : last;
    }
    return last >= 0 ? last : firing(w, w->places.end[r->producer], mb);
}

/* The firings beside which a piece lives. */
static plan_span life_of(const walk *w, const plan_register *r, int32_t mb)
{
    return (plan_span){firing(w, r->producer, mb),
                       last_use(w, r, r->per_step ? w->m - 1 : mb)};
}

static int32_t n_pieces(const walk *w, const plan_register *r)
{
    return r->own_memory ? 0 : r->per_step ? 1 : w->m;
}

/* [firings] and one more. */
static int64_t *count_bytes(const walk *w, fs_arena *arena)
{
    int64_t *live = fs_new(arena, int64_t, w->n_firings + 1);
    for (int32_t i = 0; i < w->role->n_registers; i++) {
        const plan_register *r = &w->role->registers[i];
        for (int32_t mb = 0; mb < n_pieces(w, r); mb++) {
            const plan_span life = life_of(w, r, mb);
            live[life.start] += r->bytes;
            live[life.end + 1] -= r->bytes;
        }
    }
    for (int32_t i = 0; i < w->n_firings; i++)
        live[i + 1] += live[i];
    return live;
}

/* The first firing beside which most bytes live; -1: there is none. */
static int32_t find_peak(const walk *w)
{
    const int64_t *live = count_bytes(w, w->scratch);
    int64_t most = -1;
    int32_t peak = -1;
    for (int32_t i = 0; i < w->n_firings; i++) {
        if (live[i] <= most)
            continue;
        most = live[i];
        peak = i;
    }
    return peak;
}

/* What lives beside a firing, by term. Are there registers that share? */
static bool count_live(const walk *w, int32_t at, int64_t bytes[PLAN_TERMS])
{
    bool shares = false;
    for (int32_t i = 0; i < w->role->n_registers; i++) {
        const plan_register *r = &w->role->registers[i];
        shares |= !r->own_memory;
        for (int32_t mb = 0; mb < n_pieces(w, r); mb++) {
            const plan_span life = life_of(w, r, mb);
            if (life.start <= at && at <= life.end)
                bytes[term_of(w, r)] += r->bytes;
        }
    }
    return shares;
}

static void name_firing(const walk *w, const plan_short_role *shorter,
                        int32_t at, plan_fullest *out)
{
    for (int32_t s = 0; s < w->role->n_slots; s++) {
        const plan_slot *slot = &w->role->slots[s];
        const int32_t k = plan_slot_section(w->role, slot);
        const int32_t first = *begin_of(w, k, slot->phase, slot->micro_batch);
        if (at < first || at >= first + w->first[k + 1] - w->first[k])
            continue;
        out->task = w->first[k] + at - first;
        out->micro_batch =
            slot->micro_batch + (s < shorter->behind ? 0 : shorter->left_out);
    }
}

static walk walk_of(const ir_graph *graph, const plan_role *role, int32_t m,
                    fs_arena *scratch)
{
    walk w = {.graph = graph, .role = role, .scratch = scratch, .m = m};
    w.places = plan_places_of(role, scratch);
    number_firings(&w);
    return w;
}

plan_lives plan_lives_of(const plan *p, int32_t role, fs_arena *arena)
{
    const plan_role *r = &p->roles[role];
    fs_arena *scratch = fs_arena_create();
    walk w = walk_of(NULL, r, p->micro_batches, scratch);
    const int32_t n = plan_n_sections(r);
    plan_lives lives = {.n = w.n_firings,
                        .bytes = count_bytes(&w, arena),
                        .before = fs_new(arena, int32_t, r->n_slots),
                        .first_task = fs_memdup(
                            arena, w.first, ((size_t)n + 1) * sizeof *w.first)};
    for (int32_t s = 0; s < r->n_slots; s++)
        lives.before[s] = *begin_of(&w, plan_slot_section(r, &r->slots[s]),
                                    r->slots[s].phase, r->slots[s].micro_batch);
    fs_arena_destroy(scratch);
    return lives;
}

int64_t plan_lives_most(const plan *p, int32_t role)
{
    fs_arena *scratch = fs_arena_create();
    const plan_short_role shorter =
        plan_role_shorten_lives(&p->roles[role], p->micro_batches, scratch);
    const walk w = walk_of(NULL, &shorter.role, shorter.micro_batches, scratch);
    const int64_t *bytes = count_bytes(&w, scratch);
    int64_t most = 0;
    for (int32_t i = 0; i < w.n_firings; i++)
        most = bytes[i] > most ? bytes[i] : most;
    fs_arena_destroy(scratch);
    return most;
}

plan_fullest plan_fullest_of(const ir_graph *graph, const plan *p, int32_t role)
{
    const plan_role *r = &p->roles[role];
    plan_fullest out = {.task = -1, .micro_batch = -1};
    fs_arena *scratch = fs_arena_create();
    const plan_short_role shorter =
        plan_role_shorten_lives(r, p->micro_batches, scratch);
    walk w = walk_of(graph, &shorter.role, shorter.micro_batches, scratch);
    const int32_t peak = find_peak(&w);
    const bool shares = count_live(&w, peak, out.bytes);
    if (shares && peak >= 0)
        name_firing(&w, &shorter, peak, &out);
    int64_t rest = r->arena_bytes;
    for (int32_t i = 0; i < r->n_registers; i++)
        if (r->registers[i].own_memory)
            out.bytes[term_of(&w, &r->registers[i])] +=
                r->registers[i].count * r->registers[i].bytes;
    out.bytes[PLAN_TERM_SCRATCH] += r->bytes[PLAN_BYTES_SCRATCH];
    for (int32_t k = 0; k < PLAN_TERM_GAPS; k++)
        rest -= out.bytes[k];
    out.bytes[PLAN_TERM_GAPS] = rest;
    fs_arena_destroy(scratch);
    return out;
}

plan_term plan_fullest_over(const plan_fullest *fullest, int64_t limit_bytes)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < PLAN_TERMS; k++) {
        sum += fullest->bytes[k];
        if (sum > limit_bytes)
            return (plan_term)k;
    }
    return PLAN_TERMS;
}

const char *plan_fullest_text(const ir_graph *graph, const plan_role *role,
                              const plan_fullest *fullest, fs_arena *arena)
{
    if (fullest->task < 0)
        return "always";
    const plan_task *task = &role->tasks[fullest->task];
    const char *name = plan_task_name(graph, task, arena);
    if (plan_phase_once(task->phase))
        return fs_printf(arena, "%s, %s", name, plan_phase_name(task->phase));
    return fs_printf(arena, "%s, %s of micro-batch %d", name,
                     plan_phase_name(task->phase), fullest->micro_batch);
}
