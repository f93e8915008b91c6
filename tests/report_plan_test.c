/* A plan's picture against the plan: what it says moves is what the plan's
 * tasks move. Graphviz reads the pictures back. */
#include "config.h"

#include "report/report.h"
#include "zoo/zoo.h"

#include "plan_build.h"
#include "tap.h"

#include <graphviz/cgraph.h>
#include <unistd.h>

enum { MOVES = PLAN_BOX_KINDS, KINDS };

typedef struct traffic {
    int32_t count[KINDS];
    double bytes[KINDS];
} traffic;

static const char *kind_name(int kind)
{
    return kind == MOVES ? "move" : plan_box_name((plan_box_kind)kind);
}

/* "960 KiB" in bytes. */
static double read_bytes(const char *text)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB"};
    char *end;
    double n = strtod(text, &end);
    for (int u = 3; u >= 0; u--)
        if (strncmp(end, units[u], strlen(units[u])) == 0)
            return n * (double)(1LL << (10 * u));
    return NAN;
}

/* ---- what the plan does ---- */

static double moved_bytes(const ir_graph *g, const plan *p,
                          const plan_task *task)
{
    const plan_cross c = plan_task_cross(g, p, task);
    ir_shape from =
        ir_largest_piece(&c.tensor->shape, &c.from, &c.from_stage->mesh);
    ir_shape to = ir_largest_piece(&c.tensor->shape, &c.to, &c.to_stage->mesh);
    return fmax((double)ir_shape_count(&from), (double)ir_shape_count(&to)) *
           (double)ir_dtype_bytes(c.tensor->dtype);
}

/* Boxing and sends of a phase; stage -1: of all. */
static traffic plan_traffic(const ir_graph *g, const plan *p, int32_t stage,
                            plan_phase phase)
{
    traffic sum = {{0}, {0}};
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            if (task->phase != phase ||
                (stage >= 0 && plan_task_stage(role, task) != stage))
                continue;
            if (task->kind == PLAN_SEND) {
                sum.count[MOVES]++;
                sum.bytes[MOVES] += moved_bytes(g, p, task);
            } else if (task->kind == PLAN_BOX) {
                sum.count[task->box.kind]++;
                sum.bytes[task->box.kind] += fmax((double)task->box.bytes_in,
                                                  (double)task->box.bytes_out);
            }
        }
    }
    return sum;
}

/* ---- what the picture says ---- */

static Agraph_t *draw_and_read(const ir_graph *g, const plan *p)
{
    char file[64];
    fs_err err = {0};
    report_drawn drawn;
    snprintf(file, sizeof file, "report_plan.%d.dot", (int)getpid());
    fs_status status = report_draw_plan(g, p, file, &err, &drawn);
    if (status != FS_OK)
        printf("# %s\n", err.text);
    FILE *in = status == FS_OK ? fopen(file, "r") : NULL;
    Agraph_t *picture = in ? agread(in, NULL) : NULL;
    if (in)
        fclose(in);
    unlink(file);
    return picture;
}

static void add_label(const char *label, traffic *sum)
{
    for (const char *line = label; *line;) {
        size_t n = strcspn(line, "\n\\");
        for (int k = 0; k < KINDS; k++) {
            const char *name = kind_name(k);
            size_t length = strlen(name);
            if (strncmp(line, name, length) != 0 || line[length] != ' ' ||
                strstr(line, "once a step"))
                continue;
            sum->count[k]++;
            sum->bytes[k] += read_bytes(line + length + 1);
        }
        line += n + (line[n] == '\\' ? 2 : line[n] == '\n');
    }
}

/* The labels of all edges but those between notes. */
static traffic edge_traffic(Agraph_t *picture)
{
    traffic sum = {{0}, {0}};
    for (Agnode_t *n = agfstnode(picture); n; n = agnxtnode(picture, n))
        for (Agedge_t *e = agfstout(picture, n); e; e = agnxtout(picture, e)) {
            char *label = agget(e, "label");
            if (label && strncmp(agnameof(n), "traffic", 7) != 0)
                add_label(label, &sum);
        }
    return sum;
}

