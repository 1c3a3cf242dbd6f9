# Completes a command line as zsh does when the tab key is pressed in a terminal, and prints what it offers, a line each.
#
#     zsh -f tests/completions/capture.zsh FOLDER LINE      FOLDER has the function _numalocctl
zmodload zsh/zpty || exit 1
folder=$1 line=$2 work=$(mktemp -d)

cat >$work/init <<EOF
PROMPT= fpath=(${(q)folder} \$fpath)
autoload -Uz compinit && compinit -u -D -d $work/dump
zstyle ':completion:*' insert-tab no
# Collects the words that a completion adds, besides the ones that it only wants filtered.
compadd() {
    [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] || {
        local -a offers
        builtin compadd -A offers "\$@"
        print -rl -- \$offers >>$work/offers
    }
    builtin compadd "\$@"
}
comppostfuncs=(finished)
finished() { : >$work/finished; }
bindkey '^I' complete-word
: >$work/ready
EOF

zpty shell zsh -f -i
zpty -w shell "source $work/init"
# Bounds silence: the shell writes nothing that could be waited for.
until_there() { repeat 600; do [[ -e $1 ]] && return; zpty -r -t shell unread; sleep 0.1; done; print -u2 "zsh: $1 has not come" && exit 1; }
until_there $work/ready
zpty -w -n shell "$line"$'\t'
until_there $work/finished
zpty -d shell
[[ ! -e $work/offers ]] || sort -u $work/offers
rm -rf $work
