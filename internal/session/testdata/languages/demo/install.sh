#!/bin/sh
# Installs packages by writing their names down.
printf '%s\n' "$@" >>"$HOME/demo-packages"
echo "installed $*"
