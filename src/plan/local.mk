noinst_LIBRARIES += src/plan/libfs_plan.a
src_plan_libfs_plan_a_SOURCES =
src_plan_libfs_plan_a_SOURCES += src/plan/actor.c src/plan/actor.h \
  src/plan/actor_parts.h src/plan/actor_chain.c src/plan/actor_chain.h \
  src/plan/actor_chain_make.c src/plan/actor_chain_parts.h \
  src/plan/actor_order.c src/plan/actor_repeat.c src/plan/actor_wakes.c \
  src/plan/actor_wakes.h \
  src/plan/actor_repeat.h src/plan/pace.h \
  src/plan/places.c src/plan/places.h \
  src/plan/in_turn.c src/plan/in_turn.h \
  src/plan/timing.c src/plan/timing.h src/plan/arrivals.c
src_plan_libfs_plan_a_SOURCES += src/plan/strategy.c src/plan/strategy.h \
  src/plan/algorithms.c src/plan/algorithms.h src/plan/algorithms.def src/plan/boxing.c src/plan/boxing.h src/plan/path.c \
  src/plan/boxer.c src/plan/boxer.h src/plan/boxer_parts.h \
  src/plan/boxer_trees.c src/plan/boxer_cross.c src/plan/boxer_pairs.c \
  src/plan/exchange.c src/plan/exchange.h src/plan/boxing.def
src_plan_libfs_plan_a_SOURCES += src/plan/schedule.c src/plan/schedule.h \
  src/plan/schedules.def src/plan/schedule_1f1b.c src/plan/schedule_gpipe.c \
  src/plan/schedule_interleaved.c src/plan/schedule_zb_h1.c \
  src/plan/schedule_zb_h2.c src/plan/schedule_zb_v.c \
  src/plan/schedule_dynamic.c \
  src/plan/pipeline.c
src_plan_libfs_plan_a_SOURCES += src/plan/text.h src/plan/text_parts.h \
  src/plan/text_origin.c src/plan/text_places.c \
  src/plan/text_write.c src/plan/text_read.c \
  src/plan/text_reading.h src/plan/text_fields.c src/plan/text_read_role.c
src_plan_libfs_plan_a_SOURCES += src/plan/plan.h src/plan/task.h \
  src/plan/names.c src/plan/lower.c src/plan/lower.h \
  src/plan/lower_values.c src/plan/lower_tasks.c src/plan/lower_finish.c \
  src/plan/lower_memory.c src/plan/lower_ahead.c src/plan/lower_behind.c \
  src/plan/lower_buckets.c \
  src/plan/fullest.h src/plan/fullest.c src/plan/memory.c src/plan/memory.h src/plan/memory_life.c \
  src/plan/memory_life.h src/plan/offsets.c src/plan/offsets.h \
  src/plan/offsets_parts.h src/plan/offsets_stack.c \
  src/plan/offsets_valley.c src/plan/offsets_gaps.c \
  src/plan/offsets_known.c \
  src/plan/offsets_calendar.c src/plan/offsets_calendar.h \
  src/plan/offsets_repair.c \
  src/plan/offsets_exact.c
check_PROGRAMS += tests/plan_boxing_test tests/plan_schedule_test
check_PROGRAMS += tests/plan_skip_test tests/plan_boxer_pairs_test
check_PROGRAMS += tests/plan_exchange_test
tests_plan_exchange_test_SOURCES = tests/plan_exchange_test.c tests/tap.h
tests_plan_exchange_test_LDADD = $(plan_libs)
tests_plan_boxing_test_SOURCES = tests/plan_boxing_test.c tests/tap.h
tests_plan_boxing_test_LDADD = $(plan_libs)
tests_plan_boxer_pairs_test_SOURCES = tests/plan_boxer_pairs_test.c tests/tap.h
tests_plan_boxer_pairs_test_LDADD = $(plan_libs)
tests_plan_skip_test_SOURCES = tests/plan_skip_test.c tests/plan_build.h \
	tests/tap.h
