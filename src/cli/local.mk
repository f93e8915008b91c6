bin_PROGRAMS += flowsearch
flowsearch_SOURCES = src/cli/main.c src/cli/cli.h src/cli/options.c \
  src/cli/commands.def src/cli/options.def src/cli/model.c src/cli/sizes.c src/cli/sizes.h src/cli/part.c src/cli/part.h src/cli/compressed.c \
  src/cli/compressed.h \
  src/cli/collectives.c src/cli/collectives.h src/cli/cluster.c src/cli/cluster.h src/cli/machine.c src/cli/machine.h src/cli/calibrate.c src/cli/calibrate.h src/cli/ranks.c src/cli/ranks.h src/cli/hosts.c src/cli/hosts_look.c src/cli/hosts.h src/cli/waits.c src/cli/waits.h src/cli/watch.c src/cli/watch.h src/cli/dump.c src/cli/stragglers.c src/cli/supervise.c src/cli/supervise.h src/cli/replan.c src/cli/replan.h src/cli/guard.c src/cli/mapping.c \
  src/cli/guard.h src/cli/plan_file.c \
  src/cli/places.c src/cli/places.h src/cli/predict.c src/cli/predict.h src/cli/interval.c src/cli/interval.h src/cli/keep.c src/cli/tuning.c src/cli/variants.c src/cli/variants.h src/cli/tuning.h \
  src/cli/outcome.c src/cli/outcome.h src/cli/residuals.c src/cli/residuals.h src/cli/skipped.c src/cli/data.c src/cli/data.h src/cli/run_data.c src/cli/checkpoints.c src/cli/checkpoints.h src/cli/progress.c src/cli/progress.h \
  src/cli/make_plan.c src/cli/make_plan.h src/cli/making.h \
  src/cli/hunt.c src/cli/compact.c src/cli/schedules.c src/cli/ahead.c src/cli/buckets.c src/cli/rank.c src/cli/again.c src/cli/states.c src/cli/states.h src/cli/front.c src/cli/infer.c src/cli/infer.h src/cli/outputs.c src/cli/outputs.h src/cli/idle.c src/cli/misfit.c src/cli/tell_plan.c src/cli/cmd_model.c \
  src/cli/cmd_cluster.c src/cli/cmd_search.c src/cli/cmd_plan.c src/cli/cmd_sweep.c src/cli/tell_sweep.c src/cli/sweep_plan.c src/cli/sweep.h \
  src/cli/cmd_check.c src/cli/cmd_explain.c src/cli/explain.h src/cli/explain_next.c src/cli/explain_op.c src/cli/explain_stage.c src/cli/cmd_compare.c \
  src/cli/compare.h src/cli/compare_costs.c src/cli/compare_ops.c src/cli/cmd_sim.c src/cli/simulate.h src/cli/critical.c src/cli/what_if.c src/cli/sim_framework.c src/cli/sim_memory.c src/cli/goodput.c src/cli/disturbed.c \
  src/cli/cmd_run.c src/cli/job.c src/cli/job.h \
  src/cli/cmd_serve.c src/cli/served.c src/cli/served.h src/cli/mailbox.c src/cli/mailbox.h src/cli/batches.c src/cli/batches.h src/cli/bodies.c src/cli/bodies.h src/cli/http.c src/cli/http.h src/cli/metrics.c src/cli/metrics.h \
  src/cli/cmd_show.c src/cli/cmd_calibrate.c \
  src/cli/conformance.h src/cli/conformance_train.c \
  src/cli/conformance_plan.c src/cli/conformance_infer.c src/cli/conformance_ops.c src/cli/cmd_conformance.c src/cli/cmd_runs.c \
  src/cli/validate.h src/cli/validate_columns.def src/cli/validate_row.h src/cli/validate_row.c src/cli/validate_options.c src/cli/validate_reader.h src/cli/validate_case.c \
  src/cli/validate_measured.c src/cli/validate_sound.c src/cli/validate_network.c src/cli/validate_cluster.c src/cli/validate_wires.c src/cli/validate_recipe.c src/cli/validate_source.c \
  src/cli/validate_predict.c src/cli/validate_score.c src/cli/validate_score.h src/cli/validate_tell.c src/cli/validate_runs.c src/cli/validate_machines.c src/cli/validate_machines.h src/cli/cmd_validate.c \
  src/cli/cmd_export.c src/cli/export.h src/cli/export_chakra.c src/cli/cmd_solve.c
