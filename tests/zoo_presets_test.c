/* Presets against published figures: parameters and multiply-adds as `model`
 * prints them, repeated blocks; nothing is allocated. The README's table is
 * written from what is printed (FS_GOLDEN=rewrite). */
#include "config.h"

#include "ir/blocks.h"
#include "ir/op.h"

#include "tests/run_cli.h"
#include "zoo_build.h"

/* Of ops whose names begin with `scope`. */
static int64_t count_macs(const ir_graph *g, const char *scope)
{
    static const ir_mesh one;
    static const ir_nd_sig whole;
    int64_t macs = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        ir_work work = {0};
        if (strncmp(node->name, scope, strlen(scope)) != 0)
            continue;
        ir_node_work(g, node, &whole, &one, &work);
        macs += work.macs;
    }
    return macs;
}

/* ---- every row ---- */

/* Four digits and a unit, and the end of its column. */
static void write_count(fs_text *table, double count)
{
    static const char units[] = "MGTPE";
    int k = 0;
    for (count /= 1e6; count >= 999.95 && units[k + 1]; count /= 1e3)
        k++;
    fs_text_add(table, " %.4g %c |", count, units[k]);
}

static void write_row(const zoo_preset *p, double parameters, double macs,
                      fs_text *table)
{
    fs_text_add(table, "| `%s` | %s |", p->name, p->model);
    write_count(table, parameters);
    write_count(table, (double)p->parameters);
    fs_text_add(table, " %s |", p->source);
    write_count(table, macs);
    if (p->macs)
        write_count(table, (double)p->macs);
    else
        fs_text_add(table, " |");
    fs_text_add(table, " %s |\n", p->macs_source);
}

static void test_preset(const zoo_preset *p, fs_text *table)
{
    cli_answer *a = cli("model zoo:%s --batch 2 --json", p->name);
    tap_ok(a->status == 0, "%s: model describes it", p->name);
    if (a->status != 0) {
        cli_show(a);
        return;
    }
    const double parameters = cli_number(a, "params");
    const double macs = cli_number(a, "macs_per_sample");
    tap_near(parameters, (double)p->parameters, 0.01 * p->within,
             "%s: as many parameters as published, to %d %%", p->name,
             p->within);
    if (p->macs)
        tap_near(macs, (double)p->macs, 0.01,
                 "%s: as many multiply-adds as published, to 1 %%", p->name);
    write_row(p, parameters, macs, table);
}

/* The line of text says the same: torchvision's 4.089 G of ResNet-50, and more
 * flop than twice that. */
static void test_text(void)
{
    cli_answer *a = cli("model zoo:resnet50 --batch 2");
    tap_ok(strstr(a->out, "forward 8.18 G multiply-adds, 4.09 G per sample") !=
               NULL,
           "resnet50: the text says the multiply-adds of a sample");
    a = cli("model zoo:resnet50 --batch 2 --json");
    tap_ok(cli_number(a, "fwd_macs") == 2 * cli_number(a, "macs_per_sample") &&
               cli_number(a, "fwd_flop") > 2 * cli_number(a, "fwd_macs"),
           "resnet50: flop are two per multiply-add and the element-wise");
}

/* ---- the README ---- */

static char *read_all(fs_arena *arena, const char *path)
{
    FILE *file = fopen(path, "r");
    fs_text text = {.arena = arena};
    char line[1024];
    while (file && fgets(line, sizeof line, file))
        fs_text_add(&text, "%s", line);
    if (file)
        fclose(file);
    return text.n ? text.at : NULL;
}

static void rewrite(const char *path, const char *readme, const char *from,
                    const char *to, const char *table)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%.*s%s%s", (int)(from - readme), readme, table, to);
    fclose(file);
}

