#include "config.h"

#include "plan/memory.h"
#include "plan/memory_life.h"

#include <stdlib.h>
#include <string.h>

/* ---- which registers share ---- */

int32_t plan_memory_stream(const plan_places *places, const plan_register *r)
{
    int32_t stream = r->producer < 0 ? -1 : places->stream[r->producer];

    if (stream < 0 || (r->n_consumers == 0 && places->end[r->producer] < 0))
        return -1;
    for (int32_t c = 0; c < r->n_consumers; c++)
        if (places->stream[r->consumers[c]] != stream ||
            places->end[r->consumers[c]] < 0)
            return -1;
    return stream;
}

void plan_memory_choose(const plan_role *role, const plan_places *places,
                        bool *own)
{
    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        own[i] = r->persistent || plan_memory_stream(places, r) < 0;
    }
}

static void choose_shared(plan_role *role, bool share, fs_arena *scratch)
{
    const plan_places places = plan_places_of(role, scratch);
    bool *own = fs_new(scratch, bool, role->n_registers);

    plan_memory_choose(role, &places, own);
    for (int32_t i = 0; i < role->n_registers; i++)
        role->registers[i].own_memory = !share || own[i];
}

/* ---- the arena ---- */

plan_bytes_kind plan_memory_kind(const ir_graph *graph, const plan_role *role,
                                 const plan_register *r)
{
    ir_role tensor_role = graph->tensors.at[r->tensor].role;

    if (r->persistent)
        return tensor_role == IR_STATE   ? PLAN_BYTES_STATE
               : tensor_role == IR_CONST ? PLAN_BYTES_CONST
                                         : PLAN_BYTES_PARAM;
    if (!r->per_step)
        return PLAN_BYTES_ACTIVATION;
    return role->tasks[r->producer].phase == PLAN_BEGIN ? PLAN_BYTES_PARAM
                                                        : PLAN_BYTES_GRADIENT;
}

static int64_t align_up(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* Once the sum of everything fits an int64, so does every part of it. */
static fs_status check_sizes(const plan_role *role, fs_err *err)
{
    int64_t total = 0, bytes;

    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (r->bytes < 0 ||
            __builtin_mul_overflow(r->bytes, (int64_t)r->count, &bytes) ||
            __builtin_add_overflow(total, bytes, &total))
            return fs_fail(err, FS_INVALID,
                           "stage %d: the bytes of its "
                           "registers overflow",
                           (int)role->stages[0]);
    }
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].scratch_bytes < 0 ||
            role->tasks[t].scratch_bytes > INT64_MAX / 2 - PLAN_ALIGN ||
            __builtin_add_overflow(
                total, role->tasks[t].scratch_bytes + PLAN_ALIGN, &total))
            return fs_fail(err, FS_INVALID,
                           "stage %d: the bytes of its "
                           "scratch overflow",
                           (int)role->stages[0]);
    return FS_OK;
}

static void place_own(const ir_graph *graph, plan_role *role)
{
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        if (!r->own_memory)
            continue;
        for (int32_t c = 0; c < r->count; c++) {
            r->offset[c] = role->arena_bytes;
            role->arena_bytes += r->bytes;
        }
        role->bytes[plan_memory_kind(graph, role, r)] += r->count * r->bytes;
    }
}

int64_t plan_memory_scratch(const plan_role *role, int32_t stream)
{
    int64_t most = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].stream == stream &&
            role->tasks[t].scratch_bytes > most)
            most = role->tasks[t].scratch_bytes;
    return align_up(most);
}

static void place_scratch(plan_role *role)
{
    for (int32_t s = 0; s < role->n_streams; s++) {
        int64_t bytes = plan_memory_scratch(role, s);
        role->stream_scratch[s] = role->arena_bytes;
        role->arena_bytes += bytes;
        role->bytes[PLAN_BYTES_SCRATCH] += bytes;
    }
}

/* The shared regions are counted as gradients as far as sums of gradients fill
 * them (they are all live at the end of the backward pass), the rest as
 * activations. */
void plan_memory_count_shared(const plan_role *role, int64_t height,
                              int64_t bytes[PLAN_BYTES_KINDS])
{
    int64_t gradients = 0;

    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (!r->own_memory && r->per_step &&
            (role->tasks[r->producer].phase == PLAN_BACKWARD ||
             role->tasks[r->producer].phase == PLAN_WEIGHT))
            gradients += r->bytes;
    }
    gradients = gradients < height ? gradients : height;
    bytes[PLAN_BYTES_GRADIENT] += gradients;
    bytes[PLAN_BYTES_ACTIVATION] += height - gradients;
}

static void make_room(plan_role *role, fs_arena *arena)
{
    role->stream_scratch = fs_new(arena, int64_t, role->n_streams);
    for (int32_t i = 0; i < role->n_registers; i++)
        role->registers[i].offset =
            fs_new(arena, int64_t, role->registers[i].count);
    role->arena_bytes = 0;
    memset(role->bytes, 0, sizeof role->bytes);
}

/* ---- regions: what is shared, a stack of one per compute stream ---- */

typedef struct region {
    plan_packing packing; /* empty: nothing shares on this stream */
    plan_life_of *of;
} region;