flowsearch_LDADD = $(onnx_libs) $(zoo_libs) $(search_libs) $(sim_libs) \
  $(exec_libs) $(report_libs) $(hw_libs) $(ir_libs) \
  $(MICROHTTPD_LIBS)
flowsearch_CPPFLAGS = $(AM_CPPFLAGS) $(MICROHTTPD_CFLAGS)
EXTRA_DIST += src/cli/README.md src/cli/VALIDATE.md src/cli/CALIBRATE.md src/cli/SIM.md src/cli/HOSTS.md src/cli/INFER.md src/cli/SERVE.md
check_PROGRAMS += tests/cli_calibrate_test
tests_cli_calibrate_test_SOURCES = tests/cli_calibrate_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_calibrate_test_LDADD = $(JANSSON_LIBS) $(SQLITE_LIBS) -lm
check_PROGRAMS += tests/cli_buckets_test
tests_cli_buckets_test_SOURCES = tests/cli_buckets_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_buckets_test_LDADD = $(JANSSON_LIBS) $(SQLITE_LIBS) -lm
check_PROGRAMS += tests/cli_variants_test
tests_cli_variants_test_SOURCES = tests/cli_variants_test.c \
  tests/cli_measured.h tests/run_cli.h tests/tap.h
tests_cli_variants_test_LDADD = $(JANSSON_LIBS) $(SQLITE_LIBS) -lm
check_PROGRAMS += tests/cli_solve_test tests/cli_faults_test tests/cli_interrupt_test \
  tests/cli_messages_test tests/cli_origin_test \
  tests/cli_front_test
tests_cli_front_test_SOURCES = tests/cli_front_test.c tests/cli_plans.h \
  tests/run_cli.h tests/tap.h
tests_cli_front_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_solve_test_SOURCES = tests/cli_solve_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_solve_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_origin_test_SOURCES = tests/cli_origin_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_origin_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_messages_test_SOURCES = tests/cli_messages_test.c \
  tests/run_cli.h tests/tap.h
tests_cli_messages_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_interrupt_test_SOURCES = tests/cli_interrupt_test.c \
  tests/run_going.h tests/run_cli.h tests/tap.h
tests_cli_interrupt_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_faults_test_SOURCES = tests/cli_faults_test.c tests/run_going.h \
  tests/run_cli.h tests/tap.h
tests_cli_faults_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_checkpoint_test
tests_cli_checkpoint_test_SOURCES = tests/cli_checkpoint_test.c \
  tests/run_cli.h tests/tap.h
tests_cli_checkpoint_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_weights_test
tests_cli_weights_test_SOURCES = tests/cli_weights_test.c \
  tests/run_cli.h tests/tap.h
tests_cli_weights_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_data_test
tests_cli_data_test_SOURCES = tests/cli_data_test.c tests/cli_plans.h \
  tests/run_cli.h tests/tap.h
tests_cli_data_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_idle_test
tests_cli_idle_test_SOURCES = tests/cli_idle_test.c tests/cli_plans.h \
  tests/run_cli.h tests/tap.h
tests_cli_idle_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_states_test
tests_cli_states_test_SOURCES = tests/cli_states_test.c tests/cli_plans.h \
  tests/run_cli.h tests/tap.h
tests_cli_states_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_compact_test
tests_cli_compact_test_SOURCES = tests/cli_compact_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_compact_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_sim_test
tests_cli_sim_test_SOURCES = tests/cli_sim_test.c tests/trace_valid.h \
  tests/run_cli.h tests/tap.h
