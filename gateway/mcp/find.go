package mcp

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of lists and searches.
const (
	maxEntries = 500 // entries of list_files
	maxDepth   = 8   // levels of folders of list_files
	// maxHits is the number of lines that search_files returns, maxHit the size of one in bytes, and
	// searchTime how long a search may take in seconds.
	maxHits    = 200
	maxHit     = 300
	searchTime = 60
)

// listedFile is a file in the structured result of list_files.
type listedFile struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// listFiles lists a folder.
func listFiles(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Path    string `json:"path"`
		Depth   int    `json:"depth"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	depth, err := within("depth", p.Depth, 1, maxDepth)
	if err != nil {
		return nil, err
	}
	s, err := c.folder(ctx, p.Session, &p.Path)
	if err != nil {
		return nil, err
	}
	var list protocol.FileListing
	if err := c.node(ctx, protocol.OpFileList, protocol.FileList{
		FileRef: file(s.id, p.Path), Depth: depth, Limit: maxEntries,
	}, &list); err != nil {
		return nil, err
	}
	found := []listedFile{}
	var b strings.Builder
	for _, f := range list.Entries {
		found = append(found, listedFile{f.Path, f.Type, f.Size})
		if f.Type == "file" {
			fmt.Fprintf(&b, "%s (%d bytes)\n", f.Path, f.Size)
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n", f.Path, f.Type)
	}
	if list.Next != "" {
		fmt.Fprintf(&b, "[more than %d entries; list a folder below, or use run_command]\n",
			maxEntries)
	}
	text := strings.TrimRight(b.String(), "\n")
	if text == "" {
		text = "[the folder is empty]"
	}
	return answer(text, map[string]any{
		"path": list.Path, "entries": found, "truncated": list.Next != "",
	}), nil
}

// folder returns the session of a folder. The folder is the working folder if the call names none.
func (c *call) folder(ctx context.Context, session string, path *string) (opened, error) {
	if *path == "" {
		*path = "."
	}
	if err := checkPath(*path); err != nil {
		return opened{}, err
	}
	return c.find(ctx, session)
}

// searchFiles searches the lines of texts below a folder.
func searchFiles(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
		Files   string `json:"files"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("pattern", p.Pattern); err != nil {
		return nil, err
	}
	s, err := c.folder(ctx, p.Session, &p.Path)
	if err != nil {
		return nil, err
	}
	argv := []string{
		"grep", "-rnIE", "--color=never", "--exclude-dir=.git", "--exclude-dir=node_modules",
	}
	if p.Files != "" {
		argv = append(argv, "--include="+p.Files)
	}
	no := false
	var out outcome
	if err := c.command(ctx, &out, protocol.ExecRequest{
		Session: s.id, Argv: append(argv, "-e", p.Pattern, "--", p.Path), Files: &no,
		TimeoutMS: searchTime * 1000, MaxOutputBytes: maxOutput,
	}); err != nil {
		return nil, err
	}
	return hits(&out)
}

// hits returns the result of a search.
func hits(out *outcome) (*sdk.CallToolResult, error) {
	const op = "mcp.search_files"
	text := strings.TrimRight(out.stdout.String(), "\n")
	switch {
	case out.status == "timeout":
		return nil, fault.New(fault.DeadlineExceeded, op,
			"the search took longer than %d s; search a smaller folder", searchTime)
	case out.exit == nil:
		return nil, fault.New(fault.SandboxLost, op, "the search did not end: %s", out.status)
	case *out.exit > 1 && text == "":
		return nil, fault.Invalid(op, "pattern", "%s",
			kernelclient.Plain(strings.TrimSpace(out.stderr.String())))
	case text == "":
		return answer("[nothing found]", map[string]any{"matches": []string{}}), nil
	}
	lines := strings.Split(text, "\n")
	more := out.dropped > 0
	if len(lines) > maxHits {
		lines, more = lines[:maxHits], true
	}
	for i, l := range lines {
		l = strings.TrimPrefix(l, "./")
		if len(l) > maxHit {
			l = strings.ToValidUTF8(l[:maxHit], "") + " […]"
		}
		lines[i] = l
	}
	text = strings.Join(lines, "\n")
	if more {
		text += "\n[there are more matches; give a narrower pattern, path or files]"
	}
	return answer(text, map[string]any{"matches": lines, "truncated": more}), nil
}
