noinst_LIBRARIES += src/exec/libfs_exec.a
src_exec_libfs_exec_a_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) $(ZLIB_CFLAGS)
src_exec_libfs_exec_a_SOURCES = src/exec/exec.c src/exec/exec.h \
  src/exec/world.c src/exec/world.h src/exec/binding.c src/exec/binding.h \
  src/exec/link.c src/exec/link.h src/exec/link_mpi.c src/exec/link_local.c \
  src/exec/piece.c src/exec/fold.c src/exec/piece.h \
  src/exec/transfer.c src/exec/transfer.h \
  src/exec/algorithms.c src/exec/messages.h \
  src/exec/loader.c src/exec/parker.c src/exec/parker.h src/exec/bell.c src/exec/bells.c src/exec/bell.h \
  src/exec/loader.h src/exec/recorder.c src/exec/recorder.h src/exec/relay.c src/exec/relay.h \
  src/exec/failpoint.c src/exec/failpoint.h \
  src/exec/data.h src/exec/data.def src/exec/data_kinds.h src/exec/data.c src/exec/data_inputs.c \
  src/exec/data_drawn.c src/exec/data_fixed.c src/exec/data_text.c src/exec/data_tokens.c src/exec/data_idx.c src/exec/data_csv.c \
  src/exec/samples.h src/exec/samples.c src/exec/windows.c src/exec/view.c src/exec/decode.c src/exec/order.c \
  src/exec/reader.h src/exec/reader.c \
  src/exec/rank.c src/exec/rank.h src/exec/task.h src/exec/results.h \
  src/exec/variables.c src/exec/layouts.c src/exec/variants.c src/exec/variants.h \
  src/exec/run.c src/exec/interleave.h src/exec/losses.c src/exec/outputs.c src/exec/stop.c \
  src/exec/shard.c src/exec/shard.h src/exec/safetensors.c src/exec/safetensors.h \
  src/exec/checkpoint.c src/exec/checkpoint.h src/exec/checkpoint_read.c src/exec/tuned.c src/exec/tuned.h \
  src/exec/saver.c src/exec/saver.h src/exec/saving.h src/exec/restore.c src/exec/weights.c src/exec/weights.h \
  src/exec/measure.c src/exec/alone.c src/exec/alone.h src/exec/probe.c src/exec/probe.h src/exec/calibrate.h src/exec/probe_turn.c src/exec/probe_firing.c \
  src/exec/probe_graphs.c src/exec/probe_points.c src/exec/cuda.c src/exec/cuda_abi.h

# Each program runs alone, then on several ranks by the script.
check_PROGRAMS += tests/exec_transfer_test tests/exec_boxing_test
tests_exec_boxing_test_SOURCES = tests/exec_boxing_test.c \
  tests/exec_ranks.h tests/tap.h
tests_exec_boxing_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_boxing_test_LDADD = $(exec_libs)
tests_exec_transfer_test_SOURCES = tests/exec_transfer_test.c \
  tests/exec_ranks.h tests/tap.h
tests_exec_transfer_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_transfer_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_train_test
tests_exec_train_test_SOURCES = tests/exec_train_test.c tests/exec_plans.h \
  tests/exec_ranks.h tests/tap.h
tests_exec_train_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_train_test_LDADD = $(exec_libs)

# 200 cases in `make check`, 2,000 in `make check-long`.
check_PROGRAMS += tests/exec_equal_test
tests_exec_equal_test_SOURCES = tests/exec_equal_test.c tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/equal_run.c tests/equal_shrink.c \
  tests/exec_plans.h tests/exec_ranks.h tests/zoo_tiny.h tests/tap.h
tests_exec_equal_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_equal_test_LDADD = $(zoo_libs) $(exec_libs)
# Some of them are saved in the middle and resumed, under another plan too.
check_PROGRAMS += tests/exec_checkpoint_test
tests_exec_checkpoint_test_SOURCES = tests/exec_checkpoint_test.c tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_exec_checkpoint_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_checkpoint_test_LDADD = $(zoo_libs) $(exec_libs)
# In 400 of the same cases no simulation undercuts the bound.
check_PROGRAMS += tests/sim_bound_test
tests_sim_bound_test_SOURCES = tests/sim_bound_test.c tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_sim_bound_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_sim_bound_test_LDADD = $(zoo_libs) $(cost_libs) $(sim_libs) $(exec_libs)
# Nor does what is played as one differ from what is played one by one.
check_PROGRAMS += tests/sim_pairs_test
tests_sim_pairs_test_SOURCES = tests/sim_pairs_test.c tests/sim_same.h tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_sim_pairs_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_sim_pairs_test_LDADD = $(zoo_libs) $(cost_libs) $(sim_libs) $(exec_libs)
# 1,000 like them, under several stages per role, are not lowered into a
# deadlock; 5,000 in `make check-long`.
check_PROGRAMS += tests/plan_live_test
tests_plan_live_test_SOURCES = tests/plan_live_test.c tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_plan_live_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_plan_live_test_LDADD = $(zoo_libs) $(exec_libs)
# Who may go on is woken, whatever the order of events.
check_PROGRAMS += tests/plan_wakes_test
tests_plan_wakes_test_SOURCES = tests/plan_wakes_test.c tests/equal.h \
  tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_plan_wakes_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_plan_wakes_test_LDADD = $(zoo_libs) $(exec_libs)
