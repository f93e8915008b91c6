#!/bin/sh
# bench_local.sh DIR: calibrates this machine, plans and runs GPT, a CNN and
# Wide&Deep on 2 and 4 ranks in many ways, and tells how far predictions were
# off. What is measured stays in DIR/local.db: broken off, it goes on there.
# BENCH_STEPS: steps of a run (30); BENCH_ROUNDS: runs of each plan (3).
set -eu
dir=$1
here=$(cd "$(dirname "$0")" && pwd)
flowsearch=${FLOWSEARCH:-$PWD/flowsearch}
steps=${BENCH_STEPS:-30}
rounds=${BENCH_ROUNDS:-3}
mkdir -p "$dir"
cd "$dir"
db="--db local.db"

model_of() {
  case $1 in
    gpt) echo zoo:gpt,layers=4,hidden=128,heads=4,vocab=256,seq=64 ;;
    cnn) echo zoo:resnet,depth=18,size=32 ;;
    wide) echo zoo:wide_deep,rows=20000 ;;
  esac
}
batch_of() {
  case $1 in gpt) echo 16 ;; cnn) echo 16 ;; wide) echo 256 ;; esac
}

plans=$here/bench_local.txt
grep -v '^#' "$plans" | cut -d' ' -f1,2 | sort -u | while read -r net ranks; do
  [ -e "done-calibrate-$net-$ranks" ] && continue
  "$flowsearch" calibrate "$(model_of "$net")" --batch "$(batch_of "$net")" \
    --ranks "$ranks" $db > "calibrate-$net-$ranks.txt"
  : > "done-calibrate-$net-$ranks"
done

number=0
grep -v '^#' "$plans" > plans.txt
while read -r net ranks recipe; do
  number=$((number + 1))
  [ -e "$number.plan.json" ] && continue
  # shellcheck disable=SC2086
  "$flowsearch" plan "$(model_of "$net")" --cluster local --ranks "$ranks" \
    --batch "$(batch_of "$net")" $recipe $db -o "$number.plan.json" \
    > "$number.plan.txt" || echo "no plan: $net $ranks $recipe"
done < plans.txt

# Rounds, not plan by plan: what disturbs a machine for a while disturbs some of
# each.
round=0
while [ $round -lt "$rounds" ]; do
  round=$((round + 1))
  number=0
  while read -r net ranks recipe; do
    number=$((number + 1))
    [ -e "$number.plan.json" ] || continue
    [ -e "$number.run$round.txt" ] && continue
    "$flowsearch" run "$number.plan.json" --data synthetic --steps "$steps" \
      $db > run.txt < /dev/null
    mv run.txt "$number.run$round.txt"
  done < plans.txt
done
exec "$flowsearch" validate local.db $db
