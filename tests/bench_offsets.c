/* make bench-offsets: by how many percent the memory of a role exceeds the
 * bound of its offsets, at most, for the zoo's presets (or $MODELS) and the
 * usual recipes. Nothing here passes or fails. */
#include "config.h"
#include "tests/cli_offsets.h"

typedef struct column {
    int rows, above; /* 1 % */
    double most;
} column;

static void cell(const char *preset, int recipe, column *to)
{
    cli_answer *a = offsets_plan(preset, &offsets_recipes[recipe]);
    double gap = 100 * cli_number(a, "offset_gap");

    if (a->status != 0) {
        printf(" - |");
        return;
    }
    printf(" %.2f |", gap);
    fflush(stdout);
    to->rows++;
    to->above += gap > 1;
    to->most = gap > to->most ? gap : to->most;
}

static void row(const char *preset, column *columns)
{
    printf("| %s |", preset);
    for (int i = 0; i < OFFSETS_RECIPES; i++)
        cell(preset, i, &columns[i]);
    printf("\n");
}

static void head(void)
{
    printf("| %% above the bound |");
    for (int i = 0; i < OFFSETS_RECIPES; i++)
        printf(" %s |", offsets_recipes[i].name);
    printf("\n|---|");
    for (int i = 0; i < OFFSETS_RECIPES; i++)
        printf("---:|");
    printf("\n");
}

static void foot(const column *columns)
{
    printf("| at most |");
    for (int i = 0; i < OFFSETS_RECIPES; i++)
        printf(" %.2f |", columns[i].most);
    printf("\n| above 1 %% |");
    for (int i = 0; i < OFFSETS_RECIPES; i++)
        printf(" %d of %d |", columns[i].above, columns[i].rows);
    printf("\n");
}

int main(void)
{
    char asked[1024];
    column columns[OFFSETS_RECIPES] = {0};

    if (!offsets_begin("bench_offsets"))
        return 1;
    head();
    snprintf(asked, sizeof asked, "%s", cli_env("MODELS", ""));
    for (char *name = strtok(asked, " "); name; name = strtok(NULL, " "))
        row(name, columns);
    for (int i = 0; i < OFFSETS_PRESETS && !*cli_env("MODELS", ""); i++)
        row(offsets_presets[i], columns);
    foot(columns);
    cli_end_scratch();
    return 0;
}
