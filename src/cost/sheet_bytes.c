/* What stages of a fold hold: programs, which say what of edges and nodes is
 * held when, whatever lies how. */
#include "config.h"
#include "cost/sheet_parts.h"

#include <string.h>

/* ---- pipelines ---- */

cost_pipes *cost_pipes_create(fs_arena *arena)
{
    cost_pipes *pipes = fs_new(arena, cost_pipes, 1);
    pipes->arena = arena;
    for (int32_t k = 0; k < COST_SHEET_STAGES; k++) {
        pipes->of[k].pipe_of.known.arena = arena;
        pipes->of[k].slots_of.known.arena = arena;
    }
    return pipes;
}

static plan_pipeline pipeline_of(const cost_degrees *d, fs_arena *arena)
{
    plan_stage *stages = fs_new(arena, plan_stage, d->n_stages);
    for (int32_t i = 0; i < d->n_stages; i++)
        stages[i].first_device = i;
    return plan_pipeline_of(stages, d->n_stages, d->schedule, d->micro_batches,
                            arena);
}

static double fill_of(const plan_pipeline *pipe, fs_arena *arena)
{
    plan_stage *stages = fs_new(arena, plan_stage, pipe->n_stages);
    for (int32_t i = 0; i < pipe->n_stages; i++)
        stages[i].first_device = i;
    return plan_schedule_fill(pipe, stages);
}

enum { STAGE_WORDS = 10 + 3 * (COST_SHEET_STAGES - 1) };

/* Of stage `place` of a pipeline, which is number i of the fold: from there the
 * others are as far away as the fold's. */
static void put_stage(const cost_fold *fold, const cost_slots *slots, int32_t i,
                      int32_t place, ir_words *key)
{
    int32_t from[COST_SHEET_STAGES], n = 0;
    for (int32_t k = 0; k < fold->n_stages; k++) {
        const int32_t at = place + k - i;
        if (at >= 0 && at < slots->pipe.n_stages)
            from[n++] = at;
    }
    cost_put_slots(slots, place, from, n, key);
}

static bool holds_more(const ir_words *a, const ir_words *b)
{
    bool more = a->n == b->n;
    for (int32_t k = 0; more && k < a->n; k++)
        more = a->at[k] >= b->at[k];
    return more;
}

/* Does another stage between hold as much, or the same and comes first? */
static bool is_outdone(const ir_words *of, int32_t last, int32_t i)
{
    bool outdone = false;
    for (int32_t k = 1; k < last && !outdone; k++)
        outdone = k != i && holds_more(&of[k], &of[i]) &&
                  (k < i || !holds_more(&of[i], &of[k]));
    return outdone;
}

/* The stages between one of which holds most; how many. */
static int32_t fullest_between(const cost_fold *fold, const cost_slots *slots,
                               fs_arena *arena, int32_t *out)
{
    const int32_t last = slots->pipe.n_stages - 1;
    ir_words *of = fs_new(arena, ir_words, last + 1);
    int32_t n = 0;
    for (int32_t i = 1; i < last; i++) {
        of[i] = (ir_words){0, STAGE_WORDS, fs_new(arena, int64_t, STAGE_WORDS)};
        put_stage(fold, slots, 1, i, &of[i]);
    }
    for (int32_t i = 1; i < last; i++)
        if (!is_outdone(of, last, i))
            out[n++] = i;
    return n;
}

/* A pipeline whose stage holds what a known one does is not kept. */
static int32_t number_slots(cost_fold *fold, const sheet_slots *of)
{
    int64_t word[1 + STAGE_WORDS];
    ir_words key = {0, 1 + STAGE_WORDS, word};
    bool known;
    ir_put_word(&key, of->stage);
    put_stage(fold, of->slots, of->stage, of->place[of->stage], &key);
    const int32_t number = cost_number_of(&fold->pipes->slots_of, &key, &known);
    if (!known) {
        sheet_slots made = *of;
        made.slots = cost_slots_copy(of->slots, fold->pipes_arena);
        fs_push(fold->pipes_arena, &fold->pipes->slots, made);
    }
    return number;
}

