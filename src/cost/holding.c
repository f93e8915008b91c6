/* What the pieces on an edge's path take, and so what is held of them. */
#include "config.h"
#include "cost/memory_parts.h"

int64_t cost_aligned_bytes(const ir_tensor *tensor, const ir_nd_sbp *sbp,
                           const ir_mesh *mesh)
{
    int64_t bytes = cost_piece_bytes(tensor, sbp, mesh);
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static int64_t scratch_of(const ir_tensor *tensor, const ir_mesh *mesh,
                          const plan_boxing *path)
{
    int64_t most = 0;
    for (int32_t k = 0; k < path->n; k++) {
        plan_box_step step;
        if (!plan_box_step_make(tensor, mesh, &path->at[k], &path->at[k + 1],
                                &step))
            continue;
        const int64_t bytes = plan_box_scratch(tensor, mesh, &step);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The part of a path that lies on the stage that is looked at. */
static plan_boxing part_of(const plan_ends *ends, const plan_boxing *path,
                           bool arrives)
{
    plan_boxing part = *path;
    if (!plan_ends_cross(ends))
        return part;
    if (!arrives) {
        part.n = path->cross;
        return part;
    }
    part.n = path->n - path->cross - 1;
    for (int32_t k = 0; k <= part.n; k++)
        part.at[k] = path->at[path->cross + 1 + k];
    return part;
}

cost_sizes cost_sizes_of(const plan_ends *ends, const plan_boxing *path,
                         bool arrives, bool scratch)
{
    const ir_tensor *tensor = ends->tensor;
    const plan_boxing part = part_of(ends, path, arrives);
    const ir_mesh *mesh = arrives || ends->anywhere ? &ends->to_stage->mesh
                                                    : &ends->from_stage->mesh;
    cost_sizes s = {.boxed = part.n > 0};
    s.first = s.least = s.last = cost_aligned_bytes(tensor, &part.at[0], mesh);
    for (int32_t k = 1; k <= part.n; k++) {
        s.last = cost_aligned_bytes(tensor, &part.at[k], mesh);
        s.second = k == 1 ? s.last : s.second;
        s.least = s.last < s.least ? s.last : s.least;
    }
    s.scratch = scratch ? scratch_of(tensor, mesh, &part) : 0;
    return s;
}

/* Where what arrives is boxed again, one buffer of it is there in any case. */
static int64_t arrived_bytes(const cost_holding *h, const cost_sizes *s)
{
    return s->boxed ? (h->after > 0) * s->first : h->straight * s->first;
}

static int64_t held_bytes(const cost_holding *h, const cost_sizes *s)
{
    if (!s->boxed)
        return h->straight * s->first;
    return h->before * s->first + h->after * s->last + h->least * s->least +
           h->next * s->second;
}

int64_t cost_held_bytes(const cost_holding *h, const cost_sizes *s)
{
    const int64_t bytes = h->arrives ? arrived_bytes(h, s) : held_bytes(h, s);
    return (h->share == 1 ? bytes : bytes / h->share) * h->times +
           (h->scratch ? s->scratch : 0);
}

int64_t cost_holding_bytes(const cost_holding *h, const plan_ends *ends,
                           const plan_boxing *path)
{
    const cost_sizes s = cost_sizes_of(ends, path, h->arrives, h->scratch);
    return cost_held_bytes(h, &s);
}
