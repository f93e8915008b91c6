/* Runs a case: its plan on ranks, its graph on one device, and compares. */
#include "config.h"

#include "equal.h"
#include "exec_plans.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One run: what all its ranks share, and what rank 0 found. */
typedef struct running {
    const ir_graph *graph;
    const job *job;
    int32_t n_weights, *weights; /* parameters to fetch */
    plan_choice choice;          /* drawn, but the same in each run of a plan */
    fs_arena *arena;
    double loss[EQUAL_STEPS];
    double **value; /* [n_weights] */
    fs_status status;
    fs_err err;
} running;

static void keep_result(running *r, const exec_result *result, void **fetched)
{
    memcpy(r->loss, result->losses, sizeof r->loss);
    r->value = fs_new(r->arena, double *, r->n_weights);
    for (int32_t i = 0; i < r->n_weights; i++)
        r->value[i] = job_doubles(&r->graph->tensors.at[r->weights[i]],
                                  fetched[i], r->arena);
}

static void run_rank(exec_world *world, void *ctx)
{
    running *r = ctx;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_result result;
    void **fetched = fs_new(arena, void *, r->n_weights);
    const exec_options options = {.steps = EQUAL_STEPS,
                                  .seed = 3,
                                  .choice = &r->choice,
                                  .stall_s = 20,
                                  .checks = true,
                                  .n_fetch = r->n_weights,
                                  .fetch = r->weights,
                                  .fetched = fetched};
    job mine = *r->job;
    mine.arena = arena;
    const fs_status status = job_run(&mine, world, &options, &err, &result);
    if (exec_world_rank(world) == 0) {
        r->status = status;
        r->err = err;
        if (status == FS_OK)
            keep_result(r, &result, fetched);
    }
    fs_arena_destroy(arena);
}

/* ---- features ---- */

static void note(equal_verdict *v, equal_feature feature, bool has)
{
    if (has)
        v->features |= (uint64_t)1 << feature;
}

static void note_case(const equal_case *c, equal_verdict *v)
{
    const ir_optimizer o = c->optimizer;
    note(v, EQUAL_HAS_random_ops, !c->model && !c->each);
    note(v, EQUAL_HAS_each, c->each);
    note(v, EQUAL_HAS_zoo, c->model);
    note(v, EQUAL_HAS_wide, c->wide);
    note(v, EQUAL_HAS_narrow, c->narrow != IR_F32);
    note(v, EQUAL_HAS_stages, c->n_stages > 1);
    note(v, EQUAL_HAS_micro_batches, c->micro_batches > 1);
    note(v, EQUAL_HAS_chunks, c->chunks > 1);
#define PLAN_SCHEDULE(id, name, ...)                                           \
    note(v, EQUAL_HAS_schedule_##id,                                           \
         c->n_stages > 1 && strcmp(c->schedule, name) == 0);
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    note(v, EQUAL_HAS_overlap, c->overlap);
    note(v, EQUAL_HAS_adaptive, o != IR_SGD && o != IR_MOMENTUM);
    note(v, EQUAL_HAS_momentum, o == IR_MOMENTUM);
    note(v, EQUAL_HAS_clipped, c->clipped);
    for (int32_t i = 0; i < c->n_stages; i++) {
        note(v, EQUAL_HAS_unlike, !plan_same_mesh(&c->mesh[i], &c->mesh[0]));
        note(v, EQUAL_HAS_axes_2, c->mesh[i].n == 2);
        note(v, EQUAL_HAS_axes_3, c->mesh[i].n == 3);
        for (int32_t a = 0; a < c->mesh[i].n; a++)
            note(v, EQUAL_HAS_odd,
                 c->mesh[i].dim[a] > 1 && c->mesh[i].dim[a] % 2);
    }
}

static void note_sbp(const ir_tensor *t, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, equal_verdict *v)
{
    for (int32_t a = 0; a < mesh->n; a++) {
        const ir_sbp at = sbp->at[a];
        const bool cut = at.kind == IR_S;
        note(v, EQUAL_HAS_partial, ir_sbp_is_partial(at));
        note(v, EQUAL_HAS_max_min, at.kind == IR_PMAX || at.kind == IR_PMIN);
        note(v, EQUAL_HAS_halo, ir_sbp_has_halo(at));
        note(v, EQUAL_HAS_uneven,
             cut && t->shape.dim[at.axis] % mesh->dim[a] != 0);
        note(v, EQUAL_HAS_cut_state, cut && t->role == IR_STATE);
        note(v, EQUAL_HAS_cut_param, cut && t->role == IR_PARAM);
    }
}

