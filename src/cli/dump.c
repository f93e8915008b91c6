/* What the flight records of a job that failed hold, of all ranks. */
#include "config.h"
#include "cli/watch.h"

#include "base/clock.h"

#include <stdio.h>

enum { MOST_TOLD = 16, LAST_EVENTS = 8 };

static const char *state_word(const cli_watch *w, int32_t rank)
{
    static const char *const words[] = {"absent", "starting", "running",
                                        "ending", "ended",    "failed"};
    const exec_record *r = w->copies[rank];
    const cli_watched *at = &w->ranks[rank];
    const exec_record *live = exec_records_at(&w->records, rank);
    const int32_t state = r->state;
    if (at->process == 'T')
        return "stopped";
    if (rank == w->fault.rank && w->fault.signal > 0)
        return "killed";
    if (live->fault == EXEC_INTERRUPTED)
        return live->cause;
    if (at->seen && at->process == 0 && state < EXEC_ENDED)
        return "gone";
    return words[state >= 0 && state <= EXEC_FAILED ? state : EXEC_FAILED];
}

static const char *peers_text(const cli_at *at, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    fs_text_add(&text, "%s", "");
    for (int32_t i = 0; i < at->n_peers && i < CLI_WAITS_PEERS; i++)
        fs_text_add(&text, "%s%d",
                    i == 0 ? at->n_peers == 1 ? ", for rank " : ", for ranks "
                           : ", ",
                    at->peers[i]);
    if (at->n_peers > CLI_WAITS_PEERS)
        fs_text_add(&text, " and %d more", at->n_peers - CLI_WAITS_PEERS);
    return text.at;
}

static void tell_rank(const cli_watch *w, int32_t rank)
{
    fs_arena *arena = w->arena;
    const cli_at *at = &w->waits.at[rank];
    const char *task =
        cli_at_text(w->p->model.graph, w->p->plan, rank, at, arena);
    const double since_s = 1e-9 * (double)(fs_now_ns() - at->since_ns);
    if (!*task)
        fprintf(stderr, "  rank %d: %s\n", rank, state_word(w, rank));
    else
        fprintf(stderr, "  rank %d: %s, %s %s for %.2f s%s\n", rank,
                state_word(w, rank),
                !at->busy      ? "before"
                : at->computes ? "in"
                               : "waits in",
                task, since_s, peers_text(at, arena));
}

static void tell_differing(const cli_watch *w)
{
    const ir_graph *graph = w->p->model.graph;
    if (w->waits.differs < 0)
        return;
    fprintf(stderr,
            "  rank %d is behind rank %d, which does the same: %s, %s\n",
            w->waits.differs, w->waits.ahead,
            cli_at_text(graph, w->p->plan, w->waits.differs,
                        &w->waits.at[w->waits.differs], w->arena),
            cli_at_text(graph, w->p->plan, w->waits.ahead,
                        &w->waits.at[w->waits.ahead], w->arena));
}

static json_t *events_json(const cli_watch *w, int32_t rank)
{
    const exec_record *r = w->copies[rank];
    const plan_role *role = plan_role_of_rank(w->p->plan, rank);
    const int64_t n = r->n_events;
    json_t *list = json_array();
    for (int64_t i = n > LAST_EVENTS ? n - LAST_EVENTS : 0; i < n; i++) {
        const exec_event *e = &r->ring[i % EXEC_RECORD_EVENTS];
        if (e->task < 0 || e->task >= role->n_tasks)
            continue;
        json_array_append_new(
            list,
            json_pack("{s:s, s:i, s:i, s:f, s:f}", "task",
                      plan_task_name(w->p->model.graph, &role->tasks[e->task],
                                     w->arena),
                      "step", e->step + 1, "micro_batch", e->micro_batch,
                      "start_s", 1e-9 * (double)(e->start_ns - r->begun_ns),
                      "end_s", 1e-9 * (double)(e->end_ns - r->begun_ns)));
    }
    return list;
}

void cli_watch_json_host(const cli_watch *w, int32_t rank, json_t *into)
{
    const exec_record *r = exec_records_at(&w->records, rank);
    if (r->away)
        fs_json_set_text(into, "host", r->host);
}

static json_t *rank_json(const cli_watch *w, int32_t rank)
{
    const cli_at *at = &w->waits.at[rank];
    json_t *peers = json_array();
    for (int32_t i = 0; i < at->n_peers && i < CLI_WAITS_PEERS; i++)
        json_array_append_new(peers, json_integer(at->peers[i]));
    const exec_record *r = w->copies[rank];
    json_t *row = json_pack(
        "{s:i, s:s, s:I, s:s, s:b, s:o, s:o}", "rank", rank, "state",
        state_word(w, rank), "steps_done", (json_int_t)r->steps_done, "at",
        cli_at_text(w->p->model.graph, w->p->plan, rank, at, w->arena), "busy",
        at->busy, "waits_for", peers, "last", events_json(w, rank));
    cli_watch_json_host(w, rank, row);
    return row;
}

void cli_watch_dump(cli_watch *w)
{
    cli_watch_copy(w);
    const int32_t n = w->waits.n;
    fprintf(stderr, "flowsearch: flight records of the ranks:\n");
    for (int32_t r = 0; r < n && r < MOST_TOLD; r++)
        tell_rank(w, r);
    if (n > MOST_TOLD)
        fprintf(stderr, "  and %d ranks more\n", n - MOST_TOLD);
    tell_differing(w);
    if (w->waits.n_cycle > 0)
        fprintf(stderr, "  they wait for each other: ");
    for (int32_t i = 0; i < w->waits.n_cycle; i++)
        fprintf(stderr, "rank %d -> %s", w->waits.cycle[i],
                i + 1 < w->waits.n_cycle ? "" : "the first\n");
}

void cli_watch_json(cli_watch *w, json_t *into)
{
    cli_watch_copy(w);
    const cli_waits *waits = &w->waits;
    json_t *ranks = json_array(), *cycle = json_array();
    for (int32_t i = 0; i < waits->n_cycle; i++)
        json_array_append_new(cycle, json_integer(waits->cycle[i]));
    for (int32_t r = 0; r < waits->n; r++)
        json_array_append_new(ranks, rank_json(w, r));
    json_object_set_new(into, "ranks", ranks);
    json_object_set_new(into, "cycle", cycle);
    json_object_set_new(into, "differs",
                        waits->differs < 0 ? json_null()
                                           : json_integer(waits->differs));
}
