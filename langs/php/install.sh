#!/bin/sh
# Requires packages of Composer in the user's home, from the archives in $0 or, if SANDGATE_INDEX is
# not empty, from the repositories in composer.json, which is Packagist by default.
cd || exit
[ -f composer.json ] || echo '{}' >composer.json
ours=sandgate-files
[ ! -d "$0" ] || composer config "repositories.$ours" artifact "$0" || exit
if [ -z "$SANDGATE_INDEX" ]; then
	export COMPOSER_DISABLE_NETWORK=1
	composer config repositories.packagist.org false || exit
fi
said=$(composer require --no-interaction --no-progress --no-audit -- "$@" 2>&1)
status=$?
printf '%s\n' "$said" | grep -v '^require \[--' # without its synopsis
[ ! -d "$0" ] || composer config --unset "repositories.$ours"
[ -n "$SANDGATE_INDEX" ] || composer config --unset repositories.packagist.org
exit $status
