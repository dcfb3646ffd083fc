import { facts } from '../notebook/languages'
import { languages } from '../server'
import { Icon } from '../ui/icon'

/** A notebook for somebody who has no session yet. */
export interface Example {
  name: string
  about: string
  language: string
  cells: Cell[]
}

/** The source of a cell in the language of the example, or in another one; md is Markdown. */
type Cell = string | { md: string } | { in: string; source: string }

const all: Example[] = [
  {
    name: 'Analyse a table', about: 'Python with pandas and a plot', language: 'python',
    cells: [
      { md: '# Analyse a table\nRun each cell with Shift+Enter. Variables stay until the session ends.' },
      'import pandas as pd\n\nsales = pd.DataFrame({\n    "month": ["Jan", "Feb", "Mar", "Apr", "May", "Jun"],\n    "north": [120, 135, 128, 160, 172, 190],\n    "south": [90, 88, 105, 120, 118, 140],\n})\nsales',
      'sales.plot(x="month", title="Sales")',
    ],
  },
  {
    name: 'Two languages, one value', about: 'Python and JavaScript share data', language: 'python',
    cells: [
      { md: '# Two languages, one value\nA session has all languages. Choose the language of a cell at its corner.' },
      'sandgate.put("words", ["streams", "terminals", "cells"])',
      { in: 'javascript', source: 'sandgate.get("words").map((word) => word.toUpperCase())' },
    ],
  },
  {
    name: 'Watch output stream', about: 'Close the page and come back: nothing is lost', language: 'bash',
    cells: [
      { md: '# Watch output stream\nStart the cell, close this page, and open the session again. The output continues.' },
      'for i in {1..30}; do echo "line $i at $(date +%T)"; sleep 1; done',
    ],
  },
]

/** Returns the file of an example's notebook. */
export function notebookOf(e: Example): Blob {
  const cells = e.cells.map((c, i) => {
    const id = `example-${i + 1}`
    if (typeof c !== 'string' && 'md' in c) return { cell_type: 'markdown', id, metadata: {}, source: c.md }
    const [source, metadata] = typeof c === 'string' ? [c, {}] : [c.source, { vscode: { languageId: c.in } }]
    return { cell_type: 'code', id, metadata, source, outputs: [], execution_count: null }
  })
  return new Blob([JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 })])
}

/** Offers examples in the languages of the server. */
export function Examples({ making, make }: { making: string | undefined; make: (e: Example) => void }) {
  const some = all.filter((e) => languages.value.some((l) => l.name === e.language))
  if (some.length === 0) return null
  return (
    <>
      <h2 class="heading from">Or start with an example</h2>
      <div class="languages examples">
        {some.map((e) => (
          <button key={e.name} type="button" class="language-card" disabled={making !== undefined} onClick={() => make(e)}>
            <span class="language-badge" style={{ background: facts(e.language).colour }} aria-hidden="true">{facts(e.language).short}</span>
            <span class="grow"><strong>{e.name}</strong><br /><span class="muted">{e.about}</span></span>{making === e.name && <Icon name="spinner" spin />}
          </button>
        ))}
      </div>
    </>
  )
}
