# shellcheck shell=bash disable=SC2154,SC2162,SC2213,SC2220,SC1010,SC2016,SC1090,SC1091,SC2064
# The driver's functions in the kernel's shell. The prelude sources this file. So does the end of a
# cell that has removed them.

# The function trap can only be defined without POSIX mode.
__sg_posix=''
[[ :$SHELLOPTS: != *:posix:* ]] || {
	set +o posix
	__sg_posix=yes
}

# Sends the driver an event: fields, without the separator bytes.
__sg_tell() {
	local IFS=$'\x1f'
	builtin printf '%s\x1e' "$*" >"$__sg_dir/events"
}

# Asks the driver and waits: sets __sg_reply to the answer's text.
__sg_call() {
	local id=$BASHPID.$((++__sg_seq)) line
	__sg_tell "$1" "$id" "${@:2}"
	while IFS= builtin read -r line <"$__sg_dir/answers"; do
		if [[ ${line%% *} == "$id" ]]; then
			__sg_reply=${line#* }
			return 0
		fi
	done
	return 1
}

# The cell has been parsed completely, so that a syntax error changes nothing. The user's text begins
# at the second argument and is added to the history; without that argument it is not.
__sg_probe() {
	local code whole
	__sg_cell=$1 __sg_estatus=0 __sg_edepth=0 __sg_ecommand='' __sg_estack=''
	builtin mapfile -d '' code <"$__sg_dir/cell-$1"
	[[ ${code[0]-} != *@(set -*([[:alpha:]])E|errtrace)* ]] || __sg_etrace=1
	[[ ! ${2-} ]] || builtin history -s -- "${code[0]:$2}"
	whole="__sg_whole() { :
${code[0]-}
}"
	# An error in a list, such as a=(b & c), does not end eval, which would run the lines behind it. It
	# ends a subshell.
	if { [[ $whole != *'=('* ]] || (eval "$whole"); } 2>/dev/null && eval "$whole" 2>/dev/null; then
		unset -f __sg_whole
		return 0
	fi
	# A mode that the cell sets itself may be the one in which its text has no error.
	[[ ${code[0]-} != *@(set [-+]o posix|shopt -[su]*extglob)* ]] || return 0
	__sg_tell syntax "$1"
	return 2
}

