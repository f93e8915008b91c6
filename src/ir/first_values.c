#include "config.h"
#include "ir/first_values.h"

#include "base/hash.h"
#include "ir/element.h"

static double first_value(const ir_init *init, uint64_t stream, int64_t element)
{
    const uint64_t counter = (uint64_t)element;
    switch (init->kind) {
    case IR_INIT_CONSTANT:
        return init->mean;
    case IR_INIT_NORMAL:
        return init->mean + init->spread * fs_draw_normal(stream, counter);
    case IR_INIT_UNIFORM:
        return init->mean +
               init->spread * (2.0 * fs_draw_unit(stream, counter) - 1.0);
    default:
        return 0.0;
    }
}

void ir_first_values(const ir_tensor *t, uint64_t seed, int64_t first,
                     int64_t n, void *out)
{
    const uint64_t own = fs_mix(t->init.seed ^ fs_mix(seed));
    const uint64_t stream = fs_hash_text(own, t->name);
    for (int64_t i = 0; i < n; i++)
        ir_element_set_real(t->dtype, out, i,
                            first_value(&t->init, stream, first + i));
}