static sheet_pipe make_pipe(cost_fold *fold, const cost_degrees *d)
{
    fs_arena *scratch = fs_arena_create();
    const plan_pipeline pipe = pipeline_of(d, fold->pipes_arena);
    const cost_slots slots = cost_slots_of(&pipe, scratch);
    int32_t *between = fs_new(scratch, int32_t, d->n_stages);
    sheet_pipe made = {.fill = fill_of(&pipe, scratch)};
    for (int32_t i = 0; i < fold->n_stages; i++) {
        sheet_slots of = {&slots, i, {0, 1, d->n_stages - 1}};
        int32_t n = 1;
        between[0] = of.place[i];
        if (fold->n_stages == 3 && i == 1)
            n = fullest_between(fold, &slots, scratch, between);
        for (int32_t k = 0; k < n; k++) {
            of.place[i] = between[k];
            const int32_t number = number_slots(fold, &of);
            fs_push(fold->pipes_arena, &made.slots[i], number);
        }
    }
    fs_arena_destroy(scratch);
    return made;
}

static fs_status check_schedule(const cost_degrees *d, fs_err *err)
{
    const plan_schedule *schedule = plan_schedule_find(d->schedule);
    if (!schedule)
        return fs_fail(err, FS_INVALID, "no schedule '%s': there are %s",
                       d->schedule, plan_schedule_names());
    if (schedule->placing != PLAN_PLACED_ONCE)
        return fs_fail(err, FS_INVALID,
                       "the schedule %s gives devices several stages",
                       d->schedule);
    return FS_OK;
}

fs_status sheet_find_pipe(cost_fold *fold, const cost_degrees *degrees,
                          fs_err *err, const sheet_pipe **out)
{
    int64_t word[2];
    ir_words key = {0, 2, word};
    bool known;
    FS_TRY(check_schedule(degrees, err));
    ir_put_pair(&key, degrees->n_stages, degrees->micro_batches);
    ir_put_word(&key, (int64_t)(intptr_t)plan_schedule_find(degrees->schedule));
    const int32_t number = cost_number_of(&fold->pipes->pipe_of, &key, &known);
    if (!known) {
        const sheet_pipe made = make_pipe(fold, degrees);
        fs_push(fold->pipes_arena, &fold->pipes->all, made);
    }
    *out = &fold->pipes->all.at[number];
    return FS_OK;
}

/* ---- programs ---- */

typedef struct lister {
    cost_fold *fold;
    const cost_memory *memory;
    fs_arena *arena; /* of the shape */
    sheet_shape shape;
    sheet_program *out;
} lister;

static int16_t holding_of(lister *l, const cost_holding *one)
{
    int32_t k = 0;
    while (k < l->out->holdings.n &&
           memcmp(&l->out->holdings.at[k], one, sizeof *one) != 0)
        k++;
    if (k == l->out->holdings.n)
        fs_push(l->fold->home->arena, &l->out->holdings, *one);
    FS_ASSERT(k <= INT16_MAX);
    return (int16_t)k;
}

/* Scratch is of a moment, not of its task. */
static bool held_at(const lister *l, int32_t moment, cost_reader reader,
                    cost_holding *out)
{
    if (!cost_memory_edge(l->memory, moment, reader, out))
        return false;
    if (!out->scratch)
        return true;
    out->scratch = 0;
    return out->straight || out->before || out->after || out->next ||
           out->least;
}

static void list_edge(lister *l, int32_t moment, int32_t v, int32_t slot)
{
    const int32_t e = l->fold->first_edge[v] + slot;
    cost_holding kept, anew;
    bool held = held_at(l, moment, (cost_reader){v, slot, false, false}, &kept);
    const bool other = l->fold->anew[e];
    if (other)
        held |= held_at(l, moment, (cost_reader){v, slot, true, false}, &anew);
    if (!held)
        return;
    const int16_t number = holding_of(l, &kept);
    const sheet_held one = {e, number, other ? holding_of(l, &anew) : number};
    fs_push(l->arena, &l->shape.held, one);
}

static void list_task(lister *l, int32_t moment, int32_t stage)
{
    const cost_fold *fold = l->fold;
    const int32_t *nodes;
    const int32_t n = cost_memory_nodes(l->memory, stage, &nodes);
    for (int32_t k = 0; k < n; k++) {
        const int32_t v = nodes[k];
        const sheet_stock stock = {v, cost_memory_copies(l->memory, moment, v)};
        if (stock.copies)
            fs_push(l->arena, &l->shape.stocks, stock);
        for (int32_t e = fold->first_edge[v]; e < fold->first_edge[v + 1]; e++)
            list_edge(l, moment, v, e - fold->first_edge[v]);
    }
    const sheet_task made = {l->shape.stocks.n, l->shape.held.n};
    fs_push(l->arena, &l->shape.tasks, made);
}