# The cell is over, with the status __sg_status. It is called after the cell, and before each prompt
# for cells that a failure has ended.
__sg_off() {
	local status=$__sg_status options=$- cell
	[[ $__sg_cell ]] || return "$status"
	set +eux
	if [[ $__sg_trapped ]]; then
		# A URG between these lines does not save the trap again: it would find none.
		. "$__sg_dir/trap"
		# Bash returns the signal that has ended one wait from the next one too.
		builtin wait "$$" 2>/dev/null || :
		__sg_trapped=''
	fi
	[[ ! $__sg_mixed ]] || set +T
	[[ $options == *E* ]] || __sg_etrace=0 # the cell has removed the option
	set -E
	[[ $0 != */*cell-* ]] || BASH_ARGV0=bash
	# From here on a URG is late.
	cell=$__sg_cell __sg_cell='' __sg_mixed='' PS1=''
	__sg_tell done "$cell" "$status" "$options" "$!" "$__sg_estatus" "${__sg_ecommand:0:1000}" "${__sg_estack:0:2000}"
	return "$status"
}

# URG: the driver wants the shell to leave the cell that the file stop names. Only an INT without a
# trap leaves everything at once; the user's trap is restored at the cell's end.
__sg_stop() {
	local cell=''
	builtin read -r cell <"$__sg_dir/stop" || return 0
	[[ $__sg_cell && $cell == "$__sg_cell" && $BASHPID == "$$" ]] || return 0
	if [[ ! $__sg_trapped ]]; then
		builtin trap -p INT >|"$__sg_dir/trap"
		__sg_trapped=yes
	fi
	builtin trap - INT
	builtin kill -INT "$$"
}

# A cell that has removed the ERR trap by builtin loses the places of its own errors only.
__sg_errs() {
	builtin trap -p ERR >|"$__sg_dir/traps"
	[[ -s $__sg_dir/traps ]] || builtin trap "$__sg_errors" ERR
}

# trap keeps the driver's ERR and EXIT traps before those of the user, lists the user's traps only,
# and lets a DEBUG or RETURN trap run for no command of the driver. The next cell reads its DEBUG trap
# from the file debug: a sourced file inherits none.
trap() {
	local __sg_sign __sg_bad=0
	if [[ $# == 0 || $1 == -*p* ]]; then
		__sg_traps "$@"
		return
	fi
	if [[ " ${*^^} " != *' '?(SIG)@(DEBUG|RETURN|ERR|EXIT|0)' '* ]]; then
		builtin trap "$@"
		return
	fi
	[[ $1 != -- ]] || shift
	# Without an action, all signals are reset.
	[[ $# != 1 && $1 != +([0-9]) ]] || set -- - "$@"
	for __sg_sign in "${@:2}"; do
		__sg_trap "$1" "$__sg_sign" || __sg_bad=$?
		[[ ${__sg_sign^^} != ?(SIG)DEBUG || $BASHPID != "$$" ]] ||
			builtin trap -p DEBUG >|"$__sg_dir/debug"
	done
	return "$__sg_bad"
}
# It inherits the DEBUG trap, to change it.
declare -ft trap

# Sets one trap, also one from a state, which has the driver's part.
__sg_trap() {
	local action=$1
	[[ $action && $action != - ]] || action=''
	case ${2^^} in
	?(SIG)DEBUG)
		[[ ! $action || $action == "$__sg_hides"* ]] || set -- "$__sg_hides$1$__sg_hidden" DEBUG
		;;
	?(SIG)RETURN)
		# The order of the streams takes a DEBUG trap in all functions, which set -T gives to this one too.
		[[ ! $action || ! $__sg_mixed ]] || set +T
		[[ ! $action || $action == "$__sg_returns"* ]] || set -- "$__sg_returns$1$__sg_returned" RETURN
		;;
	?(SIG)ERR)
		__sg_traces=''
		if [[ ${action#"$__sg_errors"} ]]; then
			__sg_traces=yes
			[[ $action == "$__sg_errors; "* ]] || {
				# This function and trap are on the stack.
				__sg_edeep=$((${#FUNCNAME[@]} - 2)) __sg_esub=$BASH_SUBSHELL
				set -- "$__sg_errors; $__sg_errored$1$__sg_returned" ERR
			}
		elif [[ $1 ]]; then
			set -- "$__sg_errors" ERR
		fi
		;;
	?(SIG)EXIT | 0)
		if [[ $BASHPID == "$$" ]]; then
			action=${action#"$__sg_exits"} __sg_leaves=$action
			set -- "$__sg_exits${action:+$'\n'${action#$'\n'}}" EXIT
		fi
		;;
	esac
	builtin trap -- "$1" "$2"
}
declare -ft __sg_trap

__sg_traps() {
	local IFS='' line text=''
	builtin trap "$@" >|"$__sg_dir/traps" || return
	builtin read -r -d '' text <"$__sg_dir/traps" || :
	text=${text//"trap -- '$__sg_errors; $__sg_errored"/"trap -- '"}
	text=${text//"trap -- '$__sg_hides"/"trap -- '"}
	text=${text//"trap -- '$__sg_returns"/"trap -- '"}
	text=${text//"trap -- '$__sg_exits"$'\n'/"trap -- '"}
	text=${text//"$__sg_hidden' "/"' "}
	text=${text//"$__sg_returned' "/"' "}
	[[ ! $text ]] || while builtin read -r line; do
		[[ $line == "trap -- '"@('{ '|'[[ $')__sg_* ]] || builtin printf '%s\n' "$line"
	done <<<"${text%$'\n'}"
}
declare -ft __sg_traps

# The driver's request after an interrupt, which may have cut off the cell's end or its beginning.
__sg_over() { __sg_tell done "$1" 130 "$-" "$!"; }

# ERR: records the place. A failure that propagates through functions keeps its original place.
__sg_err() {
	local status=$? depth=${#FUNCNAME[@]} i
	__sg_own=0
	[[ ${FUNCNAME[1]-} && ${FUNCNAME[1]} != __sg_* ]] || return "$status"
	if ((status != __sg_estatus || depth != __sg_edepth - 1)); then
		__sg_estatus=$status __sg_ecommand=$1 __sg_estack=''
		for ((i = 1; i < depth; i++)); do
			__sg_estack+="${BASH_SOURCE[i]##*/}:${BASH_LINENO[i - 1]}:${FUNCNAME[i]} "
		done
	fi
	__sg_edepth=$depth
	return "$status"
}

# DEBUG, in cells that write to standard error on purpose: earlier output must have been read before
# the other stream is written.
__sg_debug() {
	[[ $BASHPID == "$$" ]] || return 0
	case $1 in
	*'>&2'* | */dev/stderr*)
		__sg_call sync
		__sg_mixed=now
		;;
	*)
		if [[ $__sg_mixed == now ]]; then
			__sg_call sync
			__sg_mixed=yes
		fi
		;;
	esac
	return 0
}

