#include "config.h"

#include "kernels/product.h"

#include <string.h>

/* The sums of a tile must be registers at any -O that the user gives; products
 * are fused into sums: that is what an element's bits are, everywhere. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2,fp-contract=fast")
#define KERNEL_UNROLL _Pragma("GCC unroll 16")
#else
#define KERNEL_UNROLL _Pragma("clang loop unroll(full)")
#endif
#define KERNEL_INLINE static inline __attribute__((always_inline))

enum {
    MOST_WIDTH = 32,
    /* Of A: more of them make the panels of B less often, and need no longer be
     * in the second cache, for they are read one after the other. */
    ROWS_AT_ONCE = 1024,
    TILES_AT_ONCE = 8, /* between two rests: some 30 us */
    ALIGN = 64,
    SLACK = 16,
    /* Panels that are copied at a time: more of them push each other out of
     * the first cache, whose sets they share. */
    GROUP = 4,
    AHEAD = 12, /* terms, as the following */
    COPY_AHEAD = 8,
    /* Before a tile's end C is asked for: earlier, panels push it out. */
    LAST = 128,
    /* A stretch: longer ones read and write C less often, and panels of B come
     * from the second cache as fast as they are needed. Of all sets the same,
     * for the bits hang on it. */
    TERMS = 512
};

/* ---- squares that are turned ---- */

#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
/* In each four of a and b, which lie in turn: the first two, the last two; the
 * first pair, the last pair. */
#define LOW4(at, n) at, at + (n), at + 1, at + (n) + 1
#define HIGH4(at, n) at + 2, at + (n) + 2, at + 3, at + (n) + 3
#define LOW22(at, n) at, at + 1, at + (n), at + (n) + 1
#define HIGH22(at, n) at + 2, at + 3, at + (n) + 2, at + (n) + 3
#define FOUR(at) at, at + 1, at + 2, at + 3
#define QUARTERS(a, b, c, d) FOUR(a), FOUR(b), FOUR(c), FOUR(d)

typedef float eight __attribute__((vector_size(32), aligned(4)));
typedef float sixteen __attribute__((vector_size(64), aligned(4)));

/* Terms at .. at + 8 of all lines. The last lines first: those beyond the width
 * stand where the next term's first ones come. */
