/* `sim --mtbf HOURS`: what failures and checkpoints leave of the time. */
#include "config.h"
#include "cli/simulate.h"

#include "base/clock.h"
#include "plan/memory.h"
#include "report/report.h"
#include "sim/goodput.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MOST_HOURS 1e9
#define MOST_SECONDS 1e9

/* ---- what was said ---- */

static fs_status read_every(cli *c, int64_t *steps)
{
    const char *said = c->args.checkpoint_every;
    char *end;
    *steps = 0;
    if (!said || strcmp(said, "auto") == 0)
        return FS_OK;
    errno = 0;
    const long long n = strtoll(said, &end, 10);
    if (errno || end == said || *end || n < 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--checkpoint-every wants a number of steps, 1 or more, "
                       "or auto, not '%s'",
                       said);
    *steps = n;
    return FS_OK;
}

static fs_status check_range(cli *c, const char *flag, double value,
                             double most)
{
    if (isnan(value) || value <= most)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID, "--%s %g: at most %g is taken", flag,
                   value, most);
}

/* What is of no use without another is refused. */
static fs_status check_alone(cli *c)
{
    const cli_args *a = &c->args;
    const char *said = a->checkpoint_every       ? "checkpoint-every"
                       : !isnan(a->checkpoint_s) ? "checkpoint-s"
                       : a->storage              ? "storage"
                       : !isnan(a->restart_s)    ? "restart-s"
                                                 : NULL;
    if (!said)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--%s is of failures: it wants --mtbf HOURS too", said);
}

fs_status cli_check_goodput(cli *c)
{
    const cli_args *a = &c->args;
    int64_t bytes, steps;
    fs_err unheard = {0};
    if (isnan(a->mtbf))
        return check_alone(c);
    if (a->mtbf <= 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--mtbf %g: more than 0 hours are wanted, between two "
                       "failures of a device",
                       a->mtbf);
    FS_TRY(check_range(c, "mtbf", a->mtbf, MOST_HOURS));
    FS_TRY(check_range(c, "checkpoint-s", a->checkpoint_s, MOST_SECONDS));
    FS_TRY(check_range(c, "restart-s", a->restart_s, MOST_SECONDS));
    if (isnan(a->checkpoint_s) == !a->storage)
        return fs_fail(&c->err, FS_INVALID,
                       "--mtbf wants --checkpoint-s S, or --storage BYTES that "
                       "a node writes per second%s",
                       a->storage ? ", not both" : "");
    FS_TRY(read_every(c, &steps));
    if (!a->storage)
        return FS_OK;
    if (cli_parse_bytes(a->storage, &unheard, &bytes) == FS_OK)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--storage wants bytes a second that a node writes, as 2G, "
                   "not '%s'",
                   a->storage);
}

/* ---- what is written ---- */

/* Parameters and states of a rank. */
static int64_t kept_bytes(const ir_graph *graph, const plan_role *role)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (r->persistent &&
            plan_memory_kind(graph, role, r) != PLAN_BYTES_CONST)
            bytes += r->count * r->bytes;
    }
    return bytes;
}

/* The most that a node has to write. */
static int64_t node_bytes(cli *c, const cli_plan *p)
{
    int64_t *nodes = fs_new(c->arena, int64_t, p->cluster->n_nodes), most = 0;
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        const int64_t bytes = kept_bytes(p->model.graph, role);
        for (int32_t i = 0; i < role->n_ranks; i++)
            nodes[hw_node_of(p->cluster, role->first_rank + i)] += bytes;
    }
    for (int32_t n = 0; n < p->cluster->n_nodes; n++)
        most = nodes[n] > most ? nodes[n] : most;
    return most;
}

static int32_t n_ranks(const plan *p)
{
    int32_t n = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        n += p->roles[r].n_ranks;
    return n;
}

/* ---- telling ---- */

/* Hours and days too. */
static const char *time_text(char out[32], double seconds)
{
    const double hours = seconds / 3600;
    if (hours < 2)
        return fs_human_seconds(out, seconds);
    snprintf(out, 32, hours < 48 ? "%.3g h" : "%.3g d",
             hours < 48 ? hours : hours / 24);
    return out;
}

typedef struct row {
    const char *name;
    double steps; /* NAN: not a whole number */
    double interval_s;
} row;
enum { ROWS = 4 };

