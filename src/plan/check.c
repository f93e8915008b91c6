#include "config.h"
#include "plan/check_parts.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const finding_names[] = {
    [PLAN_FINDING_STRUCTURE] = "structure",
    [PLAN_FINDING_SBP] = "sbp",
    [PLAN_FINDING_ORDER] = "order",
    [PLAN_FINDING_LIVENESS] = "liveness",
    [PLAN_FINDING_MEMORY] = "memory"};

const char *plan_finding_name(plan_finding_kind kind)
{
    return finding_names[kind];
}

bool plan_check_full(const plan_checking *c)
{
    return c->report->n == PLAN_MOST_FINDINGS;
}

void plan_check_add(plan_checking *c, plan_finding_kind kind,
                    const char *format, ...)
{
    char *text;
    va_list args, again;
    if (plan_check_full(c))
        return;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = fs_new(c->arena, char, n + 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    c->report->findings[c->report->n++] = (plan_finding){kind, text};
}

const char *plan_check_ranks_text(const plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    if (r->n_ranks == 1)
        return fs_printf(c->scratch, "rank %d", r->first_rank);
    return fs_printf(c->scratch, "ranks %d-%d", r->first_rank,
                     r->first_rank + r->n_ranks - 1);
}

/* ", stage 3", where the ranks have several. */
static const char *chunk_text(const plan_checking *c, const plan_role *r,
                              int32_t slot)
{
    const plan_slot *s = &r->slots[slot];
    if (r->n_chunks == 1)
        return "";
    return fs_printf(c->scratch, ", stage %d", r->stages[s->chunk]);
}

const char *plan_check_task_text(const plan_checking *c, int32_t role,
                                 int32_t slot, int32_t task)
{
    const plan_role *r = &c->p->roles[role];
    const char *name = plan_task_name(c->graph, &r->tasks[task], c->scratch);
    const char *ranks = plan_check_ranks_text(c, role);
    if (slot < 0)
        return fs_printf(c->scratch, "%s (%s)", name, ranks);
    const plan_slot *at = &r->slots[slot];
    if (plan_phase_once(at->phase))
        return fs_printf(c->scratch, "%s (%s, %s of the step)", name, ranks,
                         plan_phase_name(at->phase));
    return fs_printf(c->scratch, "%s (%s, %s of micro-batch %d%s)", name, ranks,
                     plan_phase_name(at->phase), at->micro_batch,
                     chunk_text(c, r, slot));
}

const char *plan_check_line_text(const plan_checking *c, int32_t line)
{
    const plan *p = c->p;
    if (line < p->n_comms)
        return fs_printf(c->scratch, "communicator %d (stage %d, axes %s)",
                         line, p->comms[line].stage,
                         plan_axes_text(p->comms[line].axes, c->scratch));
    const plan_channel *channel = &p->channels[line - p->n_comms];
    return fs_printf(c->scratch, "channel %d (stage %d to %d)",
                     line - p->n_comms, channel->from_stage, channel->to_stage);
}

int32_t plan_check_firing(const plan_checking *c, int32_t role, int32_t slot,
                          int32_t task)
{
    return c->slot_base[role][slot] + task -
           plan_check_tasks_in(c, role, slot).first;
}

plan_slot_tasks plan_check_tasks_in(const plan_checking *c, int32_t role,
                                    int32_t slot)
{
    const plan_role *r = &c->p->roles[role];
    const int32_t *first = c->section_first[role];
    int32_t section = plan_slot_section(r, &r->slots[slot]);

    return (plan_slot_tasks){first[section], first[section + 1]};
}

/* Which slot holds (section, micro-batch) stands behind the slots' bases. */
int32_t plan_check_firing_at(const plan_checking *c, int32_t role, int32_t task,
                             int32_t micro_batch)
{
    const plan_role *r = &c->p->roles[role];
    bool once = plan_phase_once(r->tasks[task].phase);
    const int32_t *slot_at = c->slot_base[role] + r->n_slots;
    int32_t section = plan_task_section(r, &r->tasks[task]);
    int32_t slot =
        slot_at[section * c->p->micro_batches + (once ? 0 : micro_batch)];
    return plan_check_firing(c, role, slot, task);
}

static void find_sections(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    int32_t task = 0, n = plan_n_sections(r);
    c->section_first[role] = fs_new(c->scratch, int32_t, n + 1);
    for (int32_t section = 0; section <= n; section++) {
        while (task < r->n_tasks &&
               plan_task_section(r, &r->tasks[task]) < section)
            task++;
        c->section_first[role][section] = task;
    }
}

bool plan_check_number(plan_checking *c, int32_t role, int64_t *total)
{
    const plan_role *r = &c->p->roles[role];
    int32_t m = c->p->micro_batches;
    int32_t *base = fs_new(c->scratch, int32_t,
                           r->n_slots + (int64_t)plan_n_sections(r) * m);
    int64_t n = 0;
    c->slot_base[role] = base;
    find_sections(c, role);
    for (int32_t s = 0; s < r->n_slots; s++) {
        plan_slot_tasks tasks = plan_check_tasks_in(c, role, s);
        int32_t section = plan_slot_section(r, &r->slots[s]);
        bool once = plan_phase_once(r->slots[s].phase);
        base[s] = (int32_t)n;
        base[r->n_slots + section * m + (once ? 0 : r->slots[s].micro_batch)] =
            s;
        n += tasks.end - tasks.first;
        if (*total + n > PLAN_MOST_FIRINGS)
            return false;
    }
    c->n_firings[role] = (int32_t)n;
    *total += n;
    return true;
}

static void list_issues(plan_checking *c, int32_t role)
{
    const plan_role *r = &c->p->roles[role];
    for (int32_t s = 0; s < r->n_slots; s++) {
        plan_slot_tasks tasks = plan_check_tasks_in(c, role, s);
        for (int32_t t = tasks.first; t < tasks.end; t++) {
            const plan_task *task = &r->tasks[t];
            int32_t line =
                task->channel >= 0 ? c->p->n_comms + task->channel : task->comm;
            if (line < 0)
                continue;
            plan_issue issue = {s, t};
            fs_push(c->scratch, &c->issues[role * c->n_lines + line], issue);
        }
    }
}

bool plan_check_unroll(plan_checking *c)
{
    const plan *p = c->p;
    int64_t total = 0;
    c->n_lines = p->n_comms + p->n_channels;
    if ((int64_t)p->n_roles * c->n_lines > PLAN_MOST_FIRINGS ||
        (int64_t)p->strategy->n_stages * p->micro_batches > PLAN_MOST_FIRINGS) {
        plan_check_add(c, PLAN_FINDING_STRUCTURE,
                       "too large to check: %d roles, %d communicators and "
                       "channels, %d micro-batches",
                       p->n_roles, c->n_lines, p->micro_batches);
        return false;
    }
    c->slot_base = fs_new(c->scratch, int32_t *, p->n_roles);
    c->n_firings = fs_new(c->scratch, int32_t, p->n_roles);
    c->section_first = fs_new(c->scratch, int32_t *, p->n_roles);
    c->issues = fs_new(c->scratch, plan_issue_list, p->n_roles * c->n_lines);
    for (int32_t r = 0; r < p->n_roles; r++) {
        if (!plan_check_number(c, r, &total)) {
            plan_check_add(c, PLAN_FINDING_STRUCTURE,
                           "too large to check: a step has more than %d "
                           "firings; fewer micro-batches have fewer",
                           PLAN_MOST_FIRINGS);
            return false;
        }
        list_issues(c, r);
    }
    const plan_role *last = &p->roles[p->n_roles - 1];
    c->role_of_rank =
        fs_new(c->scratch, int32_t, last->first_rank + last->n_ranks);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_ranks; i++)
            c->role_of_rank[p->roles[r].first_rank + i] = r;
    return true;
}

