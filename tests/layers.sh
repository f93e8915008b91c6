#!/bin/sh
# Folder = layer: a file may include its own folder and those its row names,
# nothing else; and libraries stay in their rooms. Prints TAP.
set -u
cd "$FS_SRCDIR" || exit 1

table='base:
ir: base
hw: base
onnx: base ir
zoo: base ir
plan: base ir hw
kernels: base ir
cost: base ir hw plan
search: base ir hw plan cost
sim: base hw plan
exec: base ir hw plan kernels
store: base plan
report: base ir hw plan store
cli: base ir hw onnx zoo plan kernels cost search sim exec store report'

n=0
bad=0
report() { # report STATUS FACT [LINES]
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        bad=1
        echo "not ok $n - $2"
        printf '%s\n' "$3" | sed 's/^/# /'
    fi
}

for folder in src/*/; do
    folder=$(basename "$folder")
    row=$(printf '%s\n' "$table" | grep "^$folder:")
    if [ -z "$row" ]; then
        report 1 "src/$folder is a layer of the table" "src/$folder"
        continue
    fi
    allowed="$folder ${row#*:}"
    wrong=$(grep -rnE '^[[:space:]]*#[[:space:]]*include "[a-z]+/' "src/$folder" |
        while IFS= read -r line; do
            target=$(printf '%s\n' "$line" | sed 's/.*include "\([a-z]*\)\/.*/\1/')
            case " $allowed " in
            *" $target "*) ;;
            *) printf '%s\n' "$line" ;;
            esac
        done)
    [ -z "$wrong" ]
    report $? "src/$folder includes only: $allowed" "$wrong"
done

# What solves cost networks knows of nothing else.
wrong=$(grep -rnE '^[[:space:]]*#[[:space:]]*include "[a-z]+/' src/search/engine |
    grep -vE 'include "(base|search/engine)/')
[ -z "$wrong" ]
report $? "src/search/engine includes only: base and itself" "$wrong"

# room LIBRARY-HEADER-PATTERN FOLDERS...: only these folders may include it.
room() {
    pattern=$1
    shift
    wrong=$(grep -rnE "#[[:space:]]*include [<\"]($pattern)" src | while IFS= read -r line; do
        where=$(printf '%s\n' "$line" | sed 's/^src\/\([a-z]*\)\/.*/\1/')
        case " $* " in
        *" $where "*) ;;
        *) printf '%s\n' "$line" ;;
        esac
    done)
    [ -z "$wrong" ]
    report $? "<$pattern> appears only in: $*" "$wrong"
}
room 'mpi\.h' exec
room 'sqlite3\.h' store
room 'glpk\.h' search
room 'graphviz/|gvc\.h|cgraph\.h' report
room 'hwloc' hw
room 'dnnl' kernels
room 'microhttpd\.h' cli
room 'cuda|cudnn|cublas|nccl' kernels exec
engines=$(grep -rlE '#[[:space:]]*include <glpk\.h>' src | wc -l)
[ "$engines" -le 1 ]
report $? "the ILP library appears in one file" "$(grep -rl 'glpk\.h' src)"
echo "1..$n"
exit $bad
