/* Several plans in the place of one: the best by the formula are lowered and
 * simulated, which decides among those that are proven well enough, and held
 * against each other over all that is uncertain in the model. */
#include "config.h"
#include "cli/making.h"
#include "search/planner.h"

#include "base/clock.h"
#include "report/report.h"

#include <math.h>

/* What a plan is proven to when nothing was said. */
#define USUAL_PROMISE 1e-2
enum { USUAL_PLANS = 8 };

/* The ranking ends with the search's time, but has a part of that where the
 * search took it all. */
#define LEAST_SHARE 0.1

static void begin(cli_making *m)
{
    cli_ranks *ranks = &m->ranks;
    const int64_t now_ns = fs_now_ns();
    const double share_s = LEAST_SHARE * ranks->problem->time_limit_s;
    if (ranks->begun)
        return;
    ranks->begun = true;
    ranks->n_late = 0;
    ranks->end = fs_end_after(now_ns, share_s, m->stop);
    if (ranks->end.wall_ns < ranks->search_end.wall_ns)
        ranks->end.wall_ns = ranks->search_end.wall_ns;
}

const fs_end *cli_ranks_end(const cli_making *m)
{
    return m->ranks.begun ? &m->ranks.end : NULL;
}

static double score(void *ctx, int32_t place, const search_plan *p)
{
    cli_making *m = ctx;
    m->ranks.peak_bytes[place] = -1;
    begin(m);
    if (fs_end_reached(&m->ranks.end)) {
        m->ranks.n_late++;
        return INFINITY;
    }
    fs_progress("simulating plan %d", place + 1);
    search_plan full = *p;
    if (!cli_compact_expand(m, m->ranks.problem->cost, &full))
        return INFINITY;
    const double seconds = cli_simulate_ahead(m, m->ranks.problem, &full, NULL,
                                              &m->ranks.peak_bytes[place]);
    m->ranks.n_late += isinf(seconds) && fs_end_reached(&m->ranks.end);
    return seconds;
}

fs_status cli_ranks_begin(cli_making *m, search_problem *problem)
{
    cli *c = m->c;
    cli_ranks *ranks = &m->ranks;
    if (m->by_hand)
        return FS_OK;
    FS_TRY(cost_uncertainty_read(
        fs_printf(c->arena, "%s/uncertainty.json", c->data_dir), c->arena,
        &c->err, &ranks->within));
    ranks->problem = problem;
    ranks->peak_bytes[0] = -1;
    const bool planner = search_planner_find(problem->engine) != NULL;
    if (planner && (c->args.keep > 1 || (c->args.pick > 1 && !c->args.pareto)))
        return fs_fail(&c->err, FS_INVALID,
                       "--%s: %s is a planner, which has one plan",
                       c->args.keep > 1 ? "keep" : "pick", problem->engine);
    const int64_t keep = c->args.keep > 0 ? c->args.keep : USUAL_PLANS;
    if (!c->args.pareto && (c->args.pick == 0 || c->args.pick > keep))
        return fs_fail(&c->err, FS_INVALID,
                       "--pick %lld: 1 to %lld plans are kept (--keep)",
                       (long long)c->args.pick, (long long)keep);
    ranks->asked = (search_ranking){
        .keep = (int32_t)keep,
        .within = ranks->within.iteration,
        .promise = isnan(c->args.gap) ? USUAL_PROMISE : c->args.gap,
        .score = score,
        .ctx = m,
    };
    if (ranks->asked.keep == 1) /* nothing to choose from */
        ranks->asked.score = NULL;
    problem->ranking = &ranks->asked;
    return FS_OK;
}

fs_status cli_ranks_pick(cli_making *m)
{
    search_result *f = &m->found;
    const int64_t pick = m->c->args.pick;
    if (m->by_hand || m->c->args.pareto || pick < 0)
        return FS_OK;
    if (f->n_plans == 0)
        return FS_OK;
    const int32_t place = (int32_t)(pick < f->n_plans ? pick : f->n_plans) - 1;
    const search_plan *p = &f->plans[place];
    f->chosen = place;
    f->of = p->of;
    f->graph = p->graph;
    f->again = p->again;
    f->strategy = p->strategy;
    f->iteration_s = p->iteration_s;
    f->gap = fmax(0, (f->iteration_s - f->lower_bound_s) / f->iteration_s);
    if (f->gap > 1e-9)
        f->status = "feasible";
    return FS_OK;
}

static void note_alone(cli_making *m, const plan *lowered,
                       const sim_result *sim)
{
    if (!m->ranks.asked.score)
        return;
    m->ranks.peak_bytes[0] = cli_largest_arena(lowered);
    m->ranks.sim_s[0] = sim->iteration_s;
}

