TESTS_ALONE += tests/cli_faults_test tests/cli_supervise_test \
  tests/cli_nth_test tests/cli_interrupt_test tests/cli_hosts_test \
  tests/cli_checkpoint_test tests/cli_serve_test tests/exec_ranks_test.sh \
  tests/exec_equal_test
check_SCRIPTS += tests/layers.sh tests/headers.sh
EXTRA_DIST += tests/layers.sh tests/headers.sh tests/lsan.supp \
  tests/golden/explain.txt tests/golden/usage.txt

check_PROGRAMS += tests/base_test
tests_base_test_SOURCES = tests/base_test.c tests/tap.h
tests_base_test_LDADD = $(base_libs)

check_PROGRAMS += tests/cli_precision_test
tests_cli_precision_test_SOURCES = tests/cli_precision_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_precision_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_losses_test tests/cli_input_test \
  tests/cli_main_test
check_PROGRAMS += tests/cli_compress_test
tests_cli_compress_test_SOURCES = tests/cli_compress_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_compress_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_recompute_test
tests_cli_recompute_test_SOURCES = tests/cli_recompute_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_recompute_test_LDADD = $(base_libs) $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_schedules_test
tests_cli_schedules_test_SOURCES = tests/cli_schedules_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_schedules_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_losses_test_SOURCES = tests/cli_losses_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_losses_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_input_test_SOURCES = tests/cli_input_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_input_test_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
tests_cli_input_test_LDADD = $(SQLITE_LIBS) $(JANSSON_LIBS) -lm
tests_cli_main_test_SOURCES = tests/cli_main_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_main_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_growth_test
tests_cli_growth_test_SOURCES = tests/cli_growth_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_growth_test_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_labels_test
tests_cli_labels_test_SOURCES = tests/cli_labels_test.c tests/cli_plans.h \
  tests/onnx_make.h tests/run_cli.h tests/tap.h
tests_cli_labels_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_model_test
tests_cli_model_test_SOURCES = tests/cli_model_test.c tests/run_cli.h tests/tap.h
tests_cli_model_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_onnx_test
tests_cli_onnx_test_SOURCES = tests/cli_onnx_test.c tests/run_cli.h tests/tap.h
tests_cli_onnx_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_database_test
tests_cli_database_test_SOURCES = tests/cli_database_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_database_test_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)
tests_cli_database_test_LDADD = $(SQLITE_LIBS) $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_cases_test tests/cli_cases_plan_test tests/cli_options_test \
  tests/cli_places_test tests/cli_explain_test tests/cli_infeasible_test tests/cli_compare_test tests/cli_mixed_test tests/cli_gap_test tests/cli_mirror_test tests/cli_cuts_test tests/cli_hint_test tests/cli_proof_test
tests_cli_hint_test_SOURCES = tests/cli_hint_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_hint_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_proof_test_SOURCES = tests/cli_proof_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_proof_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_mixed_test_SOURCES = tests/cli_mixed_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_mixed_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_gap_test_SOURCES = tests/cli_gap_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_gap_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_cuts_test_SOURCES = tests/cli_cuts_test.c tests/run_cli.h tests/tap.h
tests_cli_cuts_test_LDADD = $(base_libs)
tests_cli_mirror_test_SOURCES = tests/cli_mirror_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_mirror_test_LDADD = $(base_libs)
tests_cli_compare_test_SOURCES = tests/cli_compare_test.c \
  tests/run_cli.h tests/tap.h
tests_cli_compare_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_infeasible_test_SOURCES = tests/cli_infeasible_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_infeasible_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_explain_test_SOURCES = tests/cli_explain_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_explain_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_places_test_SOURCES = tests/cli_places_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_places_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_options_test_SOURCES = tests/cli_options_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_options_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_cases_plan_test_SOURCES = tests/cli_cases_plan_test.c \
  tests/run_cli.h tests/tap.h
tests_cli_cases_plan_test_LDADD = $(JANSSON_LIBS) -lm
tests_cli_cases_test_SOURCES = tests/cli_cases_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_cases_test_LDADD = $(JANSSON_LIBS) -lm

# Figures, not verdicts: `make bench`.
EXTRA_PROGRAMS = tests/bench tests/bench_check tests/bench_data tests/bench_lower \
  tests/bench_models tests/bench_offsets tests/bench_search tests/bench_sim \
  tests/make_plain