static void note_node(const ir_graph *g, const plan_strategy *s, int32_t v,
                      equal_verdict *out)
{
    const ir_node *node = &g->nodes.at[v];
    const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
    bool plain = true;
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_tensor *t = &g->tensors.at[node->in[i]];
        note_sbp(t, &s->sig[v].in[i], mesh, out);
        plain &= ir_nd_sbp_equal(&s->sig[v].in[i], &(ir_nd_sbp){0}, mesh->n);
        note(out, EQUAL_HAS_anew,
             s->edge[s->first_edge[v] + i].sharing > 0 &&
                 s->edge[s->first_edge[v] + i].n > 0);
        note(out, EQUAL_HAS_tied,
             abs(s->stage_of[t->producer] - s->stage_of[v]) > 1 &&
                 g->nodes.at[t->producer].op != IR_OP_input);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        note_sbp(&g->tensors.at[node->out[i]], &s->sig[v].out[i], mesh, out);
        plain &= ir_nd_sbp_equal(&s->sig[v].out[i], &(ir_nd_sbp){0}, mesh->n);
    }
    note(out, EQUAL_HAS_loops,
         node->op == IR_OP_variable && s->edge[s->first_edge[v]].n > 0);
    out->n_wild += !plain;
}

/* ---- runs ---- */

__attribute__((format(printf, 3, 4))) static void
end_as(equal_verdict *v, equal_end end, const char *format, ...)
{
    va_list args;
    v->end = end;
    va_start(args, format);
    vsnprintf(v->text, sizeof v->text, format, args);
    va_end(args);
}

static int32_t *list_weights(const ir_graph *g, fs_arena *arena, int32_t *n)
{
    int32_t *list = fs_new(arena, int32_t, g->tensors.n);
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next >= 0 && (g->tensors.at[t].role == IR_PARAM ||
                                           g->tensors.at[t].role == IR_BUFFER))
            list[(*n)++] = t;
    return list;
}

static bool adapts(const equal_case *c)
{
    return c->optimizer != IR_SGD && c->optimizer != IR_MOMENTUM;
}

/* `by`: all collectives; PLAN_ALGORITHMS: each by one that is drawn. */
static fs_status run_job_by(const equal_case *c, const job *j,
                            exec_world *world, int32_t ranks, plan_algorithm by,
                            running *out)
{
    fs_err err = {0};
    *out = (running){.graph = j->graph,
                     .job = j,
                     .choice = choice_by(j->p, by, 7, j->arena),
                     .arena = j->arena};
    if (!adapts(c))
        out->weights = list_weights(j->graph, j->arena, &out->n_weights);
    if (world)
        run_rank(world, out);
    else
        FS_TRY(exec_world_threads(ranks, run_rank, out, &err));
    return out->status;
}

static fs_status run_job(const equal_case *c, const job *j, exec_world *world,
                         int32_t ranks, running *out)
{
    return run_job_by(c, j, world, ranks, PLAN_ALGORITHMS, out);
}

static fs_status prepare(const equal_case *c, const plan_strategy *s,
                         int32_t ranks, fs_err *err, job *j)
{
    plan_lower_options lower = plan_lower_defaults();
    lower.overlap = c->overlap;
    lower.bucket_bytes = c->bucket_bytes;
    lower.share_memory = !c->unshared;
    return job_make_with(j, s, ranks, &lower, err);
}

/* A kernel that is wrong where its result is cut. */
static void plant(const plan_strategy *s, ir_graph *g)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
        bool cut = false;
        for (int32_t a = 0; a < mesh->n; a++)
            cut |= s->sig[v].out[0].at[a].kind == IR_S;
        if (g->nodes.at[v].op == IR_OP_scale && cut)
            g->nodes.at[v].f[0] *= 1.5;
    }
}

/* ---- comparing ---- */

/* What two runs differ by, relative. */
typedef struct apart {
    double loss, weight;
    int32_t step, worst; /* where */
} apart;

static double error_of_weight(const ir_tensor *t, const double *a,
                              const double *b)
{
    const double least = t->dtype == IR_F64 ? 1e-3 : 0.1;
    double difference = 0, size = 0;
    for (int64_t i = 0; i < ir_shape_count(&t->shape); i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference) / fmax(sqrt(size), least);
}

