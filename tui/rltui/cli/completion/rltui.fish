# fish completion of rltui: rltui completion fish | source
function __rltui_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (rltui completion fish -- $words[2..-1] "$current" 2>/dev/null)
    if test "$found[1]" = :files:
        __fish_complete_path "$current"
    else
        printf '%s\n' $found
    end
end
complete -c rltui -e
complete -c rltui -f -k -a '(__rltui_complete)'
