#!/bin/sh
# Adds modules of Go to the go.mod in the user's home, from $0, a folder like GOPROXY's, or, if SANDGATE_INDEX is not empty,
# from a proxy too.
cd || exit
export GOTOOLCHAIN=local
if [ -n "$SANDGATE_INDEX" ]; then
	[ ! -d "$0" ] || GOPROXY="file://$0,$(go env GOPROXY)"
	export GOPROXY
else
	export GOPROXY="file://$0" GONOSUMDB='*' GOSUMDB=off GONOPROXY='' GOPRIVATE='' GOVCS='*:off'
fi
# So that a folder of Composer's that is called vendor is not taken for Go's, and that an import in a session that is
# let out fetches what it needs.
go env -w GOFLAGS=-mod=mod || exit
[ -f go.mod ] || go mod init home || exit
exec go get -- "$@"