/* The smaller root stays, so that a root is the smallest of its set. */
static void join_roles(int32_t *root, int32_t a, int32_t b)
{
    while (root[a] != a)
        a = root[a];
    while (root[b] != b)
        b = root[b];
    if (a < b)
        root[b] = a;
    else
        root[a] = b;
}

static void take_part(const plan_checking *c, const plan_stage *stage,
                      int32_t *root)
{
    int32_t n = ir_mesh_size(&stage->mesh);
    for (int32_t i = 0; i < n; i++) {
        int32_t role = c->role_of_rank[stage->first_device + i];
        root[role] = role;
    }
}

/* Does all that goes over a channel go from position i to position i? */
static bool is_straight(const plan_checking *c, int32_t line)
{
    const plan_channel *ends = &c->p->channels[line - c->p->n_comms];
    for (int32_t r = 0; r < c->p->n_roles; r++) {
        const plan_role *role = &c->p->roles[r];
        if (!plan_role_has_stage(role, ends->from_stage) &&
            !plan_role_has_stage(role, ends->to_stage))
            continue;
        for (int32_t t = 0; t < role->n_tasks; t++)
            if (role->tasks[t].channel == line - c->p->n_comms &&
                !plan_task_is_straight(c->p, &role->tasks[t]))
                return false;
    }
    return true;
}