void cli_ranks_finish(cli_making *m, const cli_plan *chosen,
                      const sim_result *sim)
{
    cli_ranks *ranks = &m->ranks;
    const int32_t n = m->found.n_plans;
    const int64_t start_ns = fs_now_ns();
    cost_option options[CLI_MAX_PLANS];
    ranks->rank_s += m->found.plans_s;
    ranks->least = m->found.chosen;
    for (int32_t k = 0; k < n; k++)
        ranks->sim_s[k] =
            ranks->asked.score ? m->found.plans[k].score_s : INFINITY;
    if (n == 1)
        note_alone(m, chosen->plan, sim);
    if (n < 2)
        return;
    ranks->peak_bytes[m->found.chosen] = cli_largest_arena(chosen->plan);
    for (int32_t k = 0; k < n; k++)
        options[k] =
            (cost_option){m->found.plans[k].graph, m->found.plans[k].strategy};
    cost_regrets(chosen->cost, &ranks->within, n, options, ranks->regret);
    for (int32_t k = 0; k < n; k++)
        if (ranks->regret[k].most < ranks->regret[ranks->least].most)
            ranks->least = k;
    ranks->rank_s += 1e-9 * (double)(fs_now_ns() - start_ns);
}

static double gap_of(const cli_making *m, int32_t k)
{
    const double seconds = m->found.plans[k].iteration_s;
    return fmax(0, (seconds - m->found.lower_bound_s) / seconds);
}

/* Configurations without a plan here whose bound is as near to the best. */
static int32_t count_open(const cli_making *m)
{
    const search_result *f = &m->found;
    const double most =
        (1 + m->ranks.within.iteration) * f->plans[0].iteration_s;
    int32_t open = -f->n_plans - f->n_same;
    for (int32_t k = 0; k < f->n_configs; k++)
        open += f->configs[k].lower_bound_s < most;
    return open > 0 ? open : 0;
}

static void set_finite(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        isfinite(value) ? json_real(value) : json_null());
}

static json_t *plan_json(const cli_making *m, int32_t k)
{
    const search_plan *p = &m->found.plans[k];
    const plan_strategy *s = p->strategy;
    const cost_regret *regret = &m->ranks.regret[k];
    json_t *row = json_pack("{s:i, s:s, s:i, s:s, s:b}", "stages", s->n_stages,
                            "mesh", cli_stage_meshes_text(m->c->arena, s),
                            "micro_batches", s->micro_batches, "schedule",
                            s->schedule, "chosen", k == m->found.chosen);
    if (p->of->states)
        fs_json_set_text(row, "states", p->of->states);
    cli_shape_json(row, m->c->arena, p->of->graph, p->graph, s);
    set_finite(row, "iteration_s", p->iteration_s);
    set_finite(row, "gap", gap_of(m, k));
    set_finite(row, "sim_iteration_s", m->ranks.sim_s[k]);
    if (m->ranks.peak_bytes[k] >= 0)
        fs_json_set_int(row, "peak_bytes", m->ranks.peak_bytes[k]);
    if (m->found.n_plans > 1) {
        set_finite(row, "low_s", regret->low_s);
        set_finite(row, "high_s", regret->high_s);
        set_finite(row, "max_regret", regret->most);
        set_finite(row, "mean_regret", regret->mean);
        fs_json_set_bool(row, "least_regret", k == m->ranks.least);
    }
    return row;
}

void cli_ranks_json(const cli_making *m)
{
    json_t *list = json_array();
    if (m->by_hand) {
        json_decref(list);
        return;
    }
    for (int32_t k = 0; k < m->found.n_plans; k++)
        json_array_append_new(list, plan_json(m, k));
    json_object_set_new(m->c->result, "plans", list);
    if (m->found.n_plans)
        fs_json_set_int(m->c->result, "plans_open", count_open(m));
    set_finite(m->c->result, "rank_s", m->ranks.rank_s);
    if (m->ranks.n_late > 0)
        fs_json_set_int(m->c->result, "plans_late", m->ranks.n_late);
}

