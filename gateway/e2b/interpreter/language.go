package interpreter

import (
	"regexp"
	"strings"
)

// home is the folder of a context that names none.
const home = "/home/user"

const (
	python     = "python"
	javascript = "javascript"
	bash       = "bash"
	java       = "java"
	golang     = "golang"
	php        = "php"
)

// languages are the names of languages that clients use, and those of our kernels.
var languages = map[string]string{
	"python": python, "javascript": javascript, "js": javascript, "typescript": javascript,
	"ts": javascript, "java": java, "bash": bash, "go": golang, "golang": golang, "php": php,
	"sql": "sql",
}

// kernelID names a kernel: the default one of a language, or a channel.
type kernelID struct {
	name              string // as the client named it
	language, channel string // one of them is set
	// other is true for the context of a language that only some templates have.
	other bool
}

// ofLanguage returns the default kernel of a language. The node knows which languages there are.
func ofLanguage(name string) kernelID {
	clean := normal(name)
	if own, ok := languages[clean]; ok {
		return kernelID{name: clean, language: own}
	}
	return kernelID{name: clean, language: clean}
}

// normal returns a name of a language in the form of clients. Without a name it is python.
func normal(name string) string {
	clean := strings.ToLower(strings.TrimSpace(name))
	switch clean {
	case "":
		return python
	case "js":
		return javascript
	case "ts":
		return "typescript"
	}
	return clean
}

// shown returns the name of a kernel's language for clients.
func shown(language string) string {
	if language == golang {
		return "go"
	}
	return language
}

var (
	channelID  = regexp.MustCompile(`^k[0-9]{1,9}$`)
	languageID = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

// ofContext returns the kernel of a context. Errors: one with the status 404.
func ofContext(id string) (kernelID, error) {
	if own, ok := languages[id]; ok && shown(own) == id {
		return kernelID{name: id, language: own}, nil
	}
	switch _, known := languages[id]; {
	case channelID.MatchString(id):
		return kernelID{name: id, channel: id}, nil
	case languageID.MatchString(id) && !known:
		return kernelID{name: id, language: id, other: true}, nil
	}
	return kernelID{}, noContext(id)
}
