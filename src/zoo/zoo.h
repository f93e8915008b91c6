/* Model builders on the same builder API that a user has. */
#ifndef FS_ZOO_ZOO_H
#define FS_ZOO_ZOO_H

#include "ir/build.h"

/* "zoo:gpt,layers=12,hidden=768,heads=12,vocab=50257,seq=1024": builds the
 * forward network with its loss for `samples` samples per micro-batch.
 * Unknown names and keys are FS_INVALID and list the known ones. */
fs_status zoo_build(const char *spec, int64_t samples, fs_err *err,
                    ir_graph **out);
const char *zoo_names(void);

#endif