static void plan_row(const cli_making *m, int32_t k, report_table *t)
{
    const search_plan *p = &m->found.plans[k];
    const plan_strategy *s = p->strategy;
    const cost_regret *regret = &m->ranks.regret[k];
    char text[32];
    report_table_cell(t, "%d%s%s", k + 1, k == m->found.chosen ? " *" : "",
                      k == m->ranks.least ? " r" : "");
    report_table_cell(t, "%s",
                      cli_shape_text(m->c->arena, p->of->graph, p->graph, s));
    report_table_cell(t, "%s", fs_human_seconds(text, p->iteration_s));
    report_table_cell(t, "%.3g %%", 100 * gap_of(m, k));
    const double sim_s = m->ranks.sim_s[k];
    report_table_cell(t, "%s",
                      isfinite(sim_s) ? fs_human_seconds(text, sim_s) : "-");
    report_table_cell(
        t, "%s",
        m->ranks.peak_bytes[k] < 0
            ? "-"
            : fs_human_bytes(text, (double)m->ranks.peak_bytes[k]));
    report_table_cell(t, "%.3g %%", 100 * regret->most);
    report_table_cell(t, "%.3g %%", 100 * regret->mean);
}

/* Why this one, and what another would have been. */
static void tell_choice(const cli_making *m)
{
    const search_result *f = &m->found;
    const search_plan *chosen = &f->plans[f->chosen];
    int32_t fastest = f->chosen;
    for (int32_t k = 0; k < f->n_plans; k++)
        if (f->plans[k].score_s < f->plans[fastest].score_s)
            fastest = k;
    if (m->c->args.pick > 0 && !m->c->args.pareto) {
        cli_say(m->c, "picked          plan %d (--pick)%s\n", f->chosen + 1,
                m->c->args.pick > f->n_plans ? ": no more were found" : "");
        return;
    }
    if (f->chosen > 0)
        cli_say(m->c,
                "chosen          plan %d, %.3g %% slower by the formula than "
                "plan 1 and %.3g %% faster simulated\n",
                f->chosen + 1,
                100 * (chosen->iteration_s / f->plans[0].iteration_s - 1),
                100 * (1 - chosen->score_s / f->plans[0].score_s));
    if (fastest != f->chosen)
        cli_say(m->c,
                "not chosen      plan %d, %.3g %% faster simulated, is proven "
                "to %.3g %% only: --pick %d writes it\n",
                fastest + 1,
                100 * (1 - f->plans[fastest].score_s / chosen->score_s),
                100 * gap_of(m, fastest), fastest + 1);
}

/* What there may be besides, and what to do about it: plans are looked for as
 * long as there are fewer than are kept, and work is left for that. */
static void tell_open(const cli_making *m)
{
    const int32_t open = count_open(m), keep = m->ranks.asked.keep;
    const char *more = open == 1 ? "one more configuration has a bound"
                                 : fs_printf(m->c->arena,
                                             "%d more configurations have "
                                             "bounds",
                                             open);
    if (open == 0)
        return;
    if (m->found.n_plans < keep)
        cli_say(m->c,
                "(%s as near, but no plan of %s that fits was found in the "
                "work for that, a quarter of the search's; --fix looks at "
                "some alone, as --fix pp=2)\n",
                more, open == 1 ? "it" : "them");
    else if (keep == CLI_MAX_PLANS)
        cli_say(m->c, "(%s as near; no more than %d plans are kept)\n", more,
                CLI_MAX_PLANS);
    else
        cli_say(m->c, "(%s as near: --keep %d looks for their plans, too)\n",
                more,
                keep + open < CLI_MAX_PLANS ? keep + open : CLI_MAX_PLANS);
}

void cli_ranks_tell(const cli_making *m)
{
    static const char *const header[] = {"plan",        "stages",    "formula",
                                         "gap",         "simulated", "memory",
                                         "most regret", "mean"};
    const cli_ranks *ranks = &m->ranks;
    const cost_regret *least = &ranks->regret[ranks->least];
    char low[32], high[32];
    if (m->by_hand)
        return;
    if (ranks->n_late > 0)
        cli_say(m->c,
                "ranking         time was over before %d of the plans found "
                "were simulated\n",
                ranks->n_late);
    if (m->found.n_plans < 2)
        return;
    report_table t = {.arena = m->c->arena, .n_columns = 8, .header = header};
    cli_say(
        m->c,
        "\nplans           the best of %d configurations, none more than "
        "%.3g %% above the best by the formula (* chosen, r least regret; "
        "memory at most: others than the chosen are packed until they fit)\n",
        m->found.n_plans, 100 * ranks->within.iteration);
    for (int32_t k = 0; k < m->found.n_plans; k++)
        plan_row(m, k, &t);
    if (!m->c->args.json)
        report_table_print(&t, stdout);
    tell_open(m);
    tell_choice(m);
    cli_say(m->c,
            "least regret    plan %d: %s to %s within what is uncertain "
            "(datasets/uncertainty.json), at most %.3g %% behind the best of "
            "them there\n",
            ranks->least + 1, fs_human_seconds(low, least->low_s),
            fs_human_seconds(high, least->high_s), 100 * least->most);
}
