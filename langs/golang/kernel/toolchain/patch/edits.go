package main

import "maps"

// added are the files that have no counterpart in Go: the functions that the edits below call.
var added = map[string]string{
	"cmd/compile/internal/types2/cells.go": "types/cells.go",
	"go/types/cells.go":                    "types/cells.go",
	"cmd/compile/internal/noder/cells.go":  "noder/cells.go",
	"cmd/link/internal/ld/cells.go":        "link/cells.go",
	"cmd/link/internal/ld/cellstypes.go":   "link/cellstypes.go",
	"cmd/compile/cells.go":                 "main/cells.go",
	"cmd/link/cells.go":                    "main/cells.go",
	"runtime/cells.go":                     "runtime/cells.go",
	"os/cells.go":                          "os/cells.go",
	"time/cells.go":                        "time/cells.go",
}

// edits are all changes, by file below src.
var edits = merge(
	checker("cmd/compile/internal/types2", "isExported"),
	checker("go/types", "token.IsExported"),
	compiler, linker, library,
)

// checker returns the rules of the type checker. The compiler's and go/types, which the kernel
// uses, have to agree.
func checker(dir, isExported string) map[string][]edit {
	return map[string][]edit{
		// Cells count as one package for the identity of unexported names.
		dir + "/predicates.go": {{
			in: "samePkg", at: "a.path == b.path",
			text: or("cellPath(a.path) && cellPath(b.path)"),
		}},
		// A qualified identifier may be unexported: dot-imported ones resolve as such.
		dir + "/call.go": {{
			in: "Checker.selector", at: "!exp.Exported()",
			text: and("!(cellPath(pkg.path) && cellPath(check.pkg.path))"),
		}},
		// T{1, 2} sets unexported fields of an earlier cell's struct.
		dir + "/literals.go": {{
			in: "Checker.compositeLit", at: "fld.pkg != check.pkg",
			text: "!samePkg(fld.pkg, check.pkg)",
		}},
		dir + "/resolver.go": {
			// A dot import of a cell brings unexported names too; the latest import wins.
			{
				in: "Checker.collectObjects", at: isExported + "(name)",
				text: "(check.cellImport(imp, fileScope, name) || $)",
			},
			// A declaration of the cell itself wins over a dot-imported one.
			{
				in: "Checker.collectObjects", at: "pkg.scope.Lookup(name)",
				text: "check.cellOwn(scope, name, obj)",
			},
			// An unused dot import of a cell is not an error.
			{
				in: "Checker.unusedImports", at: "for _, obj := range check.imports", how: inside,
				text: " if cellPath(obj.imported.path) { continue };",
			},
		},
	}
}

var compiler = map[string][]edit{
	// Export data keeps unexported objects of cells.
	"cmd/compile/internal/noder/unified.go": {{
		in: "writeUnifiedExport",
		at: "types.IsExported(xname)", text: or("cellBuild()"),
	}},
	// Unexported fields and methods belong to the session, not to one cell.
	"cmd/compile/internal/noder/writer.go": {{
		in: "pkgWriter.selectorIdx",
		at: "pw.pkgIdx(obj.Pkg())", text: "pw.pkgIdx(cellOwner(obj))",
	}},
	// A cell needs no table of its exports: the kernel finds its functions as dynamic symbols.
	"cmd/compile/internal/noder/reader.go": {{
		in: "reader.pkgObjs",
		at: `types.LocalPkg.Name == "main"`, text: and("!cellBuild()"),
	}},
}

const ld = "cmd/link/internal/ld/"

