import type { LanguageSupport } from '@codemirror/language'
import type { Extension } from '@codemirror/state'
import { highlightCode, tagHighlighter, tags as t, type Tag } from '@lezer/highlight'

/** The languages whose code has colours. Each is loaded with its first code. */
export const support: Record<string, () => Promise<Extension>> = {
  python: () => import('@codemirror/lang-python').then((m) => m.python()),
  javascript: () => import('@codemirror/lang-javascript').then((m) => m.javascript({ typescript: true, jsx: true })),
  golang: () => import('@codemirror/lang-go').then((m) => m.go()),
  java: () => import('@codemirror/lang-java').then((m) => m.java()),
  php: () => import('@codemirror/lang-php').then((m): LanguageSupport => m.php({ plain: true })),
  sql: () => import('@codemirror/lang-sql').then((m) => m.sql({ dialect: m.SQLite })),
  bash: async () => {
    const [{ StreamLanguage }, { shell }] = await Promise.all([import('@codemirror/language'), import('@codemirror/legacy-modes/mode/shell')])
    return StreamLanguage.define(shell)
  },
}

interface Colour {
  name: string
  tag: Tag | Tag[]
  color?: string
  fontStyle?: string
  textDecoration?: string
}

/** The colours of code, in editors and elsewhere. */
export const colours: Colour[] = [
  { name: 'keyword', tag: [t.keyword, t.operatorKeyword, t.modifier, t.controlKeyword, t.definitionKeyword, t.moduleKeyword], color: 'var(--code-keyword)' },
  { name: 'string', tag: [t.string, t.special(t.string), t.regexp, t.character], color: 'var(--code-string)' },
  { name: 'number', tag: [t.number, t.bool, t.null, t.atom], color: 'var(--code-number)' },
  { name: 'comment', tag: [t.comment, t.meta], color: 'var(--code-comment)', fontStyle: 'italic' },
  { name: 'name', tag: [t.function(t.variableName), t.function(t.propertyName), t.definition(t.function(t.variableName)), t.heading], color: 'var(--code-name)' },
  { name: 'type', tag: [t.typeName, t.className, t.namespace, t.tagName, t.attributeName, t.self], color: 'var(--code-type)' },
  { name: 'link', tag: t.link, textDecoration: 'underline' },
  { name: 'invalid', tag: t.invalid, color: 'var(--danger)' },
]

const highlighter = tagHighlighter(colours.map(({ name, tag }) => ({ tag, class: `code-${name}` })))

/** Returns the rules of the classes that coloured code has. */
export const colourRules = (): string => colours.map((c) => `.code-${c.name}{${c.color ? `color:${c.color};` : ''}${c.fontStyle ? `font-style:${c.fontStyle};` : ''}${c.textDecoration ? `text-decoration:${c.textDecoration}` : ''}}`).join('')

/** Returns code as nodes, with colours if its language is known. */
export async function colouredCode(source: string, language: string, doc: Document = document): Promise<Node[]> {
  const load = Object.hasOwn(support, language) ? support[language] : undefined
  if (!load) return [doc.createTextNode(source)]
  const [{ LanguageSupport: Support }, extension] = await Promise.all([import('@codemirror/language'), load()])
  const { parser } = extension instanceof Support ? (extension as LanguageSupport).language : extension as unknown as LanguageSupport['language']
  const nodes: Node[] = []
  highlightCode(source, parser.parse(source), highlighter, (text, classes) => {
    if (!classes) return nodes.push(doc.createTextNode(text))
    const span = doc.createElement('span')
    span.className = classes
    span.textContent = text
    nodes.push(span)
  }, () => nodes.push(doc.createTextNode('\n')))
  return nodes
}
