/* What `sim` says of memory: the plan's own, or what a framework would hold of
 * it, beside what devices have. */
#include "config.h"
#include "cli/simulate.h"

#include "base/clock.h"

/* Of the device with least among those of a role; 0: it is not told. */
static int64_t limit_of(const cli_plan *p, const plan_role *role)
{
    double least = 0;
    const hw_group *before = NULL;
    for (int32_t i = 0; i < role->n_ranks; i++) {
        const hw_group *group = hw_group_of(p->cluster, role->first_rank + i);
        const double has = group->device.memory_bytes;
        if (group == before || has <= 0)
            continue;
        before = group;
        least = least > 0 && least < has ? least : has;
    }
    return (int64_t)least;
}

/* Of what is held; where a device's memory is not told, of nothing. */
static double filled(const cli_holding *h)
{
    return h->limit_bytes > 0 ? (double)h->peak_bytes / (double)h->limit_bytes
                              : 0;
}

cli_memory cli_memory_of(cli *c, const cli_plan *p, const cost_framework *f,
                         const sim_result *sim)
{
    cli_memory out = {.n = p->plan->n_roles, .by = f, .fits = true};
    out.of = fs_new(c->arena, cli_holding, out.n);
    out.most = &out.of[0];
    for (int32_t r = 0; r < out.n; r++) {
        const plan_role *role = &p->plan->roles[r];
        cli_holding *h = &out.of[r];
        *h = (cli_holding){.role = role, .limit_bytes = limit_of(p, role)};
        if (f) {
            h->held = cost_framework_held(f, p->model.graph, p->plan, r);
            h->live_bytes = h->held.allocated_bytes;
            h->peak_bytes = h->held.process_bytes;
        } else {
            h->live_bytes = sim->stages[role->stages[0]].peak_bytes;
            h->peak_bytes = role->arena_bytes;
        }
        out.fits &= h->limit_bytes <= 0 || h->peak_bytes <= h->limit_bytes;
        if (filled(h) > filled(out.most) ||
            (filled(h) == filled(out.most) &&
             h->peak_bytes > out.most->peak_bytes))
            out.most = h;
    }
    return out;
}

int64_t cli_memory_of_stage(const cli_memory *m, int32_t stage)
{
    int64_t most = 0;
    for (int32_t r = 0; r < m->n; r++)
        if (plan_role_has_stage(m->of[r].role, stage) &&
            m->of[r].live_bytes > most)
            most = m->of[r].live_bytes;
    return most;
}

void cli_memory_json(cli *c, const cli_memory *m)
{
    json_t *peaks = json_array();
    for (int32_t r = 0; r < m->n; r++)
        json_array_append_new(peaks, json_integer(m->of[r].peak_bytes));
    json_object_set_new(c->result, "peak_bytes", peaks);
    json_object_set_new(c->result, "fits", json_boolean(m->fits));
    json_object_set_new(c->result, "limit_bytes",
                        m->most->limit_bytes > 0
                            ? json_integer(m->most->limit_bytes)
                            : json_null());
}

/* "parameters and states 43.2 GiB, .." */
static const char *parts_text(cli *c, const cli_holding *h)
{
    const struct {
        const char *what;
        double bytes;
    } parts[] = {
        {"parameters and states", h->held.standing_bytes},
        {"gradients and activations", h->held.moving_bytes},
        {"scores of attention kept", h->held.scores_bytes},
        {"masks of dropouts", h->held.masks_bytes},
        {"context and what the allocator loses",
         (double)(h->peak_bytes - h->held.allocated_bytes)},
    };
    fs_text text = {.arena = c->arena};
    char bytes[32];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes >= 1)
            fs_text_add(&text, "%s%s %s", text.n ? ", " : "", parts[i].what,
                        fs_human_bytes(bytes, parts[i].bytes));
    return text.at;
}

static json_t *parts_json(const cli_holding *h)
{
    const cost_held *held = &h->held;
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "standing",
                     (json_int_t)held->standing_bytes, "moving",
                     (json_int_t)held->moving_bytes, "scores",
                     (json_int_t)held->scores_bytes, "masks",
                     (json_int_t)held->masks_bytes, "process",
                     (json_int_t)(held->process_bytes - held->allocated_bytes));
}

void cli_memory_tell_framework(cli *c, const cli_memory *m)
{
    const cli_holding *h = m->most;
    char allocated[32], process[32], has[32];
    json_t *r = c->result;
    json_object_set_new(r, "framework_bytes",
                        json_integer(h->held.allocated_bytes));
    json_object_set_new(r, "framework_process_bytes",
                        json_integer(h->held.process_bytes));
    json_object_set_new(r, "framework_parts", parts_json(h));
    cli_say(
        c,
        "framework       %s: %s allocated, %s of the process on each "
        "device of %s%s%s%s\n                %s\n",
        m->by->name, fs_human_bytes(allocated, (double)h->held.allocated_bytes),
        fs_human_bytes(process, (double)h->held.process_bytes),
        plan_role_stages_text(h->role, c->arena),
        h->limit_bytes > 0 ? ", which has " : "",
        h->limit_bytes > 0 ? fs_human_bytes(has, (double)h->limit_bytes) : "",
        m->fits ? "" : ": it does not fit", parts_text(c, h));
}

fs_status cli_memory_verdict(cli *c, const cli_memory *m)
{
    char process[32], has[32];
    if (m->fits)
        return FS_OK;
    return fs_fail(&c->err, FS_NO,
                   "memory: %s would take %s on each device of %s, which has "
                   "%s: this plan does not fit there; its time is told as if "
                   "there were room",
                   m->by ? m->by->name : "the plan",
                   fs_human_bytes(process, (double)m->most->peak_bytes),
                   plan_role_stages_text(m->most->role, c->arena),
                   fs_human_bytes(has, (double)m->most->limit_bytes));
}