void plan_check_partners(const plan_checking *c, int32_t line, int32_t *root)
{
    const plan *p = c->p;
    const plan_stage *stages = p->strategy->stages;
    for (int32_t r = 0; r < p->n_roles; r++)
        root[r] = -1;
    if (line < p->n_comms) {
        const plan_stage *stage = &stages[p->comms[line].stage];
        int32_t first = stage->first_device, n = ir_mesh_size(&stage->mesh);
        take_part(c, stage, root);
        for (int32_t i = 0; i < n; i++) {
            int32_t coords[IR_MAX_MESH];
            ir_mesh_coords(&stage->mesh, i, coords);
            for (int32_t a = 0; a < stage->mesh.n; a++)
                if (p->comms[line].axes >> a & 1)
                    coords[a] = 0;
            int32_t leader = ir_mesh_rank(&stage->mesh, coords);
            join_roles(root, c->role_of_rank[first + i],
                       c->role_of_rank[first + leader]);
        }
    } else {
        const plan_channel *ends = &p->channels[line - p->n_comms];
        const plan_stage *from = &stages[ends->from_stage];
        const plan_stage *to = &stages[ends->to_stage];
        int32_t n = ir_mesh_size(&from->mesh);
        bool straight = is_straight(c, line);
        take_part(c, from, root);
        take_part(c, to, root);
        for (int32_t i = 0; i < n; i++)
            join_roles(root, c->role_of_rank[from->first_device + i],
                       c->role_of_rank[to->first_device + (straight ? i : 0)]);
        for (int32_t i = 0; !straight && i < ir_mesh_size(&to->mesh); i++)
            join_roles(root, c->role_of_rank[from->first_device],
                       c->role_of_rank[to->first_device + i]);
    }
    for (int32_t r = 0; r < p->n_roles; r++)
        if (root[r] >= 0)
            root[r] = root[root[r]]; /* roots come before what they lead */
}

static fs_status check(const ir_graph *graph, const hw_cluster *cluster,
                       const plan *p, bool leaves_out, fs_arena *arena,
                       plan_report *out)
{
    int64_t start_ns = fs_now_ns();
    plan_report report = {0};
    plan_checking c = {.graph = graph,
                       .cluster = cluster,
                       .p = p,
                       .arena = arena,
                       .report = &report};
    report.findings = fs_new(arena, plan_finding, PLAN_MOST_FINDINGS);
    c.scratch = c.works.arena = fs_arena_create();
    plan_check_structure(&c);
    if (report.n == 0 && !(leaves_out && plan_check_short(&c)) &&
        plan_check_unroll(&c)) {
        plan_check_strategy(&c);
        plan_check_sbp(&c);
        plan_check_order(&c);
        plan_check_live(&c);
        if (report.n > 0 || !leaves_out || !plan_check_short_memory(&c))
            plan_check_memory(&c);
    }
    fs_arena_destroy(c.scratch);
    report.seconds = (double)(fs_now_ns() - start_ns) * 1e-9;
    *out = report;
    return report.n == 0 ? FS_OK : FS_NO;
}

fs_status plan_check(const ir_graph *graph, const hw_cluster *cluster,
                     const plan *p, fs_arena *arena, plan_report *out)
{
    return check(graph, cluster, p, true, arena, out);
}

fs_status plan_check_ref(const ir_graph *graph, const hw_cluster *cluster,
                         const plan *p, fs_arena *arena, plan_report *out)
{
    return check(graph, cluster, p, false, arena, out);
}