# EXIT: the next shell continues with the state, without the user's EXIT trap, which comes next.
__sg_exit() {
	local __sg_code=$__sg_status __sg_flags=$- # a state has no other names of the driver
	[[ $BASHPID == "$$" ]] || return 0
	set +eux
	__sg_tell leaving
	builtin trap - EXIT
	__sg_leaves=''
	__sg_save "$__sg_dir/state-exit"
	__sg_tell exit "$__sg_code" "$__sg_estatus" "${__sg_ecommand:0:1000}" "${__sg_estack:0:2000}"
	[[ $__sg_flags != *x* ]] || set -x
	return "$__sg_code"
}

# Writes the whole state, as commands.
__sg_save() {
	{
		shopt -p
		declare -f
		declare -p
		builtin alias -p
		set +o
		builtin trap -p
		umask -p
		builtin printf 'cd -- %q\n' "$PWD"
	} >|"$1" 2>/dev/null
}

# Writes the state in a form for a shell of another driver, which may be of another release: without the
# driver's variables, functions and parts of traps. The arguments are a file for the state, one with the
# names of what is left out (variables, and functions with ()), and one for the names of what is not.
__sg_carry() {
	local __sg_name __sg_left=' '
	while builtin read -r __sg_name; do
		__sg_left+="$__sg_name "
	done <"$2"
	{
		shopt -p
		while builtin read -r __sg_name; do
			[[ $__sg_name == __sg_* || $__sg_left == *" $__sg_name() "* ]] || {
				builtin printf '%s\n' "$__sg_name" >&4
				declare -f -- "$__sg_name"
			}
		done < <(builtin compgen -A function)
		while builtin read -r __sg_name; do
			[[ $__sg_name == __sg_* || $__sg_left == *" $__sg_name "* ]] || {
				builtin printf '%s\n' "$__sg_name" >&4
				declare -p -- "$__sg_name"
			}
		done < <(builtin compgen -v)
		alias -p
		set +o
		trap -p
		umask -p
		builtin printf 'cd -- %q\n' "$PWD"
	} >|"$1" 2>/dev/null 4>|"$3"
}

# The driver needs to know how many microseconds it took.
__sg_keep() {
	__sg_began=${EPOCHREALTIME-0}
	__sg_save "$__sg_dir/state-$1"
	__sg_ended=${EPOCHREALTIME-0}
	__sg_tell saved "$1" $((${__sg_ended/[.,]/} - ${__sg_began/[.,]/}))
}

# read, from the session's standard input, asks the user.
read() {
	if [[ ! /dev/stdin -ef $__sg_dir/stdin ]]; then
		builtin read "$@"
		return
	fi
	local __sg_option __sg_prompt='' __sg_silent='' __sg_limit='' OPTIND=1 OPTARG='' OPTERR=0
	while getopts :a:d:ei:n:N:p:rst:u: __sg_option; do
		case $__sg_option in
		p) __sg_prompt=$OPTARG ;;
		s) __sg_silent=yes ;;
		t) __sg_limit=$OPTARG ;;
		u)
			builtin read "$@"
			return
			;;
		esac
	done
	[[ $__sg_limit != +([0.]) ]] || return 1 # nothing can be read without a question
	__sg_call ask "$__sg_silent" "$__sg_prompt" "$__sg_limit" || return 1
	case $__sg_reply in
	late) return 142 ;; # as of a read that a signal ends
	line\ *) builtin read "$@" <<<"${__sg_reply#line }" ;;
	refused)
		builtin printf 'bash: read: input was requested, but this execution does not allow input (no_input)\n' >&2
		return 1
		;;
	*) builtin read "$@" </dev/null ;;
	esac
}