.PHONY: check-long
check-long: all tests/exec_equal_test tests/plan_explore_test \
  tests/plan_fuzz_test tests/plan_live_test
	@$(AM_TESTS_ENVIRONMENT) FS_CASES=2000 tests/exec_equal_test
	@$(AM_TESTS_ENVIRONMENT) FS_CASES=5000 tests/plan_live_test
	@$(AM_TESTS_ENVIRONMENT) FS_LONG=1 tests/plan_explore_test
	@$(AM_TESTS_ENVIRONMENT) FS_LONG=1 tests/plan_fuzz_test

check_PROGRAMS += tests/exec_endless_test
tests_exec_endless_test_SOURCES = tests/exec_endless_test.c tests/exec_endless.h \
  tests/exec_plans.h tests/exec_ranks.h tests/tap.h
tests_exec_endless_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_endless_test_LDADD = $(exec_libs)
check_PROGRAMS += tests/exec_compress_test
tests_exec_compress_test_SOURCES = tests/exec_compress_test.c \
  tests/exec_plans.h tests/exec_ranks.h tests/tap.h
tests_exec_compress_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_compress_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_space_test
tests_exec_space_test_SOURCES = tests/exec_space_test.c tests/exec_plans.h \
  tests/exec_ranks.h tests/tap.h
tests_exec_space_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_space_test_LDADD = $(exec_libs)

check_SCRIPTS += tests/exec_ranks_test.sh
EXTRA_DIST += tests/exec_ranks_test.sh

check_PROGRAMS += tests/exec_alone_test
tests_exec_alone_test_SOURCES = tests/exec_alone_test.c tests/tap.h
tests_exec_alone_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_alone_test_LDADD = $(exec_libs)
check_PROGRAMS += tests/exec_samples_test
tests_exec_samples_test_SOURCES = tests/exec_samples_test.c tests/tap.h
tests_exec_samples_test_CPPFLAGS = $(AM_CPPFLAGS) $(ZLIB_CFLAGS)
tests_exec_samples_test_LDADD = $(exec_libs)
check_PROGRAMS += tests/exec_data_test
tests_exec_data_test_SOURCES = tests/exec_data_test.c tests/tap.h
tests_exec_data_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_data_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_act_test
tests_exec_act_test_SOURCES = tests/exec_act_test.c tests/tap.h
tests_exec_act_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_act_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_probe_test
tests_exec_probe_test_SOURCES = tests/exec_probe_test.c tests/tap.h
tests_exec_probe_test_LDADD = $(exec_libs)

EXTRA_DIST += src/exec/README.md src/exec/VARIANTS.md src/exec/FAULTS.md \
  src/exec/DATA.md src/exec/CHECKPOINTS.md src/exec/ACTS.md

check_PROGRAMS += tests/exec_cuda_test
tests_exec_cuda_test_SOURCES = tests/exec_cuda_test.c tests/tap.h
tests_exec_cuda_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_bell_test
tests_exec_bell_test_SOURCES = tests/exec_bell_test.c tests/exec_ranks.h \
  tests/tap.h
tests_exec_bell_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_bell_test_LDADD = $(exec_libs)

check_PROGRAMS += tests/exec_recorder_test
tests_exec_recorder_test_SOURCES = tests/exec_recorder_test.c tests/tap.h
tests_exec_recorder_test_LDADD = $(exec_libs)

# The runtime once more, as a test steps it (INTERLEAVINGS.md): its hooks, and a
# call for every atomic. The library that the compiler means by that is not
# linked; beside another sanitizer there are no such calls.
check_LIBRARIES = tests/libfs_stepped.a tests/libfs_stepper.a
tests_libfs_stepped_a_SOURCES = $(src_exec_libfs_exec_a_SOURCES)
tests_libfs_stepped_a_CPPFLAGS = $(src_exec_libfs_exec_a_CPPFLAGS) -DFS_INTERLEAVE
tests_libfs_stepped_a_CFLAGS = $(AM_CFLAGS) $(ATOMICS_CFLAGS)
tests_libfs_stepper_a_SOURCES = tests/interleave.h tests/interleave_threads.c tests/interleave_waits.c \
  tests/interleave_atomics.c tests/interleave_link.c tests/interleave_credit.c
