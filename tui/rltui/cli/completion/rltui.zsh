#compdef rltui
# zsh completion of rltui: source <(rltui completion zsh), or as _rltui in a folder of $fpath
_rltui() {
    local line
    local -a found shown whole told
    for line in "${(@f)$(rltui completion zsh -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        if [[ $line == :files: ]]; then
            _files
            return
        fi
        if [[ ${line%%$'\t'*} == *[/=,] ]]; then
            found+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }")
        else
            whole+=("${line%%$'\t'*}")
            told+=("${line/$'\t'/  -- }")
        fi
    done
    (( $#found || $#whole )) || return 1
    (( $#found )) && compadd -l -V open -S '' -d shown -a found
    (( $#whole )) && compadd -l -V words -d told -a whole
    return 0
}
if [[ ${funcstack[1]} == _rltui ]]; then
    _rltui "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _rltui rltui
fi