/* The lines of a note below the title of `phase`. */
static traffic note_traffic(Agraph_t *picture, int32_t stage, plan_phase phase)
{
    traffic sum = {{0}, {0}};
    char name[32];
    bool here = false;
    snprintf(name, sizeof name, "traffic%d", (int)stage);
    Agnode_t *note = agnode(picture, name, 0);
    for (const char *line = note ? agget(note, "label") : ""; line[0];) {
        const char *end = strstr(line, "\\l"), *name_at;
        int32_t count = 0;
        size_t n = strcspn(line, ",:");
        if (line[0] != '\xc2')
            here = strncmp(line, plan_phase_name(phase), n) == 0;
        else if (here && sscanf(line + 4, "%d", &count) == 1) {
            name_at = strchr(line, ' ') + 1;
            for (int k = 0; k < KINDS; k++) {
                const char *what = k == MOVES ? "send to" : kind_name(k);
                if (strncmp(name_at, what, strlen(what)) != 0)
                    continue;
                sum.count[k] += count;
                sum.bytes[k] += read_bytes(strchr(line, ',') + 2);
            }
        }
        line = end ? end + 2 : "";
    }
    return sum;
}

/* ---- the two compared ---- */

/* Rounded to three digits where it is said. */
static int32_t differences(const char *where, const traffic *said,
                           const traffic *done)
{
    int32_t n = 0;
    for (int k = 0; k < KINDS; k++) {
        bool same =
            said->count[k] == done->count[k] &&
            fabs(said->bytes[k] - done->bytes[k]) <= 0.01 * done->bytes[k];
        if (!same)
            printf("# %s: %s: said %d of %g bytes, done %d of %g bytes\n",
                   where, kind_name(k), said->count[k], said->bytes[k],
                   done->count[k], done->bytes[k]);
        n += !same;
    }
    return n;
}

typedef struct verdict {
    int32_t pictures, labels, wrong_edges, wrong_notes;
} verdict;

static void compare(const ir_graph *g, const plan *p, verdict *sum)
{
    Agraph_t *picture = draw_and_read(g, p);
    if (!picture)
        return;
    sum->pictures++;
    traffic said = edge_traffic(picture);
    traffic done = plan_traffic(g, p, -1, PLAN_FORWARD);
    for (int k = 0; k < KINDS; k++)
        sum->labels += said.count[k];
    sum->wrong_edges += differences("edges", &said, &done);
    for (int32_t s = 0; s < p->strategy->n_stages; s++)
        for (int f = 0; f < PLAN_PHASES; f++) {
            said = note_traffic(picture, s, (plan_phase)f);
            done = plan_traffic(g, p, s, (plan_phase)f);
            sum->wrong_notes +=
                differences(plan_phase_name((plan_phase)f), &said, &done);
        }
    agclose(picture);
}

static void compare_one(ir_graph *g, const build_recipe *recipe, verdict *sum)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    plan *p;
    plan_lower_options options = plan_lower_defaults();
    plan_strategy *s = build_strategy(g, recipe, arena);
    if (plan_lower(g, build_cluster(12, arena), s, &options, arena, &err, &p) ==
        FS_OK)
        compare(g, p, sum);
    else
        printf("# %s\n", err.text);
    fs_arena_destroy(arena);
}

/* A perceptron, or a transformer: several nodes read what one leaves. No block
 * stands for another: stages have one each. */
static ir_graph *make_graph(bool gpt, int32_t micro_batches)
{
    ir_graph *g = NULL;
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    options.micro_batches = micro_batches;
    if (!gpt)
        return build_mlp(3, 8, micro_batches == 3, micro_batches);
    if (zoo_build("zoo:gpt,layers=2,hidden=32,heads=4,vocab=64,seq=16", 4, &err,
                  &g) != FS_OK ||
        ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    return g;
}

static void test_random_plans(uint64_t seed)
{
    verdict sum = {0};
    for (int i = 0; i < 12; i++) {
        int32_t pp = i % 2 ? 2 : 1 + (int32_t)fs_rand_below(&seed, 3);
        ir_graph *g = make_graph(i % 2, pp);
        build_recipe recipe = {.pp = pp,
                               .dp = 1 + (int32_t)fs_rand_below(&seed, 2),
                               .tp = 2,
                               .random = fs_rand(&seed) | 1};
        compare_one(g, &recipe, &sum);
        ir_graph_destroy(g);
    }
    tap_equal_int(sum.pictures, 12, "random plans are drawn");
    tap_ok(sum.labels > 12, "they move something: %d labels", sum.labels);
    tap_equal_int(sum.wrong_edges, 0,
                  "edges show every step of the forward pass once");
    tap_equal_int(sum.wrong_notes, 0,
                  "notes count the plan's tasks and bytes, by phase");
}

int main(void)
{
    test_random_plans(tap_seed(4));
    return tap_done();
}