tests_libfs_stepper_a_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) -DFS_INTERLEAVE
stepped_libs = tests/libfs_stepped.a tests/libfs_stepper.a $(kernels_libs) $(plan_libs) $(MPI_LIBS) \
  -lpthread -ldl
stepped_wraps = pthread_create pthread_join pthread_mutex_init \
  pthread_mutex_destroy pthread_mutex_lock pthread_mutex_unlock \
  pthread_cond_init pthread_cond_destroy pthread_cond_wait \
  pthread_cond_signal pthread_cond_broadcast pthread_barrier_init \
  pthread_barrier_destroy pthread_barrier_wait sem_init sem_destroy sem_wait \
  sem_timedwait sem_post sched_yield syscall nanosleep fdatasync fsync clock_gettime \
  free memcpy pread fs_ticker_tune exec_idle_wait plan_actor_has_all plan_actor_hold \
  plan_actor_let_go
stepped_ldflags = $(AM_LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(stepped_wraps))
comma = ,

# 200 interleavings in `make check`, 10,000 in `make interleave`.
check_PROGRAMS += tests/exec_interleave_test
tests_exec_interleave_test_SOURCES = tests/exec_interleave_test.c \
  tests/equal.h tests/equal_cases.c tests/equal_graphs.c tests/equal_ops.c \
  tests/equal_ops.h tests/equal_ops_move.c tests/equal_each.c $(op_cases) \
  tests/equal_strategies.c tests/exec_plans.h tests/zoo_tiny.h tests/tap.h
tests_exec_interleave_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_interleave_test_LDFLAGS = $(stepped_ldflags)
tests_exec_interleave_test_LDADD = $(zoo_libs) $(stepped_libs)
# How ranks end together.
check_PROGRAMS += tests/exec_ending_test
tests_exec_ending_test_SOURCES = tests/exec_ending_test.c \
  tests/exec_endless.h tests/exec_plans.h tests/tap.h
tests_exec_ending_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_ending_test_CFLAGS = $(AM_CFLAGS) $(ATOMICS_CFLAGS)
tests_exec_ending_test_LDFLAGS = $(stepped_ldflags)
tests_exec_ending_test_LDADD = $(stepped_libs)
# All interleavings of the ways in which threads hand work to each other.
check_PROGRAMS += tests/exec_handover_test
tests_exec_handover_test_SOURCES = tests/exec_handover_test.c tests/tap.h
tests_exec_handover_test_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
tests_exec_handover_test_CFLAGS = $(AM_CFLAGS) $(ATOMICS_CFLAGS)
tests_exec_handover_test_LDFLAGS = $(stepped_ldflags)
tests_exec_handover_test_LDADD = $(stepped_libs)
.PHONY: interleave interleave-faults
interleave: all tests/exec_interleave_test tests/exec_handover_test \
  tests/exec_ending_test
	@$(AM_TESTS_ENVIRONMENT) FS_LONG=1 tests/exec_handover_test && \
	  FS_CASES=$${FS_CASES:-10000} tests/exec_ending_test && \
	  FS_CASES=$${FS_CASES:-10000} tests/exec_interleave_test
# What these find: lines of the runtime changed on purpose.
interleave-faults: all tests/exec_interleave_test tests/exec_handover_test \
  tests/exec_ending_test
	@$(AM_TESTS_ENVIRONMENT) \
	  PLANTED_CC='$(CC) $(DEFS) $(DEFAULT_INCLUDES) $(tests_libfs_stepped_a_CPPFLAGS) $(CPPFLAGS) $(tests_libfs_stepped_a_CFLAGS) $(CFLAGS)' \
	  PLANTED_LD='$(CC) $(AM_CFLAGS) $(CFLAGS) $(stepped_ldflags) $(LDFLAGS)' \
	  PLANTED_interleave='$(tests_exec_interleave_test_OBJECTS)' \
	  PLANTED_handover='$(tests_exec_handover_test_OBJECTS)' \
	  PLANTED_ending='$(tests_exec_ending_test_OBJECTS)' \
	  PLANTED_LIBS='$(zoo_libs) $(stepped_libs) $(LIBS)' \
	  $(SHELL) $(srcdir)/tests/interleave_faults.sh
EXTRA_DIST += tests/interleave_faults.sh tests/interleave_faults.tsv \
  src/exec/INTERLEAVINGS.md
# ThreadSanitizer, in a build of its own.
.PHONY: tsan
tsan: flowsearch$(EXEEXT)
	@$(AM_TESTS_ENVIRONMENT) MAKE='$(bench_make)' $(SHELL) $(srcdir)/tests/tsan.sh
EXTRA_DIST += tests/tsan.sh tests/tsan.supp