tests_cli_sim_test_LDADD = $(JANSSON_LIBS) -lm
EXTRA_DIST += datasets/iopddl datasets/measurements
check_PROGRAMS += tests/cli_validate_test tests/cli_rows_test tests/cli_wires_test tests/cli_framework_test
tests_cli_rows_test_SOURCES = tests/cli_rows_test.c tests/cli_rows.h tests/run_cli.h \
  tests/tap.h
tests_cli_rows_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_wires_test_SOURCES = tests/cli_wires_test.c tests/cli_rows.h tests/run_cli.h \
  tests/tap.h
tests_cli_wires_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_framework_test_SOURCES = tests/cli_framework_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_framework_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_validate_test_SOURCES = tests/cli_validate_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_validate_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_replay_test
tests_cli_replay_test_SOURCES = tests/cli_replay_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_replay_test_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
tests_cli_replay_test_LDADD = $(SQLITE_LIBS) $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_collectives_test
tests_cli_collectives_test_SOURCES = tests/cli_collectives_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_collectives_test_LDADD = src/base/libfs_base.a $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_sweep_test
tests_cli_sweep_test_SOURCES = tests/cli_sweep_test.c tests/cli_plans.h \
  tests/run_cli.h tests/tap.h
tests_cli_sweep_test_LDADD = src/base/libfs_base.a $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_interval_test tests/cli_holding_test
tests_cli_interval_test_SOURCES = tests/cli_interval_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_interval_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_holding_test_SOURCES = tests/cli_holding_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_holding_test_LDADD = $(JANSSON_LIBS) -lm

# Ranks that fail: a few in `make check`, FAULT_SEEDS (50) drawn kinds and
# moments in `make check-faults`.
check_PROGRAMS += tests/cli_supervise_test tests/cli_waits_test
tests_cli_supervise_test_SOURCES = tests/cli_supervise_test.c \
  tests/run_going.h tests/run_cli.h tests/tap.h
tests_cli_supervise_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_waits_test_SOURCES = tests/cli_waits_test.c src/cli/waits.c \
  src/cli/waits.h tests/tap.h
tests_cli_waits_test_LDADD = $(exec_libs)
# What tests preload into the program: calls that fail at the n-th time.
check_DATA += tests/nth.so
CLEANFILES += tests/nth.so
EXTRA_DIST += tests/nth.c
tests/nth.so: tests/nth.c
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(CC) -std=gnu11 -O1 -g $(WARN_CFLAGS) -shared -fPIC -o $@ \
	  $(srcdir)/tests/nth.c -ldl
check_PROGRAMS += tests/cli_nth_test
tests_cli_nth_test_SOURCES = tests/cli_nth_test.c tests/run_going.h \
  tests/run_cli.h tests/tap.h
tests_cli_nth_test_LDADD = $(JANSSON_LIBS) -lm
EXTRA_tests_cli_nth_test_DEPENDENCIES = tests/nth.so
check_PROGRAMS += tests/cli_serve_test tests/cli_serve_nets_test
tests_cli_serve_nets_test_SOURCES = tests/cli_serve_nets_test.c \
  tests/serving.h tests/http_client.h tests/run_going.h tests/run_cli.h \
  tests/tap.h
tests_cli_serve_nets_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_serve_test_SOURCES = tests/cli_serve_test.c tests/serving.h \
  tests/http_client.h tests/run_going.h tests/run_cli.h tests/tap.h
tests_cli_serve_test_LDADD = $(JANSSON_LIBS) -lpthread -lm
check_PROGRAMS += tests/cli_hosts_test
tests_cli_hosts_test_SOURCES = tests/cli_hosts_test.c tests/run_going.h \
  tests/run_cli.h tests/tap.h
tests_cli_hosts_test_LDADD = $(JANSSON_LIBS) -lm
EXTRA_DIST += tests/two_hosts.sh tests/rsh_namespace.sh
.PHONY: check-faults
check-faults: all tests/cli_supervise_test tests/cli_nth_test \
  tests/cli_checkpoint_test
	@$(AM_TESTS_ENVIRONMENT) FAULT_SEEDS=$${FAULT_SEEDS:-50} && \
	  export FAULT_SEEDS && tests/cli_checkpoint_test && \
	  tests/cli_nth_test && tests/cli_supervise_test
