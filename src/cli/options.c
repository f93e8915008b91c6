#include "config.h"
#include "cli/cli.h"
#include "cli/collectives.h"

#include "base/file.h"
#include "cost/framework.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "search/planner.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum kind { FLAG, TEXT, SOME, MAYBE, COUNT, REAL, LIST } kind;

typedef struct option {
    const char *flag;
    kind kind;
    const char *argument, *commands, *help;
    size_t at;
} option;

static const option options[] = {
#define CLI_OPTION(field, flag, kind, argument, commands, help)                \
    {flag, kind, argument, commands, help, offsetof(cli_args, field)},
#include "cli/options.def"
#undef CLI_OPTION
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

typedef struct command {
    const char *name, *operands, *what;
} command;

static const command commands[] = {
#define CLI_COMMAND(name, operands, what) {#name, operands, what},
#include "cli/commands.def"
#undef CLI_COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static bool takes(const option *o, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strcmp(o->commands, "*") == 0 || strstr(o->commands, word);
}

void cli_usage(FILE *out)
{
    fputs("usage: flowsearch COMMAND ... (flowsearch COMMAND --help)\n\n"
          "Explores, predicts and runs parallel training plans.\n\n",
          out);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].what);
    fputs("\nMODEL    FILE.onnx, or zoo:NAME[,key=value...] "
          "(zoo:gpt2, zoo:resnet50;\n         `flowsearch model zoo:` lists "
          "them)\n"
          "CLUSTER  FILE.json, local, or NODESxDEVICES:NAME "
          "(1x8:h100-sxm5-80g)\n",
          out);
}

/* What --engine takes. */
static void print_ways(FILE *out)
{
    const search_way *way;
    fputs("\nEngines, then planners:\n", out);
    for (int32_t i = 0; (way = search_way_at(i)) != NULL; i++)
        fprintf(out, "  %-24s %s%s%s%s\n", way->name, way->what,
                way->source ? " (" : "", way->source ? way->source : "",
                way->source ? ")" : "");
}

/* What --framework takes: files of the data folder. */
static void print_frameworks(const cli *c, FILE *out)
{
    cost_frameworks all;
    fs_err err = {0};
    if (cost_frameworks_open(c->data_dir, c->arena, &err, &all) != FS_OK) {
        fprintf(out, "\nFrameworks: %s\n", err.text);
        return;
    }
    fprintf(out, "\nFrameworks%s\n",
            all.n ? ":" : ": there are none in the data folder");
    for (int32_t i = 0; i < all.n; i++)
        fprintf(out, "  %-24s %s\n", all.at[i].name, all.at[i].about);
}

void cli_help(const cli *c, FILE *out)
{
    const char *name = c->command;
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            fprintf(out, "usage: flowsearch %s %s [OPTIONS]\n%s\n\n", name,
                    commands[i].operands, commands[i].what);
    for (int i = 0; i < N_OPTIONS; i++) {
        const option *o = &options[i];
        if (!takes(o, name))
            continue;
        char left[64];
        snprintf(left, sizeof left,
                 o->kind == SOME    ? "--%s[=%s]"
                 : o->kind == MAYBE ? "--%s [%s]"
                 : o->argument[0]   ? "--%s %s"
                                    : "--%s%s",
                 o->flag, o->argument);
        fprintf(out, "  %-24s %s%s\n", left, o->help,
                o->kind == LIST ? "; may be repeated" : "");
    }
    if (strcmp(name, "search") == 0)
        print_ways(out);
    if (strcmp(name, "sim") == 0)
        print_frameworks(c, out);
}

static fs_status set_count(const option *o, const char *value, int64_t *at,
                           fs_err *err)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno == ERANGE && end != value && !*end && number > 0)
        return fs_fail(err, FS_INVALID, "--%s %s: %lld is the most", o->flag,
                       value, LLONG_MAX);
    if (errno || end == value || *end || number < 0)
        return fs_fail(err, FS_INVALID, "--%s wants a whole number, not '%s'",
                       o->flag, value);
    *at = number;
    return FS_OK;
}

static fs_status set_real(const option *o, const char *value, double *at,
                          fs_err *err)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !isfinite(number))
        return fs_fail(err, FS_INVALID, "--%s wants a number, not '%s'",
                       o->flag, value);
    if (number < 0)
        return fs_fail(err, FS_INVALID, "--%s %s is below 0", o->flag, value);
    *at = number;
    return FS_OK;
}

fs_status cli_env_seconds(const char *name, double usual, fs_err *err,
                          double *out)
{
    const char *said = getenv(name);
    char *end;
    *out = usual;
    if (!said || !*said)
        return FS_OK;
    const double seconds = strtod(said, &end);
    if (*end || !isfinite(seconds) || seconds <= 0)
        return fs_fail(err, FS_INVALID,
                       "%s wants seconds, more than 0, not '%.40s'", name,
                       said);
    *out = seconds;
    return FS_OK;
}