static void tell_table(cli *c, const sim_failures *f, const row rows[ROWS])
{
    static const char *const header[] = {"checkpoint", "steps",  "every",
                                         "useful",     "writes", "rework",
                                         "restarts"};
    report_table t = {.arena = c->arena, .n_columns = 7, .header = header};
    for (int i = 0; i < ROWS; i++) {
        const sim_goodput g = sim_goodput_of(f, rows[i].interval_s);
        const double shares[] = {g.useful, g.checkpoint, g.rework, g.restart};
        char text[32];
        report_table_cell(&t, "%s", rows[i].name);
        if (isnan(rows[i].steps))
            report_table_cell(&t, "-");
        else
            report_table_cell(&t, "%.0f", rows[i].steps);
        report_table_cell(&t, "%s", time_text(text, rows[i].interval_s));
        for (int k = 0; k < 4; k++)
            report_table_cell(&t, "%.3f %%", 100 * shares[k]);
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
}

static json_t *row_json(const sim_failures *f, const row *r)
{
    const sim_goodput g = sim_goodput_of(f, r->interval_s);
    json_t *out =
        json_pack("{s:f, s:f, s:f, s:f, s:f}", "interval_s", r->interval_s,
                  "goodput", g.useful, "checkpoint", g.checkpoint, "rework",
                  g.rework, "restart", g.restart);
    if (!isnan(r->steps))
        json_object_set_new(out, "steps", json_integer((json_int_t)r->steps));
    return out;
}

static json_t *goodput_json(const sim_failures *f, const row rows[ROWS],
                            int64_t bytes, double samples_per_s)
{
    json_t *out = row_json(f, &rows[0]);
    fs_json_set_real(out, "mtbf_s", f->mtbf_s);
    fs_json_set_real(out, "failures_per_day", 86400 / f->mtbf_s);
    fs_json_set_real(out, "checkpoint_s", f->checkpoint_s);
    fs_json_set_real(out, "restart_s", f->restart_s);
    fs_json_set_int(out, "checkpoint_bytes_per_node", bytes);
    fs_json_set_real(out, "samples_per_s", samples_per_s);
    json_object_set_new(out, "best", row_json(f, &rows[1]));
    json_object_set_new(out, "young", row_json(f, &rows[2]));
    json_object_set_new(out, "daly", row_json(f, &rows[3]));
    return out;
}

static sim_failures failures_of(cli *c, const cli_plan *p, int64_t bytes)
{
    const cli_args *a = &c->args;
    sim_failures f = {.mtbf_s = a->mtbf * 3600 / n_ranks(p->plan),
                      .checkpoint_s = a->checkpoint_s};
    int64_t rate = 1;
    if (a->storage) {
        cli_parse_bytes(a->storage, &c->err, &rate);
        f.checkpoint_s = (double)bytes / (double)rate;
    }
    f.restart_s = isnan(a->restart_s) ? f.checkpoint_s : a->restart_s;
    return f;
}

/* Young's interval may be shorter than a step, or 0. */
static row formula(const char *name, double interval_s, double step_s)
{
    return (row){name, NAN, interval_s > 0 ? interval_s : step_s};
}

void cli_tell_goodput(cli *c, const cli_plan *p, double step_s)
{
    if (isnan(c->args.mtbf) || step_s <= 0)
        return;
    const int64_t bytes = node_bytes(c, p);
    const sim_failures f = failures_of(c, p, bytes);
    const double best = sim_interval_steps(&f, step_s);
    int64_t said;
    read_every(c, &said);
    const double steps = said ? (double)said : best;
    const row rows[ROWS] = {
        {said ? "as said" : "auto", steps, steps * step_s},
        {"best", best, best * step_s},
        formula("Young 1974", sim_interval_young(&f), step_s),
        formula("Daly 2006", sim_interval_daly(&f), step_s)};
    const sim_goodput g = sim_goodput_of(&f, steps * step_s);
    const double samples_per_s =
        g.useful * cli_rates_of(p, step_s).samples_per_s;
    char a[32], b[32], d[32], e[32];
    json_object_set_new(c->result, "goodput",
                        goodput_json(&f, rows, bytes, samples_per_s));
    cli_figure(c, "goodput", g.useful, "");
    cli_say(c,
            "failures        one in %s (%d devices); a checkpoint takes %s "
            "(%s per node), a restart %s\n",
            time_text(a, f.mtbf_s), n_ranks(p->plan),
            fs_human_seconds(b, f.checkpoint_s),
            fs_human_bytes(d, (double)bytes), fs_human_seconds(e, f.restart_s));
    cli_say(c,
            "goodput         %.2f %% of the time: %.4g samples/s; lost to "
            "checkpoints %.2f %%, rework %.2f %%, restarts %.2f %%\n",
            100 * g.useful, samples_per_s, 100 * g.checkpoint, 100 * g.rework,
            100 * g.restart);
    tell_table(c, &f, rows);
}
