// Package admin holds the operator's tools: backup and restore, checks of a machine and of a
// server, a cluster's certificates, token rotation and the sums of recorded use.
package admin
