#include "config.h"
#include "cli/progress.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the table ---- */

static const char *const head = "step,loss,step_s,samples_per_s\n";

/* Of steps before `first` (from 0): a run that is resumed goes on with the
 * table of the one before it, whose last rows may be of steps that are run
 * again. */
static char *rows_before(const char *path, int64_t first)
{
    char *kept = NULL, *line = NULL;
    size_t n = 0, room = 0;
    FILE *old = first > 0 ? fopen(path, "r") : NULL;
    ssize_t length;
    while (old && (length = getline(&line, &room, old)) > 0) {
        char *end;
        const int64_t step = strtoll(line, &end, 10);
        if (*end != ',' || step < 1 || step > first || line[length - 1] != '\n')
            continue;
        char *more = realloc(kept, n + (size_t)length + 1);
        if (!more)
            break;
        kept = more;
        memcpy(kept + n, line, (size_t)length + 1);
        n += (size_t)length;
    }
    free(line);
    if (old)
        fclose(old);
    return kept;
}

/* A table of another making, or none: its rows would be lost. */
fs_status cli_progress_check(cli *c)
{
    const char *path = c->args.scalars;
    struct stat there;
    char line[64] = "";
    if (!path || !c->args.resume || stat(path, &there) != 0 ||
        !S_ISREG(there.st_mode) || there.st_size == 0)
        return FS_OK;
    FILE *old = fopen(path, "r");
    const bool read = old && fgets(line, sizeof line, old);
    if (old)
        fclose(old);
    if (read && strcmp(line, head) == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--scalars %s: it is there and no table of a run (its first "
                   "line is not '%.*s'): --resume would write over it",
                   path, (int)strcspn(head, "\n"), head);
}

static bool begin_table(cli_progress *p, int64_t first)
{
    char *before = rows_before(p->scalars, first);
    p->file = fopen(p->scalars, "w");
    const bool good = p->file && fputs(head, p->file) >= 0 &&
                      (!before || fputs(before, p->file) >= 0);
    free(before);
    return good;
}

/* Whole rows, at once: who watches the file reads no half ones. */
static fs_status add_row(cli_progress *p, int64_t step, double loss,
                         double step_s, fs_err *err)
{
    char number[32] = "nan";
    if (isfinite(loss))
        snprintf(number, sizeof number, "%.9g", loss);
    if ((p->n == 0 && !begin_table(p, step)) ||
        fprintf(p->file, "%" PRId64 ",%s,%.6g,%.6g\n", step + 1, number, step_s,
                p->batch / step_s) < 0 ||
        fflush(p->file) != 0)
        return fs_write_fail(p->scalars, errno, err);
    return FS_OK;
}

/* ---- the line ---- */

static void add_left(char text[64], const cli_progress *p, int64_t step)
{
    char left[32];
    text[0] = '\0';
    if (p->n < 2 || step + 1 >= p->steps)
        return;
    const double each_s = p->took_s / (double)(p->n - 1);
    snprintf(text, 64, "  %s left",
             fs_human_seconds(left, each_s * (double)(p->steps - step - 1)));
}

static void show(const cli_progress *p, int64_t step, double loss,
                 double step_s)
{
    char took[32], predicted[32], left[64], beside[64] = "", told[32] = "";
    if (!p->infer)
        snprintf(told, sizeof told, "loss %.4f  ", loss);
    if (p->predicted_s > 0)
        snprintf(beside, sizeof beside, " (predicted %s)",
                 fs_human_seconds(predicted, p->predicted_s));
    add_left(left, p, step);
    fprintf(stderr,
            "\r\033[Kstep %" PRId64 " of %" PRId64 "  %s%s%s  %.4g samples/s%s",
            step + 1, p->steps, told, fs_human_seconds(took, step_s), beside,
            p->batch / step_s, left);
    if (step + 1 == p->steps)
        fputs("\r\033[K", stderr);
}

static fs_status on_step(void *ctx, int64_t step, double loss, double step_s,
                         fs_err *err)
{
    cli_progress *p = ctx;
    if (p->scalars)
        FS_TRY(add_row(p, step, loss, step_s, err));
    p->took_s += p->n > 0 ? step_s : 0;
    p->n++;
    if (p->shows)
        show(p, step, loss, step_s);
    return FS_OK;
}

/* Of a step that takes long, each percent. */
static void on_part(void *ctx, int64_t step, double part)
{
    const cli_progress *p = ctx;
    fprintf(stderr, "\r\033[Kstep %" PRId64 " of %" PRId64 "  %.0f %%",
            step + 1, p->steps, floor(100 * part));
}

/* ---- a run ---- */

void cli_progress_begin(const cli *c, const cli_plan *p, int64_t steps,
                        cli_progress *out)
{
    const char *said = getenv("FS_PROGRESS");
    *out = (cli_progress){.steps = steps,
                          .batch = (double)p->model.graph->batch,
                          .predicted_s = said ? strtod(said, NULL) : 0,
                          .shows = said != NULL,
                          .infer = p->model.origin.infer,
                          .scalars = c->args.scalars};
}

void cli_progress_ask(cli_progress *progress, exec_options *options)
{
    options->progress_ctx = progress;
    if (progress->shows || progress->scalars)
        options->progress = on_step;
    if (progress->shows)
        options->within = on_part;
}

fs_status cli_progress_end(cli_progress *progress, fs_err *err)
{
    if (progress->file && fclose(progress->file) != 0)
        return fs_write_fail(progress->scalars, errno, err);
    return FS_OK;
}

fs_status cli_progress_show(cli *c, const cli_plan *p)
{
    sim_result sim;
    if (!isatty(STDERR_FILENO))
        return FS_OK;
    FS_TRY(cli_predict(c, p, NULL, &sim));
    setenv("FS_PROGRESS", fs_printf(c->arena, "%.9g", sim.iteration_s), 1);
    return FS_OK;
}
