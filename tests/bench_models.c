/* make bench-models: what it takes to import each network and to append its
 * gradients (of a graph without a loss: mse): the zoo's, and every .onnx file
 * under datasets/ and under the folder in $MODELS. Nothing here passes or fails. */
#include "config.h"
#include "tests/run_cli.h"

#include <ftw.h>

static void row(const char *name, const char *spec)
{
    cli_answer *a = cli("model '%s' --json --db none", spec);
    if (a->status == 0 && cli_number(a, "bwd_flop") <= 0)
        a = cli("model '%s' --loss mse --json --db none", spec);
    if (a->status != 0) {
        printf("| %-44s | %.90s\n", name, a->err);
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

int main(void)
{
    char datasets[1024];
    const char *more = getenv("MODELS");
    cli_begin_scratch("bench_models");
    snprintf(datasets, sizeof datasets, "%s/datasets",
             cli_env("FS_SRCDIR", "."));
    printf("| %-44s | %6s | %9s | %9s | %9s | %9s | %7s | %-9s |\n", "network",
           "ops", "params", "import ms", "grad. ms", "blocks ms", "MiB",
           "blocks");
    bench_zoo();
    nftw(datasets, visit, 16, FTW_PHYS);
    if (more)
        nftw(more, visit, 16, FTW_PHYS);
    cli_end_scratch();
    return 0;
}
