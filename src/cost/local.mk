noinst_LIBRARIES += src/cost/libfs_cost.a
src_cost_libfs_cost_a_SOURCES = src/cost/cost.h src/cost/parts.h \
  src/cost/choice.h src/cost/model.c src/cost/points.h src/cost/points.c src/cost/residuals.c src/cost/residuals.h src/cost/forms.c src/cost/product.c src/cost/pace.c src/cost/move.c src/cost/across.c src/cost/tally.c \
  src/cost/route.c src/cost/coll_ring.c src/cost/coll_halving.c src/cost/coll_tree.c \
  src/cost/coll_hierarchical.c src/cost/coll_direct.c src/cost/coll_neighbour.c src/cost/coll_in_switch.c src/cost/coll_in_switch.c \
  src/cost/measured.c src/cost/pieces.c src/cost/memo.c src/cost/widen.c \
  src/cost/constants.def src/cost/regret.h src/cost/regret.c \
  src/cost/strategy.c src/cost/terms.c src/cost/numbers.h src/cost/numbers.c src/cost/least.c src/cost/buckets.c src/cost/memory.h \
  src/cost/memory.c src/cost/holding.c src/cost/slots.c src/cost/memory_parts.h src/cost/moments.c src/cost/memory_tensors.c src/cost/fuller.c \
  src/cost/sheet.h src/cost/sheet_parts.h src/cost/sheet_lists.h \
  src/cost/sheet.c src/cost/sheet_bytes.c src/cost/sheet_lists.c \
  src/cost/sheet_sums.c \
  src/cost/breakdown.c src/cost/timing.c src/cost/framework.h src/cost/held.h \
  src/cost/framework.c src/cost/under.c src/cost/under_memory.c \
  src/cost/reduced.h src/cost/reduced.c src/cost/repeated.h src/cost/repeated.c \
  src/cost/joined.h src/cost/joined.c src/cost/normed.h src/cost/normed.c

check_PROGRAMS += tests/cost_collectives_test tests/cost_op_test \
  tests/cost_strategy_test tests/cost_product_test tests/cost_framework_test
tests_cost_product_test_SOURCES = tests/cost_product_test.c tests/tap.h
tests_cost_product_test_LDADD = $(cost_libs)
check_PROGRAMS += tests/sim_buckets_test
tests_sim_buckets_test_SOURCES = tests/sim_buckets_test.c tests/plan_hand.h tests/tap.h
tests_sim_buckets_test_LDADD = $(cost_libs) $(sim_libs)
tests_cost_framework_test_SOURCES = tests/cost_framework_test.c tests/plan_hand.h tests/tap.h
tests_cost_framework_test_LDADD = $(cost_libs) $(sim_libs)
check_PROGRAMS += tests/cost_normed_test tests/cost_reduced_test
tests_cost_reduced_test_SOURCES = tests/cost_reduced_test.c tests/tap.h
tests_cost_reduced_test_LDADD = $(cost_libs)
tests_cost_normed_test_SOURCES = tests/cost_normed_test.c tests/tap.h
tests_cost_normed_test_LDADD = $(cost_libs)
check_PROGRAMS += tests/cost_repeated_test
tests_cost_repeated_test_SOURCES = tests/cost_repeated_test.c tests/plan_hand.h tests/tap.h
tests_cost_repeated_test_LDADD = $(cost_libs)
check_PROGRAMS += tests/cost_joined_test
tests_cost_joined_test_SOURCES = tests/cost_joined_test.c tests/plan_hand.h tests/tap.h
tests_cost_joined_test_LDADD = $(cost_libs)
tests_cost_collectives_test_SOURCES = tests/cost_collectives_test.c tests/tap.h
tests_cost_collectives_test_LDADD = $(cost_libs)
check_PROGRAMS += tests/cost_wiring_test
tests_cost_wiring_test_SOURCES = tests/cost_wiring_test.c \
  tests/wired_cluster.h tests/tap.h
tests_cost_wiring_test_LDADD = $(cost_libs)
check_PROGRAMS += tests/cost_residuals_test
tests_cost_residuals_test_SOURCES = tests/cost_residuals_test.c tests/tap.h
tests_cost_residuals_test_LDADD = $(cost_libs)
tests_cost_op_test_SOURCES = tests/cost_op_test.c tests/tap.h
tests_cost_op_test_LDADD = $(cost_libs)
tests_cost_strategy_test_SOURCES = tests/cost_strategy_test.c tests/tap.h
tests_cost_strategy_test_LDADD = $(cost_libs)

datasetsdir = $(pkgdatadir)
dist_datasets_DATA = datasets/uncertainty.json datasets/residuals.json

EXTRA_DIST += src/cost/README.md src/cost/FRAMEWORKS.md src/cost/REGRET.md src/cost/SHEETS.md
# How frameworks run plans: cost/framework.h.
frameworksdir = $(pkgdatadir)/frameworks
dist_frameworks_DATA = \
  datasets/frameworks/alpa.json datasets/frameworks/mist.json datasets/frameworks/mist-flash.json \
  datasets/frameworks/deepspeed-zero.json datasets/frameworks/fsdp.json \
  datasets/frameworks/megatron-lm.json datasets/frameworks/megatron-deepspeed.json datasets/frameworks/vtrain-profile.json datasets/frameworks/mxnet.json \
  datasets/frameworks/oneflow.json datasets/frameworks/paddle.json \
  datasets/frameworks/pytorch.json datasets/frameworks/pytorch2.json datasets/frameworks/tensorflow.json
# What validate knows of the sources of published runs, and these runs.
validationdir = $(pkgdatadir)/validation
dist_validation_DATA = datasets/validation/sources.json \
  datasets/validation/published_runs.csv datasets/validation/planner_runs.csv
# What make bench-sim holds predictions against.
EXTRA_DIST += datasets/validation/bounds.csv datasets/validation/constants.csv \
  datasets/validation/left_out.json datasets/validation/others.csv
