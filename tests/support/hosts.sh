# Two "hosts" on this machine, for scripts that source this after common.sh: network namespaces with their
# own addresses and a link between them.
#   make_hosts     false where that is not possible (no rights, no iproute2)
#   on_host A|B COMMAND...
#   link_down, link_up, link_slow RATE
#   remove_hosts
# $work/agent starts commands on them, as ssh would: agent ADDRESS COMMAND...
# shellcheck shell=bash disable=SC2154
host_keepers=() # a process in each, that keeps it
host_addresses=(10.211.77.1 10.211.77.2)

# The host's own links are to be seen in /sys, too: UCX looks for them there.
enter_host='mount --make-rprivate /sys && mount -t sysfs sys /sys && exec "$@"'

# in_host 0|1 COMMAND...
in_host() {
    local keeper=${host_keepers[$1]}
    shift
    nsenter -t "$keeper" -n unshare -m --propagation unchanged /bin/sh -c "$enter_host" sh "$@"
}

# Not by names (ip netns add): those are mounts, which a script that is killed leaves behind.
make_host() {
    local i
    unshare -n sleep infinity 2>"$work/hosts.err" &
    host_keepers+=($!)
    for ((i = 0; i < 100; i++)); do
        kill -0 $! 2>/dev/null || return 1
        [ "$(readlink /proc/$!/ns/net)" = "$(readlink /proc/self/ns/net)" ] || return 0
        sleep 0.05
    done
    return 1
}

make_hosts() {
    local i
    command -v ip >/dev/null || return 1
    for i in 0 1; do make_host || return 1; done
    ip link add lrva$$ netns "${host_keepers[0]}" type veth peer name lrvb$$ netns "${host_keepers[1]}" \
        2>"$work/hosts.err" || return 1
    for i in 0 1; do
        local link=lrva$$
        [ $i -eq 0 ] || link=lrvb$$
        in_host $i ip addr add "${host_addresses[i]}/24" dev $link && in_host $i ip link set lo up &&
            in_host $i ip link set $link up || return 1
    done
    # Until addresses of both kinds can be used.
    for ((i = 0; i < 100; i++)); do
        [ -n "$(in_host 0 ip addr show tentative; in_host 1 ip addr show tentative)" ] || break
        sleep 0.1
    done
    cat >"$work/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in
${host_addresses[0]}) keeper=${host_keepers[0]} ;;
${host_addresses[1]}) keeper=${host_keepers[1]} ;;
*) echo "no host: \$1" >&2; exit 1 ;;
esac
shift
exec nsenter -t \$keeper -n unshare -m --propagation unchanged /bin/sh -c '$enter_host' sh /bin/sh -c "\$*"
END
    chmod +x "$work/agent"
}

# The last process of a namespace takes it, and the link, with it.
remove_hosts() {
    local keeper
    for keeper in "${host_keepers[@]}"; do kill "$keeper" 2>/dev/null; done
}

on_host() {
    local host=0
    [ "$1" = A ] || host=1
    shift
    in_host $host "$@"
}

link_down() { in_host 0 ip link set lrva$$ down; }
link_up() { in_host 0 ip link set lrva$$ up; }

# Both ways.
link_slow() {
    in_host 0 tc qdisc replace dev lrva$$ root tbf rate "$1" burst 32kbit latency 50ms &&
        in_host 1 tc qdisc replace dev lrvb$$ root tbf rate "$1" burst 32kbit latency 50ms
}
