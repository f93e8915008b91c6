/* Before a run on several hosts: what its ranks find there. */
#include "config.h"
#include "cli/hosts.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/guard.h"
#include "cli/ranks.h"
#include "exec/exec.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a rank found, as ranks sum it up: all zero but its own. */
typedef struct finding {
    char host[64], version[32], mpi[64], cause[512];
    int64_t status, cores, data, digest;
} finding;
_Static_assert(sizeof(finding) % sizeof(int64_t) == 0, "summed as integers");

/* ---- in a rank ---- */

bool cli_hosts_asked(void)
{
    return getenv("FS_CHECK") != NULL;
}

static bool has_data(const cli *c)
{
    const char *file;
    if (strcmp(c->args.data, "synthetic") == 0)
        return true;
    for (int k = 0; (file = cli_run_data_file(c, k)) != NULL; k++)
        if (access(file, R_OK) != 0)
            return false;
    return true;
}

static json_t *finding_json(const finding *f)
{
    char hex[17];
    fs_hex((uint64_t)f->digest, hex);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b}", "host",
                     f->host, "version", f->version, "mpi", f->mpi, "cause",
                     f->cause, "plan", hex, "status", (json_int_t)f->status,
                     "cores", (json_int_t)f->cores, "data", (int)f->data);
}

fs_status cli_hosts_answer(cli *c, const cli_plan *p, fs_status status)
{
    const int32_t n = exec_world_size(c->world), me = exec_world_rank(c->world);
    finding *all = fs_new(c->arena, finding, n);
    gethostname(all[me].host, sizeof all[me].host - 1);
    snprintf(all[me].version, sizeof all[me].version, "%s", PACKAGE_VERSION);
    exec_mpi_version(all[me].mpi, sizeof all[me].mpi);
    snprintf(all[me].cause, sizeof all[me].cause, "%.500s",
             status == FS_OK ? "" : c->err.text);
    all[me].status = status;
    all[me].cores = exec_world_cores(c->world);
    all[me].data = has_data(c);
    all[me].digest = p->plan ? (int64_t)p->plan->digest : 0;
    exec_world_sum(c->world, (int64_t *)all,
                   n * (int64_t)(sizeof *all / sizeof(int64_t)));
    c->err = (fs_err){0};
    if (me != 0)
        return FS_OK;
    json_t *list = json_array();
    for (int32_t r = 0; r < n; r++)
        json_array_append_new(list, finding_json(&all[r]));
    status = fs_json_save(list, getenv("FS_CHECK"), &c->err);
    json_decref(list);
    return status;
}

/* ---- in who asks ---- */

/* mpirun, whose words go into a file; its status, -1: it took too long. */
static int launch(cli *c, int32_t n, const char *const *words, const char *log)
{
    const double patience_s = 30;
    const struct timespec nap = {0, 50000000};
    const char **argv = cli_launch_words(c, n, words);
    const int64_t begin_ns = fs_now_ns();
    int raw = 0;
    const pid_t child = fork();
    if (child == 0) {
        const int to = open(log, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (to >= 0 && dup2(to, STDOUT_FILENO) >= 0)
            dup2(to, STDERR_FILENO);
        cli_guard_leave(c);
        cli_launch_environment(c);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &raw, WNOHANG) == 0) {
        if (1e-9 * (double)(fs_now_ns() - begin_ns) > patience_s) {
            kill(-child, SIGKILL);
            waitpid(child, &raw, 0);
            return -1;
        }
        nanosleep(&nap, NULL);
    }
    return child > 0 && WIFEXITED(raw) ? WEXITSTATUS(raw) : 127;
}

/* The first lines that say something, of what mpirun said. */
static const char *first_words(cli *c, const char *log)
{
    enum { MOST = 300 };
    char line[512];
    fs_text found = {.arena = c->arena};
    FILE *from = fopen(log, "r");
    fs_text_add(&found, "%s", "");
    while (from && fgets(line, sizeof line, from) && found.n < MOST) {
        line[strcspn(line, "\n")] = '\0';
        const bool says = line[strspn(line, " -*")] != '\0';
        if (!says && found.n > 0)
            break;
        if (says)
            fs_text_add(&found, "%s%s", found.n > 0 ? " " : "", line);
    }
    if (from)
        fclose(from);
    return found.n > 0 ? found.at : "mpirun did not say why";
}