CLEANFILES += tests/bench tests/bench_check tests/bench_data tests/bench_lower \
  tests/bench_models tests/bench_offsets tests/bench_search tests/bench_sim \
  tests/make_plain
tests_bench_lower_SOURCES = tests/bench_lower.c tests/plan_scale.h \
  tests/plan_build.h tests/tap.h
tests_bench_lower_LDADD = $(zoo_libs) $(plan_libs)
check_PROGRAMS += tests/plan_scale_test
tests_plan_scale_test_SOURCES = tests/plan_scale_test.c tests/plan_scale.h \
  tests/plan_build.h tests/tap.h
tests_plan_scale_test_LDADD = $(zoo_libs) $(plan_libs)
tests_bench_data_SOURCES = tests/bench_data.c
tests_bench_data_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_bench_data_LDADD = $(zoo_libs) $(exec_libs)
tests_bench_check_SOURCES = tests/bench_check.c tests/plan_hand.h tests/tap.h
tests_bench_check_LDADD = $(plan_libs)
tests_bench_models_SOURCES = tests/bench_models.c tests/run_cli.h tests/tap.h
tests_bench_models_LDADD = $(JANSSON_LIBS) -lm
tests_bench_search_SOURCES = tests/bench_search.c tests/bench_search.h \
  tests/bench_search_baselines.c tests/bench_search_ranks.c \
  tests/bench_search_published.c \
  tests/bench_search_solve.c tests/bench_search_draw.c \
  tests/bench_search_targets.c tests/run_cli.h \
  tests/tap.h
tests_bench_search_LDADD = src/base/libfs_base.a $(JANSSON_LIBS) -lm
EXTRA_DIST += datasets/search_times.csv
tests_bench_sim_SOURCES = tests/bench_sim.c tests/bench_flows.c \
  tests/bench_flows.h tests/bench_pricing.c tests/bench_pricing.h \
  tests/pricing.c tests/pricing.h tests/plan_build.h tests/tap.h
EXTRA_DIST += tests/bench_simgrid.cc
tests_bench_sim_LDADD = $(zoo_libs) $(search_libs) $(sim_libs)
tests_make_plain_SOURCES = tests/make_plain.c
tests_make_plain_LDADD = $(onnx_libs) $(ir_libs)
tests_bench_offsets_SOURCES = tests/bench_offsets.c tests/cli_offsets.h \
  tests/run_cli.h tests/tap.h
tests_bench_offsets_LDADD = $(JANSSON_LIBS) -lm
check_PROGRAMS += tests/cli_offsets_test
tests_cli_offsets_test_SOURCES = tests/cli_offsets_test.c tests/cli_offsets.h \
  tests/run_cli.h tests/tap.h
tests_cli_offsets_test_LDADD = $(JANSSON_LIBS) -lm
tests_bench_SOURCES = tests/bench.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_bench_LDADD = $(JANSSON_LIBS) -lm
.PHONY: bench bench-data bench-models bench-offsets bench-search bench-sim bench-local
bench: all tests/bench tests/bench_check tests/bench_lower
	@$(AM_TESTS_ENVIRONMENT) tests/bench
	@$(AM_TESTS_ENVIRONMENT) tests/bench_check
	@$(AM_TESTS_ENVIRONMENT) tests/bench_lower
# How much of a slow disk steps hide: some minutes.
bench-data: all tests/bench_data
	@$(AM_TESTS_ENVIRONMENT) tests/bench_data
bench-models: all tests/bench_models
	@$(AM_TESTS_ENVIRONMENT) tests/bench_models
bench-offsets: all tests/bench_offsets
	@$(AM_TESTS_ENVIRONMENT) tests/bench_offsets
bench-search: all tests/bench_search tests/make_plain
	@$(AM_TESTS_ENVIRONMENT) tests/bench_search
# BENCH_SIM="speed published left-out bytes": these parts alone (tests/bench_sim.py).
# (By another name: a line that has it is run by `make -n` too.)
bench_make = $(MAKE)
bench-sim: all tests/bench_sim
	@$(AM_TESTS_ENVIRONMENT) \
	if python3 -c '' 2>/dev/null; then \
	  MAKE='$(bench_make)' PYTHONDONTWRITEBYTECODE=1 python3 $(srcdir)/tests/bench_sim.py $(srcdir) .; \
	else \
	  echo 'python3 is not there: no bounds, no source left out' >&2; \
	  tests/bench_sim && ./flowsearch validate --db none \
	    $(srcdir)/datasets/validation/published_runs.csv && \
	  $(bench_make) --no-print-directory bench-local; \
	fi
