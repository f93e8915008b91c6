#include "config.h"
#include "cli/calibrate.h"

#include "cli/data.h"
#include "cli/guard.h"
#include "cli/make_plan.h"
#include "cli/ranks.h"
#include "cli/tuning.h"
#include "exec/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_RANKS = 64 }; /* of the pass that outnumbers the cores */

static bool keeps(const cli *c)
{
    return c->args.db && strcmp(c->args.db, "none") != 0;
}

/* ---- on a rank: kernels, links ---- */

typedef struct keeping {
    store_db *db;
    uint64_t machine;
    fs_arena *arena;
    int32_t passes;
    const hw_cluster *measured; /* kernels alone, before steps of plans */
} keeping;

/* On all ranks or on none. */
static fs_status open_agreed(cli *c, const char *file, hw_cluster **out)
{
    return exec_world_agree(
        c->world, hw_cluster_open(file, c->data_dir, c->arena, &c->err, out),
        &c->err);
}

static fs_status keep_samples(void *ctx, const hw_sample *samples, int32_t n,
                              fs_err *err)
{
    const keeping *k = ctx;
    store_sample *rows = fs_new(k->arena, store_sample, n);
    for (int32_t i = 0; i < n; i++)
        rows[i] = (store_sample){.what = samples[i].what,
                                 .variant = samples[i].variant,
                                 .form = samples[i].form,
                                 .in_step = samples[i].in_step,
                                 .pass = samples[i].pass,
                                 .count = samples[i].count,
                                 .work = samples[i].work,
                                 .seconds = samples[i].seconds};
    return store_samples(k->db, k->machine, rows, n, err);
}

static fs_status read_samples(cli *c, store_db *db, uint64_t machine,
                              hw_sample **out, int32_t *n)
{
    store_sample *rows;
    FS_TRY(store_samples_read(db, machine, c->arena, &c->err, &rows, n));
    *out = fs_new(c->arena, hw_sample, *n + 1);
    for (int32_t i = 0; i < *n; i++)
        (*out)[i] = (hw_sample){.what = rows[i].what,
                                .variant = rows[i].variant,
                                .form = rows[i].form,
                                .work = rows[i].work,
                                .pass = rows[i].pass,
                                .in_step = rows[i].in_step,
                                .seconds = rows[i].seconds,
                                .count = rows[i].count};
    return FS_OK;
}

/* Ranks' stderr is no terminal, mpirun's may be: whoever starts them knows. */
#define SHOWS_PROGRESS "FS_SHOWS_PROGRESS"

static void show(const char *text)
{
    if (getenv(SHOWS_PROGRESS))
        fprintf(stderr, "\r\033[K%s", text);
}

static void tell_probe(void *ctx, int32_t pass, const char *what)
{
    const keeping *k = ctx;
    char text[80];
    snprintf(text, sizeof text, "measuring kernels, pass %d of %d: %s",
             pass + 1, k->passes, what);
    show(text);
}

/* The first pass makes the file, those behind it add to it. */
static fs_status measure_alone(cli *c, const exec_probe_options *options,
                               const cli_machine *machine, hw_cluster *now)
{
    const char *file = c->args.output;
    hw_cluster *cluster = now;
    if (exec_world_size(c->world) > now->groups[0].cores_per_node)
        FS_TRY(open_agreed(c, file, &cluster));
    FS_TRY(exec_probe(c->world, options, cluster, c->arena, &c->err));
    cluster->machine = machine->fingerprint;
    cluster->facts = machine->facts;
    hw_cluster_finish(cluster);
    if (exec_world_rank(c->world) != 0)
        return FS_OK;
    return hw_cluster_save(cluster, file, &c->err);
}

/* ---- on a rank: within steps of plans ---- */

/* Ranks of the kernels of plans, alone: they are not those that run the plans,
 * whose processes have nothing else in memory. */
#define ONLY_KERNELS "FS_KERNELS"

