/* The whole network of a folded one, taken apart (lift.c), and how its bound is
 * raised (climb.c, rise.c). Internal to this folder. */
#ifndef FS_SEARCH_LIFT_H
#define FS_SEARCH_LIFT_H

#include "search/built.h"
#include "search/engine/cfn.h"
#include "search/engine/engine.h"
#include "search/engine/prices.h"
#include "search/view.h"

/* A tensor on its way between parts: what makes it, with how many copies, and
 * the hubs that stand for it, with as many. */
typedef struct search_lift_kind {
    int32_t out_slot, domain;
    int32_t n_states;
    int32_t *state_of; /* [values of a maker] */
    int32_t *value_of; /* [n_states] one of its values */
    FS_VEC(int32_t) makers, hubs;
    double made, read; /* copies of each in all */
    bool free;         /* makers and readers do not match: no potential */
    bool chain;        /* from each copy of a run in a stage to the next, */
    bool forth;        /* in the order of copies; */
    int32_t mid;       /* that copy stands for so many: */
    double n_mid;
    double *phi, *delta; /* [n_states] */
    double *slope, *tilt;
} search_lift_kind;

typedef struct search_lift_hub {
    int32_t kind, node; /* of the additive network */
    int32_t reader;
    double times;
} search_lift_hub;

/* What a node of the additive network pays of a kind's potentials: in value s
 * weight (phi[t] + drift delta[t]) with t the state of s. */
typedef struct search_lift_term {
    int32_t node, kind;
    double weight, drift;
    const int32_t *state_of; /* NULL: its values are states */
} search_lift_term;

typedef struct search_lifting {
    const search_built *built;
    search_net loose; /* built's */
    const search_view *view;
    search_prices at;
    fs_arena *arena;
    int32_t *part; /* [graph node] */
    int32_t *hub;  /* [edge] whose reader has one; -1: the edge stays */
    FS_VEC(search_lift_kind) kinds;
    FS_VEC(search_lift_hub) hubs;
    FS_VEC(search_lift_term) terms;
    int32_t n;     /* nodes of the additive network */
    int32_t *twin; /* [loose.n_nodes + hubs] there; -1: none. NULL: nothing
                      drifts */
    double over;
    double *excess; /* [limits] (bytes - limit) / limit; NULL: prices stay */
    bool *priced;   /* [limits] may have a price */
} search_lifting;

/* False where it cannot be taken apart. l->arena is the caller's in any case.
 */
bool search_lift_begin(search_lifting *l, const search_built *built);
/* Twins for the parts that a chain goes through, so that potentials may drift.
 * False: there are none. */
bool search_lift_drift(search_lifting *l);

/* Where an edge begins there: at its hub, if it has one. */
int32_t search_lift_source(const search_lifting *l, int32_t e);
/* The row of the edge's table that a value of what its reader reads stands for.
 */
int32_t search_lift_row(const search_lifting *l, int32_t e, int32_t value);
int32_t search_lift_twin(const search_lifting *l, int32_t v);
/* Each of two twins has half. */
double search_lift_share(const search_lifting *l, int32_t v);

/* [l->n] at prices and potentials as they are; */
double **search_lift_unaries(const search_lifting *l, fs_arena *arena);
/* what a value pays of those. */
double search_lift_paid(const search_lifting *l, const search_lift_term *term,
                        int32_t value);
/* The additive network; its core only: of what stands for itself alone the
 * least of each node; without potentials. Of `without` ([limits]; NULL: none)
 * prices are left out. */
typedef enum search_lift_part {
    SEARCH_LIFT_ALL,
    SEARCH_LIFT_CORE,
    SEARCH_LIFT_STILL
} search_lift_part;
search_cfn *search_lift_apart(const search_lifting *l, const bool *without,
                              search_lift_part part, fs_arena *arena);

/* Of values of the additive network: fills the slopes of potentials, or the
 * excess of limits, and returns the sum of their squares. */
double search_lift_slopes(search_lifting *l, const int32_t *value);
double search_lift_excess(search_lifting *l, const int32_t *value);
/* Along these. */
void search_lift_move(search_lifting *l, double step);
/* Numbers of all potentials, and these or their slopes one after the other. */
int32_t search_lift_n_phi(const search_lifting *l);
void search_lift_get(const search_lifting *l, bool slopes, double *flat);
void search_lift_set(search_lifting *l, bool slopes, const double *flat);
/* What sums in which potentials cancel may be off by. */
double search_lift_rounding(const search_lifting *l);

/* Where no upper bound is known it is taken to be so much higher. */
#define SEARCH_LIFT_UNKNOWN 0.02

/* What a bound is raised for. */
typedef struct search_lift_aim {
    double upper;  /* none is higher; INFINITY: not known */
    double enough; /* no more is wanted */
    fs_deadline deadline;
    search_prices *prices; /* where they move: those of the best bound */
    double *phi;           /* and its potentials */
} search_lift_aim;

#endif
