/* --collectives, and which algorithms a plan's collectives use. */
#include "config.h"
#include "cli/collectives.h"

fs_status cli_check_collectives(cli *c)
{
    const char *said = c->args.collectives;
    plan_algorithm found;
    if (!said || plan_algorithm_find(said, &found))
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--collectives %s is unknown; there are %s", said,
                   plan_algorithm_names(c->arena));
}

fs_status cli_check_framework_collectives(cli *c, const cost_framework *f)
{
    plan_algorithm said;
    if (!c->args.collectives ||
        !plan_algorithm_find(c->args.collectives, &said) ||
        f->collectives & (uint32_t)1 << said)
        return FS_OK;
    fs_text has = {.arena = c->arena};
    for (int i = 0; i < PLAN_ALGORITHMS; i++)
        if (f->collectives & (uint32_t)1 << i)
            fs_text_add(&has, "%s%s", has.at ? ", " : "",
                        plan_algorithm_name((plan_algorithm)i));
    return fs_fail(&c->err, FS_INVALID,
                   "--collectives %s: %s does all-reduces by %s",
                   c->args.collectives, f->name, has.at);
}

cost_model *cli_cost_model(cli *c, const hw_cluster *cluster)
{
    cost_model *model = cost_model_create(cluster, c->arena);
    plan_algorithm said;
    if (c->args.collectives && plan_algorithm_find(c->args.collectives, &said))
        cost_model_reduce_by(model, said);
    return model;
}

/* Tasks of a kind that use an algorithm. */
typedef int32_t tally[PLAN_BOX_KINDS][PLAN_ALGORITHMS];

static void count(const plan *p, const plan_choice *choice, tally n)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            if (choice->of[r][i] < PLAN_ALGORITHMS)
                n[p->roles[r].tasks[i].box.kind][choice->of[r][i]]++;
}

/* "all-reduce 3 direct, 1 ring" */
static void tell_kind(plan_box_kind kind, const int32_t *n, fs_text *line,
                      json_t *out)
{
    json_t *of = json_object();
    const char *before = line->at ? "; " : "";
    for (int i = 0; i < PLAN_ALGORITHMS; i++) {
        const char *name = plan_algorithm_name((plan_algorithm)i);
        if (n[i] == 0)
            continue;
        if (json_object_size(of) == 0)
            fs_text_add(line, "%s%s", before, plan_box_name(kind));
        fs_text_add(line, "%s %d %s", json_object_size(of) ? "," : "", n[i],
                    name);
        json_object_set_new(of, name, json_integer(n[i]));
    }
    if (json_object_size(of) > 0)
        json_object_set(out, plan_box_name(kind), of);
    json_decref(of);
}

const char *cli_note_collectives(cli *c, const cli_plan *p)
{
    const plan_choice choice = cost_choice(p->cost, p->plan, c->arena);
    tally n = {{0}};
    fs_text line = {.arena = c->arena};
    json_t *out = json_object();
    count(p->plan, &choice, n);
    for (int k = 0; k < PLAN_BOX_KINDS; k++)
        tell_kind((plan_box_kind)k, n[k], &line, out);
    json_object_set_new(c->result, "collectives", out);
    return line.at ? line.at : "";
}

void cli_tell_collectives(cli *c, const cli_plan *p)
{
    const char *all = cli_note_collectives(c, p);
    if (*all)
        cli_say(c, "collectives     %s\n", all);
}
