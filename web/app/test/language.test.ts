import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'vite'
import { afterEach, expect, it } from 'vitest'
import { german } from '../src/language/de/index'
import { choose } from '../src/language/start'
import { english, language, number, plural, rich, t, type Entry } from '../src/language/texts'

afterEach(() => {
  language.value = english
})

it('shows the text of the code, or its translation', () => {
  expect(t('{n} of {all}', { n: 1, all: '{n}' })).toBe('1 of {n}')
  expect(t('Open|the state')).toBe('Open')
  expect(plural(1, '1 row', '{n} rows')).toBe('1 row')
  expect(plural(1234, '1 row', '{n} rows')).toBe('1,234 rows')
  language.value = { tag: 'de', texts: { 'Open|the state': 'Offen', '{n} rows': { one: '{n} Zeile', other: '{n} Zeilen' }, 'a {x} b': '{x} ab' } }
  expect(t('Open|the state')).toBe('Offen')
  expect(t('constructor')).toBe('constructor')
  expect(plural(1, '1 row', '{n} rows')).toBe('1 Zeile')
  expect(plural(1234, '1 row', '{n} rows')).toBe('1.234 Zeilen')
  expect(rich('a {x} b', { x: 7 })).toEqual(['', 7, ' ab'])
  expect(number(0.5)).toBe('0,5')
})

it('chooses the first language that it has', () => {
  expect(choose(['fr-CH', 'de-AT', 'en'])).toBe('de')
  expect(choose(['fr'])).toBe('en')
  expect(choose(['constructor'])).toBe('en')
})

type Node = { type: string; start: number; end: number } & Record<string, unknown>
interface Source { name: string; code: string; root: Node }

const src = join(import.meta.dirname, '../src')
const sources: Source[] = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.tsx?$/.test(name) && !/^(language|widgets)\//.test(name)) // the frame of widgets has no texts
  .map((name) => {
    const code = readFileSync(join(src, name), 'utf8')
    return { name, code, root: parseSync(name, code).program as unknown as Node }
  })

function children(n: Node): Node[] {
  return Object.values(n).flat().filter((c): c is Node => typeof c === 'object' && c !== null && 'type' in c)
}

function walk(n: Node, visit: (n: Node, above: Node[]) => void, above: Node[] = []): void {
  visit(n, above)
  for (const c of children(n)) walk(c, visit, [...above, n])
}

const nameOf = (n: unknown): string => ((n as Node).name ?? (n as Node).value ?? '') as string
const calleeOf = (n: Node) => {
  const callee = n.callee as Node
  return nameOf(callee.type === 'MemberExpression' ? callee.property : callee)
}
const hasWords = (s: string) => /\p{L}{2}/u.test(s)

/** The English texts that a source uses, with the place of the first use. */
function used(): Map<string, string> {
  const texts = new Map<string, string>()
  for (const { name, code, root } of sources) walk(root, (n, above) => {
    if (n.type !== 'CallExpression' || !['t', 'plural', 'rich'].includes(calleeOf(n)) || (n.callee as Node).type !== 'Identifier') return
    const place = `${name}:${code.slice(0, n.start).split('\n').length}`
    const text = (n.arguments as Node[])[calleeOf(n) === 'plural' ? 2 : 0]!
    expect(typeof text.value, `${place}: the text must be a literal`).toBe('string')
    expect(above.some((a) => /Function|MethodDefinition/.test(a.type)), `${place}: a text at the top level ignores the language`).toBe(true)
    if (!texts.has(nameOf(text))) texts.set(nameOf(text), place)
  })
  return texts
}

const placeholders = (s: string) => [...s.matchAll(/\{\w+\}/g)].map(([p]) => p).sort().join()
const forms = (e: Entry) => (typeof e === 'string' ? [e] : Object.values(e))

it('has each text in German, with the same values, and no other', () => {
  const texts = used()
  const missing = [...texts].filter(([text]) => !Object.hasOwn(german.texts, text)).map(([text, place]) => `${place}: ${text}`)
  expect(missing, 'no German text').toEqual([])
  expect(Object.keys(german.texts).filter((text) => !texts.has(text)), 'used nowhere').toEqual([])
  for (const [text, entry] of Object.entries(german.texts)) {
    for (const form of forms(entry)) if (form !== (entry as { one?: string }).one) expect(placeholders(form), text).toBe(placeholders(text))
  }
})

