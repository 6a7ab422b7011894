# bash completion of rltui: source <(rltui completion bash)
_rltui() {
    COMPREPLY=()
    mapfile -t COMPREPLY < <(rltui completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case "${COMPREPLY[0]}" in
        *[/=,]) [ "${#COMPREPLY[@]}" -eq 1 ] && compopt -o nospace 2>/dev/null ;;
    esac
    return 0
}
complete -o nosort -o default -F _rltui rltui 2>/dev/null || complete -o default -F _rltui rltui
