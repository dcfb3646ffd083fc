import { describe, expect, it } from 'vitest'
import { CellModel } from '../src/notebook/cell'
import { headingLevel, hiddenCells, sectionOf } from '../src/notebook/sections'
import { findLinks, linkText } from '../src/notebook/textlinks'

describe('links in text', () => {
  const links = (text: string) => findLinks(text).map((f) => (f.address !== undefined ? f.address : `${f.path}:${f.line}`))
  it('are addresses, and files with a line', () => {
    expect(links('see https://a.example/x(1)?q=2. And (http://b.example/), main.go:12:3: bad')).toEqual(['https://a.example/x(1)?q=2', 'http://b.example/', 'main.go:12'])
    expect(links('  File "/home/user/a.py", line 7, in f')).toEqual(['/home/user/a.py:7'])
    expect(links('at 12:30 the ratio is 1:2, javascript:alert(1) ../up.py:3 http://x.example/a.py:3')).toEqual(['http://x.example/a.py:3'])
  })

  it('open what they name', () => {
    const el = document.createElement('div')
    el.textContent = 'x.py:3 and https://a.example <b>'
    const opened: unknown[] = []
    linkText(el, (path, line) => opened.push(path, line))
    const [file, address] = el.querySelectorAll('a')
    file!.click()
    expect(opened).toEqual(['x.py', 3])
    expect([address!.href, address!.rel, el.textContent]).toEqual(['https://a.example/', 'noopener noreferrer', 'x.py:3 and https://a.example <b>'])
    linkText(el, () => {})
    expect(el.querySelectorAll('a a')).toHaveLength(0)
  })
})

describe('sections', () => {
  const text = (source: string) => new CellModel({ cell_type: 'markdown', source }, 'python')
  const code = (source: string) => new CellModel({ source }, 'python')
  it('reach to the next heading of their level, and are kept in the file', () => {
    const cells = [text('# A'), code('# 1'), text('## B\ntext'), code('2'), text('# C'), code('3')]
    expect(cells.map(headingLevel)).toEqual([1, 0, 2, 0, 1, 0])
    expect(sectionOf(cells, cells[0]!)).toEqual(cells.slice(1, 4))
    expect(sectionOf(cells, cells[2]!)).toEqual([cells[3]])
    cells[0]!.section.value = true
    expect([...hiddenCells(cells)]).toEqual(cells.slice(1, 4))
    const json = cells[0]!.toJSON('python')
    expect(json.metadata).toEqual({ 'jp-MarkdownHeadingCollapsed': true })
    const again = new CellModel(json, 'python')
    expect(again.section.value).toBe(true)
    again.section.value = false
    expect(again.toJSON('python').metadata).toEqual({})
  })
})
