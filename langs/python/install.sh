#!/bin/sh
# Installs packages of Python for the user. $0 is the folder with files, which need not be there; SANDGATE_INDEX, if
# it is not empty, says that an index may be asked.
[ -n "$SANDGATE_INDEX" ] || set -- --no-index -- "$@"
[ ! -d "$0" ] || set -- --find-links "$0" "$@"
exec python3 -m pip install --user --break-system-packages --no-input --no-cache-dir --no-warn-script-location --disable-pip-version-check "$@"
