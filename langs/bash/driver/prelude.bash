# shellcheck shell=bash disable=SC2154,SC2016,SC1091,SC2064,SC2142
# The beginning of the kernel's shell. This file is sourced once, in an interactive shell, because
# only an interactive shell continues with its state after SIGINT. __sg_dir is the driver's folder:
# the FIFOs events and answers, cells, states. PROMPT_COMMAND is set before it.
set +H +m +o history
shopt -s extglob expand_aliases
unset HISTFILE
history -c
PS1='' PS2='' FUNCNEST=4000
__sg_none='' __sg_cell='' __sg_trapped='' __sg_seq=0 __sg_mixed='' __sg_estatus=0 __sg_edepth=0 __sg_ecommand='' __sg_estack='' __sg_reply='' __sg_status=0 __sg_etrace=${__sg_etrace:-0}
# The beginnings of a DEBUG and of a RETURN trap of the user, and their ends. In a trap, BASH_COMMAND
# has the command that caused it. So a redirection without an effect sets __sg_own before the first
# command of a RETURN or ERR trap, and the user's DEBUG trap does not run for it.
__sg_own=0
__sg_hides='case $__sg_own$BASH_COMMAND:${BASH_SOURCE-} in 2*|*__sg_*|*:"$__sg_dir/functions") ;; *) '
__sg_returns='{ case $((__sg_own=0))$BASH_COMMAND:${BASH_SOURCE-} in *__sg_*|*:"$__sg_dir/functions") ;; *) '
__sg_hidden=$'\n;; esac' __sg_returned=$'\n;; esac; } 2>&$((__sg_own=2))'
# The driver's ERR trap, which a trap of the user follows, as it follows __sg_exits. The option
# errtrace is for the driver's. Unless the user has set it, the user's trap runs neither in functions
# that were called after it was set, nor in subshells.
__sg_errors='{ __sg_err "$BASH_COMMAND"; } 2>/dev/null 2>&$((__sg_own=2)) && :'
__sg_errored='{ case $((__sg_own=0, __sg_etrace || ${#FUNCNAME[@]} <= __sg_edeep && BASH_SUBSHELL == __sg_esub))$BASH_COMMAND:${BASH_SOURCE-} in 0*|*__sg_*|*:"$__sg_dir/functions") ;; *) '
. "$__sg_dir/functions"
alias select='while __sg_select "$#" "$@"'

# In a shell that continues with a state, the user's traps are there.
[[ ${__sg_traces-} ]] || builtin trap "$__sg_errors" ERR
[[ ${__sg_leaves-} ]] || builtin trap "$__sg_exits" EXIT
builtin trap '{ __sg_stop; } 2>/dev/null' URG
set -E
