noinst_LIBRARIES += src/search/libfs_search.a
src_search_libfs_search_a_SOURCES = src/search/search.h src/search/engine/net.h \
  src/search/problem.h src/search/recipe/recipe.h \
  src/search/engine/engines.def src/search/engine/engine.h src/search/engine/cfn.h \
  src/search/layout.h src/search/engine/prices.h src/search/engine/milp.h src/search/cuts/cut.h src/search/fit.h src/search/engine/memo.h src/search/built.h src/search/engine/lean.h src/search/engine/net.c src/search/engine/cfn.c src/search/engine/content.h src/search/engine/content.c src/search/engine/priced.c \
  src/search/engine/reductions.def src/search/engine/reductions.h src/search/engine/reductions.c \
  src/search/engine/reduce.h src/search/engine/reduce.c src/search/engine/reduce_arcs.c \
  src/search/engine/reduce_split.c src/search/engine/reduce_fold.c \
  src/search/engine/minplus.h src/search/engine/minplus.c \
  src/search/engine/reduce_goldstein.c src/search/engine/reduce_follow.c src/search/engine/usage.c \
  src/search/effort.h src/search/effort.c \
  src/search/engine/eliminate.c src/search/engine/dual.h src/search/engine/dual.c src/search/engine/minimise.c \
  src/search/engine/milp.c src/search/engine/bundle.c src/search/engine/cross.c \
  src/search/engine/subnet.c src/search/engine/engine_ilp.c \
  src/search/engine/states.c src/search/engine/engine_exhaustive.c src/search/engine/engine_greedy.c src/search/engine/engine_deduce.c src/search/engine/engine_mcmc.c \
  src/search/tables.h src/search/tables.c src/search/view.h src/search/view.c src/search/engine/memo.c src/search/build_edges.c src/search/build_net.c src/search/build_strategy.c src/search/tie.c src/search/cuts/pieces.c src/search/cuts/crossings.c src/search/cuts/every_cut.c src/search/lift.h src/search/lift.c src/search/climb.c src/search/still.h src/search/still.c src/search/rise.c src/search/cuts/cut.c \
  src/search/cuts/split.h src/search/cuts/speeds.c src/search/cuts/split.c \
  src/search/cuts/deal.h src/search/cuts/deal.c src/search/cuts/recutter.h src/search/cuts/measure.c \
  src/search/cuts/propose.c src/search/cuts/walk.c src/search/cuts/glance.c src/search/cuts/recut.c \
  src/search/cuts/runs.h src/search/cuts/runs.c \
  src/search/known.h src/search/known.c \
  src/search/level0.h src/search/candidate.h src/search/space.h \
  src/search/cuts/recut.h src/search/lay_out.h src/search/kept.h \
  src/search/narrow.h src/search/offers.h \
  src/search/lay_out.c src/search/crew.h src/search/crew.c src/search/attempt.h src/search/attempt.c src/search/weigh.c src/search/shares.h src/search/shares.c src/search/cuts/parting.h src/search/cuts/parting.c src/search/carry.h src/search/carry.c src/search/cuts/order.h src/search/cuts/order.c src/search/level0.c src/search/sort.c src/search/configs.c src/search/simulated.c src/search/wider.c src/search/splice.c src/search/narrow.c src/search/anchor.h src/search/leaning.h src/search/anchor.c src/search/blend.c \
  src/search/digest.h src/search/digest.c src/search/variant.h src/search/variant.c src/search/plans.h src/search/plans.c src/search/front.h src/search/front.c src/search/result.c src/search/fit.c src/search/deep.h src/search/deep.c src/search/missing.c src/search/engine/lean.c src/search/engine/mend.c src/search/start.c \
  src/search/rivals.def src/search/rivals.c \
  src/search/recipe/recipe.c src/search/recipe/recipe_check.c \
  src/search/recipe/recipe_text.c \
  src/search/recipe/recipe_keys.def src/search/recipe/recipe_parts.h src/search/recipe/recipe_marks.c \
  src/search/recipe/recipe_cuts.c \
  src/search/recipe/pins.h src/search/recipe/pins.c \
  src/search/planners.def src/search/families.def src/search/planner.h \
  src/search/planner.c src/search/planner_recipes.c \
  src/search/planner_alpa.c \
  src/search/cuts/ledger.h src/search/cuts/ledger.c \
  src/search/engine/iopddl.h src/search/engine/iopddl.c \
  src/search/engine/kernel.h src/search/engine/kernel.c src/search/kept.c \
  src/search/engine/limit.h src/search/engine/limit.c \
  src/search/engine/binding.h src/search/engine/binding.c \
  src/search/engine/fitting.h src/search/engine/fitting.c \
  src/search/engine/confine.h src/search/engine/confine.c \
  src/search/engine/slack.h src/search/engine/slack.c \
  src/search/engine/settle.h src/search/engine/settle.c \
  src/search/tighten.c src/search/sweep.h src/search/sweep.c \
  src/search/engine/ascent.h src/search/engine/ascent.c \
  src/search/engine/nearby.h src/search/engine/nearby.c \
  src/search/engine/ration.h src/search/engine/pricing.c src/search/engine/ration.c
