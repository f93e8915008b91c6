#include "config.h"
#include "cli/mailbox.h"

#include "exec/piece.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x46534d42, MOST_SLOTS = 64, HEAD_BYTES = 4096, ALIGN = 64 };

/* Semaphores, which nobody owns: a rank that is killed leaves none locked. */
struct cli_mailbox_head {
    uint32_t magic;
    int32_t n_slots;
    int64_t slot_bytes;
    uint64_t plan; /* digest */
    sem_t bell;
    _Atomic int64_t departed; /* batches */
    atomic_bool over;
    _Atomic int64_t missing[MOST_SLOTS]; /* parts of the slot's batch */
};
_Static_assert(sizeof(struct cli_mailbox_head) <= HEAD_BYTES, "one page");

/* ---- the layout, the same in all processes ---- */

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* One more than can be computed at once departs when it is full, and one more
 * may be gathered into its slot. */
static void lay_out(cli_mailbox *box, fs_arena *arena)
{
    const cli_served *s = box->served;
    const int32_t slots = s->depth + 2;
    int64_t at = 0;
    box->in_at = fs_new(arena, int64_t, s->n_in);
    box->out_at = fs_new(arena, int64_t, s->n_out);
    for (int32_t i = 0; i < s->n_in; i++) {
        box->in_at[i] = at;
        at += aligned(s->in[i].bytes * s->batch);
    }
    for (int32_t i = 0; i < s->n_out; i++) {
        box->out_at[i] = at;
        at += aligned(s->out[i].bytes * (s->batch / s->m)) * s->m;
    }
    box->n_slots = slots < MOST_SLOTS ? slots : MOST_SLOTS;
    box->slot_bytes = at;
    box->bytes = HEAD_BYTES + at * box->n_slots;
}

static fs_status map(cli_mailbox *box, fs_err *err)
{
    void *at = mmap(NULL, (size_t)box->bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED, box->file, 0);
    if (at == MAP_FAILED)
        return fs_fail(err, FS_FAULT,
                       "cannot map %lld bytes for batches on their way: %s",
                       (long long)box->bytes, strerror(errno));
    box->head = at;
    box->slots = (char *)at + HEAD_BYTES;
    return FS_OK;
}

static char *slot(const cli_mailbox *box, int64_t batch)
{
    return box->slots + batch % box->n_slots * box->slot_bytes;
}

static char *output_at(const cli_mailbox *box, int64_t batch, int32_t i,
                       int32_t micro_batch)
{
    const cli_served *s = box->served;
    return slot(box, batch) + box->out_at[i] +
           micro_batch * aligned(s->out[i].bytes * (s->batch / s->m));
}

/* ---- of who answers ---- */

/* The system would end whoever touches the last page. */
static fs_status check_memory(const cli_mailbox *box, fs_err *err)
{
    const double share = 0.5;
    const double memory =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if ((double)box->bytes <= share * memory)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "%d batches on their way take %.3g GB, more than half of "
                   "this host's memory: plan with a smaller --batch",
                   box->n_slots, 1e-9 * (double)box->bytes);
}

fs_status cli_mailbox_create(const cli_served *served, fs_arena *arena,
                             fs_err *err, cli_mailbox *out)
{
    cli_mailbox box = {.served = served, .file = -1};
    lay_out(&box, arena);
    FS_TRY(check_memory(&box, err));
    box.file = memfd_create("flowsearch-mailbox", MFD_CLOEXEC);
    if (box.file < 0 || ftruncate(box.file, (off_t)box.bytes) != 0)
        fs_fail(err, FS_FAULT, "memory for batches: %s", strerror(errno));
    else
        map(&box, err);
    if (!box.head) {
        if (box.file >= 0)
            close(box.file);
        return FS_FAULT;
    }
    box.head->magic = MAGIC;
    box.head->n_slots = box.n_slots;
    box.head->slot_bytes = box.slot_bytes;
    box.head->plan = served->digest;
    sem_init(&box.head->bell, 1, 0);
    snprintf(box.path, sizeof box.path, "/proc/%d/fd/%d", (int)getpid(),
             box.file);
    *out = box;
    return FS_OK;
}

void cli_mailbox_close(cli_mailbox *box)
{
    if (!box->head)
        return;
    munmap(box->head, (size_t)box->bytes);
    close(box->file);
    *box = (cli_mailbox){.file = -1};
}

void *cli_mailbox_input(const cli_mailbox *box, int64_t batch, int32_t input)
{
    return slot(box, batch) + box->in_at[input];
}

void cli_mailbox_call(const cli_mailbox *box)
{
    if (box->records)
        exec_records_ring(box->records);
}

