import { languages } from '../server'

/** What is known of a language beside what the server says: names in files of others. */
interface Facts {
  name: string
  /** The name of its kernel in Jupyter, and of its mode in VS Code. */
  kernelspec: string
  vscode: string
  extension: string
  comment: string
  colour: string
  short: string
}

const table: Facts[] = [
  { name: 'python', kernelspec: 'python3', vscode: 'python', extension: 'py', comment: '#', colour: '#3572a5', short: 'Py' },
  { name: 'javascript', kernelspec: 'javascript', vscode: 'javascript', extension: 'js', comment: '//', colour: '#7d6200', short: 'JS' },
  { name: 'golang', kernelspec: 'go', vscode: 'go', extension: 'go', comment: '//', colour: '#00809d', short: 'Go' },
  { name: 'java', kernelspec: 'java', vscode: 'java', extension: 'java', comment: '//', colour: '#93580f', short: 'Java' },
  { name: 'php', kernelspec: 'php', vscode: 'php', extension: 'php', comment: '//', colour: '#5f6aa8', short: 'PHP' },
  { name: 'bash', kernelspec: 'bash', vscode: 'shellscript', extension: 'sh', comment: '#', colour: '#4b7a2a', short: 'sh' },
  { name: 'sql', kernelspec: 'sql', vscode: 'sql', extension: 'sql', comment: '--', colour: '#a8430f', short: 'SQL' },
]

export function facts(language: string): Facts {
  return table.find((f) => f.name === language) ??
    { name: language, kernelspec: language, vscode: language, extension: 'txt', comment: '#', colour: '#6b7280', short: language.slice(0, 4) }
}

/** The server's name of a language that a file calls by this one. */
export function languageOf(name: unknown): string | undefined {
  if (typeof name !== 'string' || name === '') return undefined
  const lower = name.toLowerCase()
  const known = table.find((f) => f.name === lower || f.kernelspec === lower || f.vscode === lower)?.name ?? lower
  const offered = languages.value
  return offered.find((l) => l.name === known)?.name ?? offered.find((l) => l.aliases?.includes(known) || l.aliases?.includes(lower))?.name
}
