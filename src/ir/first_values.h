/* First values of variables, whoever asks for them: a run, an export. */
#ifndef FS_IR_FIRST_VALUES_H
#define FS_IR_FIRST_VALUES_H

#include "ir/tensor.h"

/* Elements first .. first + n of the logical tensor `t`, a variable whose
 * values are not data, to out[0] ..; `seed` is the run's. The same whatever
 * part is asked for. */
void ir_first_values(const ir_tensor *t, uint64_t seed, int64_t first,
                     int64_t n, void *out);

#endif