tests_plan_skip_test_LDADD = $(plan_libs)
tests_plan_schedule_test_SOURCES = tests/plan_schedule_test.c tests/tap.h
tests_plan_schedule_test_LDADD = $(plan_libs)
src_plan_libfs_plan_a_SOURCES += src/plan/check.c src/plan/check.h \
  src/plan/check_parts.h src/plan/check_structure.c src/plan/check_streams.c src/plan/check_sbp.c \
  src/plan/check_order.c src/plan/check_live.h src/plan/check_live.c \
  src/plan/check_cycle.c src/plan/check_memory.c src/plan/check_short.c \
  src/plan/shorten.c src/plan/shorten.h
check_PROGRAMS += tests/plan_memory_test tests/plan_offsets_test
tests_plan_offsets_test_SOURCES = tests/plan_offsets_test.c tests/tap.h
tests_plan_offsets_test_LDADD = $(plan_libs)
tests_plan_memory_test_SOURCES = tests/plan_memory_test.c tests/plan_live.h \
  tests/tap.h
tests_plan_memory_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_dynamic_test
tests_plan_dynamic_test_SOURCES = tests/plan_dynamic_test.c \
  tests/plan_hand.h tests/plan_world.h tests/tap.h
tests_plan_dynamic_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_lower_test
tests_plan_lower_test_SOURCES = tests/plan_lower_test.c tests/plan_build.h \
  tests/plan_live.h tests/tap.h
tests_plan_lower_test_LDADD = $(zoo_libs) $(plan_libs)
check_PROGRAMS += tests/plan_explore_test
tests_plan_explore_test_SOURCES = tests/plan_explore_test.c tests/plan_hand.h \
  tests/plan_world.h \
  tests/tap.h
tests_plan_explore_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_chain_test
tests_plan_chain_test_SOURCES = tests/plan_chain_test.c tests/plan_hand.h \
  tests/tap.h
tests_plan_chain_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_actor_test tests/plan_check_test \
  tests/plan_text_test
tests_plan_actor_test_SOURCES = tests/plan_actor_test.c tests/plan_hand.h \
  tests/tap.h
tests_plan_actor_test_LDADD = $(plan_libs)
tests_plan_check_test_SOURCES = tests/plan_check_test.c tests/plan_hand.h \
  tests/tap.h
tests_plan_check_test_LDADD = $(plan_libs)
tests_plan_text_test_SOURCES = tests/plan_text_test.c tests/plan_hand.h \
  tests/tap.h
tests_plan_text_test_LDADD = $(plan_libs)

EXTRA_DIST += src/plan/README.md src/plan/BUCKETS.md

check_PROGRAMS += tests/plan_file_test
tests_plan_file_test_SOURCES = tests/plan_file_test.c tests/run_cli.h \
  tests/tap.h
tests_plan_file_test_LDADD = $(JANSSON_LIBS) -lm

check_PROGRAMS += tests/plan_buckets_test
tests_plan_buckets_test_SOURCES = tests/plan_buckets_test.c \
  tests/plan_hand.h tests/tap.h
tests_plan_buckets_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_fuzz_test
tests_plan_fuzz_test_SOURCES = tests/plan_fuzz_test.c tests/plan_hand.h \
  tests/plan_live.h tests/plan_world.h tests/tap.h
tests_plan_fuzz_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_deadlock_test
tests_plan_deadlock_test_SOURCES = tests/plan_deadlock_test.c \
  tests/run_cli.h tests/tap.h
tests_plan_deadlock_test_LDADD = $(JANSSON_LIBS) -lm
EXTRA_DIST += plans/README.md plans/deadlock_3d.json tests/golden/deadlock.txt

check_PROGRAMS += tests/plan_trace_test
tests_plan_trace_test_SOURCES = tests/plan_trace_test.c tests/plan_build.h \
  tests/tap.h
tests_plan_trace_test_LDADD = $(plan_libs)
check_PROGRAMS += tests/plan_shorten_test
tests_plan_shorten_test_SOURCES = tests/plan_shorten_test.c \
  tests/plan_build.h tests/tap.h
tests_plan_shorten_test_LDADD = $(plan_libs)
