#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/guard.h"
#include "cli/ranks.h"
#include "exec/exec.h"
#include "exec/recorder.h"
#include "exec/weights.h"
#include "onnx/export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct command {
    const char *name;
    fs_status (*run)(cli *c);
} command;

static const command commands[] = {
#define CLI_COMMAND(name, ...) {#name, cli_cmd_##name},
#include "cli/commands.def"
#undef CLI_COMMAND
};

void cli_say(const cli *c, const char *format, ...)
{
    if (c->args.json || c->quiet)
        return;
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
}

static const command *find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* FS_DATA, else where `make install` put it, else beside the build tree, so
 * that the program works before it is installed. */
static const char *find_data_dir(fs_arena *arena)
{
    const char *said = getenv("FS_DATA");
    if (said && said[0])
        return said;
    if (access(FS_DATA_DIR "/clusters", R_OK) == 0)
        return FS_DATA_DIR;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return FS_DATA_DIR;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    static const char *const near[] = {"datasets", "../datasets"};
    for (int i = 0; i < 2; i++) {
        char *dir = fs_printf(arena, "%s/%s", self, near[i]);
        if (access(dir, R_OK) == 0)
            return dir;
    }
    return FS_DATA_DIR;
}

static const char *join_words(fs_arena *arena, int argc, char **argv)
{
    fs_text text = {.arena = arena};
    fs_text_add(&text, "flowsearch");
    for (int i = 1; i < argc; i++)
        fs_text_add(&text, strpbrk(argv[i], " '\"") ? " '%s'" : " %s", argv[i]);
    return text.at;
}

/* ---- the run's row ---- */

const char *cli_db_path(const cli *c)
{
    return c->args.db ? c->args.db : "flowsearch.db";
}

static fs_status would_destroy(cli *c, const char *output, const char *input,
                               const char *what)
{
    return fs_fail(&c->err, FS_INVALID,
                   "%s is %s of this command (%s): writing there would "
                   "destroy it",
                   output, what, input);
}

static fs_status check_output(cli *c, const char *output, const char *input,
                              const char *what)
{
    return output && input && fs_same_file(output, input)
               ? would_destroy(c, output, input, what)
               : FS_OK;
}

/* Of weights and checkpoints, which may be folders: one of their files. */
static fs_status check_kept(cli *c, const char *output, const char *input,
                            const char *what)
{
    return input && exec_weights_reads(input, output, c->arena)
               ? would_destroy(c, output, input, what)
               : FS_OK;
}

enum { MOST_OUTPUTS = 16 };

/* Every file that the command is to write, and the folder of pictures. */
static int list_outputs(const cli *c, const char *outputs[MOST_OUTPUTS])
{
    const cli_args *a = &c->args;
    int n = 0;
    if (a->output)
        outputs[n++] = a->output;
    if (a->output && strcmp(c->command, "export") == 0)
        outputs[n++] = onnx_side_file(c->arena, a->output);
    if (a->trace)
        outputs[n++] = a->trace;
    if (a->scalars)
        outputs[n++] = a->scalars;
    if (a->residuals)
        outputs[n++] = a->residuals;
    if (a->by_op)
        outputs[n++] = a->by_op;
    if (a->pareto && a->pareto[0])
        outputs[n++] = a->pareto;
    if (!a->pictures)
        return n;
    outputs[n++] = a->pictures;
    const char *picture;
    for (int i = 0; (picture = cli_picture_file(c, i)) != NULL; i++) {
        FS_ASSERT(n < MOST_OUTPUTS);
        outputs[n++] = picture;
    }
    return n;
}

/* The later one would be written over the earlier one. */
static fs_status check_apart(cli *c, const char *const *outputs, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (fs_same_file(outputs[i], outputs[k]))
                return fs_fail(&c->err, FS_INVALID,
                               "%s and %s are one file: of two outputs of "
                               "this command one would destroy the other",
                               outputs[i], outputs[k]);
    return FS_OK;
}

fs_status cli_check_output(cli *c, const char *output, const char *model,
                           const char *cluster)
{
    const cli_args *a = &c->args;
    const char *db = cli_db_path(c), *data;
    const char *const inputs[][2] = {{model, "the model"},
                                     {cluster, "the cluster"},
                                     {a->cluster, "the cluster"},
                                     {a->hostfile, "the hostfile"}};
    for (int k = 0; k < a->n_operands; k++)
        FS_TRY(check_output(c, output, a->operands[k], "an input"));
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
        FS_TRY(check_output(c, output, inputs[k][0], inputs[k][1]));
    for (int k = 0; (data = cli_run_data_file(c, k)) != NULL; k++)
        FS_TRY(check_output(c, output, data, "the data"));
    FS_TRY(check_kept(c, output, a->weights, "a file of the weights"));
    FS_TRY(check_kept(c, output, a->checkpoint, "a file of the checkpoints"));
    return strcmp(db, "none") ? check_output(c, output, db, "the database")
                              : FS_OK;
}

fs_status cli_check_outputs(cli *c, const char *model, const char *cluster)
{
    const char *outputs[MOST_OUTPUTS];
    int n = list_outputs(c, outputs);
    for (int i = 0; i < n; i++)
        FS_TRY(cli_check_output(c, outputs[i], model, cluster));
    return check_apart(c, outputs, n);
}

/* Names of the files that outputs are until they are whole (base/file.h). */
static void list_unfinished(cli *c)
{
    const char *outputs[MOST_OUTPUTS];
    int n = list_outputs(c, outputs), kept = 0;
    const char **names = fs_new(c->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        char place[FS_PATH_MAX], temporary[FS_PATH_MAX];
        fs_err ignored = {0};
        if (fs_write_temporary(outputs[i], &ignored, place, temporary) == FS_OK)
            names[kept++] = fs_strdup(c->arena, temporary);
    }
    names[kept] = NULL;
    c->unfinished = names;
}

