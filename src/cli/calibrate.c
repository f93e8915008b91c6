#include "config.h"
#include "cli/calibrate.h"

#include "base/hash.h"
#include "cli/guard.h"
#include "cli/make_plan.h"
#include "cli/ranks.h"
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 64 }; /* of the pass that outnumbers the cores */

cli_machine cli_machine_of(cli *c, const hw_cluster *probed)
{
    cli_machine m;
    m.facts = fs_printf(c->arena, "%s, %s, flowsearch %s",
                        hw_host_facts(probed, c->arena),
                        exec_versions(c->arena), PACKAGE_VERSION);
    m.digest = fs_hash_text(0, m.facts);
    fs_hex(m.digest, m.fingerprint);
    return m;
}

/* ---- on a rank ---- */

typedef FS_VEC(exec_probe_piece) piece_list;

/* What its tasks compute, on the largest piece of each. */
static void list_pieces(cli *c, const cli_plan *p, piece_list *out)
{
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        const plan_stage *stage =
            &p->plan->strategy->stages[role->stages[0]];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const plan_task *task = &role->tasks[t];
            if (task->kind != PLAN_COMPUTE)
                continue;
            const exec_probe_piece piece = {
                p->model.graph, task->node,
                p->plan->strategy->sig[task->node], stage->mesh};
            fs_push(c->arena, out, piece);
        }
    }
}

typedef struct keeping {
    store_db *db;
    uint64_t machine;
    fs_arena *arena;
} keeping;

static fs_status keep_samples(void *ctx, const hw_sample *samples, int32_t n,
                              fs_err *err)
{
    const keeping *k = ctx;
    store_sample *rows = fs_new(k->arena, store_sample, n);
    for (int32_t i = 0; i < n; i++)
        rows[i] = (store_sample){samples[i].what,  samples[i].form,
                                 samples[i].pass,  samples[i].count,
                                 samples[i].work,  samples[i].seconds};
    return store_samples(k->db, k->machine, rows, n, err);
}

static fs_status read_known(cli *c, keeping *k, exec_probe_options *options)
{
    store_sample *rows;
    FS_TRY(store_samples_read(k->db, k->machine, c->arena, &c->err, &rows,
                              &options->n_known));
    hw_sample *known = fs_new(c->arena, hw_sample, options->n_known + 1);
    for (int32_t i = 0; i < options->n_known; i++)
        known[i] = (hw_sample){rows[i].what, rows[i].form,    rows[i].work,
                               rows[i].pass, rows[i].seconds, rows[i].count};
    options->known = known;
    options->found = keep_samples;
    options->ctx = k;
    return FS_OK;
}

/* The first pass makes the file, those behind it add to it. */
static fs_status measure(cli *c, const exec_probe_options *options,
                         const cli_machine *machine, hw_cluster *now)
{
    const char *file = c->args.output;
    hw_cluster *cluster = now;
    if (!file)
        return fs_fail(&c->err, FS_INVALID, "a rank measures into -o FILE");
    if (exec_world_size(c->world) > now->groups[0].cores_per_node)
        FS_TRY(
            hw_cluster_open(file, c->data_dir, c->arena, &c->err, &cluster));
    FS_TRY(exec_probe(c->world, options, cluster, c->arena, &c->err));
    cluster->machine = fs_strdup(c->arena, machine->fingerprint);
    hw_cluster_finish(cluster);
    if (exec_world_rank(c->world) != 0)
        return FS_OK;
    return hw_cluster_save(cluster, file, &c->err);
}

static fs_status measure_plans(cli *c)
{
    const bool keeps = c->args.db && strcmp(c->args.db, "none") != 0;
    const int64_t passes = c->args.passes;
    exec_probe_options options = {
        .passes = passes > 0 ? (int32_t)passes : CLI_PASSES};
    piece_list pieces = {0};
    hw_cluster *now;
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &now));
    const cli_machine machine = cli_machine_of(c, now);
    keeping k = {.machine = machine.digest, .arena = c->arena};
    cli_plan *plans = fs_new(c->arena, cli_plan, c->args.n_operands + 1);
    fs_status status = FS_OK;
    for (int i = 1; status == FS_OK && i < c->args.n_operands; i++) {
        status = cli_plan_open(c, c->args.operands[i], &plans[i]);
        if (status == FS_OK)
            list_pieces(c, &plans[i], &pieces);
    }
    options.n_pieces = pieces.n;
    options.pieces = pieces.at;
    if (status == FS_OK && keeps)
        status = store_open(c->args.db, &c->err, &k.db);
    if (status == FS_OK && keeps)
        status = read_known(c, &k, &options);
    if (status == FS_OK)
        status = measure(c, &options, &machine, now);
    store_close(k.db);
    for (int i = 1; i < c->args.n_operands; i++)
        cli_plan_close(&plans[i]);
    return status;
}

fs_status cli_probe_as_rank(cli *c)
{
    FS_TRY(exec_world_open(&c->err, &c->world));
    c->quiet = true;
    return exec_world_agree(c->world, measure_plans(c), &c->err);
}

/* ---- starting them ---- */

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

static fs_status note_machine(cli *c, const cli_machine *m, const char *host)
{
    if (!c->db)
        return FS_OK;
    return store_machine(c->db, m->digest, host, m->facts, &c->err);
}

fs_status cli_probe(cli *c, int32_t passes, const char *const *plans,
                    hw_cluster **out)
{
    const char *file;
    hw_cluster *now;
    FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &now));
    const cli_machine machine = cli_machine_of(c, now);
    FS_TRY(note_machine(c, &machine, now->host));
    FS_TRY(cli_scratch_file(c, "probe.json", &file));
    fs_progress("measuring this machine (%d passes)", passes);
    const char *const *words = words_of(c, file, passes, plans);
    const int32_t cores = now->groups[0].cores_per_node;
    fs_status status =
        cli_start_ranks(c, cores < MOST_RANKS ? cores : MOST_RANKS, words);
    if (status == FS_OK && 2 * cores <= MOST_RANKS)
        status = cli_start_ranks(c, 2 * cores, words);
    fs_progress("%s", "");
    if (status == FS_OK)
        status = hw_cluster_open(file, c->data_dir, c->arena, &c->err, out);
    return status;
}

/* ---- plans of a network ---- */

static bool tries(const search_recipe *r, int32_t ranks, int64_t batch)
{
    return r->dp * r->tp * r->pp == ranks &&
           batch % ((int64_t)r->dp * r->micro_batches) == 0 &&
           (r->pp == 1 || r->micro_batches >= r->pp) &&
           (r->pp > 1 || r->micro_batches <= 2) &&
           (r->zero == 0 || r->dp > 1);
}

typedef FS_VEC(const char *) file_list;

/* A recipe that the network cannot have is none of ours. */
static fs_status add_plan(cli *c, const plan_origin *origin,
                          const search_recipe *recipe, hw_cluster *cluster,
                          file_list *out)
{
    const char *file;
    FS_TRY(cli_scratch_file(c, fs_printf(c->arena, "plan%d.json", out->n),
                            &file));
    const fs_status status =
        cli_plan_by_hand(c, origin, recipe, cluster, file);
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
            for (int32_t pp = 1; pp <= ranks; pp++)
                for (int32_t m = 1; m <= MOST_MICRO_BATCHES; m *= 2)
                    for (int32_t zero = 0; zero <= 3; zero++) {
                        search_recipe r = search_recipe_free();
                        r.dp = dp;
                        r.tp = tp;
                        r.pp = pp;
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
