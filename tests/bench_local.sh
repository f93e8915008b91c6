#!/bin/sh
# bench_local.sh DIR: calibrates this machine, plans and runs GPT, a CNN and
# Wide&Deep on 2 and 4 ranks in many ways, some over links of a limited rate,
# and tells how far predictions were off. What is measured stays in DIR: broken
# off, it goes on there.
# BENCH_STEPS: steps of a run (24); BENCH_ROUNDS: runs of each plan (3);
# BENCH_PLANS: a list like bench_local.txt.
set -eu
dir=$1
where=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
flowsearch=${FLOWSEARCH:-$PWD/flowsearch}
steps=${BENCH_STEPS:-24}
rounds=${BENCH_ROUNDS:-3}
list=${BENCH_PLANS:-$here/bench_local.txt}
export FLOWSEARCH="$flowsearch"

model_of() {
  case $1 in
    gpt) echo zoo:gpt,layers=4,hidden=128,heads=4,vocab=256,seq=64 ;;
    cnn) echo zoo:resnet,depth=18,size=32 ;;
    wide) echo zoo:wide_deep,rows=20000 ;;
  esac
}
batch_of() {
  case $1 in gpt | cnn) echo 16 ;; wide) echo 256 ;; esac
}
plans() { # of a place
  grep "^$where " "$list"
}

# Pass by pass over all networks, as runs are in rounds (below).
calibrate() {
  for pass in 1 2 3; do
    plans | cut -d' ' -f2,3 | sort -u | while read -r net ranks; do
      [ -e "calibrated-$net-$ranks-$pass" ] && continue
      echo "calibrate $where $net $ranks, pass $pass" >&2
      "$flowsearch" calibrate "$(model_of "$net")" \
        --batch "$(batch_of "$net")" --ranks "$ranks" --passes "$pass" \
        --db "../$where.db" > calibrate.txt
      mv calibrate.txt "calibrated-$net-$ranks-$pass"
    done
  done
}
plan() {
  number=0
  plans | while read -r _ net ranks recipe; do
    number=$((number + 1))
    [ -e "$number.json" ] && continue
    # shellcheck disable=SC2086
    "$flowsearch" plan "$(model_of "$net")" --cluster local --ranks "$ranks" \
      --batch "$(batch_of "$net")" $recipe --db "../$where.db" \
      -o "$number.json" > plan.txt
  done
}
# Rounds, not plan by plan: what disturbs a machine for a while disturbs some of
# each.
run() {
  for round in $(seq "$rounds"); do
    number=0
    plans | while read -r _ net ranks recipe; do
      number=$((number + 1))
      [ -e "$number.run$round" ] && continue
      echo "round $round: $where $net $ranks $recipe" >&2
      "$flowsearch" run "$number.json" --data synthetic --steps "$steps" \
        --db "../$where.db" > run.txt < /dev/null
      mv run.txt "$number.run$round"
    done
  done
}

mkdir -p "$dir"
cd "$dir"
if [ -n "$where" ]; then # within that place
  mkdir -p "$where"
  cd "$where"
  if [ "$where" != host ]; then
    # Frames and a bucket as small as those of a wire: what fits into the bucket
    # goes through at once after a pause, as nothing does there.
    ip link set lo mtu 9000 up
    tc qdisc add dev lo root tbf rate "$where" burst 20kb latency 100ms
    export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
  fi
  calibrate
  plan
  run
  exit
fi
databases=
for where in $(grep -v '^#' "$list" | cut -d' ' -f1 | uniq); do
  if [ "$where" = host ]; then
    sh "$here/bench_local.sh" "$PWD" "$where"
  elif unshare -n true 2> /dev/null; then
    unshare -n sh "$here/bench_local.sh" "$PWD" "$where"
  else
    echo "skipped: links of $where want a network namespace (unshare -n)"
    continue
  fi
  databases="$databases $where.db"
done
# shellcheck disable=SC2086
exec "$flowsearch" validate $databases --db none