static bool only_kernels(void)
{
    return getenv(ONLY_KERNELS) != NULL;
}

/* What the tasks of a rank add up to in a step. */
static double own_seconds(const plan *p, const plan_timing *measured,
                          double firing_s)
{
    const plan_role *role = &p->roles[0];
    double sum = 0;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        const double times =
            plan_phase_once(task->phase) ? 1 : p->micro_batches;
        if (task->kind != PLAN_LOAD)
            sum += times * (measured->demand[0][t].total_s + firing_s);
    }
    return sum;
}

/* A step, and `work` as exec.h says of `what`. */
static hw_sample step_sample(cli *c, const cli_plan *p, const char *what,
                             double work, const exec_result *r, int32_t pass)
{
    return (hw_sample){
        .what = fs_printf(c->arena, "%s/%d", what, p->cluster->n_devices),
        .form = p->model.graph->digest,
        .work = work,
        .pass = pass,
        .in_step = true,
        .seconds = r->step_median_s,
        .count = 1};
}

/* Beside the arena, of the rank that has most. */
static double process_bytes(const cli_plan *p, const exec_result *r)
{
    double most = 0;
    for (int32_t k = 0; k < p->cluster->n_devices; k++)
        most = fmax(most, (double)(r->process_bytes[k] - r->touched_bytes[k]));
    return most;
}

/* Of all ranks alike, in one stage, each on a core of its own: what a step
 * takes longer than its tasks is waiting for each other. */
static bool tells_pace(const cli_plan *p)
{
    const hw_group *group = &p->cluster->groups[0];
    return p->plan->strategy->n_stages == 1 && p->cluster->n_devices > 1 &&
           hw_core_share(group, group->devices_per_node) <= 1;
}

static fs_status run_plan(cli *c, const cli_plan *p, int32_t pass,
                          const keeping *k)
{
    const hw_device *figures = &k->measured->groups[0].device;
    enum { STEPS = 6, WARM_UP = 2 };
    exec_data data = {0};
    exec_result result;
    ir_train_options room;
    const ir_train_options *tuning;
    FS_TRY(cli_tuning(c, &p->model.origin, &room, &tuning));
    FS_TRY(cli_data_open(&p->model, "synthetic", &(exec_data_options){0},
                         c->arena, &c->err, &data));
    const exec_options options = {.steps = STEPS,
                                  .kernels = "auto",
                                  .figures = figures,
                                  .tuning = tuning,
                                  .warmup = WARM_UP};
    fs_status status = exec_run(c->world, p->model.graph, p->cluster, p->plan,
                                &data, &options, c->arena, &c->err, &result);
    if (status == FS_OK && exec_world_rank(c->world) == 0) {
        hw_sample *samples;
        int32_t n;
        const exec_ran ran = {p->model.graph, p->plan, figures, result.measured,
                              pass};
        exec_list_samples(&ran, c->arena, &samples, &n);
        status = keep_samples((void *)k, samples, n, &c->err);
        /* A process that has run other plans has their remains too. */
        const bool alone = c->args.n_operands == 2;
        const hw_sample of_step =
            alone ? step_sample(c, p, HW_PROCESS, process_bytes(p, &result),
                                &result, pass)
                  : step_sample(c, p, HW_PACE,
                                own_seconds(p->plan, result.measured,
                                            p->cluster->groups[0].firing_s),
                                &result, pass);
        if (status == FS_OK && (alone || tells_pace(p)))
            status = keep_samples((void *)k, &of_step, 1, &c->err);
    }
    if (data.close)
        data.close(data.ctx);
    return status;
}

static fs_status open_plans(cli *c, cli_plan *plans)
{
    fs_status status = FS_OK;
    for (int i = 1; status == FS_OK && i < c->args.n_operands; i++)
        status = cli_plan_open(c, c->args.operands[i], &plans[i - 1]);
    return exec_world_agree(c->world, status, &c->err);
}

