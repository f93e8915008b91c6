/* The optimizer's constants: stated at `search` and `plan`, where they shape
 * the training graph, or changed at `run`, where only values change. */
#include "config.h"
#include "cli/tuning.h"

#include <float.h>
#include <math.h>

typedef struct constant {
    const char *flag;
    double value;
    int use;      /* IR_USES_..., 0: every optimizer does */
    double below; /* from there on a state grows with every step, or is no
                   * number of fp32 */
} constant;

enum { N_CONSTANTS = 6 };

static void list_constants(const cli_args *a, constant out[N_CONSTANTS])
{
    const constant all[N_CONSTANTS] = {
        {"--lr", a->lr, 0, FLT_MAX},
        {"--weight-decay", a->weight_decay, 0, FLT_MAX},
        {"--momentum", a->momentum, IR_USES_MU, 1},
        {"--beta1", a->beta1, IR_USES_BETAS, 1},
        {"--beta2", a->beta2, IR_USES_BETAS, 1},
        {"--epsilon", a->epsilon, IR_USES_EPSILON, FLT_MAX}};
    for (int i = 0; i < N_CONSTANTS; i++)
        out[i] = all[i];
}

fs_status cli_check_tuning(cli *c, const char *optimizer, const char *why)
{
    constant all[N_CONSTANTS];
    ir_optimizer kind;
    FS_TRY(ir_optimizer_parse(optimizer, &c->err, &kind));
    list_constants(&c->args, all);
    for (int i = 0; i < N_CONSTANTS; i++)
        if (!isnan(all[i].value) && all[i].use &&
            !(all[i].use & ir_optimizer_uses(kind)))
            return fs_fail(&c->err, FS_INVALID,
                           "%s %g has no effect: --optimizer %s%s does not "
                           "use it",
                           all[i].flag, all[i].value, optimizer, why);
    for (int i = 0; i < N_CONSTANTS; i++)
        if (all[i].value >= all[i].below) /* not when it is absent, NAN */
            return fs_fail(&c->err, FS_INVALID,
                           "%s %g: a number from 0 to below %g is wanted",
                           all[i].flag, all[i].value, all[i].below);
    return FS_OK;
}

fs_status cli_tuning(cli *c, const plan_origin *o, ir_train_options *room,
                     const ir_train_options **out)
{
    const cli_args *a = &c->args;
    ir_optimizer kind;
    *out = NULL;
    if (o->infer)
        return FS_OK;
    FS_TRY(ir_optimizer_parse(o->optimizer, &c->err, &kind));
    *out = room;
    *room = (ir_train_options){.optimizer = kind,
                               .lr = a->lr,
                               .weight_decay = a->weight_decay,
                               .momentum = a->momentum,
                               .beta1 = a->beta1,
                               .beta2 = a->beta2,
                               .epsilon = a->epsilon};
    return FS_OK;
}

int cli_tuning_words(cli *c, const char **words)
{
    constant all[N_CONSTANTS];
    int n = 0;
    list_constants(&c->args, all);
    for (int i = 0; i < N_CONSTANTS; i++)
        if (!isnan(all[i].value)) {
            words[n++] = all[i].flag;
            words[n++] = fs_printf(c->arena, "%.17g", all[i].value);
        }
    return n;
}
