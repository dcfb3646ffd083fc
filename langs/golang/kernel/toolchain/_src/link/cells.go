// Package ld links the cells of an interactive session. Symbols of the process (the shared standard
// library, earlier cells) become dynamic imports. All declarations of the cell are kept, for later
// cells. The linker calls ld directly.
//
// The environment has the inputs:
//
//	CELLS_SYMS   hashes of the dynamic symbols of the standard library, sorted
//	CELLS_TYPES  the side table of type sizes and pointer masks
//	CELLS_MORE   hashes of later symbols, sorted; read when linking begins
//	CELLS_DUMP   write the side table there and continue (when an image is built)
//
// An import configuration names "held" as the archive of a package of the standard library.
package ld

import (
	"cmd/link/internal/loader"
	"cmd/link/internal/sym"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// cells has the data about the process that a cell is linked for.
var cells struct {
	on     bool
	loaded bool
	syms   []byte // content of CELLS_SYMS
	more   []byte // content of CELLS_MORE
	// content of CELLS_TYPES: count, records of hash, offset, length, then sizes and masks
	types  []byte
	ntypes int
}

// CellTables reads the tables that are the same for each cell.
func CellTables() {
	file := os.Getenv("CELLS_SYMS")
	if cells.loaded || file == "" {
		return
	}
	cells.loaded = true
	cells.syms = cellFile(file)
	cells.types = cellFile(os.Getenv("CELLS_TYPES"))
	cells.ntypes = int(binary.LittleEndian.Uint64(cells.types))
}

func cellFile(name string) []byte {
	b, err := os.ReadFile(name)
	if err != nil {
		Exitf("cells: %v", err)
	}
	return b
}

// cellBegin is called before the first lookup of a symbol of the process.
func cellBegin(ctxt *Link) {
	CellTables()
	if cells.on || !cells.loaded || ctxt.BuildMode != BuildModePlugin {
		return
	}
	cells.on = true
	if file := os.Getenv("CELLS_MORE"); file != "" {
		cells.more = cellFile(file)
	}
}

// cellShared reports whether the rules of shared linking apply.
func cellShared(ctxt *Link) bool { return ctxt.linkShared || cells.on }

func cellHash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h ^= uint64(s[i])
		h *= 1099511628211
	}
	return h
}

func cellHas(name string) bool {
	h := cellHash(name)
	in := func(table []byte) bool {
		n := len(table) / 8
		i := sort.Search(
			n, func(i int) bool { return binary.LittleEndian.Uint64(table[i*8:]) >= h })
		return i < n && binary.LittleEndian.Uint64(table[i*8:]) == h
	}
	return in(cells.syms) || in(cells.more)
}

// cellName returns the process's name for a symbol. Functions have one name for each calling
// convention.
func cellName(name string, version int, text bool) (held string, isText bool) {
	m := typeSymbolMangle(name)
	switch {
	case version == sym.SymVerABIInternal && cellHas(m+".abiinternal"):
		return m + ".abiinternal", true
	case version == 0 && cellHas(m+".abi0") && (text || !cellHas(m)):
		return m + ".abi0", true
	case cellHas(m):
		return m, text
	}
	return "", false
}

// cellImportAs makes s a dynamic import.
func cellImportAs(ldr *loader.Loader, s loader.Sym, held string, text bool) {
	ldr.MakeSymbolUpdater(s).SetType(sym.SDYNIMPORT)
	if text {
		ldr.SetSymElfType(s, 2) // STT_FUNC
	} else {
		ldr.SetSymElfType(s, 1) // STT_OBJECT
	}
	if held != ldr.SymName(s) {
		ldr.SetSymExtname(s, held)
	}
}

// cellExternal converts a reached symbol to a dynamic import if the process has it.
func cellExternal(ctxt *Link, s loader.Sym) bool {
	cellBegin(ctxt)
	if !cells.on {
		return false
	}
	ldr := ctxt.loader
	t, v, name := ldr.SymType(s), ldr.SymVersion(s), ldr.SymName(s)
	if t == 0 || t == sym.SDYNIMPORT || t == sym.SHOSTOBJ || ldr.AttrSpecial(s) || name == "" ||
		v >= sym.SymVerStatic {
		return false
	}
	switch {
	case strings.HasPrefix(name, "type:"):
		if (name[5] == '.' && !t.IsText()) || strings.HasPrefix(name, "type:func(") {
			return false // targets of section-relative offsets must be in this object
		}
	case strings.HasPrefix(name, "go:"):
		if !strings.HasPrefix(name, "go:itab.") {
			return false
		}
	case strings.HasPrefix(name, *flagPluginPath+"."), strings.HasPrefix(name, "runtime.gcbits."),
		name == "runtime.addmoduledata", name == "runtime.islibrary":
		return false
	}
	held, _ := cellName(name, v, t.IsText() && !strings.HasPrefix(name, "type:"))
	if held == "" {
		return false
	}
	cellImportAs(ldr, s, held, t.IsText())
	return true
}