static void tell_plan(const cli *c, int32_t nth, int32_t round, int32_t rounds)
{
    char text[80];
    snprintf(text, sizeof text, "running plans, pass %d of %d: %d of %d", round,
             rounds, nth, c->args.n_operands - 1);
    if (exec_world_rank(c->world) == 0)
        show(text);
}

/* Rounds of all plans: what disturbs the machine for a while disturbs some of
 * each. */
static fs_status run_plans(cli *c, const cli_plan *plans, int32_t rounds,
                           int32_t pass, const keeping *k)
{
    fs_status status = FS_OK;
    for (int32_t round = 0; status == FS_OK && round < rounds; round++)
        for (int i = 0; status == FS_OK && i < c->args.n_operands - 1; i++) {
            tell_plan(c, i + 1, round + 1, rounds);
            status = exec_world_agree(
                c->world, run_plan(c, &plans[i], pass++, k), &c->err);
        }
    return status;
}

/* Kernels that plans have a choice of, for the ranks behind these. */
static fs_status measure_kernels(cli *c, const cli_plan *plans,
                                 exec_probe_options *options,
                                 const cli_machine *machine, hw_cluster *now)
{
    const int32_t n = c->args.n_operands - 1;
    exec_probe_plan *list = fs_new(c->arena, exec_probe_plan, n);
    for (int32_t i = 0; i < n; i++)
        list[i] = (exec_probe_plan){plans[i].model.graph, plans[i].plan};
    options->n_plans = n;
    options->plans = list;
    return measure_alone(c, options, machine, now);
}

static fs_status measure_plans(cli *c, exec_probe_options *options,
                               int32_t pass, const cli_machine *machine,
                               hw_cluster *now, keeping *k)
{
    const int n = c->args.n_operands - 1;
    cli_plan *plans = fs_new(c->arena, cli_plan, n);
    hw_cluster *measured;
    options->first_pass = pass;
    fs_status status = open_plans(c, plans);
    if (status == FS_OK && only_kernels())
        status = measure_kernels(c, plans, options, machine, now);
    else if (status == FS_OK)
        status = open_agreed(c, c->args.output, &measured);
    if (status == FS_OK && !only_kernels()) {
        k->measured = measured;
        status = run_plans(c, plans, options->passes, pass, k);
    }
    for (int i = 0; i < n; i++)
        cli_plan_close(&plans[i]);
    return status;
}

static fs_status look_here(cli *c, const cli_machine **machine,
                           hw_cluster **now)
{
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, now));
    return cli_machine_here(c, machine);
}

/* Rank 0 keeps what all measure, and says what need not be measured. */
static fs_status open_samples(cli *c, keeping *k, exec_probe_options *options,
                              int32_t *pass)
{
    hw_sample *known = NULL;
    if (!keeps(c) || exec_world_rank(c->world) != 0)
        return FS_OK;
    FS_TRY(store_open(c->args.db, &c->err, &k->db));
    options->found = keep_samples;
    if (c->args.n_operands > 1)
        FS_TRY(store_samples_passes(k->db, k->machine, &c->err, pass));
    FS_TRY(read_samples(c, k->db, k->machine, &known, &options->n_known));
    options->known = known;
    return FS_OK;
}

static fs_status measure(cli *c)
{
    const int64_t passes = c->args.passes;
    exec_probe_options options = {.passes = passes > 0 ? (int32_t)passes
                                                       : CLI_PASSES};
    const cli_machine *machine;
    hw_cluster *now;
    int32_t pass = 0;
    if (!c->args.output)
        return fs_fail(&c->err, FS_INVALID, "a rank measures into -o FILE");
    if (c->args.n_operands > 1 && !keeps(c))
        return fs_fail(&c->err, FS_INVALID,
                       "a rank that runs plans keeps what it measures in --db");
    FS_TRY(exec_world_agree(c->world, look_here(c, &machine, &now), &c->err));
    keeping k = {.machine = machine->digest,
                 .arena = c->arena,
                 .passes = options.passes};
    options.tell = tell_probe;
    options.ctx = &k;
    fs_status status = exec_world_agree(
        c->world, open_samples(c, &k, &options, &pass), &c->err);
    /* A rank that runs a plan has no more in memory than one of `run`. */
    if (status == FS_OK)
        status = c->args.n_operands > 1
                     ? measure_plans(c, &options, pass, machine, now, &k)
                     : measure_alone(c, &options, machine, now);
    store_close(k.db);
    return status;
}

