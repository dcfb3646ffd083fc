// Package warm provides sandboxes that are ready for a session: the agent answers and the kernel of
// a language runs. It builds a snapshot for the template of each language and each user, and keeps
// restored sandboxes in pools.
package warm
