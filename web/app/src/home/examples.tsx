import { t } from '../language/texts'
import { facts } from '../notebook/languages'
import { languages } from '../server'
import { Icon } from '../ui/icon'

/** A notebook for somebody who has no session yet. */
export interface Example {
  name: string
  about: string
  language: string
  /** The text below its title. */
  intro: string
  cells: Cell[]
}

/** The source of a cell in the language of the example, or in another one. */
type Cell = string | { in: string; source: string }

const examples = (): Example[] => [
  {
    name: t('Analyse a table'), about: t('Python with pandas and a plot'), language: 'python',
    intro: t('Run each cell with Shift+Enter. Variables stay until the session ends.'),
    cells: [
      'import pandas as pd\n\nsales = pd.DataFrame({\n    "month": ["Jan", "Feb", "Mar", "Apr", "May", "Jun"],\n    "north": [120, 135, 128, 160, 172, 190],\n    "south": [90, 88, 105, 120, 118, 140],\n})\nsales',
      'sales.plot(x="month", title="Sales")',
    ],
  },
  {
    name: t('Two languages, one value'), about: t('Python and JavaScript share data'), language: 'python',
    intro: t('A session has all languages. Choose the language of a cell at its corner.'),
    cells: [
      'sandgate.put("words", ["streams", "terminals", "cells"])',
      { in: 'javascript', source: 'sandgate.get("words").map((word) => word.toUpperCase())' },
    ],
  },
  {
    name: t('Watch output stream'), about: t('Close the page and come back: nothing is lost'), language: 'bash',
    intro: t('Start the cell, close this page, and open the session again. The output continues.'),
    cells: [
      'for i in {1..30}; do echo "line $i at $(date +%T)"; sleep 1; done',
    ],
  },
]

/** Returns the file of an example's notebook. */
export function notebookOf(e: Example): Blob {
  const text = { cell_type: 'markdown', id: 'example-1', metadata: {}, source: `# ${e.name}\n${e.intro}` }
  const code = e.cells.map((c, i) => {
    const [source, metadata] = typeof c === 'string' ? [c, {}] : [c.source, { vscode: { languageId: c.in } }]
    return { cell_type: 'code', id: `example-${i + 2}`, metadata, source, outputs: [], execution_count: null }
  })
  return new Blob([JSON.stringify({ cells: [text, ...code], metadata: {}, nbformat: 4, nbformat_minor: 5 })])
}

/** Offers examples in the languages of the server. */
export function Examples({ making, make }: { making: string | undefined; make: (e: Example) => void }) {
  const some = examples().filter((e) => languages.value.some((l) => l.name === e.language))
  if (some.length === 0) return null
  return (
    <>
      <h2 class="heading from">{t('Or start with an example')}</h2>
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
