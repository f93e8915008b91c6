/* Stages of a plan: a cluster each, with a note of all its communication,
 * counted over the plan's own tasks; and the legend. */
#include "config.h"
#include "report/network.h"

#include "base/clock.h"

#include <string.h>

/* ---- notes ---- */

/* Equal lines of a note: how often, how many bytes in all. */
typedef struct sum {
    const char *what;
    int32_t count;
    int64_t bytes;
} sum;

typedef struct tally {
    network *w;
    fs_map lines;
    FS_VEC(sum) sums;
} tally;

static void count_task(tally *t, const plan_task *task)
{
    network *w = t->w;
    fs_arena *arena = w->d.arena;
    const char *what = NULL;
    int64_t bytes = 0;
    if (task->kind == PLAN_BOX) {
        what = fs_printf(arena, "%s%s", plan_box_name(task->box.kind),
                         task->comm < 0 ? " (local)" : "");
        bytes = network_step_bytes(&task->box);
    } else if (task->kind == PLAN_SEND || task->kind == PLAN_RECV) {
        const plan_channel *c = &w->plan->channels[task->channel];
        what = task->kind == PLAN_SEND
                   ? fs_printf(arena, "send to stage %d", c->to_stage)
                   : fs_printf(arena, "receive from stage %d", c->from_stage);
        const plan_cross cross = plan_task_cross(w->graph, w->plan, task);
        bytes = network_cross_bytes(&cross);
    }
    if (!what)
        return;
    int32_t *at = fs_map_at(&t->lines, what);
    if (*at < 0) {
        *at = t->sums.n;
        fs_push(arena, &t->sums, (sum){.what = what});
    }
    t->sums.at[*at].count++;
    t->sums.at[*at].bytes += bytes;
}

/* "once a step" or "each of 4 micro-batches". */
static const char *phase_title(network *w, plan_phase phase)
{
    if (phase == PLAN_BEGIN || phase == PLAN_END)
        return fs_printf(w->d.arena, "%s, once a step", plan_phase_name(phase));
    if (w->plan->micro_batches == 1)
        return plan_phase_name(phase);
    return fs_printf(w->d.arena, "%s, each of %d micro-batches",
                     plan_phase_name(phase), w->plan->micro_batches);
}

static const plan_role *role_of_stage(const plan *p, int32_t stage)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if (plan_role_has_stage(&p->roles[r], stage))
            return &p->roles[r];
    return NULL;
}

static void add_phase(network *w, int32_t stage, plan_phase phase,
                      fs_text *text)
{
    const plan_role *role = role_of_stage(w->plan, stage);
    tally t = {.w = w, .lines = {.arena = w->d.arena}};
    for (int32_t i = 0; role && i < role->n_tasks; i++)
        if (role->tasks[i].phase == phase &&
            plan_task_stage(role, &role->tasks[i]) == stage)
            count_task(&t, &role->tasks[i]);
    if (t.sums.n)
        fs_text_add(text, "%s:\\l", phase_title(w, phase));
    for (int32_t i = 0; i < t.sums.n; i++) {
        char size[32];
        fs_text_add(text, "\xc2\xa0\xc2\xa0%d %s, %s\\l", t.sums.at[i].count,
                    t.sums.at[i].what,
                    fs_human_bytes(size, (double)t.sums.at[i].bytes));
    }
}

static const char *stage_note(network *w, int32_t stage)
{
    fs_text text = {.arena = w->d.arena};
    for (int phase = 0; phase < PLAN_PHASES; phase++)
        add_phase(w, stage, (plan_phase)phase, &text);
    return text.n ? text.at : "no communication\\l";
}

static const char *stage_label(network *w, int32_t i)
{
    const plan_stage *stage = &w->strategy->stages[i];
    fs_arena *arena = w->d.arena;
    fs_text mesh = {.arena = arena};
    for (int32_t a = 0; a < stage->mesh.n; a++)
        fs_text_add(&mesh, "%s%d", a ? "x" : "", stage->mesh.dim[a]);
    int32_t size = ir_mesh_size(&stage->mesh), first = stage->first_device;
    const char *devices =
        size > 1 ? fs_printf(arena, "devices %d to %d", first, first + size - 1)
                 : fs_printf(arena, "device %d", first);
    return fs_printf(arena, "stage %d: %s, mesh %s", i, devices,
                     mesh.n ? mesh.at : "1");
}

