noinst_LIBRARIES += src/plan/libfs_plan.a
src_plan_libfs_plan_a_SOURCES =
src_plan_libfs_plan_a_SOURCES += src/plan/actor.c src/plan/actor.h \
  src/plan/timing.c src/plan/timing.h
src_plan_libfs_plan_a_SOURCES += src/plan/strategy.c src/plan/strategy.h \
  src/plan/boxing.c src/plan/boxing.h src/plan/boxing.def