static apart compare(const running *a, const running *b)
{
    apart out = {0};
    for (int32_t k = 0; k < EQUAL_STEPS; k++) {
        const double error =
            fabs(a->loss[k] - b->loss[k]) / fmax(fabs(b->loss[k]), 1e-3);
        if (!(error <= out.loss)) {
            out.loss = error;
            out.step = k;
        }
    }
    for (int32_t i = 0; i < b->n_weights; i++) {
        const double error = error_of_weight(
            &b->graph->tensors.at[b->weights[i]], a->value[i], b->value[i]);
        if (!(error <= out.weight)) {
            out.weight = error;
            out.worst = i;
        }
    }
    return out;
}

/* States of what computes in double are not narrowed. */
static bool rounds_states(const equal_case *c)
{
    return c->narrow_states && !c->wide;
}

/* As stated: fp64 1e-10, fp32 1e-5 for losses. In single precision weights, and
 * all of mixed precision, gradients that are cast and states of 16 bits, as far
 * as rounding goes. */
static double bound_of(const equal_case *c)
{
    if (ir_compress_dtype(&c->compress) != IR_F32 || rounds_states(c))
        return 0.05;
    return c->wide ? 1e-10 : c->narrow == IR_F32 ? 1e-5 : 0.05;
}

static double bound_of_weights(const equal_case *c)
{
    const bool exact = c->wide && ir_compress_dtype(&c->compress) == IR_F32;
    return (exact ? 1 : 10) * bound_of(c);
}

/* What the numbers of a case are rounded by; a cast gradient's partial sums are
 * each rounded as the cast type is. */
static double rounding_of(const equal_case *c)
{
    const ir_dtype cast = ir_compress_dtype(&c->compress);
    if (cast != IR_F32)
        return cast == IR_F16 ? 0x1p-11 : 0x1p-8;
    return c->wide ? 1e-14 : 1e-6;
}

/* One device from first weights that differ in the last digits, all by as much:
 * norms take factors away. Of a network that magnifies those, rounding
 * decides. */
static apart shake(const equal_case *c, job *alone, ir_graph *g,
                   const running *one)
{
    const double by = rounding_of(c);
    running other;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        ir_init *init = &g->tensors.at[t].init;
        init->mean += by * (fabs(init->mean) + init->spread);
    }
    if (run_job(c, alone, NULL, 1, &other) != FS_OK)
        return (apart){0};
    return compare(&other, one);
}

static void judge(const equal_case *c, job *alone, ir_graph *g,
                  const running *all, const running *one, equal_verdict *v)
{
    const double bound = bound_of(c);
    const apart is = compare(all, one);
    v->loss_error = is.loss;
    v->weight_error = is.weight;
    for (int32_t k = 0; k < EQUAL_STEPS; k++)
        if (!isfinite(one->loss[k])) {
            if (isfinite(all->loss[k]))
                end_as(v, EQUAL_DIFFERS,
                       "loss of step %d is %g, one device's %g", (int)k,
                       all->loss[k], one->loss[k]);
            else
                end_as(v, EQUAL_NO_NUMBER, "one device's loss is %g",
                       one->loss[k]);
            return;
        }
    if (is.loss <= bound && is.weight <= bound_of_weights(c))
        return;
    if (is.loss <= bound)
        end_as(v, EQUAL_DIFFERS, "weight %s is off by %.3g",
               g->tensors.at[one->weights[is.worst]].name, is.weight);
    else
        end_as(v, EQUAL_DIFFERS, "loss of step %d is %.17g, one device's %.17g",
               (int)is.step, all->loss[is.step], one->loss[is.step]);
    if (c->planted) /* never rounding */
        return;
    const apart other = shake(c, alone, g, one);
    if (is.loss <= fmax(bound, 10 * other.loss) &&
        is.weight <= fmax(bound_of_weights(c), 10 * other.weight))
        v->end = EQUAL_SHAKY;
}

/* ---- buckets ---- */

static bool has_buckets(const plan *p)
{
    bool has = false;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            has |= p->roles[r].tasks[i].n_parts > 0;
    return has;
}

static bool same_bits(const running *a, const running *b)
{
    bool same = memcmp(a->loss, b->loss, sizeof a->loss) == 0;
    for (int32_t i = 0; i < b->n_weights && same; i++)
        same = memcmp(a->value[i], b->value[i],
                      (size_t)ir_shape_count(
                          &b->graph->tensors.at[b->weights[i]].shape) *
                          sizeof *b->value[i]) == 0;
    return same;
}

