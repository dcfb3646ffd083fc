import { describe, expect, it } from 'vitest'
import { headings, markdown } from '../src/notebook/markdown'

const html = (source: string) => markdown(source).innerHTML.replace(/ dir="auto"/g, '')

describe('Markdown', () => {
  it('shows boxes of task lists', () => {
    const list = markdown('- [x] load\n- [ ] plot\n- [link](https://x.example)\n- [y] no box')
    const boxes = [...list.querySelectorAll('input')]
    expect(boxes.map((b) => [b.checked, b.disabled, b.getAttribute('aria-label')])).toEqual([[true, true, 'Done'], [false, true, 'To do']])
    expect([...list.querySelectorAll('li')].map((l) => l.textContent)).toEqual(['load', 'plot', 'link', '[y] no box'])
  })

  it('has footnotes, in the order in which the text refers to them', () => {
    const text = markdown('One[^b] and two[^a], again[^b], none[^c].\n\n[^a]: The *first*\n[^b]: Second\n  line\n[^d]: Unused')
    expect([...text.querySelectorAll('sup')].map((s) => s.textContent)).toEqual(['1', '2', '1'])
    expect([...text.querySelectorAll('.footnotes li')].map((l) => l.textContent)).toEqual(['Second\nline ↩', 'The first ↩'])
    expect(text.querySelector('.footnotes em')?.textContent).toBe('first')
    expect(text.querySelector('p')?.textContent).toContain('none[^c]')
    const other = markdown('x[^b]\n\n[^b]: y')
    expect(other.querySelector('sup')!.id).not.toBe(text.querySelector('sup')!.id)
  })

  it('takes a few elements of HTML, also around Markdown', () => {
    expect(html('H<sub>2</sub>O and <kbd>Esc</kbd><br>next')).toBe('<p>H<sub>2</sub>O and <kbd>Esc</kbd><br>next</p>')
    const folded = markdown('<details open>\n<summary>More</summary>\n\n- *a*\n\n</details>\n\nafter')
    expect(folded.querySelector('details > summary')?.textContent).toBe('More')
    expect(folded.querySelector('details > ul em')?.textContent).toBe('a')
    expect(folded.lastElementChild?.textContent).toBe('after')
    expect(html('a <!-- hidden --> b &amp; c')).toBe('<p>a  b &amp; c</p>')
    const styled = markdown('<span style="color: red; position: fixed">x</span> <font color="#00f">y</font>')
    expect((styled.querySelector('span') as HTMLElement).style.color).toBe('red')
    expect((styled.querySelector('span') as HTMLElement).style.position).toBe('')
    expect(markdown('<p align="center">x</p>').querySelector('p')!.style.textAlign).toBe('center')
  })

  it('closes what HTML leaves open, and ignores what it closes too often', () => {
    expect(html('**a <b>x** y')).toBe('<p><strong>a <b>x</b></strong> y</p>')
    expect(html('a</p></div></b> b')).toBe('<p>a b</p>')
    expect(html('<div>\n\n# T\n\n</section></div>\n\nz')).toContain('<p>z</p>')
  })

  it('shows hostile HTML as text, and gives its elements no addresses and no code', () => {
    const text = markdown([
      '<script>alert(1)</script>', '', '<img src=x onerror=alert(1)>', '', '<a href="javascript:alert(1)" onclick="alert(2)">go</a>', '',
      '<iframe src="https://x.example"></iframe> <style>*{display:none}</style> <form action=/x><input name=a></form>', '',
      '<img src="https://x.example/track.png">', '', '<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg>', '', '<div id="app" class="cell">x</div>',
    ].join('\n'))
    expect(text.querySelector('script, iframe, style, form, input, svg, [onerror], [onclick], [onload], [id], img')).toBeNull()
    expect([...text.querySelectorAll('a')].map((a) => a.getAttribute('href'))).toEqual([null, null, 'https://x.example/track.png', null])
    expect(text.textContent).toContain('<script>alert(1)</script>')
    expect(text.querySelector('[class]:not([class=""])')?.className ?? '').toBe('')
  })

  it('lists headings', () => {
    expect(headings('# A *b*\n\ntext\n\n## C')).toEqual([{ level: 1, text: 'A b' }, { level: 2, text: 'C' }])
  })
})
