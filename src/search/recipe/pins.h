/* How single parameters are to lie, whatever else is searched: experts S(0),
 * a table by rows S(0) or by columns S(1), one that is not to be cut B. */
#ifndef FS_SEARCH_PINS_H
#define FS_SEARCH_PINS_H

#include "ir/graph.h"
#include "ir/op.h"

/* Parameters whose names `pattern` matches lie as `sbp` says: cut along that
 * axis by one axis of the mesh or more, whole on the others; or whole. Those
 * that match one name say the same. */
typedef struct search_pin {
    const char *text, *pattern;
    ir_sbp sbp; /* S(i) or B */
} search_pin;

typedef struct search_pins {
    int32_t n;
    const search_pin *at;
} search_pins;

/* From n texts REGEX=S(i) or REGEX=B; FS_INVALID names what is wrong. */
fs_status search_pins_parse(int32_t n, const char *const *text, fs_arena *arena,
                            fs_err *err, search_pins *out);
/* Of each tensor the pin of its parameter, or NULL: a parameter's own and its
 * optimizer state's. FS_INVALID when a pin matches no parameter, or one that
 * does not have the axis, or one that another pin wants otherwise. */
fs_status search_pins_find(const search_pins *pins, const ir_graph *graph,
                           fs_arena *arena, fs_err *err,
                           const search_pin ***out);
/* FS_INVALID when a pin cuts though a stage has no more than one device. */
fs_status search_pins_check_devices(const search_pins *pins, int32_t devices,
                                    fs_err *err);
/* Does a node make or take what is pinned? */
bool search_pins_concern(const search_pin *const *pin_of, const ir_node *node);
/* Does a node with this signature make and take what is pinned as it is to
 * lie? It is used where it lies: who gathered it first would not. */
bool search_pins_allow(const search_pin *const *pin_of, const ir_node *node,
                       const ir_mesh *mesh, const ir_nd_sig *sig);

#endif