void network_make_stages(network *w)
{
    int32_t n = w->strategy->n_stages;
    w->stage = fs_new(w->d.arena, Agraph_t *, n);
    w->note = fs_new(w->d.arena, Agnode_t *, n);
    for (int32_t i = 0; i < n; i++) {
        w->stage[i] =
            draw_cluster(&w->d, w->d.graph, fs_printf(w->d.arena, "stage%d", i),
                         stage_label(w, i));
        draw_set(w->stage[i], "style", "filled,rounded");
        draw_set(w->stage[i], "color", "#f7f7fb");
        Agnode_t *note =
            agnode(w->stage[i], fs_printf(w->d.arena, "traffic%d", i), 1);
        draw_set(note, "shape", "note");
        draw_set(note, "style", "filled");
        draw_set(note, "fillcolor", "#fffbe0");
        draw_set(note, "label", stage_note(w, i));
        w->note[i] = note;
    }
}

/* What a stage sends to another in a phase. */
static void add_moves(network *w, const plan_channel *way, plan_phase phase,
                      fs_text *text)
{
    const plan_role *role = role_of_stage(w->plan, way->from_stage);
    sum sent = {0};
    char size[32];
    for (int32_t i = 0; role && i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        if (task->kind != PLAN_SEND || task->phase != phase ||
            w->plan->channels[task->channel].from_stage != way->from_stage ||
            w->plan->channels[task->channel].to_stage != way->to_stage)
            continue;
        const plan_cross cross = plan_task_cross(w->graph, w->plan, task);
        sent.count++;
        sent.bytes += network_cross_bytes(&cross);
    }
    if (sent.count)
        fs_text_add(text, "%d to %d, %s: %d, %s<BR ALIGN=\"LEFT\"/>",
                    way->from_stage, way->to_stage, plan_phase_name(phase),
                    sent.count, fs_human_bytes(size, (double)sent.bytes));
}

/* One edge for both ways: the labels of several would lie on each other. */
static void join_two(network *w, int32_t a, int32_t b)
{
    fs_text text = {.arena = w->d.arena};
    for (int phase = 0; phase < PLAN_PHASES; phase++) {
        if (phase == PLAN_FORWARD)
            continue; /* these are edges between nodes */
        add_moves(w, &(plan_channel){a, b}, (plan_phase)phase, &text);
        add_moves(w, &(plan_channel){b, a}, (plan_phase)phase, &text);
    }
    if (!text.n)
        return;
    Agedge_t *e = draw_edge(&w->d, w->note[a], w->note[b]);
    /* Before the edge, not struck through by it. */
    draw_set_html(e, "label",
                  fs_printf(w->d.arena,
                            "<TABLE BORDER=\"0\" CELLBORDER=\"0\" "
                            "BGCOLOR=\"white\"><TR><TD>%s</TD></TR></TABLE>",
                            text.at));
    draw_set(e, "dir", "both");
    draw_set(e, "tailport", "n");
    draw_set(e, "headport", "n");
    draw_set(e, "style", "dashed");
    draw_set(e, "color", "#7a1fa2");
    draw_set(e, "penwidth", "2");
    draw_set(e, "constraint", "false");
}

void network_join_notes(network *w)
{
    for (int32_t a = 0; a < w->strategy->n_stages; a++)
        for (int32_t b = a + 1; b < w->strategy->n_stages; b++)
            join_two(w, a, b);
}

/* ---- legend ---- */

static bool is_used(const network *w, const char *colour)
{
    for (int32_t v = 0; v < w->graph->nodes.n; v++)
        if (w->node[v] && strstr(agget(w->node[v], "fillcolor"), colour))
            return true;
    return false;
}

/* One table: nodes of their own would be spread over the ranks of the graph. */
void network_make_legend(network *w)
{
    const ir_sbp kinds[] = {IR_SBP_B,    IR_SBP_P,    IR_SBP_S(0),
                            IR_SBP_S(1), IR_SBP_S(2), IR_SBP_S(3)};
    static const char *const texts[] = {"B: whole everywhere",
                                        "P: partial sums",
                                        "S(0): cut along axis 0",
                                        "S(1)",
                                        "S(2)",
                                        "S(3)"};
    fs_text table = {.arena = w->d.arena};
    fs_text_add(&table, "<table border=\"0\" cellborder=\"1\" "
                        "cellspacing=\"3\"><tr><td border=\"0\">"
                        "output lies</td></tr>");
    for (int i = 0; i < 6; i++) {
        ir_nd_sbp sbp = {.at = {kinds[i]}};
        const char *colour = draw_sbp_colour(&w->d, &sbp, 1);
        if (is_used(w, colour))
            fs_text_add(&table, "<tr><td bgcolor=\"%s\">%s</td></tr>", colour,
                        texts[i]);
    }
    fs_text_add(&table, "<tr><td border=\"0\">bytes: what a rank holds"
                        "<br/>of the tensor, before or<br/>after a step, "
                        "whichever<br/>is more</td></tr></table>");
    Agnode_t *n = agnode(w->d.graph, "legend", 1);
    draw_set(n, "shape", "plaintext");
    draw_set_html(n, "label", table.at);
}
