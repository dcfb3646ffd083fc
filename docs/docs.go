// Package docs holds the pages that a server offers to programs and to the people who write them.
package docs

import (
	"embed"
	"io/fs"
)

//go:embed llms.txt azure-sessions.md dify.md fastgpt.md librechat.md lobehub.md
//go:embed open-webui.md opensandbox.md protocol.md ragflow.md
//go:embed guides/*.md reference/*.md
var pages embed.FS

// Pages returns llms.txt and the pages, by their paths below this folder.
func Pages() fs.FS { return pages }