/* Each host alone: which is the one that ranks do not start on? */
static fs_status find_unreached(cli *c, const char *log, const char *why)
{
    static const char *const words[] = {"--version", NULL};
    const cli_args said = c->args;
    fs_status status = FS_OK;
    const char *list = cli_hosts_names(c);
    if (cli_hosts_allocated(c))
        return fs_fail(&c->err, FS_FAULT,
                       "mpirun does not start ranks on the hosts of %s: %s",
                       cli_hosts_allocation_text(c), why);
    char *rest = fs_strdup(c->arena, list), *name;
    while (status == FS_OK && (name = strsep(&rest, ",")) != NULL && *name) {
        c->args.hosts = fs_printf(c->arena, "%s:1", name);
        c->args.hostfile = NULL;
        const int code = launch(c, 1, words, log);
        if (code != 0)
            status =
                fs_fail(&c->err, FS_FAULT, "host %s: not reached: %s", name,
                        code < 0 ? "no answer in 30 s" : first_words(c, log));
    }
    c->args = said;
    return status != FS_OK
               ? status
               : fs_fail(&c->err, FS_FAULT,
                         "each host is reached, but not all together: %s", why);
}

static const char *text_at(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* The first that is wrong with a rank's host. */
static fs_status judge(cli *c, const json_t *row, const char *digest)
{
    const char *host = text_at(row, "host"), *cause = text_at(row, "cause");
    char mpi[64];
    exec_mpi_version(mpi, sizeof mpi);
    if (strcmp(text_at(row, "version"), PACKAGE_VERSION) != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "host %s has flowsearch %s, this one %s", host,
                       text_at(row, "version"), PACKAGE_VERSION);
    if (strcmp(text_at(row, "mpi"), mpi) != 0)
        return fs_fail(&c->err, FS_INVALID, "host %s has %s, this one %s", host,
                       text_at(row, "mpi"), mpi);
    if (!*cause && strcmp(text_at(row, "plan"), digest) == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID, "host %s: %s", host,
                   *cause ? cause : "it has another plan");
}

/* A row per host, in the order of ranks. */
static fs_status tell(cli *c, const cli_plan *p, const json_t *ranks)
{
    static const char *const header[] = {
        "host", "ranks", "cores", "version", "Open MPI", "plan", "data"};
    report_table t = {.arena = c->arena, .n_columns = 7, .header = header};
    json_t *hosts = json_array();
    fs_status status = FS_OK;
    char digest[17];
    fs_hex(p->plan->digest, digest);
    const size_t n = json_array_size(ranks);
    for (size_t i = 0, k; i < n; i = k) {
        json_t *row = json_array_get(ranks, i);
        for (k = i; k < n && strcmp(text_at(json_array_get(ranks, k), "host"),
                                    text_at(row, "host")) == 0;
             k++)
            if (status == FS_OK)
                status = judge(c, json_array_get(ranks, k), digest);
        const bool same = strcmp(text_at(row, "plan"), digest) == 0;
        const bool data = json_is_true(json_object_get(row, "data"));
        const int cores =
            (int)json_integer_value(json_object_get(row, "cores"));
        report_table_cell(&t, "%s", text_at(row, "host"));
        report_table_cell(&t, "%d", (int)(k - i));
        report_table_cell(&t, "%d%s", cores,
                          (int)(k - i) > cores ? " (shared)" : "");
        report_table_cell(&t, "%s", text_at(row, "version"));
        report_table_cell(&t, "%s", text_at(row, "mpi"));
        report_table_cell(&t, "%s", same ? "same" : "OTHER");
        report_table_cell(&t, "%s", data ? "there" : "MISSING");
        json_object_set_new(row, "ranks", json_integer((json_int_t)(k - i)));
        json_object_set_new(row, "reached", json_true());
        json_array_append(hosts, row);
    }
    json_object_set_new(c->result, "hosts", hosts);
    if (!c->args.json)
        report_table_print(&t, stdout);
    return status;
}

fs_status cli_hosts_look(cli *c, const cli_plan *p, const char *const *words)
{
    const char *file, *log, **all;
    char digest[17];
    int n = 0;
    json_t *ranks;
    FS_TRY(cli_scratch_file(c, "hosts.json", &file));
    FS_TRY(cli_scratch_file(c, "hosts.log", &log));
    while (words[n])
        n++;
    all = fs_new(c->arena, const char *, n + 2);
    memcpy(all, words, (size_t)n * sizeof *all);
    all[n] = "--dry-run";
    fs_hex(p->plan->digest, digest);
    setenv("FS_PLAN", digest, 1);
    setenv("FS_CHECK", file, 1);
    const int code = launch(c, p->cluster->n_devices, all, log);
    unsetenv("FS_CHECK");
    if (code != 0 || access(file, R_OK) != 0)
        return find_unreached(
            c, log, code < 0 ? "no answer in 30 s" : first_words(c, log));
    FS_TRY(fs_json_load(file, &c->err, &ranks));
    const fs_status status = tell(c, p, ranks);
    json_decref(ranks);
    return status;
}
