# shellcheck shell=bash disable=SC2154,SC2016,SC1091,SC2064,SC2142
# The beginning of the kernel's shell. This file is sourced once, in an interactive shell, because
# only an interactive shell continues with its state after SIGINT. __sg_dir is the driver's folder:
# the FIFOs events and answers, cells, states. PROMPT_COMMAND is set before it.
set +H +m +o history
shopt -s extglob expand_aliases
unset HISTFILE
history -c
PS1='' PS2='' FUNCNEST=4000
__sg_none='' __sg_cell='' __sg_trapped='' __sg_seq=0 __sg_mixed='' __sg_estatus=0 __sg_edepth=0 __sg_ecommand='' __sg_estack='' __sg_reply='' __sg_status=0
# The beginning of a DEBUG or RETURN trap of the user.
__sg_hides='case $BASH_COMMAND:${BASH_SOURCE-} in *__sg_*|*:"$__sg_dir/functions") ;; *) '
. "$__sg_dir/functions"
alias select='while __sg_select "$#" "$@"'

builtin trap '{ __sg_err "$BASH_COMMAND"; } 2>/dev/null' ERR
builtin trap "$__sg_exits" EXIT
builtin trap '{ __sg_stop; } 2>/dev/null' URG
set -E
