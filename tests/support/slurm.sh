# A Slurm of this machine alone, for scripts that source this after common.sh: its services listen on the
# loopback and end, by their process ids, with the script.
#   start_slurm    sets SLURM_CONF; false where it does not come up
#   stop_slurm
# shellcheck shell=bash disable=SC2154
slurm=$work/slurm

stop_slurm() {
    local file pid i
    for file in "$slurm/slurmd.pid" "$slurm/slurmctld.pid" "$slurm/munge/pid"; do
        pid=$(cat "$file" 2>/dev/null) || continue
        [ -n "$pid" ] && kill "$pid" 2>/dev/null || continue
        for ((i = 0; i < 100; i++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null
    done
}

# Two free ports, most likely.
ports() {
    local base=$((20000 + RANDOM % 20000))
    controller_port=$base daemon_port=$((base + 1))
}

write_conf() {
    local host
    host=$(hostname -s)
    cat >"$slurm/slurm.conf" <<END
ClusterName=longreel
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/sock
CredType=cred/munge
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=$controller_port
SlurmdPort=$daemon_port
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=render Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
END
    # slurmd looks for control groups though nothing here asks for them; in a bare root there are none to find.
    [ -n "$(ls /sys/fs/cgroup 2>/dev/null)" ] || echo "CgroupPlugin=cgroup/v1" >"$slurm/cgroup.conf"
}

start_slurm() {
    local i
    mkdir -p "$slurm/state" "$slurm/spool" "$slurm/munge"
    chmod 755 "$work" "$slurm" # munge looks at the directories above its key and socket
    chmod 700 "$slurm/munge"
    head -c 1024 /dev/urandom >"$slurm/munge/key"
    chmod 600 "$slurm/munge/key"
    chmod 755 "$slurm/munge"
    ports
    write_conf
    export SLURM_CONF=$slurm/slurm.conf
    munged --key-file="$slurm/munge/key" --socket="$slurm/munge/sock" --pid-file="$slurm/munge/pid" \
        --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" --force 2>"$slurm/munged.err" &&
        slurmctld -f "$SLURM_CONF" && slurmd -f "$SLURM_CONF" || return 1
    for ((i = 0; i < 100; i++)); do
        sinfo -h -o %T 2>/dev/null | grep -q idle && return 0
        sleep 0.2
    done
    return 1
}
