import { CodeRun, type Settings } from './element.js'

export interface Enhance extends Settings {
  /** The selector of blocks; default every <pre> with a <code> that names its language. */
  selector?: string
  /** The languages that get a button. */
  languages?: string[]
}

const known = 'python py javascript js typescript ts go golang java php bash sh sql'.split(' ')
/** The maximum number of blocks of a page that get a button. */
const maxBlocks = 500

/**
 * Puts a run button below each code block in root, also below blocks that are added later. If a
 * page renders a block again, as chat apps do, the button of the same code stays with its output.
 * Returns a function that ends it.
 */
export function enhance(root: Element = document.body, o: Enhance = {}): () => void {
  const { selector = 'pre > code[class*="lang"]', languages = known, ...settings } = o
  const buttons = new Map<Element, CodeRun>()
  let timer = 0
  const look = () => {
    timer = 0
    const lost = [...buttons].filter(([pre, b]) => !pre.isConnected || !b.isConnected)
    for (const code of root.querySelectorAll(selector)) {
      const pre = code.closest('pre') ?? code
      const language = /\blang(?:uage)?-([\w+#]+)/.exec(code.className)?.[1]?.toLowerCase()
      if (!language || !languages.includes(language) || pre.closest('code-run')) continue
      const mine = buttons.get(pre)
      if (mine?.isConnected) {
        if (mine.previousElementSibling !== pre) pre.after(mine)
        continue
      }
      const i = mine ? lost.findIndex(([, b]) => b === mine) : lost.findIndex(([old, b]) => b.language === language && old.textContent === pre.textContent)
      if (i < 0 && buttons.size >= maxBlocks) continue
      const [old, button] = (i < 0 ? undefined : lost.splice(i, 1)[0]) ?? [undefined, new CodeRun()]
      if (old) buttons.delete(old)
      button.setAttribute('language', language)
      button.settings = settings
      button.source = code
      buttons.set(pre, button)
      pre.after(button)
    }
    for (const [pre, b] of lost) {
      if (pre.isConnected && b.isConnected) continue
      b.remove()
      buttons.delete(pre)
    }
  }
  // A streamed message changes hundreds of times a second.
  const observer = new MutationObserver(() => (timer ||= window.setTimeout(look, 100)))
  observer.observe(root, { childList: true, subtree: true })
  look()
  return () => {
    observer.disconnect()
    clearTimeout(timer)
    for (const b of buttons.values()) b.remove()
  }
}
