/* Along which axes a recipe cuts what persists: against trying all of them. */
#include "config.h"
#include "search/recipe/recipe_parts.h"

#include "base/hash.h"
#include "tests/tap.h"

typedef struct question {
    ir_shape shape;
    ir_mesh mesh;
    search_cuts wanted;
} question;

static question draw(uint64_t *seed)
{
    question q = {.shape.rank = 1 + (int32_t)fs_rand_below(seed, 4),
                  .mesh.n = 1 + (int32_t)fs_rand_below(seed, 4)};
    for (int32_t d = 0; d < q.shape.rank; d++)
        q.shape.dim[d] = 1 + (int64_t)fs_rand_below(seed, 40);
    for (int32_t a = 0; a < q.mesh.n; a++) {
        q.mesh.dim[a] = 2 + (int32_t)fs_rand_below(seed, 6);
        if (fs_rand_below(seed, 4) > 0)
            q.wanted.along[a] =
                (uint32_t)fs_rand_below(seed, 1 << q.shape.rank);
    }
    return q;
}

/* Is there a way for the tensor to lie that has all of these? */
static bool any_way(const question *q, const search_cuts *cuts, int32_t axis,
                    ir_nd_sbp *sbp)
{
    if (axis == q->mesh.n)
        return ir_nd_sbp_fits(sbp, &q->shape, &q->mesh);
    sbp->at[axis] = IR_SBP_B;
    if (!cuts->along[axis])
        return any_way(q, cuts, axis + 1, sbp);
    for (int32_t d = 0; d < q->shape.rank; d++) {
        sbp->at[axis] = IR_SBP_S(d);
        if ((cuts->along[axis] >> d & 1) && any_way(q, cuts, axis + 1, sbp))
            return true;
    }
    return false;
}

static bool there_is(const question *q, const search_cuts *cuts)
{
    ir_nd_sbp sbp = {0};
    return any_way(q, cuts, 0, &sbp);
}

/* Nothing is given that was not asked for or that there is no room for, and
 * nothing is kept back that there is room for. */
static bool is_right(const question *q, const search_cuts *got)
{
    bool right = there_is(q, got);
    for (int32_t a = 0; a < q->mesh.n; a++) {
        search_cuts more = *got;
        more.along[a] = q->wanted.along[a];
        right &= got->along[a] == 0 || got->along[a] == q->wanted.along[a];
        right &= got->along[a] == q->wanted.along[a] || !there_is(q, &more);
    }
    return right;
}

static void test_room(void)
{
    uint64_t seed = tap_seed(1909);
    int wrong = 0, whole = 0, parts = 0;
    for (int i = 0; i < 20000; i++) {
        const question q = draw(&seed);
        const search_cuts got =
            search_cuts_possible(&q.wanted, &q.shape, &q.mesh);
        const bool all = memcmp(&got, &q.wanted, sizeof got) == 0;
        if (!is_right(&q, &got) && ++wrong == 1)
            printf("# case %d is the first that is wrong\n", i);
        whole += all;
        parts += !all;
    }
    tap_equal_int(wrong, 0,
                  "what has room is cut: %d shapes with room for all, %d not",
                  whole, parts);
    tap_ok(whole > 2000 && parts > 2000, "there were enough of both");
}

int main(void)
{
    test_room();
    return tap_done();
}
