# Two "hosts" on this machine, for scripts that source this after common.sh: network namespaces with their
# own addresses and a link between them.
#   make_hosts     false where that is not possible (no rights, no iproute2)
#   on_host A|B COMMAND...
#   link_down, link_up, link_slow RATE
#   remove_hosts
# $work/agent starts commands on them, as ssh would: agent ADDRESS COMMAND...
# shellcheck shell=bash disable=SC2154
host_names=(longreel-$$-a longreel-$$-b)
host_addresses=(10.211.77.1 10.211.77.2)

make_hosts() {
    local i
    command -v ip >/dev/null || return 1
    for i in 0 1; do ip netns add "${host_names[i]}" 2>"$work/hosts.err" || return 1; done
    ip link add lrva$$ netns "${host_names[0]}" type veth peer name lrvb$$ netns "${host_names[1]}" \
        2>"$work/hosts.err" || return 1
    for i in 0 1; do
        local link=lrva$$
        [ $i -eq 0 ] || link=lrvb$$
        ip -n "${host_names[i]}" addr add "${host_addresses[i]}/24" dev $link &&
            ip -n "${host_names[i]}" link set lo up && ip -n "${host_names[i]}" link set $link up || return 1
    done
    # Until addresses of both kinds can be used.
    for ((i = 0; i < 100; i++)); do
        [ -n "$(ip netns exec "${host_names[0]}" ip addr show tentative; ip netns exec "${host_names[1]}" ip addr show tentative)" ] ||
            break
        sleep 0.1
    done
    cat >"$work/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in
${host_addresses[0]}) host=${host_names[0]} ;;
${host_addresses[1]}) host=${host_names[1]} ;;
*) echo "no host: \$1" >&2; exit 1 ;;
esac
shift
exec ip netns exec \$host /bin/sh -c "\$*"
END
    chmod +x "$work/agent"
}

remove_hosts() {
    local name
    for name in "${host_names[@]}"; do ip netns del "$name" 2>/dev/null; done
}

on_host() {
    local name=${host_names[0]}
    [ "$1" = A ] || name=${host_names[1]}
    shift
    ip netns exec "$name" "$@"
}

link_down() { ip -n "${host_names[0]}" link set lrva$$ down; }
link_up() { ip -n "${host_names[0]}" link set lrva$$ up; }

# Both ways.
link_slow() {
    tc -n "${host_names[0]}" qdisc replace dev lrva$$ root tbf rate "$1" burst 32kbit latency 50ms &&
        tc -n "${host_names[1]}" qdisc replace dev lrvb$$ root tbf rate "$1" burst 32kbit latency 50ms
}