/* [n_streams] with their bounds. */
static region *pack_regions(const plan_role *role, int32_t m, fs_arena *scratch)
{
    region *regions = fs_new(scratch, region, role->n_streams);

    for (int32_t s = 0; s < role->n_streams; s++) {
        const plan_stream_program program = {role, s, m};
        if (role->streams[s].kind != PLAN_STREAM_COMPUTE)
            continue;
        plan_life_pack(&program, scratch, &regions[s].packing, &regions[s].of);
        plan_offsets_bound(&regions[s].packing);
    }
    return regions;
}

static int64_t bound_of(const plan_role *role, const region *regions)
{
    int64_t bytes = 0;

    for (int32_t s = 0; s < role->n_streams; s++)
        bytes += regions[s].packing.bound_bytes;
    return bytes;
}

/* On top of the arena as it stands, which is what is not shared. */
static void lay_regions(plan_role *role, const region *regions)
{
    int64_t base = role->arena_bytes;

    for (int32_t s = 0; s < role->n_streams; s++) {
        const plan_packing *p = &regions[s].packing;
        const plan_life_of *of = regions[s].of;
        for (int32_t i = 0; i < p->n; i++) {
            plan_register *r = &role->registers[of[i].reg];
            for (int32_t k = 0; k < of[i].n; k++)
                r->offset[of[i].copy + k] =
                    role->arena_bytes + p->buffers[i].offset + k * r->bytes;
        }
        role->arena_bytes += p->height_bytes;
    }
    plan_memory_count_shared(role, role->arena_bytes - base, role->bytes);
}

static void place_shared(plan_role *role, int32_t m, plan_memory_wish wish,
                         fs_arena *scratch)
{
    region *regions = pack_regions(role, m, scratch);
    int64_t above = 0; /* their bounds, of those placed so far */
    int64_t enough = wish.enough_bytes;

    role->bound_bytes = role->arena_bytes + bound_of(role, regions);
    if (wish.asks_fit && role->bound_bytes > enough && enough > 0)
        return;
    if (wish.enough_bytes == 0)
        enough = (int64_t)((1 + PLAN_GREEDY_GAP) * (double)role->bound_bytes);
    for (int32_t s = 0; s < role->n_streams; s++) {
        plan_packing *p = &regions[s].packing;
        int64_t others = role->bound_bytes - p->bound_bytes + above;
        p->enough_bytes = enough > others ? enough - others : 1;
        plan_offsets_place_known(p, wish.known);
        above += p->height_bytes - p->bound_bytes;
    }
    lay_regions(role, regions);
}

fs_status plan_memory_assign(const ir_graph *graph, plan_memory_wish wish,
                             fs_arena *arena, fs_err *err, plan_role *role)
{
    fs_arena *scratch;

    FS_TRY(check_sizes(role, err));
    scratch = fs_arena_create();
    make_room(role, arena);
    choose_shared(role, wish.share, scratch);
    place_own(graph, role);
    place_scratch(role);
    place_shared(role, graph->micro_batches, wish, scratch);
    fs_arena_destroy(scratch);
    return FS_OK;
}

/* The offsets and the height as they stand, above `base`. */
static void take_placement(const plan_role *role, int64_t base, region *of)
{
    plan_packing *p = &of->packing;

    p->height_bytes = 0;
    for (int32_t i = 0; i < p->n; i++) {
        plan_buffer *b = &p->buffers[i];
        b->offset =
            role->registers[of->of[i].reg].offset[of->of[i].copy] - base;
        if (b->offset + b->bytes > p->height_bytes)
            p->height_bytes = b->offset + b->bytes;
    }
}

/* Back to what is not shared. */
static void take_off_regions(plan_role *role, int64_t base)
{
    int64_t shared[PLAN_BYTES_KINDS] = {0};

    plan_memory_count_shared(role, role->arena_bytes - base, shared);
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        role->bytes[k] -= shared[k];
    role->arena_bytes = base;
}

/* One after the other, until all that stands on `base` is low enough. */
static void refine_regions(const plan_role *role, int64_t base,
                           plan_effort effort, region *regions)
{
    int64_t wanted =
        (int64_t)((1 + PLAN_CLOSE_GAP) * (double)role->bound_bytes);
    int64_t above = role->arena_bytes - base;

    for (int32_t s = 0; s < role->n_streams; s++) {
        plan_packing *p = &regions[s].packing;
        above -= p->height_bytes;
        plan_offsets_refine(
            p, (wanted - base - above) / PLAN_ALIGN * PLAN_ALIGN, effort);
        above += p->height_bytes;
    }
}

void plan_memory_refine(const ir_graph *graph, plan_effort effort,
                        plan_role *role)
{
    int64_t base, at;
    fs_arena *scratch;
    region *regions;

    if (plan_role_gap(role) <= PLAN_CLOSE_GAP)
        return;
    scratch = fs_arena_create();
    regions = pack_regions(role, graph->micro_batches, scratch);
    at = base = role->bound_bytes - bound_of(role, regions);
    for (int32_t s = 0; s < role->n_streams; s++) {
        take_placement(role, at, &regions[s]);
        at += regions[s].packing.height_bytes;
    }
    refine_regions(role, base, effort, regions);
    take_off_regions(role, base);
    lay_regions(role, regions);
    fs_arena_destroy(scratch);
}
