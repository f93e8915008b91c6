/* What is told of a sweep over recipes. */
#include "config.h"
#include "cli/sweep.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

/* ---- recipes in words ---- */

/* A REGEX of nodes goes through a shell. */
static const char *quoted(fs_arena *arena, const char *word)
{
    const size_t plain = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return word[plain] ? fs_printf(arena, "'%s'", word) : word;
}

/* As flags of `plan`, but for those that would change nothing. */
static const char *recipe_text(const cli_sweep *s, const cli_sweep_row *r)
{
    fs_arena *arena = s->c->arena;
    fs_text text = {.arena = arena};
    fs_text_add(&text, "--dp %d --tp %d --pp %d", r->dp, r->tp, r->pp);
    if (r->pp > 1)
        fs_text_add(&text, " --layers %dx%d", r->layers, r->pp);
    fs_text_add(&text, " --micro-batches %d", r->micro_batches);
    if (r->pp > 1 || strcmp(r->schedule, "1f1b") != 0)
        fs_text_add(&text, " --schedule %s", r->schedule);
    if (r->recompute[0])
        fs_text_add(&text, " --recompute %s", quoted(arena, r->recompute));
    if (r->zero > 0)
        fs_text_add(&text, " --zero %d", r->zero);
    if (r->seq_parallel)
        fs_text_add(&text, " --seq-parallel");
    return text.at;
}

/* ---- the file ---- */

static void put(fs_output *out, const char *text)
{
    fs_output_write(out, text, strlen(text));
}

static void put_row(fs_output *out, const cli_sweep_row *r)
{
    char line[512];
    const char *again = r->recompute[0] ? r->recompute : "none";
    const bool plain = !strpbrk(again, ",\"\n");
    fs_arena *arena = plain ? NULL : fs_arena_create();
    fs_text text = {.arena = arena};
    for (const char *at = again; !plain && *at; at++)
        fs_text_add(&text, *at == '"' ? "\"\"" : "%c", *at);
    snprintf(line, sizeof line, "%d,%d,%d,%d,%d,", r->dp, r->tp, r->pp,
             r->layers, r->micro_batches);
    put(out, line);
    put(out, plain ? "" : "\"");
    put(out, plain ? again : text.at);
    put(out, plain ? "" : "\"");
    snprintf(line, sizeof line, ",%d,%d,%s,%.17g,%lld,%s,%d\n", r->zero,
             r->seq_parallel, r->schedule, r->iteration_s,
             (long long)r->peak_bytes,
             r->fits < 0 ? ""
             : r->fits   ? "1"
                         : "0",
             r->planned);
    put(out, line);
    fs_arena_destroy(arena);
}

fs_status cli_sweep_write(const cli_sweep *s, const char *path)
{
    fs_output out;
    FS_TRY(fs_output_open(&out, path, &s->c->err));
    put(&out, "dp,tp,pp,layers,micro_batches,recompute,zero,seq_parallel,"
              "schedule,seconds,bytes,fits,planned\n");
    for (int32_t i = 0; i < s->rows.n; i++)
        put_row(&out, &s->rows.at[i]);
    return fs_output_close(&out, &s->c->err);
}

/* ---- the object ---- */

static json_t *best_json(const cli_sweep *s, const cli_sweep_row *r)
{
    const double samples_per_s = (double)s->origin.batch / r->iteration_s;
    json_t *one = json_pack(
        "{s:o, s:f, s:f, s:f, s:f, s:I, s:f}", "recipe",
        fs_json_string(recipe_text(s, r)), "iteration_s", r->iteration_s,
        "priced_s", r->priced_s, "sim_iteration_s", r->sim_s, "samples_per_s",
        samples_per_s, "peak_bytes", (json_int_t)r->peak_bytes, "slower",
        r->iteration_s / s->best[0]->iteration_s - 1);
    if (!isnan(s->tokens))
        json_object_set_new(one, "tokens_per_s",
                            json_real(samples_per_s * s->tokens));
    return one;
}

static double plans_per_s(const cli_sweep *s)
{
    return s->rows.n / fmax(s->price_s, 1e-9);
}