/* Directly, who goes in a bucket is summed as who goes alone. */
static void try_bits(const equal_case *c, const plan_strategy *s,
                     const job *spread, equal_verdict *v)
{
    fs_err err = {0};
    equal_case plain = *c;
    job single = {.graph = spread->graph, .arena = spread->arena};
    running together, alone;
    plain.bucket_bytes = 0;
    if (prepare(&plain, s, c->ranks, &err, &single) != FS_OK)
        end_as(v, EQUAL_REFUSED, "without buckets: %s", err.text);
    else if (run_job_by(c, spread, NULL, c->ranks, PLAN_BY_direct, &together) !=
                 FS_OK ||
             run_job_by(&plain, &single, NULL, c->ranks, PLAN_BY_direct,
                        &alone) != FS_OK)
        end_as(v, EQUAL_FAULT, "%s%s", together.err.text, alone.err.text);
    else if (!same_bits(&together, &alone))
        end_as(v, EQUAL_DIFFERS, "buckets change bits");
}

/* The rest of a case whose graph is there. */
static void try_graph(const equal_case *c, exec_world *world, ir_graph *g,
                      fs_arena *arena, equal_verdict *v)
{
    fs_err err = {0};
    running one, all;
    ir_graph *bound;
    plan_strategy *s = equal_strategy(c, g, arena, &err, &bound);
    job alone = {.graph = g, .arena = arena};
    job spread = {.graph = bound, .arena = arena};
    v->n_nodes = bound->nodes.n;
    note(v, EQUAL_HAS_bound, bound->nodes.n < g->nodes.n);
    for (int32_t k = 0; s && k < bound->nodes.n; k++)
        note_node(bound, s, k, v);
    if (!s || prepare(c, s, c->ranks, &err, &spread) != FS_OK) {
        end_as(v, EQUAL_REFUSED, "%s", err.text);
        return;
    }
    if (prepare(c, equal_alone(g, arena), 1, &err, &alone) != FS_OK) {
        end_as(v, EQUAL_REFUSED, "one device: %s", err.text);
        return;
    }
    if (run_job(c, &alone, NULL, 1, &one) != FS_OK) {
        end_as(v, EQUAL_FAULT, "one device: %s", one.err.text);
        return;
    }
    note(v, EQUAL_HAS_buckets, has_buckets(spread.p));
    if (c->planted)
        plant(s, bound);
    if (run_job(c, &spread, world, c->ranks, &all) != FS_OK)
        end_as(v, EQUAL_FAULT, "%s", all.err.text);
    else if (!world || exec_world_rank(world) == 0)
        judge(c, &alone, g, &all, &one, v);
    if (v->end == EQUAL_SAME && !world && !c->planted && has_buckets(spread.p))
        try_bits(c, s, &spread, v);
}

void equal_try(const equal_case *c, exec_world *world, equal_verdict *out)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    *out = (equal_verdict){.end = EQUAL_SAME};
    ir_graph *g = equal_graph(c, &err, &out->features);
    note_case(c, out);
    if (g)
        try_graph(c, world, g, arena, out);
    else
        end_as(out, EQUAL_NO_GRAPH, "%s", err.text);
    if (g)
        ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* ---- apart ---- */

/* What the child says on stderr goes to the verdict, if it dies. */
static void read_death(int from, int status, equal_verdict *out)
{
    char said[400] = "";
    ssize_t n = read(from, said, sizeof said - 1);
    for (ssize_t i = 0; i < n; i++)
        said[i] = said[i] == '\n' ? ' ' : said[i];
    end_as(out, EQUAL_FAULT, "%s %d: %s",
           WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), said);
}

static void run_child(const equal_case *c, int verdict, int said)
{
    equal_verdict v;
    dup2(said, STDERR_FILENO);
    alarm(120);
    equal_try(c, NULL, &v);
    _exit(write(verdict, &v, sizeof v) == (ssize_t)sizeof v ? 0 : 4);
}

void equal_try_apart(const equal_case *c, equal_verdict *out)
{
    int verdict[2], said[2], status = 0;
    *out = (equal_verdict){0};
    if (pipe2(verdict, O_CLOEXEC) != 0 || pipe2(said, O_CLOEXEC) != 0)
        abort();
    fcntl(said[0], F_SETFL, O_NONBLOCK);
    fcntl(said[1], F_SETFL, O_NONBLOCK);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        run_child(c, verdict[1], said[1]);
    close(verdict[1]);
    const ssize_t n = read(verdict[0], out, sizeof *out);
    waitpid(child, &status, 0);
    if (n != (ssize_t)sizeof *out)
        read_death(said[0], status, out);
    close(verdict[0]);
    close(said[0]);
    close(said[1]);
}