/* The moment before it is often of the same task. */
static void list_moment(lister *l, const cost_moment *all, int32_t k)
{
    const cost_moment *at = &all[k];
    const cost_fold *fold = l->fold;
    if (k == 0 || at->phase != at[-1].phase || at->node != at[-1].node ||
        at->first != at[-1].first)
        list_task(l, k, at->stage);
    const sheet_moment made = {l->shape.tasks.n - 1,
                               at->scratch_node < 0
                                   ? -1
                                   : fold->first_edge[at->scratch_node] +
                                         at->scratch_slot};
    fs_push(l->arena, &l->shape.moments, made);
}

/* A program as memory knows it: its stages are meshes of that size. */
typedef struct shown {
    cost_program program;
    cost_standing standing;
    plan_stage stages[COST_SHEET_STAGES];
} shown;

static void show(const cost_fold *fold, const cost_degrees *d,
                 const sheet_slots *slots, fs_arena *arena, shown *out)
{
    const int32_t size = ir_mesh_size(&d->mesh), n = fold->graph->nodes.n;
    int32_t *times = fs_new(arena, int32_t, n);
    for (int32_t v = 0; v < n; v++)
        times[v] = sheet_is_between(fold, v) ? sheet_times(fold, d->layers) : 1;
    for (int32_t i = 0; i < fold->n_stages; i++)
        out->stages[i] = (plan_stage){{1, {size}}, i * size};
    out->standing = (cost_standing){&slots->slots->pipe, slots->place, times,
                                    fold->run, fold->equal};
    out->program =
        (cost_program){.graph = fold->graph,
                       .n_stages = fold->n_stages,
                       .micro_batches = slots->slots->pipe.micro_batches,
                       .schedule = slots->slots->pipe.schedule->name,
                       .stages = out->stages,
                       .stage_of = fold->stage_of,
                       .standing = &out->standing};
}

/* Its lists are all others'. */
static const cost_memory *first_memory(cost_fold *home, const cost_degrees *d,
                                       const sheet_slots *slots)
{
    if (!home->like) {
        shown *of = fs_new(home->arena, shown, 1);
        show(home, d, slots, home->arena, of);
        home->like = cost_memory_create_on(&of->program, slots->slots, NULL,
                                           home->arena);
    }
    return home->like;
}

/* A memory without moments. */
static cost_memory *open_memory(cost_fold *fold, const cost_degrees *d,
                                const sheet_slots *slots, fs_arena *arena)
{
    shown *of = fs_new(arena, shown, 1);
    show(fold, d, slots, arena, of);
    return cost_memory_create_on(&of->program, slots->slots,
                                 first_memory(fold->home, d, slots), arena);
}

static cost_moments choose_moments(cost_fold *fold, const cost_degrees *d,
                                   const sheet_slots *slots)
{
    fs_arena *scratch = fs_arena_create();
    cost_memory *memory = open_memory(fold, d, slots, scratch);
    const cost_moment *at;
    cost_moments made = {{0}};
    cost_choose_moments_of(memory, slots->stage);
    const int32_t n = cost_memory_moments(memory, &at);
    for (int32_t k = 0; k < n; k++)
        fs_push(fold->arena, &made.list, at[k]);
    fs_arena_destroy(scratch);
    return made;
}

/* All that moments of a stage hang on. */
static const cost_moments *find_moments(cost_fold *fold, const cost_degrees *d,
                                        const sheet_slots *slots)
{
    int64_t word[4];
    ir_words key = {0, 4, word};
    bool known;
    ir_put_pair(&key, ir_mesh_size(&d->mesh), d->layers);
    ir_put_word(&key, slots->stage);
    for (int32_t first = 0; first < 2; first++) {
        const cost_fullest *at =
            &slots->slots->slot[first][slots->place[slots->stage]];
        ir_put_pair(&key, at->goes_on, at->forwards > 0);
    }
    FS_ASSERT(key.n <= key.room);
    const int32_t number = cost_number_of(&fold->moments_of, &key, &known);
    if (!known) {
        const cost_moments made = choose_moments(fold, d, slots);
        fs_push(fold->arena, &fold->moments, made);
    }
    return &fold->moments.at[number];
}