static void test_readme(const char *table)
{
    static const char head[] = "|---|---|---|---|---|---|---|---|\n";
    const char *golden = getenv("FS_GOLDEN");
    fs_arena *arena = fs_arena_create();
    char *path = fs_printf(arena, "%s/src/zoo/README.md", getenv("FS_SRCDIR"));
    char *readme = read_all(arena, path);
    char *from = readme ? strstr(readme, head) : NULL;
    char *to = from ? strstr(from, "\n\n") : NULL;
    tap_ok(to != NULL, "the README has a table of presets");
    if (to) {
        from += strlen(head);
        to++;
        if (golden && strcmp(golden, "rewrite") == 0)
            rewrite(path, readme, from, to, table);
        const size_t n = (size_t)(to - from);
        tap_ok(strlen(table) == n && strncmp(from, table, n) == 0,
               "it is what is printed (FS_GOLDEN=rewrite writes it)");
    }
    fs_arena_destroy(arena);
}

static void test_presets(void)
{
    fs_arena *arena = fs_arena_create();
    fs_text table = {.arena = arena};
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        test_preset(p, &table);
    test_readme(table.at);
    fs_arena_destroy(arena);
}

/* ---- repeats ---- */

static void test_blocks(void)
{
    static const struct {
        const char *spec;
        int32_t copies, length; /* of the longest */
    } rows[] = {
        {"gpt2", 12, 30},         {"gpt3-175b", 96, 30},
        {"llama2-70b", 80, 46},   {"llama3-8b", 32, 46},
        {"mixtral-8x7b", 32, 90}, {"bert-large", 24, 29},
        {"vit-l16", 24, 29},      {"moe,layers=12", 6, 100},
        {"t5-base", 12, 41},      {"switch-base-8", 6, 120},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g = zoo_built(rows[i].spec, 1);
        fs_arena *arena = fs_arena_create();
        ir_blocks blocks;
        ir_repeat most = {0};
        ir_find_blocks(g, arena, &blocks);
        for (int32_t k = 0; k < blocks.repeats.n; k++)
            if (blocks.repeats.at[k].length > most.length)
                most = blocks.repeats.at[k];
        tap_ok(most.copies == rows[i].copies && most.length == rows[i].length,
               "%s: %d copies of a block of %d ops", rows[i].spec, most.copies,
               most.length);
        fs_arena_destroy(arena);
        ir_graph_destroy(g);
    }
}

/* ---- counts ---- */

static void test_other_lengths(void)
{
    ir_graph *g = zoo_built("bert-base,seq=128", 1);
    tap_near(2e-9 * (double)count_macs(g, "/blocks."), 22.5, 0.01,
             "bert-base: 22.5 Gflop of its blocks at 128 words (arXiv "
             "2004.02984, table 4)");
    ir_graph_destroy(g);
    g = zoo_built("llama2-7b,seq=128", 1);
    tap_near(1e-9 * (double)count_macs(g, ""), 850, 0.001,
             "llama2-7b: 850 G multiply-adds of 128 words (calflops)");
    ir_graph_destroy(g);
}

/* Weights that a token meets: arXiv 2401.04088 says 12.9 G. */
static void test_mixtral_active(void)
{
    ir_graph *g = zoo_built("mixtral-8x7b", 1);
    int64_t experts = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_PARAM &&
            g->tensors.at[i].shape.rank == 3)
            experts += ir_shape_count(&g->tensors.at[i].shape);
    const int64_t active = zoo_parameters(g) - experts / 8 * 6;
    tap_near(1e-9 * (double)active, 12.9, 0.01,
             "mixtral-8x7b: 12.9 G parameters are active");
    ir_graph_destroy(g);
}