void cli_sweep_json(const cli_sweep *s)
{
    cli *c = s->c;
    json_t *refused = json_array(), *best = json_array();
    for (int32_t i = 0; i < s->refused.n; i++)
        json_array_append_new(
            refused,
            json_pack("{s:o, s:I}", "why", fs_json_string(s->refused.at[i].why),
                      "recipes", (json_int_t)s->refused.at[i].n));
    for (int32_t i = 0; i < s->n_best; i++)
        json_array_append_new(best, best_json(s, s->best[i]));
    json_object_update_new(
        c->result,
        json_pack(
            "{s:I, s:i, s:I, s:I, s:o, s:o, s:f, s:f, s:f, s:i, s:f, s:f}",
            "rows", (json_int_t)(s->rows.n + s->n_refused), "priced", s->rows.n,
            "fits", (json_int_t)s->n_fit, "may_fit", (json_int_t)s->n_may,
            "refused", refused, "best", best, "plans_per_s", plans_per_s(s),
            "price_s", s->price_s, "complete_s", s->figures.patterns_s,
            "completed", s->figures.patterns, "plan_s", s->plan_s,
            "limit_bytes", s->limit_bytes));
    if (c->args.output)
        fs_json_set_text(c->result, "file", c->args.output);
    cli_figure(c, "priced", s->rows.n, "");
    cli_figure(c, "fits", (double)s->n_fit, "");
    cli_figure(c, "plans_per_s", plans_per_s(s), "1/s");
    if (s->n_best)
        cli_figure(c, "iteration_s", s->best[0]->iteration_s, "s");
}

/* ---- the table ---- */

static void tell_counts(const cli_sweep *s)
{
    char bytes[32], price[32], complete[32], rate[32];
    cli_say(s->c, "%lld recipes on %d devices of %s (%s), batch %lld\n",
            (long long)(s->rows.n + s->n_refused), s->cluster->n_devices,
            s->cluster->groups[0].device.name,
            fs_human_bytes(bytes, s->limit_bytes), (long long)s->origin.batch);
    cli_say(s->c,
            "priced          %d in %s, %s/s; %d kinds of them completed in "
            "%s before\n",
            s->rows.n, fs_human_seconds(price, s->price_s),
            fs_human_count(rate, plans_per_s(s)), s->figures.patterns,
            fs_human_seconds(complete, s->figures.patterns_s));
    cli_say(s->c, "fit             %lld, by the formula\n",
            (long long)s->n_fit);
    if (s->n_may)
        cli_say(s->c,
                "may fit         %lld, zero-bubble and dynamic: of what they "
                "hold the formula counts a part\n",
                (long long)s->n_may);
    cli_say(s->c, "no price        %lld\n", (long long)s->n_refused);
    for (int32_t i = 0; i < s->refused.n; i++)
        cli_say(s->c, "  %12lld  %s\n", (long long)s->refused.at[i].n,
                s->refused.at[i].why);
}

void cli_sweep_tell(const cli_sweep *s)
{
    tell_counts(s);
    if (s->n_best == 0)
        return;
    char planning[32];
    cli_say(s->c,
            "the fastest     planned in %s: seconds by the formula, simulated "
            "ones, bytes of the arena\n",
            fs_human_seconds(planning, s->plan_s));
    if (s->unplanned)
        cli_say(s->c, "without a plan  some of the fastest: %s\n",
                s->unplanned);
    cli_say(s->c, "\n  # %10s %10s %10s %10s %8s  plan with\n", "seconds",
            "simulated", isnan(s->tokens) ? "samples/s" : "tokens/s", "bytes",
            "slower");
    for (int32_t i = 0; i < s->n_best; i++) {
        const cli_sweep_row *r = s->best[i];
        char seconds[32], simulated[32], rate[32], bytes[32];
        const double per_sample = isnan(s->tokens) ? 1 : s->tokens;
        cli_say(s->c, " %2d %10s %10s %10s %10s %6.2f %%  %s\n", i + 1,
                fs_human_seconds(seconds, r->iteration_s),
                fs_human_seconds(simulated, r->sim_s),
                fs_human_count(rate, (double)s->origin.batch / r->iteration_s *
                                         per_sample),
                fs_human_bytes(bytes, (double)r->peak_bytes),
                100 * (r->iteration_s / s->best[0]->iteration_s - 1),
                recipe_text(s, r));
    }
}