EXTRA_DIST += tests/bench_sim.py tests/bench_verdicts.py
# BENCH_EXEC="torch llmc sim matmul act handover idle overlap": these parts
# alone (tests/bench_exec.py).
EXTRA_PROGRAMS += tests/bench_exec tests/bench_idle tests/bench_overlap
CLEANFILES += tests/bench_exec tests/bench_idle tests/bench_overlap
tests_bench_idle_SOURCES = tests/bench_idle.c tests/exec_plans.h
tests_bench_idle_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_bench_idle_LDADD = $(exec_libs)
tests_bench_exec_SOURCES = tests/bench_exec.c
tests_bench_exec_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_bench_exec_LDADD = $(exec_libs)
tests_bench_overlap_SOURCES = tests/bench_overlap.c tests/exec_plans.h
tests_bench_overlap_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_bench_overlap_LDADD = $(exec_libs)
.PHONY: bench-exec
bench-exec: all tests/bench_exec tests/bench_idle tests/bench_overlap
	@$(AM_TESTS_ENVIRONMENT) PYTHONDONTWRITEBYTECODE=1 \
	  python3 $(srcdir)/tests/bench_exec.py $(srcdir) .
EXTRA_DIST += tests/bench_exec.py tests/bench_torch.py tests/bench_networks.py \
  tests/bench_predicted.py tests/bench_llmc.py tests/bench_loopback.py
# BENCH_SERVE_S: seconds of each row (tests/bench_serve.py).
.PHONY: bench-serve
bench-serve: all
	@$(AM_TESTS_ENVIRONMENT) PYTHONDONTWRITEBYTECODE=1 \
	  python3 $(srcdir)/tests/bench_serve.py $(srcdir) .
EXTRA_DIST += tests/bench_serve.py
# SOAK_S (7200) seconds of a training whose ranks are killed at random.
EXTRA_PROGRAMS += tests/soak
CLEANFILES += tests/soak
tests_soak_SOURCES = tests/soak.c tests/run_going.h tests/run_cli.h tests/tap.h
tests_soak_LDADD = $(JANSSON_LIBS) -lm
.PHONY: soak
soak: all tests/soak
	@$(AM_TESTS_ENVIRONMENT) tests/soak
CLEANFILES += tests/bench_sim.tsv bench-sim.json
check_SCRIPTS += tests/bench_verdicts_test.sh
EXTRA_DIST += tests/bench_verdicts_test.sh tests/bench_verdicts_check.py
# Some fifteen minutes; broken off, it goes on where it was. Whoever wants it
# anew takes away bench-local/.
bench-local: all
	@FLOWSEARCH=$(abs_top_builddir)/flowsearch \
	  $(SHELL) $(srcdir)/tests/bench_local.sh $(abs_top_builddir)/bench-local
	@FLOWSEARCH=$(abs_top_builddir)/flowsearch \
	  $(SHELL) $(srcdir)/tests/bench_limit.sh $(abs_top_builddir)/bench-local/limit
EXTRA_DIST += tests/bench_local.sh tests/bench_local.txt tests/bench_limit.sh

# docs/coverage.md from the ONNX backend tests (Debian: libonnx-testdata).
check_SCRIPTS += tests/coverage_test.sh
.PHONY: coverage
coverage: all
	@$(AM_TESTS_ENVIRONMENT) FS_GOLDEN=rewrite \
	  $(SHELL) $(srcdir)/tests/coverage_test.sh
EXTRA_DIST += tests/coverage_test.sh
EXTRA_DIST += docs/coverage.sh docs/coverage.md datasets/onnx
include tests/fuzz.mk

check_PROGRAMS += tests/cli_export_test
tests_cli_export_test_SOURCES = tests/cli_export_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_export_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/cli_infer_test tests/ir_sample_axes_test
tests_cli_infer_test_SOURCES = tests/cli_infer_test.c tests/run_cli.h \
  tests/tap.h
tests_cli_infer_test_LDADD = $(JANSSON_LIBS) -lm
tests_ir_sample_axes_test_SOURCES = tests/ir_sample_axes_test.c tests/tap.h
tests_ir_sample_axes_test_LDADD = $(zoo_libs) $(ir_libs)
