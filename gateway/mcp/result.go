package mcp

import (
	"fmt"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of results, in bytes. Hosts pass results to models, whose contexts are small.
const (
	// A longer text is cut in the middle: its first headText and its last tailText bytes stay.
	headText = 20 << 10
	tailText = 10 << 10
	// maxOutput is the most output of one call that can be read later.
	maxOutput = 1 << 20
	// maxPictures is the number of pictures in a result, maxPicture the size of one.
	maxPictures = 8
	maxPicture  = 3 << 20
	// maxLinks is the number of created files in a result.
	maxLinks = 50
)

// failed returns the result of a call that could not be performed.
func failed(err error) *sdk.CallToolResult {
	p := surface.PublicOf(err)
	text := p.Message
	if p.Field != "" && !strings.Contains(text, p.Field) {
		text = p.Field + ": " + text
	}
	// The advice about what does not exist is about tenants, which a model does not know.
	if p.Advice != "" && p.Advice != p.Message && p.Kind != fault.NotFound {
		text += "\n" + p.Advice
	}
	// Clients compare an object with the schema of the tool also if the call has failed, so there is
	// none.
	return &sdk.CallToolResult{
		IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}},
	}
}

// answer returns a result with a text and an object.
func answer(text string, structured any) *sdk.CallToolResult {
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: structured,
	}
}

// cut returns the head and the tail of a long text and how many bytes are left out. note is the text
// between them.
func cut(text string, note func(left int) string) (short string, left int) {
	if len(text) <= headText+tailText {
		return text, 0
	}
	head := strings.ToValidUTF8(text[:headText], "")
	tail := strings.ToValidUTF8(text[len(text)-tailText:], "")
	left = len(text) - len(head) - len(tail)
	return head + "\n" + note(left) + "\n" + tail, left
}

// createdFile is a created or changed file in a structured result.
type createdFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	MIME   string `json:"mime_type"`
	Change string `json:"change"`
	URL    string `json:"url,omitempty"`
}

// addFiles appends the files of a call to a result: their names to the text, and links.
func addFiles(b *strings.Builder, content []sdk.Content, files []protocol.CreatedFile, more bool,
) ([]sdk.Content, []createdFile) {
	listed := []createdFile{}
	for i, f := range files {
		if i == maxLinks {
			more = true
			break
		}
		listed = append(listed, createdFile{f.Path, f.Size, f.MIME, f.Change, f.URL})
		fmt.Fprintf(b, "[%s file %s, %d bytes]\n", f.Change, f.Path, f.Size)
		if f.URL == "" {
			continue
		}
		size := f.Size
		content = append(content, &sdk.ResourceLink{
			URI: f.URL, Name: path.Base(f.Path), MIMEType: f.MIME, Size: &size,
			Description: "The file " + f.Path + " of the session. The link is valid for an hour.",
		})
	}
	if more {
		b.WriteString("[there may be other created or changed files]\n")
	}
	return content, listed
}
