#!/bin/sh
# Installs packages of npm into the user's home, from the files NAME-VERSION.tgz in $0 or, if
# SANDGATE_INDEX is not empty, from a registry. The files are kept, and package.json names them: the
# next install removes packages that it does not name.
cd || exit
kept=$HOME/.local/share/npm offline=--offline
[ -z "$SANDGATE_INDEX" ] || offline=
for p; do
	shift
	rest=${p#@}
	name=${rest%%@*}
	file=$(printf '%s' "$name" | tr / -)
	case $rest in
	*@*) found=$0/$file-${rest#*@}.tgz ;;
	*) found=$(printf '%s\n' "$0/$file"-[0-9]*.tgz | sort -V | tail -n 1) ;;
	esac
	[ ! -f "$0/$p" ] || found=$0/$p
	if [ -f "$found" ]; then
		mkdir -p "$kept" && cp "$found" "$kept/" || exit
		p=$kept/${found##*/}
	fi
	set -- "$@" "$p"
done
exec npm install $offline --no-audit --no-fund --no-update-notifier "$@"
