// Package warm provides sandboxes that are ready for a session: the agent
// answers and the kernel of a language runs. It builds a snapshot of each
// template, of the languages and of users, and keeps restored sandboxes in
// pools.
package warm