static void put_list(ir_words *key, const void *at, size_t bytes)
{
    const int32_t words =
        (int32_t)((bytes + sizeof *key->at - 1) / sizeof *key->at);
    ir_put_word(key, (int64_t)bytes);
    key->at[key->n + words - 1] = 0; /* behind the last */
    memcpy(&key->at[key->n], at, bytes);
    key->n += words;
}

#define PUT_LIST(key, list)                                                    \
    put_list(key, (list)->at, (size_t)(list)->n * sizeof *(list)->at)
#define KEEP_LIST(arena, list)                                                 \
    ((list)->at =                                                              \
         fs_memdup(arena, (list)->at, (size_t)(list)->n * sizeof *(list)->at), \
     (list)->room = (list)->n)

/* Programs whose numbers alone differ have one. */
static int32_t number_shape(cost_fold *home, const sheet_program *program,
                            sheet_shape *of, fs_arena *scratch)
{
    const size_t bytes = (size_t)of->tasks.n * sizeof *of->tasks.at +
                         (size_t)of->moments.n * sizeof *of->moments.at +
                         (size_t)of->stocks.n * sizeof *of->stocks.at +
                         (size_t)of->held.n * sizeof *of->held.at;
    const int32_t room =
        (int32_t)(bytes / sizeof(int64_t)) + 12 + program->holdings.n;
    ir_words key = {0, room, fs_new(scratch, int64_t, room)};
    bool known;
    PUT_LIST(&key, &of->tasks);
    PUT_LIST(&key, &of->moments);
    PUT_LIST(&key, &of->stocks);
    PUT_LIST(&key, &of->held);
    for (int32_t k = 0; k < program->holdings.n; k++)
        ir_put_word(&key, program->holdings.at[k].arrives);
    const int32_t number = cost_number_of(&home->shape_of, &key, &known);
    if (known)
        return number;
    KEEP_LIST(home->arena, &of->tasks);
    KEEP_LIST(home->arena, &of->moments);
    KEEP_LIST(home->arena, &of->stocks);
    KEEP_LIST(home->arena, &of->held);
    fs_push(home->arena, &home->shapes, *of);
    return number;
}

static void list_program(cost_fold *fold, const cost_degrees *d,
                         const sheet_slots *slots, const cost_moments *moments)
{
    fs_arena *scratch = fs_arena_create();
    cost_memory *memory = open_memory(fold, d, slots, scratch);
    sheet_program made = {0};
    lister l = {.fold = fold, .memory = memory, .arena = scratch, .out = &made};
    cost_memory_add(memory, moments);
    for (int32_t k = 0; k < moments->list.n; k++)
        list_moment(&l, moments->list.at, k);
    made.shape = number_shape(fold->home, &made, &l.shape, scratch);
    fs_push(fold->home->arena, &fold->home->programs, made);
    fs_arena_destroy(scratch);
}

enum { MOMENT_WORDS = 4, MOST_MOMENTS = 64 };

static int32_t make_program(cost_fold *fold, const cost_degrees *d,
                            int32_t slots)
{
    const sheet_slots *under = &fold->pipes->slots.at[slots];
    const cost_moments *moments = find_moments(fold, d, under);
    int64_t word[1 + MOST_MOMENTS * MOMENT_WORDS];
    ir_words key = {0, 1 + MOST_MOMENTS * MOMENT_WORDS, word};
    bool known;
    ir_put_pair(&key, d->layers, slots);
    for (int32_t k = 0; k < moments->list.n; k++) {
        const cost_moment *at = &moments->list.at[k];
        ir_put_pair(&key, at->stage, (int32_t)at->phase);
        ir_put_pair(&key, at->node, at->first);
        ir_put_pair(&key, at->scratch_node, at->scratch_slot);
    }
    const int32_t number = cost_number_of(&fold->home->made_of, &key, &known);
    if (!known)
        list_program(fold, d, under, moments);
    return number;
}

int32_t sheet_find_program(cost_fold *fold, const cost_degrees *degrees,
                           int32_t slots)
{
    int64_t word[2];
    ir_words key = {0, 2, word};
    bool known;
    ir_put_pair(&key, ir_mesh_size(&degrees->mesh), degrees->layers);
    ir_put_word(&key, slots);
    const int32_t number = cost_number_of(&fold->program_of, &key, &known);
    if (!known) {
        const int32_t made = make_program(fold, degrees, slots);
        fs_push(fold->arena, &fold->asked, made);
    }
    return fold->asked.at[number];
}
