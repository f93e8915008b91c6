/* Model builders on the same builder API that a user has. */
#ifndef FS_ZOO_ZOO_H
#define FS_ZOO_ZOO_H

#include "ir/build.h"

/* "zoo:gpt,layers=12,hidden=768,heads=12,vocab=50257,seq=1024" or a preset,
 * "zoo:gpt2,seq=512": builds the forward network with its loss for `samples`
 * samples per micro-batch. Unknown names and keys are FS_INVALID and list the
 * known ones. */
fs_status zoo_build(const char *spec, int64_t samples, fs_err *err,
                    ir_graph **out);
typedef struct zoo_options {
    int64_t samples;   /* per micro-batch */
    ir_tables *tables; /* which outlive the graph, in the place of its own:
                          graphs of other numbers of samples have the same masks
                          and angles; NULL */
    bool infer;        /* no loss: what it would be of is marked as an output,
                          "logits" (insightface: "features"; bert: "sentence"
                          too); norms take their running statistics */
} zoo_options;
fs_status zoo_build_with(const char *spec, const zoo_options *options,
                         fs_err *err, ir_graph **out);
const char *zoo_names(void);

/* Rows of presets.def; the last has no name. */
typedef struct zoo_preset {
    const char *name, *model, *keys;
    int64_t parameters; /* as published */
    int32_t within;     /* percent that the published count is exact to */
    const char *source;
    int64_t macs; /* multiply-adds of a sample's forward pass in products and
                     convolutions, as published; 0: nobody says */
    const char *macs_source;
} zoo_preset;
extern const zoo_preset zoo_presets[];

#endif