static bool has(const cli_LIST *list, const char *value)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i], value) == 0)
            return true;
    return false;
}

/* The same value twice says nothing new. */
static fs_status set(cli *c, const option *o, const char *value)
{
    char *at = (char *)&c->args + o->at;
    switch (o->kind) {
    case FLAG:
        *(bool *)at = true;
        return FS_OK;
    case SOME:
    case MAYBE:
    case TEXT:
        *(const char **)at = value;
        return FS_OK;
    case COUNT:
        return set_count(o, value, (int64_t *)at, &c->err);
    case REAL:
        return set_real(o, value, (double *)at, &c->err);
    case LIST:
        if (!has((const cli_LIST *)at, value))
            fs_push(c->arena, (cli_LIST *)at, value);
        return FS_OK;
    }
    return FS_OK;
}

/* Of two values the last would win without a word. */
static fs_status contradict(cli *c, const option *o, const char *before,
                            const char *value)
{
    return fs_fail(&c->err, FS_INVALID,
                   "--%s %s and --%s %s contradict each other; give one",
                   o->flag, before, o->flag, value);
}

/* A list may name a key once: `--bind seq=64 --bind seq=32`. */
static fs_status check_list(cli *c, const option *o, const char *value)
{
    const cli_LIST *list = (const void *)((const char *)&c->args + o->at);
    const char *equals = strrchr(value, '='); /* a key may hold one itself */
    size_t key = equals ? (size_t)(equals - value) + 1 : strlen(value) + 1;
    for (int32_t i = 0; i < list->n; i++)
        if (strncmp(list->at[i], value, key) == 0 &&
            strcmp(list->at[i], value) != 0)
            return contradict(c, o, list->at[i], value);
    return FS_OK;
}

/* The same value twice says nothing new and passes. */
static fs_status check_once(cli *c, const option *o, const char *value,
                            const char **said)
{
    const char *before = *said;
    if (o->kind == FLAG)
        return FS_OK;
    if (o->kind == LIST)
        return check_list(c, o, value);
    *said = value;
    if (before && strcmp(before, value) != 0)
        return contradict(c, o, before, value);
    return FS_OK;
}

static const option *find(const char *flag, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].flag) == length &&
            strncmp(options[i].flag, flag, length) == 0)
            return &options[i];
    return NULL;
}

/* Nothing is said. */
static void args_absent(cli_args *args)
{
    *args = (cli_args){0};
#define CLI_DEFAULT_FLAG(field)
#define CLI_DEFAULT_TEXT(field)
#define CLI_DEFAULT_SOME(field)
#define CLI_DEFAULT_MAYBE(field)
#define CLI_DEFAULT_LIST(field)
#define CLI_DEFAULT_COUNT(field) args->field = -1;
#define CLI_DEFAULT_REAL(field) args->field = NAN;
#define CLI_OPTION(field, flag, kind, ...) CLI_DEFAULT_##kind(field)
#include "cli/options.def"
#undef CLI_OPTION
}

cli cli_within(const cli *c)
{
    cli own = *c;
    args_absent(&own.args);
    own.args.collectives = c->args.collectives;
    own.err = (fs_err){0};
    own.db = NULL;
    own.run = 0;
    own.result = json_object();
    own.quiet = own.mute = true;
    return own;
}

typedef struct words {
    int argc;
    char **argv;
    const char *said[N_OPTIONS]; /* an option's value so far */
} words;

static bool is_whole(const char *word)
{
    return *word && !word[strspn(word, "0123456789")];
}

/* Of a number that may be left out: the next word, when it is one. */
static fs_status maybe_value(cli *c, const option *o, words *w, int *i,
                             const char **value)
{
    int64_t number;
    if (!*value && *i + 1 < w->argc && is_whole(w->argv[*i + 1]))
        *value = w->argv[++*i];
    if (!*value) {
        *value = "";
        return FS_OK;
    }
    return set_count(o, *value, &number, &c->err);
}

/* One flag and, if it wants one, its value; *i is left on the last word. */
static fs_status parse_flag(cli *c, words *w, int *i)
{
    char **argv = w->argv;
    const char *word = "";
    if (strncmp(argv[*i], "--", 2) == 0)
        word = argv[*i] + 2;
    else if (strcmp(argv[*i], "-o") == 0)
        word = "output";
    size_t length = strcspn(word, "=");
    const option *o = find(word, length);
    if (!o || !takes(o, c->command))
        return fs_fail(&c->err, FS_INVALID,
                       "%s: unknown option '%s' (see flowsearch %s --help)",
                       c->command, argv[*i], c->command);
    const char *value = word[length] ? word + length + 1 : NULL;
    if (o->kind == FLAG && value)
        return fs_fail(&c->err, FS_INVALID, "--%s takes no value", o->flag);
    if (o->kind == SOME && !value)
        value = "";
    if (o->kind == MAYBE)
        FS_TRY(maybe_value(c, o, w, i, &value));
    if (o->kind != FLAG && !value) {
        if (*i + 1 >= w->argc)
            return fs_fail(&c->err, FS_INVALID, "--%s wants %s", o->flag,
                           o->argument);
        value = argv[++*i];
    }
    if (o->kind == TEXT && !value[0])
        return fs_fail(&c->err, FS_INVALID, "--%s wants %s, not ''", o->flag,
                       o->argument);
    FS_TRY(check_once(c, o, value, &w->said[o - options]));
    return set(c, o, value);
}