static fs_status begin_row(cli *c, const store_run *run)
{
    if (!c->db)
        FS_TRY(store_open(cli_db_path(c), &c->err, &c->db));
    if (store_run_begin(c->db, run, &c->err, &c->run) == FS_OK)
        return FS_OK;
    store_discard(c->db);
    c->db = NULL;
    c->run = 0;
    return c->err.status;
}

fs_status cli_begin(cli *c, const char *model, const char *cluster)
{
    FS_TRY(cli_check_outputs(c, model, cluster));
    if (strcmp(cli_db_path(c), "none") == 0 || c->quiet)
        return FS_OK;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    store_run run = {
        .command = c->command,
        .command_line = c->command_line,
        .version = PACKAGE_VERSION,
        .host = host,
        .model = model,
        .cluster = cluster,
        .seed = c->args.seed < 0 ? 0 : (uint64_t)c->args.seed,
    };
    cli_guard_stop(c);
    fs_status status = begin_row(c, &run);
    cli_guard_start(c);
    return status;
}

fs_status cli_digests(cli *c, uint64_t model, uint64_t cluster,
                      uint64_t plan_digest)
{
    if (!c->run)
        return FS_OK;
    return store_run_plan(c->db, c->run, model, cluster, plan_digest, &c->err);
}

bool cli_keeps(const cli *c)
{
    return c->run && c->late.status == FS_OK;
}

void cli_figure(cli *c, const char *name, double value, const char *unit)
{
    if (cli_keeps(c))
        store_figure(c->db, c->run, name, value, unit, &c->late);
}

static void end_row(cli *c, fs_status status, const char *message)
{
    if (!c->run)
        return;
    char *text = json_dumps(c->result, JSON_COMPACT | JSON_REAL_PRECISION(17));
    store_run_end(c->db, c->run, status, text, message, &c->late);
    free(text);
}

/* An answer stands, but is not kept as it should be: that is a fault. Of a
 * command that found none, its own message says enough. */
static fs_status add_late(cli *c, fs_status status)
{
    if (c->late.status == FS_OK || status > FS_NO)
        return status;
    if (!json_object_get(c->result, "fault"))
        fs_err_prefix(&c->late, "found, but not kept");
    json_object_set_new(c->result, "fault",
                        json_string(exec_fault_word(EXEC_DATABASE)));
    json_object_set_new(c->result, "fault_text", json_string(c->late.text));
    return FS_FAULT;
}

/* The end of what went to stdout: a full disk there is a fault. What a buffer
 * could not be rid of earlier fails again here, and says why. A reader that has
 * left (head) knows. */
static fs_status end_output(fs_status status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return FS_FAULT;
    fs_warn("standard output: %s",
            errno ? strerror(errno) : "not all of it was written");
    return FS_FAULT;
}

/* The last word on a command: its row, its JSON object, its messages. Returns
 * the status that it ends with. */
static fs_status finish(cli *c, fs_status status)
{
    const char *message =
        status == FS_OK || !c->err.text[0] ? NULL : c->err.text;
    const char *late = status > FS_NO ? "" : c->late.text;
    cli_guard_stop(c);
    status = add_late(c, status);
    end_row(c, status, message || !late[0] ? message : late);
    status = add_late(c, status);
    cli_mark_status(status);
    fs_scratch_remove(c->scratch);
    if (message && !c->mute)
        fs_warn("%s", message);
    if (late[0] && !c->mute)
        fs_warn("%s", late);
    if (c->args.json && !c->quiet && status != FS_INVALID) {
        json_dumpf(c->result, stdout, FS_JSON_FORMAT);
        putchar('\n');
    }
    store_close(c->db);
    json_decref(c->result);
    fs_arena_destroy(c->arena);
    status = end_output(status);
    exec_world_close(c->world);
    return status;
}

static bool asks_usage(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
           strcmp(word, "help") == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || asks_usage(argv[1])) {
        cli_usage(argc < 2 ? stderr : stdout);
        return end_output(argc < 2 ? FS_INVALID : FS_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("flowsearch " PACKAGE_VERSION);
        return end_output(FS_OK);
    }
    const command *chosen = find(argv[1]);
    bool mute = exec_launched_rank() != 0; /* one rank of a job speaks */
    if (!chosen) {
        if (!mute)
            fs_warn("unknown command '%s' (see flowsearch --help)", argv[1]);
        return FS_INVALID;
    }
    cli c = {.program = argv[0],
             .command = chosen->name,
             .mute = mute,
             .scratch = ""};
    cli_guard_memory(&c);
    ir_tables tables = ir_tables_in(fs_arena_create());
    c.arena = fs_arena_create();
    c.tables = &tables;
    c.result = json_object();
    c.command_line = join_words(c.arena, argc, argv);
    c.data_dir = find_data_dir(c.arena);
    cli_guard_files();
    bool help = false;
    fs_status status = cli_parse(&c, argc - 2, argv + 2, &help);
    list_unfinished(&c);
    /* Before MPI, whose threads would take the signals. Ranks that this program
     * started leave interrupts to their parent, those of a user's mpirun to
     * rank 0. */
    cli_mark_alive();
    if (!getenv("FS_RANKS_OF") && !mute)
        cli_guard_start(&c);
    if (status == FS_OK && help)
        cli_help(&c, stdout);
    else if (status == FS_OK)
        status = chosen->run(&c);
    c.args.json = c.args.json && !help;
    const int code = finish(&c, status);
    fs_arena_destroy(tables.arena);
    return code;
}
