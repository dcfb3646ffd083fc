// Package server assembles the processes of a server from a configuration: the node, the gateway,
// and the supervisor that starts both, restarts them and passes new settings on.
package server
