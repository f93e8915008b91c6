#include "config.h"
#include "cost/points.h"

#include "hw/samples.h"
#include "ir/op.h"
#include "plan/boxing.h"

#include <string.h>

static bool is_measured(const char *what)
{
    for (int k = 0; k < IR_OP_COUNT; k++) {
        const ir_op_class of = ir_op_class_of((ir_op_kind)k);
        if (strcmp(ir_op_table[k]->name, what) == 0 ||
            strcmp(ir_op_class_name(of), what) == 0)
            return true;
    }
    return strcmp(what, HW_PROCESS) == 0 || strcmp(what, HW_PING) == 0 ||
           strcmp(what, HW_TURN) == 0 || strcmp(what, HW_FIRING) == 0;
}

static bool is_collective(const char *what)
{
    for (int k = 0; k < PLAN_BOX_KINDS; k++)
        if (plan_box_is_collective((plan_box_kind)k) &&
            strcmp(plan_box_name((plan_box_kind)k), what) == 0)
            return true;
    return false;
}

static fs_status check_group(const hw_group *group, int32_t g, const char *file,
                             fs_err *err)
{
    for (int32_t i = 0; i < group->device.n_points; i++) {
        const hw_point *point = &group->device.points[i];
        if (i > 0 && strcmp(point->what, point[-1].what) == 0)
            continue; /* they are sorted */
        if (!is_measured(point->what))
            return fs_fail(err, FS_INVALID,
                           "%s: groups[%d].device.points: what is \"%.60s\" "
                           "(of work %g): no op, no class of ops",
                           file, g, point->what, point->work);
    }
    for (int32_t i = 0; i < group->n_collectives; i++) {
        const hw_collective *one = &group->collectives[i];
        if (!is_collective(one->what))
            return fs_fail(err, FS_INVALID,
                           "%s: groups[%d].collectives: what is \"%.60s\" (of "
                           "%d ranks): no collective, as all-reduce is one",
                           file, g, one->what, one->ranks);
    }
    return FS_OK;
}

fs_status cost_points_check(const hw_cluster *cluster, const char *file,
                            fs_err *err)
{
    for (int32_t g = 0; g < cluster->n_groups; g++)
        FS_TRY(check_group(&cluster->groups[g], g, file, err));
    return FS_OK;
}