static void test_closed_forms(void)
{
    static const struct {
        const char *spec;
        int64_t parameters;
    } rows[] = {
        {"lstm,layers=2,hidden=6,embedding=5,vocab=7",
         7 * 5 + 7 * 6 + 7 + 24 * (5 + 6 + 1) + 24 * (6 + 6 + 1)},
        {"gru,layers=2,hidden=6,embedding=5,vocab=7",
         7 * 5 + 7 * 6 + 7 + 18 * (5 + 6 + 1) + 6 + 18 * (6 + 6 + 1) + 6},
        {"wide_deep,fields=3,dense=4,rows=20,embedding=5,hidden=6,layers=2",
         20 * 6 + (3 * 5 + 4) * 6 + 6 + 6 * 6 + 6 + 6 + 1},
        {"moe,layers=4,hidden=8,heads=2,vocab=11,seq=4,experts=3",
         11 * 8 + 4 * 8 + 2 * 8 + 4 * (12 * 64 + 13 * 8) +
             2 * (8 * 64 * 2 + 3 * 8 - 5 * 8)},
        {"llama,layers=3,hidden=8,heads=4,kv_heads=2,ffn=20,vocab=11,seq=4",
         2 * 11 * 8 + 3 * (2 * 64 + 2 * 64 * 2 / 4 + 3 * 8 * 20 + 16) + 8},
        {"t5,layers=3,hidden=8,heads=2,head=3,ffn=20,vocab=11,seq=4,target=4",
         11 * 8 + 2 * 32 * 2 + 2 * 8 + 3 * (4 * 48 + 2 * 160 + 16) +
             3 * (8 * 48 + 2 * 160 + 24)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g = zoo_built(rows[i].spec, 1);
        tap_equal_int(g ? zoo_parameters(g) : -1, rows[i].parameters,
                      "%s: as many parameters as its formula says",
                      rows[i].spec);
        if (g)
            ir_graph_destroy(g);
    }
}

/* ---- names and keys ---- */

static void test_names(void)
{
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"zoo:gtp2", "near it: gpt gpt2;"},
        {"zoo:resnet-50", "resnet50"},
        {"zoo:vit", NULL},
        {"zoo:wide-deep", NULL},
        {"zoo:wide_deep,rows=10", NULL},
        {"zoo:gpt2,layers=2,seq=64", NULL},
        {"zoo:gpt2,layers=2,layers=3", "twice"},
        {"zoo:gpt2,depth=2", "layers hidden heads vocab seq"},
        {"zoo:resnet,depth=20", "18, 34, 50, 101 and 152"},
        {"zoo:llama,heads=4,kv_heads=3", "kv_heads=3"},
        {"zoo:llama,hidden=12,heads=4,ffn=8", "pairs"},
        {"zoo:moe,experts=2,active=3", "active=3"},
        {"zoo:moe,seq=10,group=4", "groups of 4"},
        {"zoo:vit,size=10,patch=4", "patches of 4"},
        {"zoo:unet,depth=4,size=24", "halve 4 times"},
        {"zoo:vgg,size=31", "number"},
        {"zoo:resnet900", "gpt mlp"},
        {"zoo:", "gpt mlp"},
        {"zoo:gpt,width=3", "layers hidden heads vocab seq"},
        {"zoo:gpt,layers", "KEY=VALUE"},
        {"zoo:gpt,", "KEY=VALUE"},
        {"zoo:gpt,layers=", "number"},
        {"zoo:gpt,layers=4x", "number"},
        {"zoo:gpt,layers=0", "number"},
        {"zoo:gpt,layers=-1", "number"},
        {"zoo:gpt,layers=99999999999999999999", "number"},
        {"zoo:gpt,layers=2,layers=3", "twice"},
        {"zoo:gpt,hidden=10,heads=4", "does not divide"},
        {"zoo:mlp,classes=1", "number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fs_err err = {0};
        ir_graph *g = NULL;
        const fs_status status = zoo_build(cases[i].spec, 2, &err, &g);
        if (cases[i].says)
            tap_ok(status == FS_INVALID && !g &&
                       strstr(err.text, cases[i].says),
                   "%s is refused: %s", cases[i].spec, err.text);
        else
            tap_ok(status == FS_OK, "%s builds %s", cases[i].spec, err.text);
        if (g)
            ir_graph_destroy(g);
    }
    ir_graph *g = zoo_built("zoo:gpt2,layers=2,seq=64", 1);
    tap_equal_int(zoo_parameters(g),
                  50257 * 768 + 64 * 768 + 2 * (12 * 768 * 768 + 13 * 768) +
                      2 * 768,
                  "keys after a preset's name override it");
    ir_graph_destroy(g);
}

int main(void)
{
    cli_begin_scratch("zoo_presets");
    test_presets();
    test_text();
    cli_end_scratch();
    test_blocks();
    test_other_lengths();
    test_mixtral_active();
    test_closed_forms();
    test_names();
    return tap_done();
}
