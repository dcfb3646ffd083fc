// Package surfaces has the table of the surfaces for chat applications and agents: their names, the
// settings that each of them has, and the defaults.
package surfaces

import (
	"slices"
	"strings"
	"time"
)

// Settings are the operator's settings of one surface.
type Settings struct {
	// Template is the template of new sessions; empty means that of the language.
	Template string
	// Network has the hosts that new sessions may reach, as in egress.allow; empty means none.
	Network []string
	// IdleDelete is how long a session may be without work before it is deleted; 0 means the
	// server's default.
	IdleDelete time.Duration
	// Timeout is the longest time of a run; 0 means no limit.
	Timeout time.Duration
	// Memory is the memory of a new session in bytes; 0 means the server's default.
	Memory int64
	// MaxSessions is the most sessions that one user of one key may have; 0 means no limit.
	MaxSessions int
	// UserHeader and ConversationHeader are the headers of requests that name the user of the
	// application and the conversation; empty means none.
	UserHeader, ConversationHeader string
	// Labels are labels of new sessions.
	Labels map[string]string
}

// The names of surfaces.
const (
	Azure        = "azure"
	Dify         = "dify"
	FastGPT      = "fastgpt"
	LibreChat    = "librechat"
	MCP          = "mcp"
	Onlyboxes    = "onlyboxes"
	OpenSandbox  = "opensandbox"
	OpenTerminal = "openterminal"
	RAGFlow      = "ragflow"
)

// The groups of settings, by the names of the settings in a configuration.
const (
	always = "network memory labels"
	runs   = always + " template timeout"
	stays  = runs + " idle_delete max_sessions"
)

type row struct {
	name     string
	settings string // the settings that the surface has
	defaults Settings
}

// table returns the rows, sorted by name.
func table() []row {
	const day = 24 * time.Hour
	return []row{
		{Azure, stays + " user_header", Settings{IdleDelete: day, Timeout: 220 * time.Second}},
		{Dify, runs, Settings{Timeout: 50 * time.Second}},
		{FastGPT, runs, Settings{Timeout: time.Minute}},
		// The settings librechat.* have the others.
		{LibreChat, always + " max_sessions", Settings{}},
		{MCP, stays + " user_header conversation_header", Settings{
			IdleDelete: day, Timeout: 10 * time.Minute,
			UserHeader: "X-Sandgate-User", ConversationHeader: "X-Sandgate-Conversation",
		}},
		{Onlyboxes, stays, Settings{IdleDelete: day, Timeout: 10 * time.Minute}},
		{OpenSandbox, stays, Settings{IdleDelete: day, Timeout: 10 * time.Minute}},
		{OpenTerminal, stays + " user_header conversation_header", Settings{
			IdleDelete: day, UserHeader: "X-User-Id", ConversationHeader: "X-Session-Id",
		}},
		{RAGFlow, runs, Settings{Timeout: time.Minute}},
	}
}

func find(name string) row {
	for _, r := range table() {
		if r.name == name {
			return r
		}
	}
	return row{}
}

// Names returns the names of all surfaces, sorted.
func Names() []string {
	var all []string
	for _, r := range table() {
		all = append(all, r.name)
	}
	return all
}

// Defaults returns the settings of a surface without any configuration.
func Defaults(name string) Settings { return find(name).defaults }

// Has reports whether a surface has a setting, by its name in a configuration.
func Has(name, setting string) bool {
	return slices.Contains(strings.Fields(find(name).settings), setting)
}
