import { t } from '../language/texts'
import { findPlaces } from '../terminal/text'
import { localPort, openPreview } from '../ui/preview'

/** The characters of an output up to which links are found, and the links of one output. */
const maxChars = 1 << 20
const maxLinks = 1000

const addresses = /\bhttps?:\/\/[^\s<>"'`\x00-\x1f]+/g

interface Found {
  index: number
  length: number
  address?: string
  path?: string
  line?: number
}

/** Returns addresses, and places in files such as a.py:3, in their order and without overlap. */
export function findLinks(text: string): Found[] {
  const all: Found[] = [...text.matchAll(addresses)].map((m) => {
    // A sign at the end belongs to the sentence, and a parenthesis that the address does not open.
    let address = m[0].replace(/[.,;:!?\]}]+$/, '')
    while (address.endsWith(')') && address.split(')').length > address.split('(').length) address = address.slice(0, -1).replace(/[.,;:!?]+$/, '')
    return { index: m.index, length: address.length, address }
  })
  for (const p of findPlaces(text)) if (!all.some((a) => p.index < a.index + a.length && a.index < p.index + p.length)) all.push(p)
  return all.sort((a, b) => a.index - b.index)
}

/** Makes links of the addresses and places in text that does not change any more. */
export function linkText(el: HTMLElement, open: (path: string, line: number) => void): void {
  if ((el.textContent?.length ?? 0) > maxChars) return
  const walker = document.createTreeWalker(el, NodeFilter.SHOW_TEXT, (n) => (n.parentElement?.closest('a, button') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT))
  const nodes: Text[] = []
  while (walker.nextNode()) nodes.push(walker.currentNode as Text)
  let left = maxLinks
  for (const node of nodes) {
    const found = findLinks(node.data)
    if (found.length === 0 || (left -= found.length) < 0) continue
    const parts: Node[] = []
    let at = 0
    for (const f of found) {
      parts.push(document.createTextNode(node.data.slice(at, f.index)))
      const a = document.createElement('a')
      a.textContent = node.data.slice(f.index, f.index + f.length)
      if (f.address !== undefined) {
        a.href = f.address
        a.target = '_blank'
        a.rel = 'noopener noreferrer'
        const { address } = f
        if (localPort(address) !== undefined) {
          a.addEventListener('click', (e) => {
            e.preventDefault()
            void openPreview(address)
          })
        }
      } else {
        a.href = '#'
        a.title = t('Open {path} at line {line}', { path: f.path!, line: f.line! })
        a.addEventListener('click', (e) => {
          e.preventDefault()
          open(f.path!, f.line!)
        })
      }
      parts.push(a)
      at = f.index + f.length
    }
    parts.push(document.createTextNode(node.data.slice(at)))
    node.replaceWith(...parts)
  }
}