fs_status cli_probe_as_rank(cli *c)
{
    FS_TRY(exec_world_open(&c->err, &c->world));
    c->quiet = true;
    return exec_world_agree(c->world, measure(c), &c->err);
}

/* ---- starting them ---- */

/* A name that the kernel gives to one process at a time, and takes back when it
 * ends, whatever ends it: nothing lies about that could be stale. */
fs_status cli_measure_alone(cli *c)
{
    struct stat file;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (!c->db || stat(cli_db_path(c), &file) != 0)
        return FS_OK;
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                           "flowsearch-calibrate-%llx-%llx",
                           (unsigned long long)file.st_dev,
                           (unsigned long long)file.st_ino);
    const int held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (held < 0 || bind(held, (struct sockaddr *)&name, length) == 0 ||
        errno != EADDRINUSE)
        return FS_OK; /* held until this process ends */
    close(held);
    return fs_fail(&c->err, FS_INVALID,
                   "%s: another calibrate is measuring into it: both would "
                   "measure a busy machine; wait until it has ended",
                   cli_db_path(c));
}

static const char *const *words_of(cli *c, const char *file, int32_t passes,
                                   const char *const *plans)
{
    int n = 0, extra = 0;
    while (plans && plans[extra])
        extra++;
    const char **words = fs_new(c->arena, const char *, 10 + extra);
    words[n++] = "calibrate";
    words[n++] = "local";
    words[n++] = "-o";
    words[n++] = file;
    words[n++] = "--passes";
    words[n++] = fs_printf(c->arena, "%d", passes);
    words[n++] = "--db";
    words[n++] = c->db ? cli_db_path(c) : "none";
    for (int i = 0; i < extra; i++)
        words[n++] = plans[i];
    return words;
}

/* Ranks that are started from here on show what they do, where somebody looks.
 */
static void announce(void)
{
    if (isatty(STDERR_FILENO))
        setenv(SHOWS_PROGRESS, "1", 1);
    else
        unsetenv(SHOWS_PROGRESS);
}

static fs_status note_machine(cli *c, const cli_machine *m)
{
    if (!c->db)
        return FS_OK;
    return store_machine(c->db, m->digest, m->host, m->facts, &c->err);
}

fs_status cli_probe(cli *c, int32_t passes, hw_cluster **out)
{
    const cli_machine *machine;
    const char *file;
    hw_cluster *now;
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &now));
    FS_TRY(cli_machine_here(c, &machine));
    FS_TRY(note_machine(c, machine));
    FS_TRY(cli_scratch_file(c, "probe.json", &file));
    announce();
    fs_progress("measuring this machine (%d passes)", passes);
    const char *const *words = words_of(c, file, passes, NULL);
    const int32_t cores = now->groups[0].cores_per_node;
    fs_status status = cli_start_ranks(
        c, cores < MOST_RANKS ? cores : MOST_RANKS, words, NULL);
    if (status == FS_OK && 2 * cores <= MOST_RANKS)
        status = cli_start_ranks(c, 2 * cores, words, NULL);
    fs_progress("%s", "");
    if (status == FS_OK)
        status = hw_cluster_open(file, c->data_dir, c->arena, &c->err, out);
    return status;
}