/* A file called -x is ./-x from here on: it is handed to ranks as a word. */
static fs_status take_operand(cli *c, const char *word)
{
    cli_args *args = &c->args;
    if (args->n_operands == sizeof args->operands / sizeof *args->operands)
        return fs_fail(&c->err, FS_INVALID, "%s: too many operands at '%s'",
                       c->command, word);
    args->operands[args->n_operands++] =
        word[0] == '-' ? fs_printf(c->arena, "./%s", word) : word;
    return FS_OK;
}

static fs_status parse_words(cli *c, words *w, bool *help)
{
    bool operands_only = false;
    for (int i = 0; i < w->argc; i++) {
        const char *word = w->argv[i];
        if (operands_only || word[0] != '-' || !word[1]) {
            FS_TRY(take_operand(c, word));
        } else if (strcmp(word, "--") == 0) {
            operands_only = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *help = true;
            return FS_OK;
        } else {
            FS_TRY(parse_flag(c, w, &i));
        }
    }
    return FS_OK;
}

static fs_status check_rewrites(cli *c)
{
    ir_rewrite_options parsed;
    if (c->args.no_rewrite && c->args.rewrite)
        return fs_fail(&c->err, FS_INVALID,
                       "--no-rewrite and --rewrite %s contradict each other; "
                       "give one",
                       c->args.rewrite);
    fs_status status =
        ir_rewrite_parse(cli_rewrites(&c->args), &c->err, &parsed);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--rewrite");
    return status;
}

/* 0 would train nothing: who wants no clipping leaves the option out. */
static fs_status check_clip_norm(cli *c)
{
    double most = c->args.clip_norm;
    if (isnan(most) || (most > 0 && most < FLT_MAX))
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--clip-norm %g: a norm of more than 0 and below %g is "
                   "wanted",
                   most, (double)FLT_MAX);
}

static fs_status check_precision(cli *c)
{
    const cli_args *a = &c->args;
    const plan_origin said = {.precision = a->precision ? a->precision : "fp32",
                              .loss_scale = a->loss_scale ? a->loss_scale : "",
                              .compress = a->compress ? a->compress : ""};
    ir_train_options unused;
    return cli_read_precision(&said, &c->err, &unused);
}

fs_status cli_parse(cli *c, int argc, char **argv, bool *help)
{
    words w = {.argc = argc, .argv = argv};
    args_absent(&c->args);
    FS_TRY(parse_words(c, &w, help));
    FS_TRY(check_clip_norm(c));
    FS_TRY(check_precision(c));
    FS_TRY(cli_check_collectives(c));
    return check_rewrites(c);
}

fs_status cli_parse_bytes(const char *text, fs_err *err, int64_t *out)
{
    double bytes;
    if (!fs_read_bytes(text, &bytes) || !(bytes > 0) || bytes > 0x1p62)
        return fs_fail(err, FS_INVALID,
                       "'%s' is not a size such as 16G or "
                       "512MiB",
                       text);
    *out = (int64_t)bytes;
    return FS_OK;
}

fs_status cli_check_kernels(cli *c)
{
    const char *said = c->args.kernels;
    if (!said || strcmp(said, "auto") == 0 || strcmp(said, "reference") == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--kernels %s is unknown; there are auto and reference",
                   said);
}

/* Tries it beside the file, as the writer does: permissions alone say nothing
 * to root or about a file system that cannot be written. */
fs_status cli_check_writable(cli *c, const char *path)
{
    struct stat there;
    char place[FS_PATH_MAX], probe[FS_PATH_MAX];
    if (!path[0] || (stat(path, &there) == 0 && S_ISDIR(there.st_mode)))
        return fs_fail(&c->err, FS_INVALID, "cannot write '%s': %s", path,
                       path[0] ? "it is a folder" : "it names no file");
    FS_TRY(fs_write_temporary(path, &c->err, place, probe));
    int file = open(probe, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        return fs_fail(&c->err, FS_INVALID, "cannot write %s: %s", path,
                       strerror(errno));
    close(file);
    unlink(probe);
    return FS_OK;
}
