/* By how much memory offsets of the zoo's plans exceed their bound. */
#ifndef FS_TESTS_CLI_OFFSETS_H
#define FS_TESTS_CLI_OFFSETS_H

#include "tests/run_cli.h"

static const char *const offsets_presets[] = {
#define ZOO_PRESET(name, ...) name,
#include "zoo/presets.def"
#undef ZOO_PRESET
};
enum { OFFSETS_PRESETS = sizeof offsets_presets / sizeof *offsets_presets };

typedef struct offsets_recipe {
    const char *name, *options;
    int devices;
} offsets_recipe;

static const offsets_recipe offsets_recipes[] = {
    {"1 device", "--batch 4", 1},
    {"m = 4", "--batch 4 --micro-batches 4", 1},
    {"dp 4", "--batch 8 --dp 4", 4},
    {"tp 4", "--batch 8 --tp 4", 4},
    {"zero 3", "--batch 8 --dp 4 --zero 3", 4},
    {"zero 3, m = 4", "--batch 16 --dp 4 --zero 3 --micro-batches 4", 4},
    {"pp 4", "--batch 8 --pp 4 --micro-batches 8", 4},
    {"interleaved 2",
     "--batch 8 --pp 4 --micro-batches 8 --schedule interleaved "
     "--interleave 2",
     4},
    {"zb-h1", "--batch 8 --pp 4 --micro-batches 8 --schedule zb-h1", 4},
    {"zb-v",
     "--batch 8 --pp 4 --micro-batches 8 --schedule zb-v --interleave 2", 4},
};
enum { OFFSETS_RECIPES = sizeof offsets_recipes / sizeof *offsets_recipes };

/* A device with room for any of them: the data folder is the scratch folder,
 * which has no other cluster. */
static bool offsets_begin(const char *name)
{
    cli_begin_scratch(name);
    setenv("FS_DATA", cli_scratch, 1);
    return system("mkdir -p \"$D/clusters\" && "
                  "sed 's/\"memory_bytes\": [0-9]*/\"memory_bytes\": 1e17/' "
                  "\"$S/datasets/clusters/a100-sxm4-80g.json\" "
                  ">\"$D/clusters/roomy.json\"") == 0;
}

static cli_answer *offsets_plan(const char *preset, const offsets_recipe *r)
{
    return cli("plan zoo:%s --cluster 1x%d:roomy %s --json --db none -o "
               "\"$D/plan.json\"",
               preset, r->devices, r->options);
}

#endif