KERNEL_INLINE void turn_eight(float *restrict panel, int width,
                              const float *const *line, int64_t at)
{
    for (int i = (width - 1) / 8 * 8; i >= 0; i -= 8) {
        eight r[8], s[8], t[8];
        KERNEL_UNROLL
        for (int j = 0; j < 8; j++)
            r[j] = *(const eight *)(line[i + j] + at);
        KERNEL_UNROLL
        for (int j = 0; j < 8; j += 2) {
            s[j] = PICK(r[j], r[j + 1], LOW4(0, 8), LOW4(4, 8));
            s[j + 1] = PICK(r[j], r[j + 1], HIGH4(0, 8), HIGH4(4, 8));
        }
        KERNEL_UNROLL
        for (int j = 0; j < 8; j++) {
            const eight one = s[j / 4 * 4 + j % 4 / 2];
            const eight two = s[j / 4 * 4 + j % 4 / 2 + 2];
            t[j] = j % 2 ? PICK(one, two, HIGH22(0, 8), HIGH22(4, 8))
                         : PICK(one, two, LOW22(0, 8), LOW22(4, 8));
        }
        KERNEL_UNROLL
        for (int j = 0; j < 4; j++)
            *(eight *)(panel + j * width + i) =
                PICK(t[j], t[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        KERNEL_UNROLL
        for (int j = 0; j < 4; j++)
            *(eight *)(panel + (j + 4) * width + i) =
                PICK(t[j], t[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* The same of sixteen: fours within a quarter of a vector, then quarters. */
KERNEL_INLINE void turn_sixteen(float *restrict panel, int width,
                                const float *const *line, int64_t at)
{
    for (int i = (width - 1) / 16 * 16; i >= 0; i -= 16) {
        sixteen r[16], s[16], t[16];
        KERNEL_UNROLL
        for (int j = 0; j < 16; j++)
            r[j] = *(const sixteen *)(line[i + j] + at);
        KERNEL_UNROLL
        for (int j = 0; j < 16; j += 2) {
            s[j] = PICK(r[j], r[j + 1], LOW4(0, 16), LOW4(4, 16), LOW4(8, 16),
                        LOW4(12, 16));
            s[j + 1] = PICK(r[j], r[j + 1], HIGH4(0, 16), HIGH4(4, 16),
                            HIGH4(8, 16), HIGH4(12, 16));
        }
        /* Quarter q of t[4 g + c]: term 4 q + c of lines 4 g to 4 g + 3. */
        KERNEL_UNROLL
        for (int j = 0; j < 16; j++) {
            const sixteen one = s[j / 4 * 4 + j % 4 / 2];
            const sixteen two = s[j / 4 * 4 + j % 4 / 2 + 2];
            t[j] = j % 2 ? PICK(one, two, HIGH22(0, 16), HIGH22(4, 16),
                                HIGH22(8, 16), HIGH22(12, 16))
                         : PICK(one, two, LOW22(0, 16), LOW22(4, 16),
                                LOW22(8, 16), LOW22(12, 16));
        }
        /* r[4 h + c]: quarters h % 2 and h % 2 + 2 of two groups of lines. */
        KERNEL_UNROLL
        for (int j = 0; j < 16; j++) {
            const sixteen one = t[j / 8 * 8 + j % 4];
            const sixteen two = t[j / 8 * 8 + j % 4 + 4];
            r[j] = j / 4 % 2 ? PICK(one, two, QUARTERS(4, 12, 20, 28))
                             : PICK(one, two, QUARTERS(0, 8, 16, 24));
        }
        KERNEL_UNROLL
        for (int j = 0; j < 16; j++) {
            const sixteen one = r[j % 8], two = r[j % 8 + 8];
            *(sixteen *)(panel + j * width + i) =
                j / 8 ? PICK(one, two, QUARTERS(4, 12, 20, 28))
                      : PICK(one, two, QUARTERS(0, 8, 16, 24));
        }
    }
}

/* ---- instruction sets ---- */

#define LANES 16
#define ROWS 14
#define TARGET
#define T(name) plain_##name
#include "kernels/product.inc"
#undef TARGET
#undef T

#ifdef __x86_64__
#define TARGET __attribute__((target("avx512f,avx512vl,avx2,fma")))
#define T(name) avx512_##name
#include "kernels/product.inc"
#undef LANES
#undef ROWS
#undef TARGET
#undef T

#define LANES 8
#define ROWS 6
#define TARGET __attribute__((target("avx2,fma")))
#define T(name) avx2_##name
#include "kernels/product.inc"

static bool avx512_runs(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}

static bool avx2_runs(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#define TILES(set, rows_of, runs_of, small_of)                                 \
    {                                                                          \
        .name = #set, .rows = (rows_of), .columns = set##_columns,             \
        .small = INT64_C(1) << (small_of), .runs = (runs_of),                  \
        .tile = set##_tile, .first = set##_first, .turn = set##_turn,          \
        .copy = set##_copy                                                     \
    }

static const kernel_tiles tiles_table[] = {
#ifdef __x86_64__
    /* By 3 % up to 384^3; but one of more than 0.1 ms is to rest. */
    TILES(avx512, 14, avx512_runs, 24),
    TILES(avx2, 6, avx2_runs, 20),
#endif
    TILES(plain, 14, NULL, 20),
};
enum { N_TILES = sizeof tiles_table / sizeof *tiles_table };

const kernel_tiles *kernel_tiles_list(int *n)
{
    *n = N_TILES;
    return tiles_table;
}

const kernel_tiles *kernel_tiles_find(void)
{
    for (int i = 0; i < N_TILES; i++)
        if (tiles_table[i].runs && tiles_table[i].runs())
            return &tiles_table[i];
    return NULL;
}

/* ---- blocks ---- */

/* How a product is cut: `terms` of each stretch, `rows` of each block of A. */
typedef struct cut {
    int64_t terms, rows;
} cut;

static int64_t whole(int64_t n, int64_t grain)
{
    return (n + grain - 1) / grain * grain;
}

/* Parts of at most `most`, about equal, of whole grains. */
static int64_t even_part(int64_t length, int64_t most, int64_t grain)
{
    const int64_t parts = (length + most - 1) / most;
    return whole((length + parts - 1) / parts, grain);
}

static cut cut_of(const kernel_tiles *t, int64_t m, int64_t k)
{
    return (cut){.terms = even_part(k, TERMS, 1),
                 .rows = even_part(m, ROWS_AT_ONCE, t->rows)};
}

static int64_t room_of(int64_t terms, int64_t lines)
{
    return whole((terms * lines + SLACK) * (int64_t)sizeof(float), ALIGN);
}

int64_t kernel_packed_room(const kernel_tiles *t, int64_t m, int64_t k)
{
    const cut c = cut_of(t, m, k);
    return room_of(c.terms, c.rows) + room_of(c.terms, t->columns) +
           room_of(t->rows, t->columns);
}

/* A stretch of terms of a block of rows. */
typedef struct block {
    const kernel_tiles *t;
    const kernel_packed *p;
    int64_t row, rows, term, terms;
    float *a, *b, *edge;
} block;

static int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

static void rest(const block *x)
{
    if (x->p->rest)
        x->p->rest(x->p->rest_ctx);
}

/* Panels of `lines` lines from `from` on; `across`: the lines of a term lie
 * together. */
static void pack(const block *x, float *panel, int width, int64_t lines,
                 bool across, const float *from, int64_t step)
{
    const int group = across ? GROUP * width : width;
    for (int64_t i = 0; i < lines; i += group) {
        const int some = (int)at_most(lines - i, group);
        if (across)
            x->t->copy(panel + i * x->terms, width, some, from + i, step,
                       x->terms);
        else
            x->t->turn(panel + i * x->terms, width, some, from + i * step, step,
                       x->terms);
        rest(x);
    }
}

static const float *place(const float *of, int64_t step, bool across,
                          int64_t line, int64_t term)
{
    return across ? of + term * step + line : of + line * step + term;
}

static void pack_rows(const block *x)
{
    const kernel_packed *p = x->p;
    pack(x, x->a, x->t->rows, x->rows, p->ta,
         place(p->a, p->a_step, p->ta, x->row, x->term), p->a_step);
}

/* Do tiles read columns as they lie, the first one keeping them as a panel? */
static bool columns_lie(const block *x, int64_t columns)
{
    return !x->p->tb && x->rows >= x->t->rows && columns == x->t->columns;
}

static void pack_columns(const block *x, int64_t column, int64_t columns)
{
    const kernel_packed *p = x->p;
    if (!columns_lie(x, columns))
        pack(x, x->b, x->t->columns, columns, !p->tb,
             place(p->b, p->b_step, !p->tb, column, x->term), p->b_step);
}

/* A whole tile at row i of the block. */
static void whole_tile(const block *x, int64_t i, int64_t column,
                       const kernel_tile_end *end)
{
    const kernel_packed *p = x->p;
    const kernel_tiles *t = x->t;
    const float *a = x->a + i * x->terms;
    const kernel_tile_columns b = {
        place(p->b, p->b_step, true, column, x->term), p->b_step, x->b};
    if (i == 0 && columns_lie(x, t->columns))
        t->first(x->terms, a, &b, end);
    else
        t->tile(t->rows, t->columns, x->terms, a, x->b, end);
}

/* A tile that reaches beyond the last column goes through `edge`. */
static void edge_tile(const block *x, int rows, int columns, const float *a,
                      const float *b, const kernel_tile_end *end)
{
    const int width = x->t->columns;
    const kernel_tile_end edge = {
        .c = x->edge, .step = width, .ahead = end->ahead, .asks = end->asks};
    x->t->tile(rows, columns, x->terms, a, b, &edge);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            const float sum = x->edge[i * width + j];
            float *to = end->c + i * end->step + j;
            const float *from = end->adds   ? to
                                : end->bias ? end->bias + j
                                            : NULL;
            *to = from ? *from + sum : sum;
        }
}

/* What the i-th tile of a panel of B asks for of the next one: a line of B, or
 * 64 bytes of all its terms. A panel's terms may begin in the middle of such,
 * which makes one more. */
static void ask(const block *x, int64_t i, int64_t column, kernel_tile_end *end)
{
    const kernel_packed *p = x->p;
    const int64_t next = column + x->t->columns, floats = 16;
    end->ahead = x->a;
    if (p->tb && i < x->t->columns && next + i < p->n) {
        end->ahead = place(p->b, p->b_step, false, next + i, x->term);
        end->asks = 1;
    } else if (!p->tb && i <= x->t->columns / floats && next < p->n) {
        end->ahead = place(p->b, p->b_step, true, next + floats * i, x->term);
        end->asks = p->b_step;
    }
}

static void tile_at(const block *x, int64_t i, int64_t column, int columns)
{
    const kernel_packed *p = x->p;
    const kernel_tiles *t = x->t;
    const int rows = (int)at_most(x->rows - i, t->rows);
    const float *a = x->a + i * x->terms;
    kernel_tile_end end = {.c = p->c + (x->row + i) * p->c_step + column,
                           .step = p->c_step,
                           .adds = x->term > 0,
                           .bias = p->bias ? p->bias + column : NULL};
    ask(x, i / t->rows, column, &end);
    if (rows == t->rows && columns == t->columns)
        whole_tile(x, i, column, &end);
    else if (columns == t->columns)
        t->tile(rows, columns, x->terms, a, x->b, &end);
    else
        edge_tile(x, rows, columns, a, x->b, &end);
}

static void multiply_block(const block *x)
{
    const int64_t some = (int64_t)TILES_AT_ONCE * x->t->rows;
    for (int64_t column = 0; column < x->p->n; column += x->t->columns) {
        const int columns = (int)at_most(x->p->n - column, x->t->columns);
        pack_columns(x, column, columns);
        for (int64_t i = 0; i < x->rows; i += x->t->rows) {
            tile_at(x, i, column, columns);
            if (i % some == some - x->t->rows)
                rest(x);
        }
        rest(x);
    }
}

void kernel_packed_run(const kernel_tiles *t, const kernel_packed *p,
                       void *room)
{
    const cut c = cut_of(t, p->m, p->k);
    block x = {.t = t, .p = p, .a = room};
    x.b = (float *)((char *)room + room_of(c.terms, c.rows));
    x.edge = (float *)((char *)x.b + room_of(c.terms, t->columns));
    for (x.row = 0; x.row < p->m; x.row += c.rows) {
        x.rows = at_most(p->m - x.row, c.rows);
        for (x.term = 0; x.term < p->k; x.term += c.terms) {
            x.terms = at_most(p->k - x.term, c.terms);
            pack_rows(&x);
            multiply_block(&x);
        }
    }
}