check_PROGRAMS += tests/search_net_test tests/search_reduce_test \
  tests/search_graph_test tests/search_oracle_test tests/search_variant_test tests/search_again_test tests/search_every_test \
  tests/search_fold_test tests/search_shares_test tests/search_runs_test \
  tests/search_memory_test tests/search_deep_test tests/search_cut_test tests/search_order_test tests/cli_memory_test \
  tests/cli_pin_test tests/cli_recipe_test tests/cli_tensor_test \
  tests/search_recipe_test tests/search_planner_test tests/search_baselines_test \
  tests/search_split_test tests/search_ration_test tests/search_steps_test \
  tests/search_plans_test tests/search_states_test
# Of cost; search completes what it prices.
check_PROGRAMS += tests/cost_sheet_test
tests_cost_sheet_test_SOURCES = tests/cost_sheet_test.c tests/pricing.c \
  tests/pricing.h tests/search_cluster.h tests/tap.h
tests_cost_sheet_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_net_test_SOURCES = tests/search_net_test.c tests/tap.h
tests_search_net_test_LDADD = $(search_libs)
tests_search_reduce_test_SOURCES = tests/search_reduce_test.c tests/tap.h
tests_search_reduce_test_LDADD = $(search_libs)
tests_search_ration_test_SOURCES = tests/search_ration_test.c tests/tap.h
tests_search_ration_test_LDADD = $(search_libs)
tests_search_graph_test_SOURCES = tests/search_graph_test.c \
  tests/search_draw.c tests/search_draw.h tests/search_cluster.h tests/tap.h
tests_search_graph_test_LDADD = $(search_libs)
tests_search_variant_test_SOURCES = tests/search_variant_test.c \
  tests/search_draw.c tests/search_draw.h tests/search_cluster.h tests/tap.h
tests_search_variant_test_LDADD = $(search_libs)
tests_search_oracle_test_SOURCES = tests/search_oracle_test.c \
  tests/search_draw.c tests/search_draw.h tests/search_cluster.h tests/tap.h
tests_search_oracle_test_LDADD = $(search_libs)
tests_search_every_test_SOURCES = tests/search_every_test.c \
  tests/search_draw.c tests/search_draw.h tests/search_cluster.h tests/tap.h
tests_search_every_test_LDADD = $(sim_libs) $(search_libs)
tests_search_fold_test_SOURCES = tests/search_fold_test.c \
  tests/search_fold_case.c tests/search_fold_case.h tests/search_cluster.h \
  tests/tap.h
tests_search_fold_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_shares_test_SOURCES = tests/search_shares_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_shares_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_runs_test_SOURCES = tests/search_runs_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_runs_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_again_test_SOURCES = tests/search_again_test.c tests/search_draw.c tests/search_draw.h \
  tests/search_cluster.h tests/tap.h
tests_search_again_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_states_test_SOURCES = tests/search_states_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_states_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_deep_test_SOURCES = tests/search_deep_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_deep_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_memory_test_SOURCES = tests/search_memory_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_memory_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_steps_test_SOURCES = tests/search_steps_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_steps_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_plans_test_SOURCES = tests/search_plans_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_plans_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_cut_test_SOURCES = tests/search_cut_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_cut_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_order_test_SOURCES = tests/search_order_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_order_test_LDADD = $(search_libs)
tests_search_split_test_SOURCES = tests/search_split_test.c tests/tap.h
tests_search_split_test_LDADD = $(search_libs)
check_PROGRAMS += tests/search_deal_test
tests_search_deal_test_SOURCES = tests/search_deal_test.c tests/tap.h
tests_search_deal_test_LDADD = $(search_libs)
tests_cli_memory_test_SOURCES = tests/cli_memory_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_memory_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_pin_test_SOURCES = tests/cli_pin_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_pin_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_recipe_test_SOURCES = tests/cli_recipe_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_recipe_test_LDADD = $(JANSSON_LIBS) -lm
tests_search_recipe_test_SOURCES = tests/search_recipe_test.c tests/tap.h
tests_search_recipe_test_LDADD = $(search_libs)
tests_search_baselines_test_SOURCES = tests/search_baselines_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_baselines_test_LDADD = $(zoo_libs) $(search_libs)
tests_search_planner_test_SOURCES = tests/search_planner_test.c \
  tests/search_cluster.h tests/tap.h
tests_search_planner_test_LDADD = $(zoo_libs) $(search_libs)
tests_cli_tensor_test_SOURCES = tests/cli_tensor_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_tensor_test_LDADD = $(JANSSON_LIBS) -lm
EXTRA_DIST += src/search/README.md src/search/engine/README.md src/search/recipe/README.md src/search/cuts/EVERY_CUT.md src/search/cuts/README.md src/search/AGAIN.md src/search/MISFITS.md src/search/LAYERS.md src/search/PLANNERS.md src/search/PLANS.md src/search/SWEEP.md src/search/engine/LIMITS.md