void cli_mailbox_depart(cli_mailbox *box, int64_t batch)
{
    atomic_store(&box->head->missing[batch % box->n_slots], box->served->parts);
    atomic_store(&box->head->departed, batch + 1);
}

bool cli_mailbox_is_back(const cli_mailbox *box, int64_t batch)
{
    return atomic_load(&box->head->missing[batch % box->n_slots]) == 0;
}

const void *cli_mailbox_output(const cli_mailbox *box, int64_t batch,
                               int32_t output, int32_t micro_batch)
{
    return output_at(box, batch, output, micro_batch);
}

void cli_mailbox_end(cli_mailbox *box)
{
    atomic_store(&box->head->over, true);
}

void cli_mailbox_clear(cli_mailbox *box)
{
    atomic_store(&box->head->departed, INT64_C(0));
    atomic_store(&box->head->over, false);
}

void cli_mailbox_sleep(cli_mailbox *box, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000,
                                   until_ns % 1000000000};
    sem_clockwait(&box->head->bell, CLOCK_MONOTONIC, &until);
}

void cli_mailbox_ring(cli_mailbox *box)
{
    sem_post(&box->head->bell);
}

/* ---- of a rank ---- */

fs_status cli_mailbox_join(const cli_served *served, fs_arena *arena,
                           fs_err *err, cli_mailbox *out)
{
    const char *path = getenv("FS_MAILBOX");
    cli_mailbox box = {.served = served};
    lay_out(&box, arena);
    box.file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (box.file < 0)
        return fs_fail(err, FS_FAULT, "%s: %s", path ? path : "FS_MAILBOX",
                       strerror(path ? errno : ENOENT));
    const fs_status status = map(&box, err);
    close(box.file);
    box.file = -1;
    FS_TRY(status);
    if (box.head->magic != MAGIC || box.head->plan != served->digest ||
        box.head->n_slots != box.n_slots ||
        box.head->slot_bytes != box.slot_bytes)
        return fs_fail(err, FS_FAULT, "%s: is for another plan", path);
    *out = box;
    return FS_OK;
}

static bool has_departed(const cli_mailbox *box, int64_t batch)
{
    return atomic_load(&box->head->departed) > batch;
}

static void take_part(cli_mailbox *box, int64_t batch)
{
    _Atomic int64_t *missing = &box->head->missing[batch % box->n_slots];
    if (atomic_fetch_sub(missing, INT64_C(1)) == 1)
        sem_post(&box->head->bell);
}

static bool is_over(void *ctx)
{
    const cli_mailbox *box = ctx;
    return atomic_load(&box->head->over);
}

static bool has_come(void *ctx, int64_t sample)
{
    const cli_mailbox *box = ctx;
    return has_departed(box, sample / box->served->batch) || is_over(ctx);
}

/* Steps after the last batch are of zeroes, and nobody wants their outputs. */
static fs_status fill(void *ctx, const char *name, int64_t sample,
                      ir_dtype dtype, const ir_shape *local,
                      const int64_t *offset, int32_t batch_axis, void *out,
                      fs_err *err)
{
    cli_mailbox *box = ctx;
    const cli_served *s = box->served;
    const int64_t batch = sample / s->batch, element = ir_dtype_bytes(dtype);
    int32_t i = 0;
    while (i < s->n_in && strcmp(s->in[i].name, name) != 0)
        i++;
    if (i == s->n_in)
        return fs_fail(err, FS_FAULT, "no input '%s' is served", name);
    if (!has_departed(box, batch)) {
        memset(out, 0, (size_t)(ir_shape_count(local) * element));
        return FS_OK;
    }
    int64_t start[IR_MAX_RANK] = {0};
    memcpy(start, offset, (size_t)local->rank * sizeof *start);
    start[batch_axis] += sample % s->batch;
    exec_piece_cut(&s->in[i].whole, local, start, element,
                   slot(box, batch) + box->in_at[i], out);
    take_part(box, batch);
    return FS_OK;
}

exec_data cli_mailbox_data(cli_mailbox *box)
{
    return (exec_data){.ctx = box,
                       .fill = fill,
                       .come = has_come,
                       .over = is_over,
                       .rings = true};
}

static fs_status take(void *ctx, int32_t output, int64_t step,
                      int32_t micro_batch, const void *data, fs_err *err)
{
    cli_mailbox *box = ctx;
    const cli_served *s = box->served;
    (void)err;
    if (!has_departed(box, step))
        return FS_OK;
    memcpy(output_at(box, step, output, micro_batch), data,
           (size_t)(s->out[output].bytes * (s->batch / s->m)));
    take_part(box, step);
    return FS_OK;
}

exec_sink cli_mailbox_sink(cli_mailbox *box)
{
    return (exec_sink){box, take};
}