var linker = map[string][]edit{
	// The lists of text must not hold imported functions.
	ld + "main.go": {{in: "Main", at: "ctxt.linksetup()", how: after, text: "; cellTextp(ctxt)"}},
	ld + "decodesym.go": {
		// No shared libraries are loaded, so that an import has no type data to decode.
		{
			in: "decodetypeGcmask", at: "ctxt.loader.SymType(s) == sym.SDYNIMPORT",
			text: and("len(ctxt.Shlibs) > 0"),
		},
		{
			in: "decodeTargetSym", at: "ldr.SymType(s) == sym.SDYNIMPORT",
			text: and("len(ctxt.Shlibs) > 0"),
		},
	},
	ld + "deadcode.go": {
		// All declarations of the cell are kept.
		{in: "deadcodePass.init", at: "var names []string", how: before, text: "cellRoots(d); "},
		// Symbols of the process are imported.
		{
			in: "deadcodePass.flood", at: "symIdx := d.wq.pop()", how: after,
			text: "; if cellExternal(d.ctxt, symIdx) { continue }",
		},
		// Imported types have no data.
		{
			in: "deadcodePass.flood", at: "if d.ldr.IsItab(rs)", how: before,
			text: "if cellOpaque(d, rs) { d.mark(rs, symIdx); continue }; ",
		},
		// The rules of shared linking apply here too.
		{in: "deadcodePass.flood", at: "d.ctxt.linkShared", n: 3, text: "cellShared(d.ctxt)"},
	},
	ld + "data.go": {
		// A weak reference to an import is dropped.
		{
			in: "relocSymState.relocsym", at: "case objabi.R_ADDROFF:", how: inside,
			text: " if weak && rst == sym.SDYNIMPORT && cells.on { continue };",
		},
		// Masks and sizes of imported types come from the side table.
		{
			in: "GCProg.AddType", at: "typData := ldr.Data(typ)", how: before,
			text: "if p.cellMask(off, typ) { return }; ",
		},
		{
			in: "GCProg.AddType", at: "decodetypePtrdata(p.ctxt.Arch, ldr.Data(fTyp))",
			text: "cellPtrdata(p.ctxt, fTyp)",
		},
		{
			in: "GCProg.AddType", at: "decodetypeSize(p.ctxt.Arch, ldr.Data(elem))",
			text: "cellSize(p.ctxt, elem)",
		},
	},
	ld + "symtab.go": {
		// No hashes of packages: one toolchain made all of them.
		{in: "Link.symtab", at: "ctxt.Library", n: 3, text: "cellHashed(ctxt)"},
		{
			in: "Link.symtab", at: "decodetypeSize(ctxt.Arch, ldr.Data(moduledatatype))",
			text: "cellSize(ctxt, moduledatatype)",
		},
	},
	// runtime.addmoduledata is an import here and must not join the text.
	ld + "ld.go": {{
		in: "PrepareAddmoduledata", at: "ctxt.BuildMode == BuildModePlugin",
		text: and("ctxt.loader.SymType(amd).IsText()"),
	}},
	ld + "lib.go": {
		// Archives of packages in the process are not read.
		{in: "Link.loadlib", at: `lib.Shlib == ""`, n: 4, text: and("!cellSkip(ctxt, lib)")},
		{
			in: "Link.loadlib", at: "ctxt.loader.LoadSyms(ctxt.Arch)", how: after,
			text: "; cellUndefined(ctxt)",
		},
		// ld itself makes the object: gcc takes 20 times as long.
		{in: "Link.hostlink", how: inside, text: " if cellHostlink(ctxt) { return };"},
	},
	ld + "pcln.go": {
		// Inlined functions of packages that were not read.
		{in: "genInlTreeSym", at: "!ctxt.linkShared", text: and("!cells.on")},
		// The runtime treats a name at offset 0 as no name. Elsewhere no user's function is first.
		{
			in: "pclntab.generateFuncnametab", at: "var size int64", how: after,
			text: "; if cells.on { size = 1 }",
		},
	},
	// The kernel starts the tools before they are needed.
	"cmd/compile/main.go": {{in: "main", how: inside, text: " cellWait(func() {});"}},
	"cmd/link/main.go":    {{in: "main", how: inside, text: " cellWait(ld.CellTables);"}},
}

// library are the changes of the standard library that the kernel links with.
var library = map[string][]edit{
	"runtime/runtime2.go": {{
		in:   "g",
		text: "\n\tcell uint32 // which cell it belongs to, 0 for none\n",
	}},
	"runtime/proc.go": {
		{in: "newproc1", at: "newg.startpc = fn.fn", how: after, text: "; newg.cell = 0"},
		// After the check whether it is one of the runtime's own.
		{
			in: "newproc1", at: "newg.bubble = callergp.bubble", how: after,
			text: "; newg.cell = callergp.cell; newg.paniconfault = callergp.paniconfault",
		},
	},
	// The function of a timer has no caller.
	"time/sleep.go": {{in: "AfterFunc", how: inside, text: " f = cellFunc(f);"}},
	"runtime/panic.go": {
		// A panic that nobody recovers ends the goroutine of a cell, and not the process.
		{in: "gopanic", at: "preprintpanics(&p)", how: before, text: "cellUncaught(&p); "},
		// Misuse that is fatal elsewhere is a panic in a cell.
		{in: "maps_fatal", how: inside, text: " cellFatal(s);"},
		{in: "sync_fatal", how: inside, text: " cellFatal(s);"},
		{in: "internal_sync_fatal", how: inside, text: " cellFatal(s);"},
	},
	"runtime/stack.go": {{
		in: "newstack",
		at: "if newsize > maxstacksize || newsize > maxstackceiling", how: before,
		text: "cellStackGrows(gp, newsize); ",
	}},
	"runtime/malloc.go": {{in: "mallocgcLarge", how: inside, text: " cellLarge(size);"}},
	// Otherwise each load of a cell would iterate over all types of the library.
	"runtime/type.go": {{
		in: "typelinksinit", how: inside,
		text: " if cellTypelinks() { return };",
	}},
	"os/file.go": {
		{
			in: "File.Write", how: inside,
			text: " if n, err, ok := cellWrite(f, b); ok { return n, err };",
		},
		{
			in: "File.Read", how: inside,
			text: " if n, err, ok := cellRead(f, b); ok { return n, err };",
		},
		{
			in: "File.ReadFrom", how: inside,
			text: " if cellStream(f) { return genericReadFrom(f, r) };",
		},
	},
	"os/exec.go": {{in: "StartProcess", how: inside, text: " cellStart();"}},
	"os/proc.go": {{in: "Exit", how: inside, text: " cellExit(code);"}},
}

func merge(list ...map[string][]edit) map[string][]edit {
	all := map[string][]edit{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}
