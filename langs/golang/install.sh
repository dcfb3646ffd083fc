#!/bin/sh
# Adds Go modules to the go.mod in the user's home, from $0, a folder in the format of GOPROXY, or, if
# SANDGATE_INDEX is not empty, also from a proxy.
cd || exit
export GOTOOLCHAIN=local
if [ -n "$SANDGATE_INDEX" ]; then
	[ ! -d "$0" ] || GOPROXY="file://$0,$(go env GOPROXY)"
	export GOPROXY
else
	export GOPROXY="file://$0" GONOSUMDB='*' GOSUMDB=off GONOPROXY='' GOPRIVATE='' GOVCS='*:off'
fi
# With -mod=mod, Go ignores a vendor folder of Composer, and an import in a session with a network
# fetches the missing modules.
go env -w GOFLAGS=-mod=mod || exit
[ -f go.mod ] || go mod init home || exit
exec go get -- "$@"
