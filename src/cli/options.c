#include "config.h"
#include "cli/cli.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum kind { FLAG, TEXT, COUNT, REAL, LIST } kind;

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
          "(zoo:gpt, zoo:mlp)\n"
          "CLUSTER  FILE.json, local, or NODESxDEVICES:NAME "
          "(1x8:h100-sxm5-80g)\n",
          out);
}

void cli_help(const char *name, FILE *out)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            fprintf(out, "usage: flowsearch %s %s [OPTIONS]\n%s\n\n", name,
                    commands[i].operands, commands[i].what);
    for (int i = 0; i < N_OPTIONS; i++) {
        const option *o = &options[i];
        if (!takes(o, name))
            continue;
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->flag,
                 o->argument[0] ? " " : "", o->argument);
        fprintf(out, "  %-24s %s\n", left, o->help);
    }
}

static fs_status set_count(const option *o, const char *value, int64_t *at,
                           fs_err *err)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
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
    if (end == value || *end || !isfinite(number) || number < 0)
        return fs_fail(err, FS_INVALID,
                       "--%s wants a number of 0 or more, not '%s'", o->flag,
                       value);
    *at = number;
    return FS_OK;
}

static fs_status set(cli *c, const option *o, const char *value)
{
    char *at = (char *)&c->args + o->at;
    switch (o->kind) {
    case FLAG:
        *(bool *)at = true;
        return FS_OK;
    case TEXT:
        *(const char **)at = value;
        return FS_OK;
    case COUNT:
        return set_count(o, value, (int64_t *)at, &c->err);
    case REAL:
        return set_real(o, value, (double *)at, &c->err);
    case LIST:
        fs_push(c->arena, (cli_LIST *)at, value);
        return FS_OK;
    }
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

static void set_absent(cli_args *args)
{
#define CLI_DEFAULT_FLAG(field)
#define CLI_DEFAULT_TEXT(field)
#define CLI_DEFAULT_LIST(field)
#define CLI_DEFAULT_COUNT(field) args->field = -1;
#define CLI_DEFAULT_REAL(field) args->field = NAN;
#define CLI_OPTION(field, flag, kind, ...) CLI_DEFAULT_##kind(field)
#include "cli/options.def"
#undef CLI_OPTION
}

/* One flag and, if it wants one, its value; *i is left on the last word. */
static fs_status parse_flag(cli *c, int argc, char **argv, int *i)
{
    const char *word = argv[*i] + 2;
    if (strcmp(argv[*i], "-o") == 0)
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
    if (o->kind != FLAG && !value) {
        if (*i + 1 >= argc)
            return fs_fail(&c->err, FS_INVALID, "--%s wants %s", o->flag,
                           o->argument);
        value = argv[++*i];
    }
    return set(c, o, value);
}

fs_status cli_parse(cli *c, int argc, char **argv, bool *help)
{
    set_absent(&c->args);
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            return FS_OK;
        }
        if (strncmp(argv[i], "--", 2) == 0 || strcmp(argv[i], "-o") == 0) {
            FS_TRY(parse_flag(c, argc, argv, &i));
            continue;
        }
        if (argv[i][0] == '-' && argv[i][1])
            return fs_fail(&c->err, FS_INVALID,
                           "%s: unknown option '%s' (see flowsearch %s "
                           "--help)",
                           c->command, argv[i], c->command);
        if (c->args.n_operands == 4)
            return fs_fail(&c->err, FS_INVALID,
                           "%s: too many operands at "
                           "'%s'",
                           c->command, argv[i]);
        c->args.operands[c->args.n_operands++] = argv[i];
    }
    if (c->args.db && !c->args.db[0])
        return fs_fail(&c->err, FS_INVALID,
                       "--db wants a FILE, or none, not ''");
    return FS_OK;
}

fs_status cli_parse_bytes(const char *text, fs_err *err, int64_t *out)
{
    char *end;
    double number = strtod(text, &end);
    double unit = 1;
    static const char letters[] = "KMGT";
    const char *letter = *end ? strchr(letters, *end) : NULL;
    if (letter) {
        unit = pow(1024.0, (double)(letter - letters) + 1);
        end++;
    }
    if (*end == 'i')
        end++;
    if (*end == 'B')
        end++;
    if (end == text || *end || !(number > 0) || number * unit > 0x1p62)
        return fs_fail(err, FS_INVALID,
                       "'%s' is not a size such as 16G or "
                       "512MiB",
                       text);
    *out = (int64_t)(number * unit);
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