// cellUndefined makes dynamic imports of the names that no archive defines.
func cellUndefined(ctxt *Link) {
	cellDump(ctxt)
	cellBegin(ctxt)
	if !cells.on {
		return
	}
	ldr := ctxt.loader
	ldr.LookupOrCreateSym("runtime.addmoduledata", 0)
	ldr.LookupOrCreateSym("runtime.lastmoduledatap", 0)
	ldr.LookupOrCreateSym("runtime.mapinitnoop", sym.SymVerABIInternal)
	ldr.LookupOrCreateSym("runtime.unreachableMethod", sym.SymVerABIInternal)
	ldr.LookupOrCreateSym("type:runtime.moduledata", 0)
	for s := loader.Sym(1); s < loader.Sym(ldr.NSym()); s++ {
		if ldr.SymType(s) != 0 || ldr.SymVersion(s) >= sym.SymVerStatic {
			continue
		}
		name := ldr.SymName(s)
		if name == "" || strings.HasPrefix(name, "go:") && !strings.HasPrefix(name, "go:itab.") {
			continue
		}
		if held, text := cellName(name, ldr.SymVersion(s), false); held != "" {
			cellImportAs(ldr, s, held, text)
		}
	}
}

// cellRoots keeps everything that the cell, and a module that it adds, declares: later cells may
// use it. Archives of earlier cells are only read for the layout of their types.
func cellRoots(d *deadcodePass) {
	cellBegin(d.ctxt)
	if !cells.on {
		return
	}
	for i, n := 1, d.ldr.NDef(); i < n; i++ {
		s := loader.Sym(i)
		t, pkg, name := d.ldr.SymType(s), d.ldr.SymPkg(s), d.ldr.SymName(s)
		if name == "" || !strings.Contains(name, pkg+".") || t.IsText() && d.ldr.SymSize(s) == 0 {
			continue
		}
		if pkg != *flagPluginPath {
			if held, _ := cellName(name, d.ldr.SymVersion(s), t.IsText()); held != "" || pkg == "" {
				continue
			}
		}
		d.mark(s, 0)
	}
}

// cellTextp removes imported functions from the lists of text.
func cellTextp(ctxt *Link) {
	if !cells.on {
		return
	}
	keep := func(list []loader.Sym) []loader.Sym {
		out := list[:0]
		for _, s := range list {
			if ctxt.loader.SymType(s).IsText() {
				out = append(out, s)
			}
		}
		return out
	}
	ctxt.Textp = keep(ctxt.Textp)
	for _, l := range ctxt.Library {
		for _, u := range l.Units {
			u.Textp = keep(u.Textp)
		}
	}
}

// cellHostlink makes the shared object with ld alone: a cell needs no start-up files, libraries or
// C objects.
func cellHostlink(ctxt *Link) bool {
	if !cells.on {
		return false
	}
	object := filepath.Join(*flagTmpdir, "go.o")
	out, err := exec.Command("ld", "-shared", "-z", "now", "-z", "relro", "--hash-style=gnu", "-o",
		*flagOutfile, object).CombinedOutput()
	if err != nil {
		Exitf("ld: %v\n%s", err, out)
	}
	return true
}

// cellSkip reports whether a library belongs to the standard library, so that its archive is not
// read.
func cellSkip(ctxt *Link, l *sym.Library) bool {
	cellBegin(ctxt)
	return cells.on && (l.File == "held" || l.File == "")
}

// cellOpaque reports whether s is an import without any data.
func cellOpaque(d *deadcodePass, s loader.Sym) bool {
	return cells.on && d.ldr.SymType(s) == sym.SDYNIMPORT && len(d.ldr.Data(s)) == 0
}

// cellHashed returns the libraries whose hashes the runtime compares at load: none, because all
// come from one image.
func cellHashed(ctxt *Link) []*sym.Library {
	if cells.on {
		return nil
	}
	return ctxt.Library
}
