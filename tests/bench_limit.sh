#!/bin/sh
# bench_limit.sh DIR: does what is predicted to fit run within a limit, and what
# is not end by it? One rank trains Wide&Deep in a memory cgroup (version 1 or 2,
# as root); the limit is what its process is predicted to take. Then tables of
# few more rows, until the kernel kills: where that is, the limit truly lies.
# BENCH_ROWS: of the first table.
set -eu
flowsearch=${FLOWSEARCH:-$PWD/flowsearch}
rows=${BENCH_ROWS:-4000000}
mkdir -p "$1"
cd "$1"

if [ -w /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/flowsearch_limit file=memory.limit_in_bytes
elif [ -w /sys/fs/cgroup/cgroup.subtree_control ]; then
  echo +memory > /sys/fs/cgroup/cgroup.subtree_control
  group=/sys/fs/cgroup/flowsearch_limit file=memory.max
else
  echo "skipped: limits want a memory cgroup, as root"
  exit
fi

plan() { # ROWS
  "$flowsearch" plan "zoo:wide_deep,rows=$1" --cluster local --ranks 1 \
    --batch 256 --db limit.db -o "$1.json" > plan.txt
}
figure() { # KEY FILE
  tr -d ' \n' < "$2" | sed -n "s/.*[{,]\"$1\":\[*\([0-9]*\).*/\1/p"
}
run() { # ROWS BYTES; 0: without a limit
  if [ "$2" -gt 0 ]; then
    mkdir -p "$group"
    echo "$2" > "$group/$file"
  fi
  status=0
  (
    # this shell's children are in the group, and it ends
    if [ "$2" -gt 0 ]; then sh -c "echo \$PPID" > "$group/cgroup.procs"; fi
    exec "$flowsearch" run "$1.json" --data synthetic --steps 2 --db limit.db \
      --json
  ) > "$1.run" 2> "$1.err" < /dev/null || status=$?
  if [ "$2" -gt 0 ]; then
    sleep 1
    rmdir "$group"
  fi
}

[ -e calibrated ] || "$flowsearch" calibrate zoo:wide_deep,rows=20000 \
  --batch 256 --ranks 1 --passes 1 --db limit.db > calibrated
plan "$rows"
run "$rows" 0
limit=$(figure predicted_process_bytes "$rows.run")
echo "limit $limit bytes: what a process of $rows rows is predicted to take"
for more in 0 1 2 3 4 6 8; do
  at=$((rows + rows * more / 200))
  plan "$at"
  run "$at" 0
  taken=$(figure process_bytes "$at.run")
  predicted=$(figure predicted_process_bytes "$at.run")
  run "$at" "$limit"
  outcome=runs
  [ "$status" = 0 ] || outcome=$(tail -1 "$at.err")
  echo "$at rows: predicted $predicted, taken $taken without a limit; within" \
    "it: $outcome"
  [ "$status" = 0 ] || break
done
