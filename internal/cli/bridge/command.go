package bridge

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/profile"
)

// Command returns the command that serves a host of a language model. server adds the flags that
// choose the server and returns a function that finds it.
func Command(i *console.Invocation,
	server func(*cobra.Command) func() (profile.Profile, error),
) *cobra.Command {
	c := &cobra.Command{
		Use: "mcp", Short: "Give a language model tools, by MCP on standard input and output",
		Long: `
A host of a language model, such as an editor or a desktop application, starts this command. Its
tools run code and commands in a session of the server. The session is deleted after a day without
work. Each start of the command has sessions of its own, unless --conversation names them.`,
		Example: `  sandgate mcp
  sandgate mcp --conversation thesis --network`,
	}
	conversation := c.Flags().String("conversation", "",
		"`name` of a conversation, whose sessions are continued; default a new one")
	template := c.Flags().String("template", "", "`name` of the template of new sessions")
	network := c.Flags().Bool("network", false,
		"let new sessions reach the network, as far as the server allows")
	find := server(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := find()
		if err != nil {
			return err
		}
		address, fragment, _ := strings.Cut(p.URL, "#")
		if values, err := url.ParseQuery(fragment); err == nil && values.Has("token") {
			p.Token = values.Get("token")
		}
		h := http.Header{}
		h.Set("Authorization", "Bearer "+p.Token)
		h.Set("User-Agent", "sandgate-cli/"+i.Version)
		h.Set("X-Sandgate-Conversation", "stdio-"+rand.Text())
		if *conversation != "" {
			h.Set("X-Sandgate-Conversation", *conversation)
		}
		if *template != "" {
			h.Set("X-Sandgate-Template", *template)
		}
		if *network {
			h.Set("X-Sandgate-Network", "on")
		}
		return New(Config{
			URL: strings.TrimRight(address, "/") + "/mcp", Header: h, HTTP: &http.Client{},
			In: i.In, Out: i.Out,
		}).Run(cmd.Context())
	}
	return c
}