it('has each German text once', () => {
  const seen = new Map<string, string>()
  const dir = join(src, 'language/de')
  for (const file of readdirSync(dir)) walk(parseSync(file, readFileSync(join(dir, file), 'utf8')).program as unknown as Node, (n, above) => {
    if (n.type !== 'Property' || above.filter((a) => a.type === 'ObjectExpression').length !== 1 || file === 'index.ts') return
    const text = nameOf(n.key)
    expect(seen.get(text), `${text} is in ${file} too`).toBeUndefined()
    seen.set(text, file)
  })
})

/** Attributes and properties that people read. */
const read = new Set(['title', 'label', 'aria-label', 'ariaLabel', 'placeholder', 'alt', 'aria-description', 'aria-roledescription', 'aria-valuetext', 'text', 'yes', 'no', 'textContent', 'hint', 'detail'])
/** Functions whose first argument people read. */
const shown = new Set(['toast', 'failed', 'Error', 'note', 'say', 'announce'])

/** Literals that an expression may result in, without those of calls in it. */
function literals(n: Node): string[] {
  switch (n.type) {
    case 'Literal': return typeof n.value === 'string' ? [n.value] : []
    case 'TemplateLiteral': return [(n.quasis as { value: { cooked: string } }[]).map((q) => q.value.cooked).join(' '), ...(n.expressions as Node[]).flatMap(literals)]
    case 'ConditionalExpression': return [...literals(n.consequent as Node), ...literals(n.alternate as Node)]
    case 'LogicalExpression': return [...literals(n.left as Node), ...literals(n.right as Node)]
    case 'BinaryExpression': return n.operator === '+' ? [...literals(n.left as Node), ...literals(n.right as Node)] : []
    case 'JSXExpressionContainer': return literals(n.expression as Node)
    case 'ParenthesizedExpression': case 'TSNonNullExpression': case 'TSAsExpression': return literals(n.expression as Node)
    default: return []
  }
}

it('shows no text that cannot be translated', () => {
  const bare: string[] = []
  for (const { name, code, root } of sources) walk(root, (n, above) => {
    const found = (texts: string[]) => {
      for (const text of texts) if (hasWords(text) && !same.has(text.trim())) bare.push(`${name}:${code.slice(0, n.start).split('\n').length}: ${text.trim()}`)
    }
    const parent = above.at(-1)
    if (above.some((a) => a.type === 'JSXElement' && ['code', 'kbd', 'pre'].includes(nameOf((a.openingElement as Node).name)))) return
    if (n.type === 'JSXText') found([n.value as string])
    else if (n.type === 'JSXExpressionContainer' && (parent?.type === 'JSXElement' || parent?.type === 'JSXFragment')) found(literals(n))
    else if (n.type === 'JSXAttribute' && n.value && read.has(nameOf(n.name))) found(literals(n.value as Node))
    else if (n.type === 'Property' && read.has(nameOf(n.key))) found(literals(n.value as Node))
    else if (n.type === 'AssignmentExpression' && (n.left as Node).type === 'MemberExpression' && read.has(nameOf((n.left as Node).property))) found(literals(n.right as Node))
    else if (n.type === 'CallExpression' && calleeOf(n) === 'setAttribute' && read.has(nameOf((n.arguments as Node[])[0]))) found(literals((n.arguments as Node[])[1]!))
    else if ((n.type === 'CallExpression' || n.type === 'NewExpression') && shown.has(calleeOf(n)) && (n.arguments as Node[])[0]) found(literals((n.arguments as Node[])[0]!))
  })
  expect(bare).toEqual([])
})

/** Names, units and symbols that are the same in every language. */
const same = new Set([
  'Sandgate', 'px', 'kB', 'MB', 'GB', 'GiB', 'ms', 'CSV', 'Parquet', 'PNG', 'SVG', 'HTML', 'PDF', 'JSON', 'Vim', 'Emacs', 'ID', 'URL', 'Ctrl', 'Esc', 'Tab',
])
