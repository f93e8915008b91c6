/* Memory offsets within 1 % of their bound: every preset on one device, and
 * pipelines, whose micro-batches lie beside each other. */
#include "config.h"
#include "tests/cli_offsets.h"

static double gap_of(const char *preset, const offsets_recipe *r)
{
    cli_answer *a = offsets_plan(preset, r);

    if (a->status == 0)
        return 100 * cli_number(a, "offset_gap");
    cli_show(a);
    return INFINITY;
}

static void test_presets(void)
{
    double most = 0;
    const char *worst = "";

    for (int i = 0; i < OFFSETS_PRESETS; i++) {
        double gap = gap_of(offsets_presets[i], &offsets_recipes[0]);
        worst = gap >= most ? offsets_presets[i] : worst;
        most = gap >= most ? gap : most;
    }
    tap_ok(most <= 1, "%d presets on one device: at most %.2f %% (%s)",
           (int)OFFSETS_PRESETS, most, worst);
}

static void test_recipe(const char *preset, const offsets_recipe *r)
{
    double gap = gap_of(preset, r);

    tap_ok(gap <= 1, "%s, %s: at most %.2f %%", preset, r->name, gap);
}

static void test_recipes(const char *preset)
{
    for (int i = 1; i < OFFSETS_RECIPES; i++)
        test_recipe(preset, &offsets_recipes[i]);
}

/* Their logits, always at one place, would be beside too much else. */
static void test_logits(void)
{
    enum { ZERO_3_M_4 = 5, ZB_H1 = 8 };

    test_recipe("bert-base", &offsets_recipes[ZERO_3_M_4]);
    test_recipe("gpt3-medium", &offsets_recipes[ZB_H1]);
}

int main(void)
{
    if (!offsets_begin("cli_offsets_test"))
        return 1;
    test_recipes("gpt2");
    test_recipes("llama3-8b");
    test_logits();
    test_presets();
    cli_end_scratch();
    return tap_done();
}
