# bash completion of rltui: source <(rltui completion bash)
_rltui() {
    COMPREPLY=()
    mapfile -t COMPREPLY < <(rltui completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "${COMPREPLY[0]}" = ":files:" ]; then
        COMPREPLY=()
        compopt -o default 2>/dev/null
    fi
    case "${COMPREPLY[0]}" in
        *[/=,]) [ "${#COMPREPLY[@]}" -eq 1 ] && compopt -o nospace 2>/dev/null ;;
    esac
    return 0
}
complete -o nosort -F _rltui rltui 2>/dev/null || complete -F _rltui rltui
