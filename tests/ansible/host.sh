# shellcheck shell=bash disable=SC2154  # tests/packages/check sets top and python
# The example of packaging/ansible on a bare Debian that has booted, sourced by tests/packages/booted: from the directory for apt to metrics, then
# changes, a mistake and an upgrade. Ansible is that of the machine that tests, below /tmp/host; `enter` is its ssh.

export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
# Debian's unit has a sandbox that cannot be made within namespaces.
printf '[Service]\nExecStart=/usr/bin/redis-server --save ""\n' >/etc/systemd/system/redis-server.service
systemctl daemon-reload
systemctl start dbus redis-server
chroot /tmp/host /usr/sbin/ip link set lo up
cp /tmp/apt/numaloc.asc /tmp/host/run/

play() { # VARIABLES: exits with the status of ansible-playbook
    chroot /tmp/host env -i HOME=/run TMPDIR=/run ANSIBLE_HOME=/run/ansible LC_ALL=C.UTF-8 "PATH=$PATH" ANSIBLE_PIPELINING=true ANSIBLE_SSH_ARGS= \
        "$python" -m ansible.cli.playbook -i node, "$top/packaging/ansible/site.yml" \
        -e "ansible_ssh_executable=$top/tests/ansible/enter ansible_ssh_transfer_method=piped ansible_become=false ansible_python_interpreter=/usr/bin/python3" \
        -e "numaloc_repository=file:/tmp/apt numaloc_repository_key=/run/numaloc.asc" ${1:+-e "$1"} 2>&1 | tee /run/played
    return "${PIPESTATUS[0]}"
}
pid() { systemctl show --value -p MainPID numalocd; }
each() { numalocctl schedules ls --output json | grep -c "\"interval\": \"$1\""; } # INTERVAL
redis() { printf '{"numaloc_files": {"50-redis.toml": "[[schedule]]\\nname = \\"redis\\"\\ninterval = \\"%s\\"\\nspec.target.units = [\\"redis-server.service\\"]\\n"}}' "$1"; }
metrics() {
    exec 3<>/dev/tcp/127.0.0.1/9464
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    cat <&3
}

play ''
expect "nothing has changed" grep -E 'changed=[1-9].*failed=0' /run/played
is "after the installation" "active active" "$(systemctl is-active numalocd.socket numalocd.service | xargs)"
is "capabilities with page frames" 0000000000a80004 "$(capabilities)"
is "the schedule of the example" 1 "$(each 600s)"
expect "no metrics" grep -q '^numaloc_build_info' <(metrics)
play ''
expect "a second run changes something" grep -E 'changed=0 .*failed=0' /run/played

first=$(pid)
play "$(redis 1200s)"
is "the schedule that was changed" 1 "$(each 1200s)"
is "the daemon that reads its files again" "$first" "$(pid)"
status=0 && play "$(redis 5x)" || status=$?
is "the exit code for a mistake" 2 "$status"
expect "the mistake is not named" grep -F 'schedule[0].interval' /run/played
is "the schedule after the mistake" 1 "$(each 1200s)"

version() { dpkg-query --show --showformat='${Version}' numaloc; }
before=$(version)
play "{\"numaloc_packages\": [\"$(echo /tmp/two/numaloc_*.deb)\"], \"numaloc_rights\": [\"network\"]}"
expect "it was not upgraded" dpkg --compare-versions "$(version)" gt "$before"
is "capabilities without page frames" 0000000000880004 "$(capabilities)"
is "the schedule after the upgrade" 1 "$(each 600s)"
expect "it was not restarted" test "$first" != "$(pid)"
