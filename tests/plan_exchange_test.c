/* Who takes what from another mesh, against a walk over all that might give it:
 * of equal copies the nearest in proportion, the first of two. */
#include "config.h"

#include "plan/exchange.h"

#include "base/hash.h"

#include "tap.h"

enum { ROUNDS = 3000 };

static ir_sbp draw_sbp(uint64_t *rng, int32_t rank, bool partial)
{
    const int64_t k = fs_rand_below(rng, rank + (partial ? 2 : 1));

    return k < rank ? IR_SBP_S(k) : k == rank ? IR_SBP_B : IR_SBP_P;
}

static void draw_side(uint64_t *rng, int32_t rank, bool partial, ir_mesh *mesh,
                      ir_nd_sbp *sbp)
{
    mesh->n = (int32_t)fs_rand_below(rng, 4);
    for (int32_t a = 0; a < mesh->n; a++) {
        mesh->dim[a] = 2 + (int32_t)fs_rand_below(rng, 3);
        sbp->at[a] = draw_sbp(rng, rank, partial);
    }
}

static plan_exchange draw_exchange(uint64_t *rng)
{
    plan_exchange x = {.moves = true};

    do {
        x.shape.rank = 1 + (int32_t)fs_rand_below(rng, 3);
        for (int32_t d = 0; d < x.shape.rank; d++)
            x.shape.dim[d] = 1 + fs_rand_below(rng, 50);
        x.from = x.to = (ir_nd_sbp){0};
        draw_side(rng, x.shape.rank, true, &x.from_mesh, &x.from);
        draw_side(rng, x.shape.rank, false, &x.to_mesh, &x.to);
    } while (!ir_nd_sbp_fits(&x.from, &x.shape, &x.from_mesh) ||
             !ir_nd_sbp_fits(&x.to, &x.shape, &x.to_mesh));
    return x;
}

/* Do two positions hold copies: equal but on axes of B? */
static bool are_copies(const plan_exchange *x, int32_t i, int32_t k)
{
    int32_t at[IR_MAX_MESH], other[IR_MAX_MESH];

    ir_mesh_coords(&x->from_mesh, i, at);
    ir_mesh_coords(&x->from_mesh, k, other);
    for (int32_t a = 0; a < x->from_mesh.n; a++)
        if (x->from.at[a].kind != IR_B && at[a] != other[a])
            return false;
    return true;
}

static double far(const plan_exchange *x, int32_t giver, int32_t taker)
{
    return fabs((double)giver * ir_mesh_size(&x->to_mesh) -
                (double)taker * ir_mesh_size(&x->from_mesh));
}

static bool is_nearest(const plan_exchange *x, int32_t giver, int32_t taker)
{
    for (int32_t k = 0; k < ir_mesh_size(&x->from_mesh); k++) {
        const double more = far(x, k, taker) - far(x, giver, taker);
        if (are_copies(x, giver, k) && (more < 0 || (more == 0 && k < giver)))
            return false;
    }
    return true;
}

/* Positions that give something else than the reference has them give. */
static int32_t differences(const plan_exchange *x, int32_t me)
{
    fs_arena *arena = fs_arena_create();
    plan_shares takes = {0};
    int32_t at[IR_MAX_MESH], next = 0, wrong = 0;

    plan_exchange_takes(x, me, arena, &takes);
    ir_mesh_coords(&x->to_mesh, me, at);
    const ir_piece mine = ir_piece_of(&x->shape, &x->to, &x->to_mesh, at);
    for (int32_t k = 0; k < ir_mesh_size(&x->from_mesh); k++) {
        plan_share share = {.position = k};
        ir_mesh_coords(&x->from_mesh, k, at);
        const ir_piece theirs =
            ir_piece_of(&x->shape, &x->from, &x->from_mesh, at);
        if (!ir_piece_common(&mine, &theirs, &share.box) ||
            !is_nearest(x, k, me))
            continue;
        wrong += next >= takes.n || takes.at[next].position != k ||
                 memcmp(&takes.at[next].box, &share.box, sizeof share.box) != 0;
        next++;
    }
    wrong += takes.n != next;
    fs_arena_destroy(arena);
    return wrong;
}

int main(void)
{
    uint64_t rng = tap_seed(1903);
    int32_t wrong = 0, takers = 0;

    for (int32_t k = 0; k < ROUNDS; k++) {
        const plan_exchange x = draw_exchange(&rng);
        for (int32_t me = 0; me < ir_mesh_size(&x.to_mesh); me++, takers++)
            wrong += differences(&x, me);
    }
    tap_equal_int(wrong, 0,
                  "%d takers of %d exchanges take what the walk says, in order",
                  (int)takers, ROUNDS);
    return tap_done();
}
