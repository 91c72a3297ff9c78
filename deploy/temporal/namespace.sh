#!/bin/sh
# Give a Temporal server what droidherd needs: the namespace with its retention, and the search attributes.
# Harmless to repeat. Wants the `temporal` program on PATH, or its path in TEMPORAL.
set -eu

temporal=${TEMPORAL:-temporal}
address=${TEMPORAL_ADDRESS:-127.0.0.1:7243}
namespace=${DROIDHERD_NAMESPACE:-droidherd}
retention=${DROIDHERD_RETENTION:-840h}

operator() {
    "$temporal" operator "$@" --address "$address" --namespace "$namespace"
}

tries=0
until "$temporal" operator cluster health --address "$address" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -ge 120 ]; then
        echo "Temporal at $address does not serve" >&2
        exit 1
    fi
    sleep 0.5
done

# Create first: the server remembers for a while that a namespace was asked for in vain.
operator namespace create --retention "$retention" >/dev/null 2>&1 || operator namespace update --retention "$retention"

present=$(operator search-attribute list)
add() {
    # Asked for as a whole word at the start of a line, as the list prints it.
    if ! printf '%s\n' "$present" | grep -q "^ *$1 "; then
        operator search-attribute create --name "$1" --type "$2"
    fi
}
add TaskState Keyword
add TaskType Keyword
add AccountId Keyword
add PoolId Keyword
add EmulatorId Keyword
add BatchId Keyword
add SubscriptionId Keyword
add Lane Keyword
add Region Keyword
add Tags KeywordList
add Capabilities KeywordList
