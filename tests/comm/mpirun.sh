#!/bin/bash
# Starts a program on ranks of this machine, as a test needs it: more than there are processors, and as
# root too.
#   mpirun.sh openmpi|mpich RANKS PROGRAM [ARGUMENT...]
set -euo pipefail
mpi=$1 ranks=$2
shift 2
case $mpi in
openmpi)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" "$@"
    ;;
mpich) exec mpirun.mpich -n "$ranks" "$@" ;;
*)
    echo "no MPI: $mpi" >&2
    exit 2
    ;;
esac
