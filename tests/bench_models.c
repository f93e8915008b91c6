/* make bench-models: what it takes to import each network and to append its
 * gradients (of a graph without a loss: mse): the zoo's presets, and every
 * .onnx file under datasets/models, datasets/train_cases and the folder in
 * $MODELS. The single nodes of datasets/onnx are no networks. Nothing here
 * passes or fails. */
#include "config.h"
#include "tests/run_cli.h"

#include <ftw.h>

/* As one cell of a Markdown table: the others of its row are empty. */
static void row_of_error(const char *name, const char *says)
{
    printf("| %-44s | ", name);
    for (size_t i = 0; says[i] && i < 90; i++)
        putchar(says[i] == '\n' || says[i] == '|' ? ' ' : says[i]);
    printf(" | | | | | | |\n");
    fflush(stdout);
}

static void row(const char *name, const char *spec)
{
    cli_answer *a = cli("model '%s' --json --db none", spec);
    if (a->status == 0 && cli_number(a, "bwd_flop") <= 0)
        a = cli("model '%s' --loss mse --json --db none", spec);
    if (a->status != 0) {
        row_of_error(name, a->err);
        return;
    }
    json_t *blocks = json_object_get(a->json, "blocks");
    json_t *first = json_array_get(blocks, 0);
    char copies[40] = "";
    for (size_t i = 1; i < json_array_size(blocks); i++) {
        json_t *other = json_array_get(blocks, i);
        if (json_integer_value(json_object_get(other, "copies")) >
            json_integer_value(json_object_get(first, "copies")))
            first = other;
    }
    if (first)
        snprintf(copies, sizeof copies, "%d x %d",
                 (int)json_integer_value(json_object_get(first, "copies")),
                 (int)json_integer_value(json_object_get(first, "ops")));
    printf("| %-44s | %6.0f | %9.4g | %9.2f | %9.2f | %9.2f | %7.0f | %-9s |\n",
           name, cli_number(a, "ops"), cli_number(a, "params"),
           1e3 * cli_number(a, "import_s"), 1e3 * cli_number(a, "gradients_s"),
           1e3 * cli_number(a, "blocks_s"),
           cli_number(a, "process_bytes") / 0x1p20, copies);
    fflush(stdout);
}

static int visit(const char *path, const struct stat *at, int kind,
                 struct FTW *where)
{
    size_t n = strlen(path);
    (void)at;
    if (kind != FTW_F || n < 5 || strcmp(path + n - 5, ".onnx") != 0)
        return 0;
    const char *name = path + where->base;
    while (strcmp(path + where->base, "model.onnx") == 0 && name - 1 > path &&
           (name == path + where->base || name[-1] != '/'))
        name--; /* with its folder */
    row(name, path);
    return 0;
}

static void bench_zoo(void)
{
    static const char *const specs[] = {
#define ZOO_PRESET(name, ...) "zoo:" name,
#include "zoo/presets.def"
#undef ZOO_PRESET
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        row(specs[i], specs[i]);
}

static void bench_folder(const char *folder)
{
    if (nftw(folder, visit, 16, FTW_PHYS) != 0)
        row_of_error(folder, "cannot be walked");
}

static void head(void)
{
    printf("| %-44s | %6s | %9s | %9s | %9s | %9s | %7s | %-9s |\n", "network",
           "ops", "params", "import ms", "grad. ms", "blocks ms", "MiB",
           "blocks");
    printf("|---|---:|---:|---:|---:|---:|---:|---|\n");
}

int main(void)
{
    static const char *const own[] = {"models", "train_cases"};
    const char *more = getenv("MODELS");
    char folder[1024];
    cli_begin_scratch("bench_models");
    head();
    bench_zoo();
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        snprintf(folder, sizeof folder, "%s/datasets/%s",
                 cli_env("FS_SRCDIR", "."), own[i]);
        bench_folder(folder);
    }
    if (more && *more)
        bench_folder(more);
    else
        printf("\nThe .onnx files of a folder of yours besides: "
               "make bench-models MODELS=FOLDER\n");
    cli_end_scratch();
    return 0;
}
