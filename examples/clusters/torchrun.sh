#!/bin/bash
# Four processes on this machine. If one fails, all are started again, at most three times, from the last checkpoint.
#
#   bash torchrun.sh train.py /shared/checkpoints
set -eu
exec torchrun --nproc-per-node="${PROCESSES:-4}" --max-restarts=3 "$@"
