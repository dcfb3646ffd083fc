// Package gvisor runs one gVisor container per sandbox. No other package of the server imports
// gVisor.
//
// A Runtime owns a state directory and the sandboxes in it. A Sandbox is created (a sentry without
// a program: 9 MiB, and 22 MiB once it has warmed up), then started cold or restored from a
// snapshot. Its first process is the agent, whose protocol runs over Stdin and Stdout. The sandbox
// is paused, resumed, checkpointed and destroyed. Exit reports how it ended.
//
// A child process, `runsc create`, creates a sandbox. This process controls it through gVisor's Go
// packages. To create sandboxes in this process as well would not be safe in a server: gVisor's
// container.New passes the process's own os.Stdin, os.Stdout and os.Stderr on, and on cgroup v1
// moves the whole process into the sandbox's memory cgroup while it spawns. See README.md.
package gvisor
