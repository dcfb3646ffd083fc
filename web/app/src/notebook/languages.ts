import { languages } from '../server'

/** The names of a language in other tools: `editor` of its manifest. */
interface Editor {
  jupyter: string
  vscode: string
  comment: string
  color: string
  short: string
}

/** Facts about a language that the server does not send. */
interface Facts {
  name: string
  /** The names of its kernel in Jupyter and of its mode in VS Code. */
  kernelspec: string
  vscode: string
  extension: string
  comment: string
  colour: string
  short: string
}

// The build reads them from the manifests, so that a language is one folder.
const editors = import.meta.glob<Editor>('../../../../langs/*/manifest.json', { eager: true, import: 'editor' })
const extensions = import.meta.glob<string[]>('../../../../langs/*/manifest.json', { eager: true, import: 'extensions' })

const table: Facts[] = Object.entries(editors).map(([path, e]) => ({
  name: /([^/]+)\/manifest\.json$/.exec(path)?.[1] ?? '',
  kernelspec: e.jupyter, vscode: e.vscode, comment: e.comment, colour: e.color, short: e.short,
  extension: (extensions[path]?.[0] ?? '.txt').slice(1),
}))

export function facts(language: string): Facts {
  return table.find((f) => f.name === language) ??
    { name: language, kernelspec: language, vscode: language, extension: 'txt', comment: '#', colour: '#6b7280', short: language.slice(0, 4) }
}

/** Returns the server's name for a language with this name in a file. */
export function languageOf(name: unknown): string | undefined {
  if (typeof name !== 'string' || name === '') return undefined
  const lower = name.toLowerCase()
  const known = table.find((f) => f.name === lower || f.kernelspec === lower || f.vscode === lower)?.name ?? lower
  const offered = languages.value
  return offered.find((l) => l.name === known)?.name ?? offered.find((l) => l.aliases?.includes(known) || l.aliases?.includes(lower))?.name
}
