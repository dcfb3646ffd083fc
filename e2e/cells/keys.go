package cells

import "slices"

// Keys returns the properties that every language must prove, each by at least one case,
// or list in not.yaml with a reason.
func Keys() []string {
	return []string{
		"state.variable", "state.function", "state.type", "state.import", "state.redefine-type",
		"state.failed-cell",
		"result.last-expression", "result.none", "result.huge", "result.cyclic",
		"output.order", "output.streaming", "output.child", "output.native", "output.binary",
		"output.large", // 5 MB, complete
		"output.later", // from the background, after the reply
		"display.html", "display.image", "display.json", "display.markdown", "display.table",
		"display.chart",
		"error.name",
		"error.position", // the line of the cell
		"error.traceback", "error.syntax",
		"interrupt.loop", "interrupt.recursion", "interrupt.sleep", "interrupt.input",
		"interrupt.await", // a promise, channel, future or lock
		"interrupt.child",
		"interrupt.swallow", // code that catches everything
		"interrupt.state",   // the variables survive
		"interrupt.late",    // the next cell runs normally
		"input.line", "input.password", "input.eof",
		"input.refused", // no_input
		"env.variable", "exit.cell", "exit.code",
		"complete.live", "complete.no-side-effect", "complete.is-complete", "inspect.live",
		"variables.list",
		"code.questions", // problems, definitions, names, format, signatures before a cell runs
		"program.cell",   // a whole program, pasted
		"program.status", "program.file",
		"survive.background-error", "survive.stack-overflow", "survive.memory",
		"survive.fatal", // the process dies: the user learns it and the next cell runs
		"many.cells",    // 50 and more
		"packages.local",
		"concurrency.goes-on", // a task, thread or timer continues between cells
	}
}

func isKey(name string) bool { return slices.Contains(Keys(), name) }
