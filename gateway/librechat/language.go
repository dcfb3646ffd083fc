package librechat

import (
	"context"
	"fmt"
	"io"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// language is how programs of a language of clients run.
type language struct {
	// name is the name of the language at the node.
	name string
	// source is the name of the file with the code.
	source string
	// command starts the file; nil means the node's command for the language.
	command []string
	// plots is true if programs can draw with matplotlib.
	plots bool
	// inline starts code of at most maxInline bytes that follows as an argument; nil means that code
	// always is in a file.
	inline []string
}

// languages returns the languages by the names that clients use.
func languages() map[string]language {
	return map[string]language{
		"py":   {name: "python", source: "main.py", plots: true},
		"js":   {name: "javascript", source: "main.js"},
		"ts":   {name: "javascript", source: "main.ts"},
		"bash": {name: "bash", source: "main.sh", plots: true, inline: []string{"bash", "-c"}},
		"php":  {name: "php", source: "main.php"},
		"go":   {name: "go", source: "main.go"},
		"java": {name: "java", source: "Main.java"},
		"c":    {name: "c", source: "main.c"},
		"cpp":  {name: "c++", source: "main.cpp"},
		"rs":   {name: "rust", source: "main.rs"},
		"d":    {name: "d", source: "main.d"},
		"f90":  {name: "fortran", source: "main.f90"},
		"r":    {name: "r", source: "main.R", command: []string{"Rscript"}},
	}
}

// The folders of a run.
const (
	folder   = "/mnt/data" // the working folder and home of programs
	plotsDir = "/tmp/.librechat"
)

// maxInline is the most code in an argument, in bytes. Linux allows 128 KiB.
const maxInline = 64 << 10

// environment returns the environment of a program.
func (l language) environment() map[string]string {
	env := map[string]string{"HOME": folder, "PWD": folder}
	if l.plots {
		env["MPLBACKEND"] = "module://librechat_show"
		env["MPLCONFIGDIR"] = plotsDir
		env["PYTHONPATH"] = plotsDir
		env["PYTHONDONTWRITEBYTECODE"] = "1"
	}
	return env
}

// show is a backend of matplotlib that saves figures which a program shows, because nobody sees
// them otherwise.
const show = `import os

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase as FigureManager
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas


def show(*args, **kwargs):
    for manager in Gcf.get_all_fig_managers():
        number = 1
        while os.path.exists(f"` + folder + `/plot_{number}.png"):
            number += 1
        manager.canvas.figure.savefig(f"` + folder + `/plot_{number}.png")
    Gcf.destroy_all()
`

// write writes a file of a session and returns its new state.
func (s *Surface) write(ctx context.Context, u store.User, p protocol.FileWrite, content io.Reader,
) (protocol.File, error) {
	return sessionfile.Write(ctx, s.cfg.Node, u.Who, p, content, s.cfg.Call)
}

// missing returns the text for the model if err says that the server has no such language; empty
// for other errors.
func (l language) missing(lang string, err error) string {
	field := fault.PublicOf(err).Field
	if err == nil || field != "language" && field != "argv" {
		return ""
	}
	return fmt.Sprintf("The language %s (%s) is not installed in this sandbox.\n", lang, l.name)
}
