#!/bin/sh
# Installs packages of Python for the user. $0 is the folder with files, which may not exist. A
# package index may be used if SANDGATE_INDEX is not empty.
[ -n "$SANDGATE_INDEX" ] || set -- --no-index -- "$@"
[ ! -d "$0" ] || set -- --find-links "$0" "$@"
exec python3 -m pip install --user --break-system-packages --no-input --no-cache-dir --no-warn-script-location --disable-pip-version-check "$@"
