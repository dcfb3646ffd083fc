import { signal, type Signal } from '@preact/signals'
import type { Problem } from './code/ask'
import { readComments, type Comment } from './comment'
import { newCellID, type CellJSON, type CellType } from './ipynb'
import { languageOf, facts } from './languages'
import { OutputView } from './output'

/** The state of a cell's execution. */
export type RunState = 'none' | 'queued' | 'running' | 'ok' | 'error' | 'aborted' | 'lost'

/** A cell in the page: its source, its execution and its output. */
export class CellModel {
  readonly id: string
  readonly type: Signal<CellType>
  readonly language: Signal<string>
  readonly source: Signal<string>
  readonly count: Signal<number | null>
  /** Its place among the cells of all languages that have run in the notebook. */
  readonly order: Signal<number | null> = signal(null)
  readonly state: Signal<RunState> = signal('none')
  /** The start of the current or last execution, in milliseconds since 1970 UTC. */
  readonly started: Signal<number> = signal(0)
  readonly elapsed: Signal<number> = signal(0)
  /** Whether the cell's output, or a Markdown cell's page, is folded away. */
  readonly folded: Signal<boolean>
  /** Whether the cells below this heading are folded away. */
  readonly section: Signal<boolean>
  /** Whether a Markdown cell shows its source. */
  readonly editing: Signal<boolean> = signal(false)
  /** The line that an error points to, from 1. The editor marks it. */
  readonly errorLine: Signal<number> = signal(0)
  /** The problems that the kernel finds in the code. */
  readonly problems: Signal<Problem[]> = signal([])
  /** The place in the code where the cursor is wanted, once the editor is there. */
  readonly target: Signal<{ index: number } | undefined> = signal(undefined)
  readonly comments: Signal<Comment[]>
  /** Whether the user writes a comment. */
  readonly commenting: Signal<boolean> = signal(false)
  readonly output = new OutputView()
  readonly json: Pick<CellJSON, 'metadata' | 'attachments'>
  /** The number of the last execution, which identifies its recording; 0 before the first. */
  execution = 0
  channel = ''

  constructor(j: Partial<CellJSON>, fallback: string) {
    this.id = j.id ?? newCellID()
    this.type = signal(j.cell_type ?? 'code')
    this.source = signal(j.source ?? '')
    this.count = signal(j.execution_count ?? null)
    this.json = { metadata: j.metadata ?? {}, ...(j.attachments ? { attachments: j.attachments } : {}) }
    this.language = signal(cellLanguage(this.json.metadata) ?? fallback)
    this.comments = signal(readComments(object(this.json.metadata.sandgate).comments))
    this.folded = signal(object(this.json.metadata.jupyter).outputs_hidden === true || this.json.metadata.collapsed === true)
    this.section = signal(this.json.metadata['jp-MarkdownHeadingCollapsed'] === true)
    if (j.outputs?.length) this.output.load(j.outputs)
  }

  get busy(): boolean {
    return this.state.value === 'queued' || this.state.value === 'running'
  }

  /** Returns the cell as in the file. main is the language of cells that name none. */
  toJSON(main: string): CellJSON {
    const { vscode, sandgate: _, ...metadata } = { ...this.json.metadata } as Record<string, unknown>
    const code = this.type.value === 'code'
    const given = cellLanguage(this.json.metadata)
    const other = code && (this.language.value !== main || (given !== undefined && given === this.language.value))
    const jupyter = { ...object(metadata.jupyter) }
    delete jupyter.outputs_hidden
    if (this.folded.value && code) jupyter.outputs_hidden = true
    delete metadata.jupyter
    delete metadata['jp-MarkdownHeadingCollapsed'] // JupyterLab's name
    const comments = this.comments.value
    if (!this.folded.value) delete metadata.collapsed
    return {
      id: this.id, cell_type: this.type.value, source: this.source.value,
      metadata: {
        ...metadata,
        ...(comments.length ? { sandgate: { comments } } : {}),
        ...(this.section.value ? { 'jp-MarkdownHeadingCollapsed': true } : {}),
        ...(Object.keys(jupyter).length ? { jupyter } : {}),
        ...(other ? { vscode: { ...object(vscode), languageId: facts(this.language.value).vscode } } : code || !vscode ? {} : { vscode }),
      },
      execution_count: this.count.value,
      outputs: code ? this.output.toJSON() : [],
      ...(this.json.attachments ? { attachments: this.json.attachments } : {}),
    }
  }
}

function object(v: unknown): Record<string, unknown> {
  return typeof v === 'object' && v !== null ? (v as Record<string, unknown>) : {}
}

/** Returns the language in a cell's metadata if the server offers it. */
function cellLanguage(metadata: Record<string, unknown>): string | undefined {
  return languageOf(object(metadata.vscode).languageId) ?? languageOf(object(metadata.dotnet_interactive).language)
}
