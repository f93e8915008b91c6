#include "config.h"
#include "cli/validate_machines.h"

#include "report/report.h"

#include <string.h>

bool validate_same_where(const validate_where *a, const validate_where *b)
{
    return strcmp(a->machine, b->machine) == 0 &&
           strcmp(a->figures, b->figures) == 0;
}

bool validate_misplaced(const validate_where *at)
{
    return at->machine[0] && at->figures[0] &&
           strcmp(at->machine, at->figures) != 0;
}

const char *validate_left_out(const validate_where *at)
{
    return validate_misplaced(at) ? "predicted with another machine's figures"
           : !at->machine[0]      ? "the runs do not say on which machine"
           : !at->figures[0]      ? "predicted with figures nobody measured"
                                  : NULL;
}

static bool is_here(const validate_where *at, const cli_machine *here)
{
    return strcmp(at->machine, here->fingerprint) == 0;
}

const char *validate_mark(fs_arena *arena, const validate_where *at,
                          const cli_machine *here)
{
    const char *where =
        is_here(at, here) ? ""
        : !at->machine[0]
            ? ", on a machine not said"
            : fs_printf(arena, ", on %s",
                        cli_machine_name(arena, at->machine, at->host));
    if (!validate_misplaced(at))
        return where;
    return fs_printf(arena, "%s, by figures of %s", where, at->figures);
}

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? fs_json_string(text) : json_null();
}

static json_t *machine_json(const validate_where *at, const cli_machine *here)
{
    const char *why = validate_left_out(at);
    return json_pack("{s:o, s:o, s:o, s:b, s:i, s:i, s:b, s:b, s:o}", "machine",
                     text_or_null(at->machine), "host", text_or_null(at->host),
                     "figures_of", text_or_null(at->figures), "here",
                     is_here(at, here), "plans", at->plans, "runs", at->runs,
                     "counted", !validate_misplaced(at), "in_intervals", !why,
                     "left_out", text_or_null(why));
}

static const char *interval_text(fs_arena *arena, const validate_where *at,
                                 const cli_machine *here)
{
    const char *why = validate_left_out(at);
    return why                 ? fs_printf(arena, "left out: %s", why)
           : is_here(at, here) ? "of plans for this host"
                               : "of plans with that machine's figures alone";
}

void validate_tell_machines(cli *c, const validate_where *at, int32_t n,
                            const cli_machine *here)
{
    static const char *const header[] = {"on machine", "by figures of", "plans",
                                         "runs", "intervals of `sim`"};
    report_table t = {.arena = c->arena, .n_columns = 5, .header = header};
    json_t *list = json_array();
    bool all_here = true;
    for (int32_t i = 0; i < n; i++) {
        json_array_append_new(list, machine_json(&at[i], here));
        all_here &= is_here(&at[i], here) && !validate_left_out(&at[i]);
        report_table_cell(
            &t, "%s",
            is_here(&at[i], here) ? "this one"
            : at[i].machine[0]
                ? cli_machine_name(c->arena, at[i].machine, at[i].host)
                : "not said");
        report_table_cell(&t, "%s",
                          !at[i].figures[0] ? "none"
                          : strcmp(at[i].figures, at[i].machine) == 0
                              ? "the same"
                              : at[i].figures);
        report_table_cell(&t, "%d", at[i].plans);
        report_table_cell(&t, "%d", at[i].runs);
        report_table_cell(&t, "%s", interval_text(c->arena, &at[i], here));
    }
    json_object_set_new(c->result, "machines", list);
    if (all_here || c->args.json)
        return;
    printf("\n");
    report_table_print(&t, stdout);
}
