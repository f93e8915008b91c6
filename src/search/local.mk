noinst_LIBRARIES += src/search/libfs_search.a
src_search_libfs_search_a_SOURCES = src/search/search.h src/search/net.h \
  src/search/problem.h src/search/recipe.h \
  src/search/engines.def src/search/engine.h src/search/cfn.h \
  src/search/layout.h src/search/prices.h src/search/milp.h src/search/cut.h src/search/fit.h src/search/memo.h src/search/built.h src/search/lean.h src/search/net.c src/search/cfn.c src/search/content.h src/search/content.c src/search/priced.c \
  src/search/reductions.def src/search/reductions.h src/search/reductions.c \
  src/search/reduce.h src/search/reduce.c src/search/reduce_arcs.c \
  src/search/reduce_split.c src/search/reduce_fold.c \
  src/search/minplus.h src/search/minplus.c \
  src/search/reduce_goldstein.c src/search/reduce_follow.c src/search/usage.c \
  src/search/effort.h src/search/effort.c \
  src/search/eliminate.c src/search/dual.h src/search/dual.c src/search/minimise.c \
  src/search/milp.c src/search/bundle.c src/search/cross.c \
  src/search/subnet.c src/search/engine_ilp.c \
  src/search/states.c src/search/engine_exhaustive.c src/search/engine_greedy.c src/search/engine_deduce.c src/search/engine_mcmc.c \
  src/search/view.h src/search/view.c src/search/memo.c src/search/build_edges.c src/search/build_net.c src/search/build_strategy.c src/search/tie.c src/search/pieces.c src/search/crossings.c src/search/every_cut.c src/search/lift.h src/search/lift.c src/search/climb.c src/search/still.h src/search/still.c src/search/rise.c src/search/cut.c \
  src/search/split.h src/search/split.c \
  src/search/deal.h src/search/deal.c src/search/recutter.h src/search/measure.c \
  src/search/propose.c src/search/glance.c src/search/recut.c \
  src/search/runs.h src/search/runs.c \
  src/search/known.h src/search/known.c \
  src/search/level0.h src/search/candidate.h src/search/space.h \
  src/search/recut.h src/search/lay_out.h src/search/kept.h \
  src/search/narrow.h src/search/offers.h \
  src/search/lay_out.c src/search/crew.h src/search/crew.c src/search/attempt.h src/search/attempt.c src/search/weigh.c src/search/shares.h src/search/shares.c src/search/parting.h src/search/parting.c src/search/carry.h src/search/carry.c src/search/order.h src/search/order.c src/search/level0.c src/search/configs.c src/search/simulated.c src/search/wider.c src/search/splice.c src/search/narrow.c src/search/anchor.h src/search/anchor.c \
  src/search/digest.h src/search/digest.c src/search/variant.h src/search/variant.c src/search/plans.h src/search/plans.c src/search/front.h src/search/front.c src/search/result.c src/search/fit.c src/search/deep.h src/search/deep.c src/search/missing.c src/search/lean.c src/search/start.c \
  src/search/rivals.def src/search/rivals.c \
  src/search/recipe.c src/search/recipe_check.c \
  src/search/recipe_text.c \
  src/search/recipe_keys.def src/search/recipe_parts.h src/search/recipe_marks.c \
  src/search/recipe_cuts.c \
  src/search/pins.h src/search/pins.c \
  src/search/planners.def src/search/families.def src/search/planner.h \
  src/search/planner.c src/search/planner_recipes.c \
  src/search/planner_alpa.c \
  src/search/ledger.h src/search/ledger.c \
  src/search/iopddl.h src/search/iopddl.c \
  src/search/kernel.h src/search/kernel.c src/search/kept.c \
  src/search/limit.h src/search/limit.c \
  src/search/binding.h src/search/binding.c \
  src/search/confine.h src/search/confine.c \
  src/search/slack.h src/search/slack.c \
  src/search/settle.h src/search/settle.c \
  src/search/tighten.c \
  src/search/ascent.h src/search/ascent.c \
  src/search/nearby.h src/search/nearby.c \
  src/search/ration.h src/search/pricing.c src/search/ration.c
check_PROGRAMS += tests/search_net_test tests/search_reduce_test \
  tests/search_graph_test tests/search_oracle_test tests/search_variant_test tests/search_again_test tests/search_every_test \
  tests/search_fold_test tests/search_shares_test tests/search_runs_test \
  tests/search_memory_test tests/search_deep_test tests/search_cut_test tests/search_order_test tests/cli_memory_test \
  tests/cli_pin_test tests/cli_recipe_test tests/cli_tensor_test \
  tests/search_recipe_test tests/search_planner_test tests/search_baselines_test \
  tests/search_split_test tests/search_ration_test tests/search_steps_test \
  tests/search_plans_test tests/search_again_test tests/search_states_test
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
EXTRA_DIST += src/search/README.md src/search/CUTS.md src/search/AGAIN.md src/search/MISFITS.md src/search/LAYERS.md src/search/PLANNERS.md src/search/PLANS.md src/search/LIMITS.md
