// Package cli is the command line of sandgate: it parses arguments, calls the server's API, the
// server's assembly (internal/server) or the operator's tools (internal/admin), and prints results.
package cli
