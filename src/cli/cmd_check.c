#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"

static fs_status check(cli *c, const cli_plan *p)
{
    plan_report report = {0};
    if (p->plan->edited)
        cli_say(c, "note: the file's plan_digest is not that of its plan: "
                   "edited by hand\n");
    json_object_set_new(c->result, "edited", json_boolean(p->plan->edited));
    fs_status status = cli_plan_prove(c, p, &report);
    json_object_set_new(c->result, "transitions",
                        json_integer(report.n_transitions));
    json_object_set_new(c->result, "places", json_integer(report.n_places));
    json_object_set_new(c->result, "wall_s", json_real(report.seconds));
    FS_TRY(status);
    char time[32], bytes[32];
    cli_say(c,
            "sound: every read has its SBP, collectives and channels have "
            "one order,\nthe credit graph is live (%lld transitions, %lld "
            "places, no token-free cycle),\nat most %s per device; proved "
            "in %s\n",
            (long long)report.n_transitions, (long long)report.n_places,
            fs_human_bytes(bytes, (double)report.peak_bytes_max),
            fs_human_seconds(time, report.seconds));
    cli_tell_offsets(c, p);
    return FS_OK;
}

fs_status cli_cmd_check(cli *c)
{
    return cli_with_plan(c, check);
}
