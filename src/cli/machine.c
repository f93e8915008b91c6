/* Figures that were measured are of one machine. Planning for another one is a
 * use, but is said: nobody should take its predictions for this host's. */
#include "config.h"
#include "cli/machine.h"

#include "base/clock.h"
#include "base/hash.h"
#include "exec/calibrate.h"

#include <string.h>

fs_status cli_machine_here(cli *c, const cli_machine **out)
{
    hw_cluster *probed;
    if (!c->here) {
        FS_TRY(hw_cluster_probe(1, c->arena, &c->err, &probed));
        cli_machine *m = fs_new(c->arena, cli_machine, 1);
        m->host = probed->host;
        m->facts = fs_printf(c->arena, "%s, %s, flowsearch %s",
                             hw_host_facts(probed, c->arena),
                             exec_versions(c->arena), PACKAGE_VERSION);
        m->digest = fs_hash_text(0, m->facts);
        fs_hex(m->digest, m->fingerprint);
        c->here = m;
    }
    *out = c->here;
    return FS_OK;
}

fs_status cli_machine_is_here(cli *c, const hw_cluster *cluster, bool *out)
{
    const cli_machine *here;
    FS_TRY(cli_machine_here(c, &here));
    *out = cluster->machine && strcmp(cluster->machine, here->fingerprint) == 0;
    return FS_OK;
}

fs_status cli_figures_of(cli *c, const hw_cluster *cluster,
                         const hw_device **out)
{
    bool own;
    FS_TRY(cli_machine_is_here(c, cluster, &own));
    *out = own ? &cluster->groups[0].device : NULL;
    return FS_OK;
}

const char *cli_machine_name(fs_arena *arena, const char *fingerprint,
                             const char *host)
{
    return host && host[0] ? fs_printf(arena, "%s (host %s)", fingerprint, host)
                           : fingerprint;
}

/* The next of facts that ", " joins; NULL: there is none. */
static const char *next_fact(fs_arena *arena, const char **at)
{
    const char *from = *at, *end = from ? strstr(from, ", ") : NULL;
    if (!from)
        return NULL;
    *at = end ? end + 2 : NULL;
    return end ? fs_strndup(arena, from, (size_t)(end - from)) : from;
}

/* One by one, as long as there are as many of both. */
const char *cli_machine_differs(cli *c, const char *facts,
                                const cli_machine *here)
{
    fs_text text = {.arena = c->arena};
    const char *there = facts, *mine = here->facts;
    if (!facts || !facts[0])
        return fs_printf(c->arena, "what it is, is not said (here %s)", mine);
    while (there && mine) {
        const char *a = next_fact(c->arena, &there);
        const char *b = next_fact(c->arena, &mine);
        if (strcmp(a, b) != 0)
            fs_text_add(&text, "%s%s (here %s)", text.n ? ", " : "", a, b);
    }
    if (!there && !mine && !text.n)
        return fs_printf(c->arena, "in words they are the same, %s", facts);
    if (there || mine)
        return fs_printf(c->arena, "%s (here %s)", facts, here->facts);
    return text.at;
}

static bool was_told(cli *c, const char *machine)
{
    for (int32_t i = 0; i < c->told_machines.n; i++)
        if (strcmp(c->told_machines.at[i], machine) == 0)
            return true;
    fs_push(c->arena, &c->told_machines, machine);
    return false;
}

fs_status cli_machine_tell(cli *c, const char *what, const hw_cluster *cluster)
{
    const cli_machine *here;
    bool own;
    if (!cluster->machine || c->quiet || cli_am_rank())
        return FS_OK;
    FS_TRY(cli_machine_is_here(c, cluster, &own));
    FS_TRY(cli_machine_here(c, &here));
    json_object_set_new(c->result, "figures_of", json_string(cluster->machine));
    if (own || was_told(c, cluster->machine))
        return FS_OK;
    const char *differs = cli_machine_differs(c, cluster->facts, here);
    json_object_set_new(
        c->result, "other_machine",
        json_pack("{s:s, s:o, s:o, s:o}", "machine", cluster->machine, "host",
                  fs_json_string(cluster->host ? cluster->host : ""), "facts",
                  fs_json_string(cluster->facts ? cluster->facts : ""),
                  "differs", fs_json_string(differs)));
    fs_warn("%s: its figures were measured on another machine, %s, than this "
            "one, %s: %s; predictions are of that machine (--cluster local is "
            "this one)",
            what, cli_machine_name(c->arena, cluster->machine, cluster->host),
            cli_machine_name(c->arena, here->fingerprint, here->host), differs);
    return FS_OK;
}