static fs_status start_kernels(cli *c, const char *const *words,
                               const hw_cluster *cluster)
{
    const int32_t cores = cluster->groups[0].cores_per_node;
    setenv(ONLY_KERNELS, "1", 1);
    const fs_status status = cli_start_ranks(
        c, cores < MOST_RANKS ? cores : MOST_RANKS, words, NULL);
    unsetenv(ONLY_KERNELS);
    return status;
}

fs_status cli_probe_plans(cli *c, int32_t passes, const char *const *plans,
                          int32_t ranks, hw_cluster *cluster)
{
    const char *const alone[] = {plans[0], NULL};
    const char *file;
    const cli_machine *machine;
    hw_sample *samples;
    int32_t n;
    FS_TRY(cli_machine_here(c, &machine));
    FS_TRY(cli_scratch_file(c, "probe.json", &file));
    announce();
    fs_progress("running plans to measure (%d passes)", passes);
    const char *const *words = words_of(c, file, passes, plans);
    fs_status status = start_kernels(c, words, cluster);
    if (status == FS_OK)
        status = cli_start_ranks(c, ranks, words, NULL);
    if (status == FS_OK && plans[1])
        status = cli_start_ranks(c, ranks, words_of(c, file, 1, alone), NULL);
    fs_progress("%s", "");
    FS_TRY(status);
    FS_TRY(read_samples(c, c->db, machine->digest, &samples, &n));
    exec_probe_take(samples, n, &cluster->groups[0], c->arena);
    hw_cluster_finish(cluster);
    return FS_OK;
}

/* ---- plans of a network ---- */

/* One of each way of cutting what an op computes: tensor parallel ranks, and
 * samples of a micro-batch on a rank; how states are shared, once. */
static bool tries(const search_recipe *r, int32_t ranks, int64_t batch)
{
    return r->dp * r->tp == ranks &&
           batch % ((int64_t)r->dp * r->micro_batches) == 0 &&
           r->zero != 2 && /* whose states lie as those of 1, the rest as 3's */
           (r->zero == 0 || (r->dp > 1 && r->micro_batches == 1));
}

typedef FS_VEC(const char *) file_list;

/* A recipe that the network cannot have is none of ours. */
static fs_status add_plan(cli *c, const plan_origin *origin,
                          const search_recipe *recipe, hw_cluster *cluster,
                          file_list *out)
{
    const char *file;
    FS_TRY(
        cli_scratch_file(c, fs_printf(c->arena, "plan%d.json", out->n), &file));
    const fs_status status = cli_plan_by_hand(c, origin, recipe, cluster, file);
    if (status == FS_OK)
        fs_push(c->arena, out, file);
    else if (status != FS_INVALID && status != FS_NO)
        return status;
    c->err = (fs_err){0};
    return FS_OK;
}

fs_status cli_usual_plans(cli *c, const char *model, hw_cluster *cluster,
                          const char *const **out)
{
    enum { MOST_MICRO_BATCHES = 8 };
    const int32_t ranks = cluster->n_devices;
    const plan_origin origin = cli_origin(c, model, "local");
    file_list files = {0};
    for (int32_t dp = 1; dp <= ranks; dp++)
        for (int32_t tp = 1; tp <= ranks; tp++)
            for (int32_t m = 1; m <= MOST_MICRO_BATCHES; m *= 2)
                for (int32_t zero = 0; zero <= 3; zero++) {
                    search_recipe r = search_recipe_free();
                    r.dp = dp;
                    r.tp = tp;
                    r.pp = 1;
                    r.micro_batches = m;
                    r.zero = zero;
                    if (!tries(&r, ranks, origin.batch))
                        continue;
                    fs_progress("plans to measure: %d", files.n + 1);
                    FS_TRY(add_plan(c, &origin, &r, cluster, &files));
                }
    fs_progress("%s", "");
    if (!files.n)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: no usual plan on %d ranks with --batch %lld to "
                       "measure",
                       model, ranks, (long long)origin.batch);
    fs_push(c->arena, &files, NULL);
    *out = files.at;
    return FS_OK;
}