# mapfile, from the session's standard input, asks for lines until the end of input.
mapfile() {
	local __sg_option __sg_lines='' OPTIND=1 OPTARG='' OPTERR=0
	while getopts :d:n:O:s:tu:C:c: __sg_option; do
		[[ $__sg_option != u ]] || __sg_lines=other
	done
	if [[ $__sg_lines || ! /dev/stdin -ef $__sg_dir/stdin ]]; then
		builtin mapfile "$@"
		return
	fi
	while __sg_call ask '' '' && [[ $__sg_reply == line\ * ]]; do
		__sg_lines+=${__sg_reply#line }$'\n'
	done
	if [[ $__sg_reply == refused ]]; then
		builtin printf 'bash: mapfile: input was requested, but this execution does not allow input (no_input)\n' >&2
		return 1
	fi
	builtin mapfile "$@" < <(builtin printf %s "$__sg_lines")
}
readarray() { mapfile "$@"; }

# alias lists the user's aliases only.
alias() {
	local IFS='' line
	if [[ $# != 0 && ($# != 1 || $1 != -p) ]]; then
		builtin alias "$@"
		return
	fi
	builtin alias "$@" >|"$__sg_dir/traps"
	while builtin read -r line; do
		[[ $line == *__sg_* ]] || builtin printf '%s\n' "$line"
	done <"$__sg_dir/traps"
}

# Shows richer forms than text.
display() {
	local type='' file=''
	while [[ ${1-} == -* && $1 != - ]]; do
		case $1 in
		-t | --type)
			type=${2-}
			shift
			;;
		--*) type=${1#--} ;;
		*)
			set -- --help
			break
			;;
		esac
		shift
	done
	if [[ ${1-} == --help || $type == help || $# -gt 1 ]] || [[ $# == 0 && /dev/stdin -ef $__sg_dir/stdin ]]; then
		builtin printf 'usage: display [--html|--markdown|--json|--svg|--png|--table|--chart|--text|-t MIME] [FILE]\n%s\n' \
			'Shows FILE or standard input. Without an option the ending of FILE decides.' >&2
		return 2
	fi
	if [[ $# == 0 || $1 == - ]]; then
		file=$__sg_dir/shown-$BASHPID
		cat >"$file"
	else
		file=$1
		[[ $file == /* ]] || file=$PWD/$file
		if [[ -e $file && ! -f $file && ! -d $file ]]; then
			file=$__sg_dir/shown-$BASHPID
			cat -- "$1" >"$file"
		fi
	fi
	__sg_call display "$type" "$file" || return 1
	[[ $file != "$__sg_dir"/shown-* ]] || command rm -f -- "$file"
	[[ $__sg_reply == ok ]] && return 0
	builtin printf 'display: %s\n' "$__sg_reply" >&2
	return 1
}

# Shares values with the other kernels of the session.
sandgate() {
	local do=${1-} kind='' file
	shift
	if [[ ${1-} == --csv || ${1-} == --json ]]; then
		kind=${1#--}
		shift
	fi
	case $do in
	names) [[ $# == 0 ]] ;;
	get) [[ $# == 1 ]] ;;
	put) [[ $# == 1 || $# == 2 ]] ;;
	*) false ;;
	esac || {
		builtin printf 'usage: sandgate get NAME | put [--csv|--json] NAME [FILE] | names\n%s\n' \
			'Shares values with the other kernels of the session. A table is CSV.' >&2
		return 2
	}
	file=$__sg_dir/value-$BASHPID
	if [[ $do == put ]]; then
		[[ $kind || ${2-} != *.@(csv|json) ]] || kind=${2##*.}
		cat -- "${2:--}" >"$file" || return 1
	fi
	__sg_call value "$do" "${1-}" "$file" "$kind" || return 1
	[[ $__sg_reply != ok || $do == put ]] || cat -- "$file"
	command rm -f -- "$file"
	[[ $__sg_reply == ok ]] && return 0
	builtin printf 'sandgate: %s\n' "$__sg_reply" >&2
	return 1
}

# select: its alias is a loop of this with the positional parameters, the name, and the words. It
# shows the words and reads an answer, like read.
__sg_select() {
	local __sg_count=$1 __sg_i
	local -a __sg_words=("${@:2:__sg_count}")
	local __sg_name=${*:__sg_count + 2:1}
	(($# == __sg_count + 2)) || __sg_words=("${@:__sg_count + 4}")
	__sg_count=${#__sg_words[@]}
	REPLY=''
	until [[ $REPLY ]]; do
		((__sg_count)) || return 1
		for ((__sg_i = 1; __sg_i <= __sg_count; __sg_i++)); do
			builtin printf '%*d) %s\n' ${#__sg_count} "$__sg_i" "${__sg_words[__sg_i - 1]}" >&2
		done
		if [[ ! /dev/stdin -ef $__sg_dir/stdin ]]; then
			builtin printf %s "${PS3-#? }" >&2
			IFS='' builtin read -r REPLY || return 1
			continue
		fi
		__sg_call ask '' "${PS3-#? }" || return 1
		[[ $__sg_reply != refused ]] ||
			builtin printf 'bash: select: input was requested, but this execution does not allow input (no_input)\n' >&2
		[[ $__sg_reply == line\ * ]] || return 1
		REPLY=${__sg_reply#line }
	done
	__sg_i=0
	[[ $REPLY != +([0-9]) || ${#REPLY} -gt 9 ]] || __sg_i=$((10#$REPLY))
	((__sg_i)) || __sg_words=() __sg_i=1
	builtin printf -v "$__sg_name" %s "${__sg_words[__sg_i - 1]-}"
}

[[ ! $__sg_posix ]] || set -o posix
